"""Lines as a reader annotates them, with the times and the levels that they tell."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC

from flarelog.lines.line import Line
from flarelog.lines.reader import Reader
from flarelog.lines.zones import Stamps


def reader() -> Reader:
    return Reader(stamps(), leveled=True)


def stamps(*_: object) -> Stamps:
    return Stamps(UTC, 0)


def annotated(lines: Iterable[Line]) -> list[Line]:
    return reader().read(list(lines))
