"""Render: lines that a view makes a CPU second, in one process: plain lines, lines with bars, container records.

Candidates take turns. Plain lines use the fast path; ``split`` is the lower bound: decode, and split at LF. CPU seconds
are counted, because nothing here waits.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from bench.content import line
from bench.results import Row
from flarelog.render.container import Renderer
from flarelog.render.screen import Screen

PIECE = 1 << 18  # bytes of a read, as in the command


def measure(count: int, rounds: int) -> list[Row]:
    plain = b"".join(each for each in map(line, range(count * 2)) if b"\r" not in each and each.count(b"\n") == 1)
    mixed = b"".join(map(line, range(count)))
    coloured = plain[: len(plain) // 5].replace(b"INFO", b"\x1b[32mINFO\x1b[0m")
    records = b"".join(
        b"2026-11-20T08:12:03.%09dZ stdout F %b" % (number, each)
        for number, each in enumerate(plain[: len(plain) // 5].splitlines(keepends=True))
    )
    candidates: dict[str, tuple[bytes, Callable[[bytes], int]]] = {
        "plain lines": (plain, lambda data: _lines(Screen(), data)),
        "plain lines, split": (plain, _split),
        "plain lines, CRLF": (plain.replace(b"\n", b"\r\n"), lambda data: _lines(Screen(), data)),
        "a bar every 50 lines": (mixed, lambda data: _lines(Screen(steps=True), data)),
        "coloured lines": (coloured, lambda data: _lines(Screen(), data)),
        "CRI records": (records, lambda data: _lines(Renderer(), data)),
    }
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, (data, work) in candidates.items():
            gc.collect()
            begin = time.process_time()
            lines = work(data)
            taken[name].append(lines / (time.process_time() - begin))
    rows = [Row("render", name, "lines a CPU second", samples) for name, samples in taken.items()]
    ratio = rows[0].median / rows[1].median
    return [
        Row(rows[0].measurement, rows[0].of, rows[0].unit, rows[0].samples, ratios={"view / split": ratio}),
        *rows[1:],
    ]


def _lines(view: Screen | Renderer, data: bytes) -> int:
    found = sum(len(view.feed(data[at : at + PIECE])) for at in range(0, len(data), PIECE))
    return found + len(view.close())


def _split(data: bytes) -> int:
    found, rest = 0, b""
    for at in range(0, len(data), PIECE):
        *lines, last = (rest + data[at : at + PIECE]).decode().split("\n")
        found, rest = found + len(lines), last.encode()
    return found
