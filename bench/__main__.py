"""``python -m bench``: takes the measurements of README's performance table, prints them as one, keeps them as JSON.

    bulk      one stream of 1 GiB between two processes, durability memory, against stop-and-wait (bulk.py)
    disk      the same with durability disk, against a plain write and fdatasync (bulk.py)
    redaction the first again with everything masked that can be (bulk.py)
    latency   of one line, from the append at the site to the receiver's file (latency.py)
    idle      what a sidecar with 200 and with 5,000 quiet files costs (idle.py)
    tls       the first of these with and without mutual TLS (bulk.py)
    compression  a training log compressed on its way and not: bytes on the wire, and what it costs (compression.py)
    detection what noticing rotations and truncations costs, in bulk and idle (detection.py)
    reading   what follow costs with eight sites, first output, logs with a pattern that matches little (reading.py)
    render    lines that a view makes a CPU second, in one process (render.py)

Candidates take turns within one run, and medians are quoted: on a shared machine trust the ratios.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench import bulk, compression, content, detection, idle, latency, processes, reading, render, results

RESULTS = Path(__file__).resolve().parent / "results"
NAMES = ("bulk", "disk", "redaction", "latency", "idle", "tls", "compression", "detection", "reading", "render")


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken away then as well
    rows: list[results.Row] = []
    try:
        with processes.places(4 * options.bytes, options.disk_dir) as places:
            for name, measure in _measurements(options, places).items():
                if name in options.only:
                    print(f"{name} ...", file=sys.stderr, flush=True)
                    rows += measure()
    except processes.BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    facts = results.machine()
    print(results.table(rows))
    print("\n" + ", ".join(f"{name} {value}" for name, value in facts.items()))
    _keep(options, facts, rows)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it work, roughly")
    parser.add_argument("--only", action="append", choices=NAMES, help="only this measurement; repeatable")
    parser.add_argument("--bytes", type=int, help="of the bulk file (1 GiB; 128 MiB with --quick)")
    parser.add_argument("--rounds", type=int, help="of each measurement (5; 2 with --quick)")
    parser.add_argument(
        "--disk-dir", type=Path, help="a directory on a disk (the temporary directory, if it is on one)"
    )
    options = parser.parse_args()
    options.only = options.only or NAMES
    options.bytes = options.bytes or (128 << 20 if options.quick else 1 << 30)
    options.rounds = options.rounds or (2 if options.quick else 5)
    if options.bytes < 16 << 20 or options.rounds < 1:
        parser.error("--bytes must be at least 16 MiB, --rounds at least 1")
    return options


def _measurements(options: argparse.Namespace, places: processes.Places) -> dict[str, Callable[[], list[results.Row]]]:
    def of_file(
        measure: Callable[[Path, processes.Places, int], list[results.Row]],
        write: Callable[[Path, int], None] = content.write,
    ) -> list[results.Row]:
        with processes.scratch(places.memory) as root:
            write(root / bulk.LOG, options.bytes)
            return measure(root / bulk.LOG, places, options.rounds)

    quick = options.quick
    return {
        "bulk": lambda: of_file(bulk.memory),
        "disk": lambda: of_file(bulk.disk),
        "redaction": lambda: of_file(bulk.redaction),
        "latency": lambda: latency.measure(places, 200 if quick else 500, options.rounds),
        "idle": lambda: idle.measure(places, 5 if quick else 20, 1 if quick else 2),
        "tls": lambda: of_file(bulk.over_tls),
        "compression": lambda: of_file(compression.measure, compression.write),
        "detection": lambda: (
            of_file(detection.of_bulk) + detection.of_idle(places, 5 if quick else 20, 1 if quick else 2)
        ),
        "reading": lambda: of_file(
            lambda source, places, rounds: reading.measure(source, places, rounds, 5.0 if quick else 15.0)
        ),
        "render": lambda: render.measure(100_000 if quick else 500_000, options.rounds),
    }


def _keep(options: argparse.Namespace, facts: dict[str, object], rows: list[results.Row]) -> None:
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    record = {
        "taken": now.isoformat(timespec="seconds"),
        "bytes": options.bytes,
        "quick": options.quick,
        "machine": facts,
        "rows": [{**asdict(row), "median": row.median} for row in rows],
    }
    path = RESULTS / f"{now:%Y-%m-%dT%H%M%SZ}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"kept as {path.relative_to(processes.PROJECT)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
