"""The labelled lines in ``tests/data/findings``, and how a log is searched in a test."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flarelog.detect.base import Finding
from flarelog.detect.detector import Detector
from flarelog.detect.table import Table
from flarelog.model import StreamId
from flarelog.render.sieve import Sieve
from flarelog.render.sieving import Sieving
from flarelog.viewers.findings import drawn

DATA = Path(__file__).parent.parent / "data"
STREAM = StreamId("run-1", "site-1", "train.log")
TABLE = Table()  # one for all tests: parsing the signatures on the first line takes longer than most texts do


@dataclass(frozen=True)
class Case:
    """A text with a finding of *signature*, or, for a near miss, without."""

    signature: str
    text: str
    source: str
    facts: dict[str, Any] = field(default_factory=dict)
    rank: int | None = None

    def __str__(self) -> str:
        return f"{self.signature}: {self.source}"

    @property
    def data(self) -> bytes:
        return self.text.removeprefix("\n").encode() + b"\n"


@cache
def _tables() -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text()) for path in sorted((DATA / "findings").glob("*.toml"))]


@cache
def cases(kind: str) -> tuple[Case, ...]:
    """All cases of *kind*: case or miss."""
    found = []
    for table in _tables():
        for each in table.get(kind, []):
            source = each.get("source", each.get("why", ""))
            found += [Case(each["signature"], each["text"], source, each.get("facts", {}), each.get("rank"))]
    return tuple(found)


def kept(pieces: Iterable[bytes], sieve: Sieve | None) -> Iterator[tuple[int, bytes]]:
    """The parts of *pieces* that *sieve* keeps, with their offsets."""
    sieving, at = Sieving(sieve) if sieve is not None else None, 0
    for piece in pieces:
        yield from [(at, piece)] if sieving is None else sieving.feed(at, piece)
        at += len(piece)
    yield from [] if sieving is None else sieving.close()


def searched(
    data: bytes | Sequence[bytes], table: Table | None = None, sieve: Sieve | None = None, **how: Any
) -> list[Finding]:
    """The findings in a log of these bytes, or of these consecutive pieces."""
    table = table or TABLE
    renderer, detector = drawn(table)(), Detector(STREAM, table, **how)
    if sieve is not None:
        renderer.plain = True  # a reader does so when the log has no container format
    position = 0
    for offset, piece in kept((data,) if isinstance(data, bytes) else data, sieve):
        if offset > position:
            detector.feed(renderer.close())
            renderer.jump(offset)
        detector.feed(renderer.feed(piece))
        position = offset + len(piece)
    detector.feed(renderer.close())
    detector.close()
    return detector.findings
