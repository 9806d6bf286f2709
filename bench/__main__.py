"""``python -m bench``: takes the measurements of docs/performance.md, prints them as one, keeps them as JSON.

    bulk      one stream of 1 GiB between two processes, durability memory, against a raw socket copy, stop-and-wait,
              rsyslog and syslog-ng (bulk.py, peers.py)
    disk      the same with durability disk, against a plain write and fdatasync (bulk.py)
    redaction bulk with all patterns of redaction on (bulk.py), and the search for secrets alone (masking.py)
    tls       bulk with and without mutual TLS (bulk.py)
    compression  a training log with and without compression: bytes on the wire, and the cost (compression.py)
    streams   the same bytes in 1, 8, 100 and 1,000 logs, and 64 KiB in each of 10,000 (streams.py)
    many      300 logs of a site with a line a second each, a line beside 999 busy logs, and the time until follow shows
              a line of few and of many logs (many.py)
    distance  one stream over round trips of 50 and 200 ms (distance.py)
    latency   of one line, from the append at the site to the receiver's file, beside the peers (latency.py)
    load      latency beside a quarter, half and three quarters of the bulk rate (latency.py)
    sites     100 and 1,000 sites with 10 lines a second each, 10,000 with one (sites.py)
    workers   eight sites and a receiver of one and of two processes, each with a part of a core (workers.py)
    idle      the cost of a sidecar with 200 and with 5,000 quiet files (idle.py)
    detection the cost of noticing rotations and truncations, in bulk and idle (detection.py)
    reading   the cost of follow with eight sites, first output, logs with a pattern that matches little (reading.py)
    render    lines that a view makes a CPU second, in one process (render.py)
    findings  bytes searched for findings, beside grep with the same texts; a receiver's cost in bulk and with 1,000
              sites (findings.py)
    page      the page in Chromium, beside less and lnav (browser.py, large.py); not the page of the docs, which
              bench.page writes
    viewers   the cost of the page's viewers: memory of a stalled one, a site's lines beside twenty (looking.py)
    run       the overhead of flarelog run for a command, beside a file, tee and script (running.py)

Candidates take turns within one run, and medians are quoted: on a shared machine trust the ratios. A measurement that
fails or times out is reported and left out, and makes the exit code 1; the other results are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import (
    browser,
    bulk,
    compression,
    content,
    detection,
    distance,
    findings,
    idle,
    latency,
    looking,
    many,
    masking,
    nvflare,
    peers,
    processes,
    reading,
    render,
    results,
    running,
    sites,
    streams,
    workers,
)

_LONGEST = {"bulk": 900, "sites": 900, "page": 1800}  # timeouts, in seconds; the default for the rest:
_LONGEST_OF_OTHERS = 600


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes and numbers of a whole run, and of one with --quick."""

    bytes: int = 1 << 30
    rounds: int = 5
    lines: int = 500  # of a round of latency
    seconds: float = 8.0  # of a window
    idle: float = 16.0  # seconds of a window with quiet files: longer than the interval of heartbeats
    render: int = 500_000  # lines
    crowds: tuple[tuple[int, int], ...] = ((100, 10), (1000, 10), (10_000, 1))  # (sites, lines a second of each)


QUICK = Sizes(128 << 20, 2, 200, 3.0, 5.0, 100_000, ((1000, 10),))
Measurements = dict[str, Callable[[], list[results.Row]]]


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # SystemExit, so that all is cleaned up after SIGTERM too
    rows: list[results.Row] = []
    failures: dict[str, str] = {}
    took: dict[str, float] = {}
    now = datetime.now(UTC)
    path = options.keep or results.KEPT / f"{now:%Y-%m-%dT%H%M%SZ}.json"
    facts = {**results.machine(), **{peer.packages[0]: peer.version() for peer in peers.ALL if "bulk" in options.only}}
    try:
        with processes.places(8 * options.sizes.bytes, options.disk_dir) as places:
            for name, measure in measurements(options.sizes, places).items():
                if name not in options.only:
                    continue
                print(f"{name} ...", file=sys.stderr, flush=True)
                begin = time.monotonic()
                try:
                    with _within(_LONGEST.get(name, _LONGEST_OF_OTHERS)):
                        rows += measure()
                except (processes.BenchError, OSError) as error:
                    failures[name] = str(error)
                    print(f"{name}: {error}", file=sys.stderr)
                took[name] = round(time.monotonic() - begin, 1)
                record: dict[str, Any] = {
                    "taken": now.isoformat(timespec="seconds"),
                    "bytes": options.sizes.bytes,
                    "rounds": options.sizes.rounds,
                    "quick": options.quick,
                    "machine": facts,
                    "seconds": took,
                    "failures": failures,
                    "rows": [row.record() for row in rows],
                }
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(record, indent=1) + "\n")  # in case the run ends early
    except processes.BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(results.table(rows))
    print("\n" + ", ".join(f"{name} {value}" for name, value in facts.items()))
    print("seconds: " + ", ".join(f"{name} {seconds:g}" for name, seconds in took.items()))
    for name, sentence in failures.items():
        print(f"failed: {name}: {sentence}")
    print(f"kept as {path}", file=sys.stderr)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it work, roughly")
    parser.add_argument("--only", action="append", choices=NAMES, help="only this measurement; repeatable")
    parser.add_argument("--bytes", type=int, help="of the bulk file (1 GiB; 128 MiB with --quick)")
    parser.add_argument("--rounds", type=int, help="of each measurement (5; 2 with --quick)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where the result goes, if not into bench/results")
    parser.add_argument(
        "--disk-dir", type=Path, help="a directory on a disk (the temporary directory, if it is on one)"
    )
    options = parser.parse_args()
    options.only = options.only or NAMES
    sizes = QUICK if options.quick else Sizes()
    length, rounds = options.bytes or sizes.bytes, options.rounds or sizes.rounds
    if length < 16 << 20 or rounds < 1:
        parser.error("--bytes must be at least 16 MiB, --rounds at least 1")
    options.sizes = replace(sizes, bytes=length, rounds=rounds)
    return options


@contextlib.contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Raises BenchError in the body after *seconds*, so that it cleans up."""

    def late(*_: object) -> None:
        raise processes.BenchError(f"it was not done within {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def measurements(sizes: Sizes, places: processes.Places) -> Measurements:
    def of_file(
        measure: Callable[[Path, processes.Places, int], list[results.Row]],
        write: Callable[[Path, int], object] = content.write,
    ) -> list[results.Row]:
        with processes.scratch(places.memory) as root:
            write(root / bulk.LOG, sizes.bytes)
            return measure(root / bulk.LOG, places, sizes.rounds)

    rounds = sizes.rounds
    return {
        "bulk": lambda: of_file(bulk.memory) + nvflare.rows(),
        "disk": lambda: of_file(bulk.disk),
        "redaction": lambda: of_file(bulk.redaction) + masking.measure(sizes.render, rounds),
        "tls": lambda: of_file(bulk.over_tls),
        "compression": lambda: of_file(compression.measure, compression.write),
        "streams": lambda: streams.measure(places, sizes.bytes, rounds),
        "many": lambda: (
            many.lines(places, sizes.seconds, rounds)
            + many.fairness(places, min(200, sizes.lines), rounds)
            + many.shown(places, min(200, sizes.lines), rounds)
        ),
        "distance": lambda: distance.measure(places, sizes.bytes, rounds),
        "latency": lambda: latency.idle(places, sizes.lines, rounds),
        "load": lambda: of_file(
            # its bytes are not removed in between: half as many lines
            lambda source, places, rounds: latency.under_load(source, places, min(250, sizes.lines), rounds)
        ),
        "sites": lambda: sites.measure(places, sizes.crowds, sizes.seconds, rounds),
        "workers": lambda: workers.measure(places, sizes.seconds, rounds),
        "idle": lambda: idle.measure(places, sizes.idle, rounds),
        "detection": lambda: of_file(detection.of_bulk) + detection.of_idle(places, sizes.idle, rounds),
        "reading": lambda: of_file(
            lambda source, places, rounds: reading.measure(source, places, rounds, sizes.seconds)
        ),
        "render": lambda: render.measure(sizes.render, rounds),
        "findings": lambda: (
            findings.measure(sizes.render, rounds)
            + of_file(findings.of_bulk)
            + findings.of_sites(places, max(each for each in sizes.crowds if each[0] <= 1000), sizes.seconds, rounds)
        ),
        "page": lambda: browser.measure(places, sizes.bytes, sizes.render, rounds),
        "viewers": lambda: looking.measure(places, sizes.lines, rounds),
        "run": lambda: running.measure(places, sizes.render, sizes.bytes, rounds),
    }


NAMES = tuple(measurements(Sizes(), processes.Places(Path(), Path())))

if __name__ == "__main__":
    sys.exit(main())
