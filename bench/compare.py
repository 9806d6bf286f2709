"""``python -m bench.compare``: the ratios of a fresh run beside those of the last kept run of the same kind.

Only ratios within one run are compared (flarelog beside a raw copy, beside rsyslog), because the effects of a machine
and an hour cancel out in them. A higher ratio is always better. The exit code is 1 when a ratio fell by more than 15 %,
or the fresh run failed. Runs of the same kind have the same number of bytes, and both are quick or both are not. A
fresh run goes to ``build/bench/fresh.json`` and is not kept: move it to ``bench/results`` to keep it.

    python -m bench.compare [--quick] [--only NAME]...     a fresh run
    python -m bench.compare --with FILE                    a run that was made before
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import results
from bench.processes import PROJECT

FALL = 0.15  # the share by which a ratio may fall
FRESH = PROJECT / "build" / "bench" / "fresh.json"
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One ratio in the kept run (*then*) and in the fresh one (*now*; None: not measured)."""

    measurement: str
    of: str
    ratio: str
    then: float
    now: float | None

    @property
    def fell(self) -> bool:
        return self.now is not None and self.now < self.then * (1 - FALL)

    def __str__(self) -> str:
        where = f"{self.measurement}, {self.of}: {self.ratio}"
        if self.now is None:
            return f"{where} {results.number(self.then)} -> not taken"
        change = f"{results.number(self.then)} -> {results.number(self.now)} ({self.now / self.then - 1:+.0%})"
        return f"{where} {change}{'  FELL' if self.fell else ''}"


def same_kind(one: Record, other: Record) -> bool:
    return bool(one["bytes"] == other["bytes"] and one["quick"] == other["quick"])


def ratios(record: Record) -> dict[tuple[str, str, str], float]:
    """The ratios of *record* by (measurement, of, name)."""
    return {
        (row["measurement"], row["of"], name): value
        for row in record["rows"]
        for name, value in row.get("ratios", {}).items()
    }


def changes(fresh: Record, kept: Sequence[Record]) -> list[Change]:
    """The changes of all ratios of *fresh*, and of older ratios that are missing from its measurements. *kept*: older
    runs, the latest last; each ratio is compared with the latest run of the same kind that has it.
    """
    then: dict[tuple[str, str, str], float] = {}
    for record in kept:
        if same_kind(record, fresh):
            then |= ratios(record)
    now = ratios(fresh)
    taken = {row["measurement"] for row in fresh["rows"]}
    return [
        Change(*key, value, now.get(key)) for key, value in then.items() if value and (key in now or key[0] in taken)
    ]


def read(path: Path) -> dict[str, Any]:
    """Read a result. Raises SystemExit with a sentence if it is not one."""
    try:
        record = json.loads(path.read_text())
        if not {"rows", "bytes", "quick", "machine"} <= record.keys():
            raise ValueError
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}")
    except (ValueError, AttributeError):
        sys.exit(f"{path} is no result of python -m bench")
    return dict(record)


def kept(*, but: Path | None = None) -> list[dict[str, Any]]:
    """All kept results, the latest last, without the file *but*."""
    return [
        read(path) for path in sorted(results.KEPT.glob("*.json")) if but is None or path.resolve() != but.resolve()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--with", dest="made", type=Path, metavar="FILE", help="a result, instead of a fresh run")
    options, more = parser.parse_known_args()
    if options.made is not None and more:
        parser.error(f"{more[0]} is for a fresh run, and --with names one that was made")
    code = 0
    if options.made is None:
        FRESH.unlink(missing_ok=True)
        code = subprocess.call([sys.executable, "-m", "bench", "--keep", str(FRESH), *more], cwd=PROJECT)
        if not FRESH.exists():
            return code or 1
    path = options.made or FRESH
    fresh = read(path)
    older = kept(but=path)
    found = changes(fresh, older)
    if not found:
        print(f"no run of the same kind ({fresh['bytes']:,} bytes, quick: {fresh['quick']}) with a ratio is kept")
        return code
    machines = [record["machine"] for record in older if same_kind(record, fresh)]
    differ = sorted(
        name for name, value in fresh["machine"].items() if name in machines[-1] and machines[-1][name] != value
    )
    if differ:
        print(f"not the same as in the last kept run: {', '.join(differ)}")
    print("\n".join(map(str, found)))
    fallen = sum(change.fell for change in found)
    print(f"{len(found)} ratios, {fallen} fell by more than {FALL:.0%}")
    return 1 if fallen else code


if __name__ == "__main__":
    sys.exit(main())
