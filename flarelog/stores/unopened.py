"""The logs that a receiver did not open because it had no room for them, and why: a note of each site.

A line is a reason and its logs. A log that is a stream does not count: ``among`` leaves it out. A note that would
exceed the limit forgets its oldest logs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import groupby
from typing import Any

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import InvalidName
from flarelog.model import LONGEST_REASON, WHOLE, StreamId, StreamInfo
from flarelog.stores import lines
from flarelog.stores.base import UNNAMED, Reader, Wanted, entry_of, everything, names_of
from flarelog.stores.notes import Kind

KEPT = 1 << 17  # bytes of a note that has become too long
A_LINE = 100  # logs


def lines_of(found: Mapping[str, str]) -> Iterator[bytes]:
    """The lines that say why the logs *found* were not opened."""
    for why, group in groupby(found, found.__getitem__):
        logs = list(group)
        for at in range(0, len(logs), A_LINE):
            yield lines.line({"t": "unstored", "why": why, "logs": logs[at : at + A_LINE]})


def recorded(raw: bytes) -> dict[str, str]:
    """The logs in the note *raw*, each with its latest reason; invalid lines are skipped."""
    found: dict[str, str] = {}
    for logs in lines.parsed(raw, _logs, "unstored"):
        found |= logs
    return found


def _logs(record: dict[str, Any]) -> dict[str, str]:
    return dict.fromkeys(map(lines.text, record["logs"]), lines.text(record["why"])[:LONGEST_REASON])


def _shortened(raw: bytes) -> bytes:
    """*raw* with each log once, and at most KEPT bytes of the latest lines."""
    kept, size = list[bytes](), 0
    for one in reversed(list(lines_of(recorded(raw)))):
        size += len(one)
        if size > KEPT:
            break
        kept.append(one)
    return b"".join(reversed(kept))


UNSTORED = Kind("unstored", shortened=_shortened)


def not_opened(stream: StreamId, why: str) -> StreamInfo:
    """The entry for a log that the receiver did not open because of *why*."""
    return StreamInfo(stream, 0, 0, EMPTY_DIGEST, False, unstored=why)


async def unopened(store: Reader, run: str = "", wanted: Wanted = everything) -> Sequence[StreamInfo]:
    """An entry for each log that a receiver once did not open, and for each note of them that cannot be read."""
    found, unread = [], dict[tuple[str, str], str]()
    for (one, site), raw in (await store.notes(UNSTORED, run, unread)).items():
        if site and wanted(one, site):
            for log, why in recorded(raw).items():
                with suppress(InvalidName):
                    found.append(not_opened(StreamId(one, site, log), why))
    found += [entry_of(StreamId(*key, UNNAMED), why, WHOLE) for key, why in unread.items() if wanted(*key)]
    return sorted(found, key=names_of)


async def with_unopened(store: Reader, run: str = "", wanted: Wanted = everything) -> AsyncGenerator[StreamInfo, None]:
    """The streams of *run*, or of all runs, what the store cannot read, and the unopened logs, sorted by name."""
    others = await unopened(store, run, wanted)
    held = store.list(f"{run}/" if run else "", wanted=wanted, unreadable=True)
    async with aclosing(among(held, others)) as every:
        async for info in every:
            yield info


async def among(
    streams: AsyncGenerator[StreamInfo, None], unstored: Iterable[StreamInfo]
) -> AsyncGenerator[StreamInfo, None]:
    """*streams* and *unstored*, both sorted by name, merged in that order; an entry for a log that is a stream is left
    out.
    """
    rest = deque(unstored)
    async with aclosing(streams) as found:
        async for info in found:
            while rest and names_of(rest[0]) <= names_of(info):
                if (one := rest.popleft()).stream != info.stream:
                    yield one
            yield info
    for one in rest:
        yield one
