"""``python -m bench.page [FILE]``: writes a result into docs/performance.md, and draws its pictures.

Without FILE the result is the last kept whole run, with the measurements that only later runs have. The text between
two marks of the same name is replaced; the text around it stays. Nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import compare, pictures, results
from bench.processes import PROJECT
from bench.results import Row, number

PAGE = PROJECT / "docs" / "performance.md"
PICTURES = PROJECT / "docs" / "pictures"


@dataclass(frozen=True, slots=True)
class Target:
    """A target for the median or a ratio of a row."""

    text: str
    measurement: str
    of: str
    least: float | None = None
    most: float | None = None
    ratio: str = ""  # the name of the row's ratio; "": its median
    over: tuple[str, str] = ("", "")  # another row: the target is for the quotient of the medians
    ending: bool = False  # *measurement* is only the end of the name

    def reached(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


_TCP, _RELP = "rsyslog, TCP", "rsyslog, RELP"
_BULK, _LINE, _SITES = "bulk, memory", "latency of a line", "1,000 sites x 10 lines/s"
_FASTER, _CHEAPER = "flarelog / this", "CPU of this / flarelog"
TARGETS = (
    Target("bulk, times rsyslog TCP", _BULK, _TCP, least=10, ratio=_FASTER),
    Target("bulk, times rsyslog RELP", _BULK, _RELP, least=10, ratio=_FASTER),
    Target("bulk, CPU of rsyslog TCP, times ours", _BULK, _TCP, least=10, ratio=_CHEAPER),
    Target("bulk, CPU of rsyslog RELP, times ours", _BULK, _RELP, least=10, ratio=_CHEAPER),
    Target("bulk, share of the raw socket copy", _BULK, "raw socket copy", least=0.5, ratio=_FASTER),
    Target(
        "bulk with mutual TLS, share of without", "tls, bulk", "flarelog, mutual TLS", least=0.6, ratio="TLS / plain"
    ),
    Target("a line's p50, times rsyslog TCP's", _LINE, "flarelog, p50", most=1.5, over=(_LINE, f"{_TCP}, p50")),
    Target("a line's p99, times rsyslog TCP's", _LINE, "flarelog, p99", most=2, over=(_LINE, f"{_TCP}, p99")),
    Target("a line's p99 under 50 % load, ms", "latency under load", "50 %, p99", most=20),
    Target("one stream at 200 ms, MB/s", "round trip of 200 ms", "flarelog", least=100),
    Target("1,000 sites x 10 lines/s: receiver, % of a core", _SITES, "receiver, CPU", most=50),
    Target("1,000 sites x 10 lines/s: share of the lines stored", _SITES, "stored", least=0.98, ratio="stored / asked"),
    Target("1,000 sites x 10 lines/s: p99, ms", _SITES, "p99 of a line", most=250),
    Target("1,000 sites x 10 lines/s: memory a stream, KiB", _SITES, "receiver, memory a stream", most=60),
    Target("10,000 sites x 1 line/s, sites", " sites x 1 lines/s", "sites", least=10_000, ending=True),
    Target(
        "10,000 sites x 1 line/s: share of the lines stored",
        *(" sites x 1 lines/s", "stored"),
        least=0.98,
        ratio="stored / asked",
        ending=True,
    ),
    *(
        Target(f"two workers, times one: {kind}", f"workers, {kind}", "two workers", least=1.6, ratio="this / one")
        for kind in ("lines", "bulk")
    ),
    Target("training logs, compressed, times fewer bytes", "compression, wire", "on", least=5, ratio="log / this"),
    Target("training logs, compressed, MB/s a stream", "compression, bulk", "on", least=250),
    Target("5,000 quiet files, % of a core", "idle", "sidecar, 5,000 quiet files", most=2),
    Target("5,000 quiet files, MiB", "idle", "sidecar, 5,000 quiet files, resident", most=80),
    Target("follow of 8 sites, 20,000 lines/s: % of a core", "follow", "8 sites, 20,000 lines/s, --receiver", most=60),
    Target("follow: first output, ms", "follow", "first output", most=300),
    Target("the page: all of it, kB gzipped", "page, all of it", "gzipped", most=60),
    Target("the page: first paint of 50 sites, ms", "page, first paint", "50 sites", most=400),
    Target("the page: first paint of a log's last rows, ms", "page, first paint", "the last rows of a log", most=400),
    Target("the page: last screen of 1 GiB, ms", "last screen of 1,024 MiB", "page", most=300),
    Target("the page: line numbers of 1 GiB, ms", "line numbers of 1,024 MiB", "page", most=3000),
    Target("the page: a search of 1 GiB, ms", "a search of 1,024 MiB", "page", most=3580),
    Target("the page: a jump to any place, p95, ms", "page, a jump", "p95", most=100),
    Target("the page: a jump in nothing but bars, p95, ms", "page, a jump", "pure bars, p95", most=250),
    Target("the page: first hit behind 31 MiB, ms", "page, a search", "first hit, behind 31 MiB", most=200),
    Target("the page: a search given up, ms", "page, a search", "given up, until the next one answers", most=100),
    Target("the page: one tab, rows/s", "page, live", "one tab", least=100_000),
    Target("the page: frames/s meanwhile", "page, live", "frames meanwhile", least=30),
    Target(
        "the page: a line, written to painted, longest, ms",
        *("page, live", "a line, written to painted, longest"),
        most=250,
    ),
    Target(
        "the page: a line among those of 50 sites, 5 viewers, p99, ms",
        *("page, 50 sites x 10 lines/s, 5 viewers", "a line, written to painted, p99"),
        most=250,
    ),
    Target("the page: first sites of 10,000 logs, ms", "page, a run with 10,000 logs", "the first sites", most=400),
    Target("the page: heap of the tab after all rows, MB", "page, memory", "heap of the tab after all rows", most=150),
    Target("the page: elements in the document", "page, memory", "elements in the document", most=1500),
    Target("the page: web process with 20 viewers, MiB", "page, memory", "web process, 20 viewers", most=150),
    Target(
        "the page: a viewer who takes nothing, MiB",
        *("page, memory of stalled viewers", "web process, each"),
        most=1,
    ),
    Target(
        "the page: p99 of a site's lines, without viewers / with 20",
        *("page, a site's lines beside viewers", "p99, 20 viewers"),
        least=0.9,
        ratio="no viewer / this",
    ),
    *(
        Target(f"a search that finds little, {source}, MB/s", "logs -i", source, least=300, ending=True)
        for source in ("--receiver", "--store")
    ),
)


def _find(rows: Sequence[Row], measurement: str, of: str, ending: bool = False) -> Row | None:
    return next(
        (
            row
            for row in rows
            if row.samples
            and (row.of == of or (ending and row.of.endswith(of)))
            and (row.measurement.endswith(measurement) if ending else row.measurement == measurement)
        ),
        None,
    )


def value_of(target: Target, rows: Sequence[Row]) -> float | None:
    """The value of *rows* for *target*; None without such a row."""
    row = _find(rows, target.measurement, target.of, target.ending)
    if row is None:
        return None
    if target.ratio:
        return row.ratios.get(target.ratio)
    if target.over != ("", ""):
        other = _find(rows, *target.over)
        return None if other is None else row.median / other.median
    return row.median


def targets(rows: Sequence[Row]) -> str:
    lines = ["| what | should be | is | |", "|---|---|---|---|"]
    for target in TARGETS:
        value = value_of(target, rows)
        bound = (
            f"at least {number(target.least)}" if target.least is not None else f"at most {number(target.most or 0)}"
        )
        said = ("not taken", "") if value is None else (number(value), "yes" if target.reached(value) else "**no**")
        lines.append(f"| {target.text} | {bound} | {said[0]} | {said[1]} |")
    return "\n".join(lines)


_WHOLE = {"bulk", "latency", "sites"}  # a run with these measurements counts as whole
_USED = 0.8  # the share of a core for the load; the rest is for opens, readers, the disk's threads
_CORES = 32
_GIB = 64  # memory for streams


def model(rows: Sequence[Row]) -> str:
    """The estimate for a machine with many cores, if each core did what one did here; "" if rows are missing."""
    bulk = _find(rows, _BULK, "flarelog")
    disk = _find(rows, "bulk, disk", "flarelog")
    line = _find(rows, _SITES, "receiver, CPU a line")
    memory = _find(rows, _SITES, "receiver, memory a stream")
    if bulk is None or line is None or memory is None:
        return "Not taken."
    one, lines = 1e3 / bulk.cpu[1], 1e6 / line.median
    found = [
        ("bulk, durability memory, MB/s", one, one * _CORES),
        *([("bulk, durability disk, MB/s", 1e3 / disk.cpu[1], 1e3 / disk.cpu[1] * _CORES)] if disk else []),
        ("lines a second, gathered for 0.2 s", lines, lines * _CORES),
        ("sites with 10 lines a second", lines / 10, lines / 10 * _CORES),
        (f"streams in {_GIB} GiB", _GIB * 2**20 / memory.median / _CORES, _GIB * 2**20 / memory.median),
    ]
    table = ["| | a core | 32 cores |", "|---|---|---|"]
    for what, each, all_of_them in found:
        part = 1.0 if "GiB" in what else _USED
        table.append(f"| {what} | {_rounded(each * part)} | {_rounded(all_of_them * part)} |")
    return "\n".join(table)


def _rounded(value: float) -> str:
    """Format with two digits, which is a model's precision."""
    return f"{float(f'{value:.1e}'):,.0f}"


def facts(record: Mapping[str, Any]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in record["machine"].items())
    took = sum(record.get("seconds", {}).values())
    lines = [
        f"Taken {record['taken']}, {record['bytes'] >> 20:,} MiB, {record.get('rounds', '?')} rounds, in {took:.0f} s."
    ]
    lines += [
        f"Machine: {machine}.",
        *(f"Taken {taken}." for taken in record.get("added", ())),
        *(f"Failed: {name}: {text}." for name, text in record.get("failures", {}).items()),
    ]
    return "\n".join(lines)


def between(page: str, name: str, text: str) -> str:
    """*page* with *text* between its two marks *name*. Raises SystemExit unless it has exactly two."""
    mark = f"<!-- {name} -->"
    parts = page.split(mark)
    if len(parts) != 3:
        sys.exit(f"the page needs {mark} exactly twice, it has it {len(parts) - 1} times")
    return f"{parts[0]}{mark}\n{text}\n{mark}{parts[2]}"


def written(page: str, record: Mapping[str, Any]) -> str:
    """*page* with the results of *record*."""
    rows = [results.row_of(row) for row in record["rows"]]
    for name, text in (
        ("facts", facts(record)),
        ("targets", targets(rows)),
        ("table", results.table(rows)),
        ("model", model(rows)),
    ):
        page = between(page, name, text)
    return page


def completed(kept: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last whole run of *kept*, with the rows of later runs for their measurements. Raises SystemExit."""
    whole = next((number for number in reversed(range(len(kept))) if set(kept[number]["seconds"]) >= _WHOLE), None)
    if whole is None:
        sys.exit("no whole run is kept in bench/results: run make bench first")
    rows, added = list(kept[whole]["rows"]), []
    for later in kept[whole + 1 :]:
        measured = {row["measurement"] for row in later["rows"]}
        rows = [row for row in rows if row["measurement"] not in measured] + later["rows"]
        added.append(f"{later['taken']}: {', '.join(later['seconds'])}")
    return {**kept[whole], "rows": rows, "added": added}


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    if sys.argv[1:]:
        record = compare.read(Path(sys.argv[1]))
    else:
        record = completed([record for record in compare.kept() if not record["quick"] and record.get("seconds")])
    PAGE.write_text(written(PAGE.read_text(), record))
    PICTURES.mkdir(exist_ok=True)
    for name, picture in pictures.all_of([results.row_of(row) for row in record["rows"]]).items():
        (PICTURES / name).write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
