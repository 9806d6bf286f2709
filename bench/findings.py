"""Findings: bytes searched a CPU second, beside ``grep -F -f`` with the same texts. One log has no trouble; another has
a traceback in every thousand lines, and a bar in every fifty.

``a receiver's part`` is the sieve, ``a reader's part`` renders and matches the lines that pass it.

``of_bulk`` and ``of_sites``: the cost of detection in a receiver, beside one without detectors, in turns: the rate of
one large log, and CPU time with very many sites that write a few lines a second.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import bulk, processes, sites
from bench.content import line
from bench.results import Row
from flarelog.detect.aftermath import AFTER
from flarelog.detect.base import PIECES
from flarelog.detect.before import BEFORE
from flarelog.detect.detector import Detector
from flarelog.detect.table import Table
from flarelog.model import StreamId
from flarelog.render.container import Renderer
from flarelog.render.sieve import Sieve
from flarelog.render.sieving import Sieving

PIECE = 1 << 18  # bytes of a read
SIEVE = Sieve(tuple(sorted(piece.encode() for piece in PIECES)), False, BEFORE, AFTER)
STREAM = StreamId("bench", "site-1", "log.txt")
OFF = ("--findings", "off")


def measure(count: int, rounds: int) -> list[Row]:
    texts = {
        "usual lines": b"".join(
            each for each in map(line, range(count)) if b"\r" not in each and each.count(b"\n") == 1
        ),
        "bars and tracebacks": b"".join(map(line, range(count))),
    }
    ways: dict[str, Callable[[bytes], float]] = {
        "grep -F -f": _grep,
        "findings": _all,
        "a receiver's part": lambda data: _cpu(lambda: _sieved(data)),
        "all lines rendered": lambda data: _cpu(lambda: _found([(0, data)])),
    }
    taken: dict[tuple[str, str], list[float]] = {(of, way): [] for of in texts for way in ways}
    for _ in range(rounds):
        for of, data in texts.items():
            for way, work in ways.items():
                taken[of, way].append(len(data) / 1e6 / max(1e-9, work(data)))
    rows = [Row("findings", f"{of}, {way}", "MB a CPU second", samples) for (of, way), samples in taken.items()]
    found = {row.of: row.median for row in rows}
    return [
        Row(
            row.measurement,
            row.of,
            row.unit,
            row.samples,
            ratios={"findings / grep": row.median / found[_grepped(row.of)]},
        )
        if row.of.endswith(", findings")
        else row
        for row in rows
    ]


def of_bulk(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the bulk rate with and without detection; *source*, in ``places.memory``, is the file."""
    on, off = bulk.interleaved(
        places.memory,
        rounds,
        lambda work: bulk.flarelog(source, work, places, "memory"),
        lambda work: bulk.flarelog(source, work, places, "memory", serving=OFF),
    )
    return [
        bulk.row("findings, bulk", "on", on),
        bulk.row("findings, bulk", "off", off, {"on / this": bulk.rate(on) / bulk.rate(off)}),
    ]


def of_sites(places: processes.Places, crowd: tuple[int, int], seconds: float, rounds: int) -> list[Row]:
    """Rows of CPU time with and without detection. *crowd*: (sites, lines a second and site)."""
    taken: dict[str, list[float]] = {"on": [], "off": []}
    for _ in range(rounds):
        for name, serving in {"on": (), "off": OFF}.items():
            rows = sites.of_crowd(places, *crowd, seconds, 1, serving=serving)
            taken[name] += next(row.samples for row in rows if row.of == "receiver, CPU")
    measurement = f"findings, {crowd[0]:,} sites x {crowd[1]} lines/s"
    rows = [Row(measurement, f"{name}, CPU", "% of a core", samples) for name, samples in taken.items()]
    more = [on - off for on, off in zip(taken["on"], taken["off"], strict=True)]
    return [*rows, Row(measurement, "what looking takes", "% of a core", more)]


def _grepped(of: str) -> str:
    return of.removesuffix("findings") + "grep -F -f"


def _cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _sieved(data: bytes) -> list[tuple[int, bytes]]:
    sieving = Sieving(SIEVE)
    kept = [each for at in range(0, len(data), PIECE) for each in sieving.feed(at, data[at : at + PIECE])]
    return kept + sieving.close()


def _found(kept: list[tuple[int, bytes]]) -> int:
    renderer, detector, position = Renderer("plain", steps=False), Detector(STREAM, Table()), 0
    for offset, data in kept:
        if offset > position:
            detector.feed(renderer.close())
            renderer.jump(offset)
        for at in range(0, len(data), PIECE):
            detector.feed(renderer.feed(data[at : at + PIECE]))
        position = offset + len(data)
    detector.feed(renderer.close())
    detector.close()
    return len(detector.findings)


def _all(data: bytes) -> float:
    return _cpu(lambda: _found(_sieved(data)))


def _grep(data: bytes) -> float:
    with tempfile.TemporaryDirectory(prefix="flarelog-bench-") as place:
        log, pieces = Path(place, "log"), Path(place, "pieces")
        log.write_bytes(data)
        pieces.write_text("\n".join(PIECES) + "\n")
        # Not /dev/null: with that output grep stops at its first match.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["grep", "-a", "-F", "-f", pieces, log], stdout=subprocess.PIPE, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
