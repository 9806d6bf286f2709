"""The logs of a site of which nothing was ever stored, and why: a small record beside those that are.

    ROOT/RUN/.SITE.unstored     lines as a journal's: a reason and its logs, or logs that are none any more ("readable")

A log that the receiver refused is none of them any more once it is stored, whatever the record says, or when the place
that had it says that it has no others that were refused. One that cannot be read is none any more when the place that
said so says that it can read all others; of one that is stored, the rest is what cannot be read. The record is never
longer than LIMIT: then it names fewer logs, and that there are others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from flarelog.model import LONGEST_REASON, OTHERS, StreamId, StreamInfo, is_unread
from flarelog.stores.base import names_of, never_stored
from flarelog.stores.directory import unless_gone
from flarelog.stores.local import chronicle, lines
from flarelog.stores.local.layout import Layout

SUFFIX = ".unstored"
LIMIT = 1 << 20  # bytes of a record
A_LINE = 100  # logs


class Reason(NamedTuple):
    """Why nothing of a log was stored, and the place that said so, or that has it (see ``model.News``)."""

    why: str
    place: str = ""


def name_of(site: str) -> str:
    return f".{site}{SUFFIX}"


def _lines(found: Mapping[str, Reason]) -> Iterator[bytes]:
    for reason, group in groupby(sorted(found, key=lambda log: (found[log], log)), found.__getitem__):
        said: dict[str, Any] = {"t": "unstored", "why": reason.why[:LONGEST_REASON]}
        if reason.place:
            said["place"] = reason.place
        yield from _each(said, group)


def _each(said: dict[str, Any], logs: Iterable[str]) -> Iterator[bytes]:
    every = list(logs)
    for at in range(0, len(every), A_LINE):
        yield lines.line({**said, "logs": every[at : at + A_LINE]})


def recorded(raw: bytes) -> dict[str, Reason]:
    """The logs that *raw* names, each with its latest reason; what makes no sense is left out."""
    found: dict[str, Reason] = {}
    for record in lines.records(raw):
        if record is None:
            continue
        with suppress(KeyError, TypeError, ValueError):
            match record.get("t"):
                case "unstored":
                    reason = Reason(lines.text(record["why"]), lines.text(record.get("place", "")))
                    found |= dict.fromkeys(map(lines.text, record["logs"]), reason)
                case "readable":
                    for log in map(lines.text, record["logs"]):
                        found.pop(log, None)
    return found


def write(layout: Layout, run: str, site: str, found: Mapping[str, str], place: str) -> None:
    """Add *found* of *place* to the record: logs, and why. Raises as ``chronicle.write``."""
    known = recorded(layout.raw((run,), name_of(site)))
    reasons = {log: Reason(why[:LONGEST_REASON], place) for log, why in found.items()}
    new = {log: reason for log, reason in reasons.items() if known.get(log) != reason}
    if new:
        chronicle.add(layout.root, run, name_of(site), b"".join(_lines(new)), LIMIT, shortened)


def forget(layout: Layout, run: str, site: str, place: str, but: Collection[str], *, unread: bool) -> None:
    """Take out of the record the logs of *place* that it cannot read, or else (*unread*) that were refused, all *but*
    those. Raises as ``chronicle.write``.
    """
    known = recorded(layout.raw((run,), name_of(site)))
    of_place = [log for log, said in known.items() if said.place == place and is_unread(said.why) == unread]
    over = [log for log in of_place if log not in but]
    if over:
        chronicle.add(layout.root, run, name_of(site), b"".join(_each({"t": "readable"}, over)), LIMIT, shortened)


def shortened(raw: bytes) -> bytes:
    """*raw* with each log once, in half of the room; one entry stands for those that it has no room for."""
    every, size = list(_lines(recorded(raw))), 0
    for number, one in enumerate(every):
        size += len(one)
        if size > LIMIT // 2:
            reason = next(iter(recorded(one).values()))
            return b"".join([*every[:number], *_lines({OTHERS: reason})])
    return b"".join(every)


def found(layout: Layout, run: str, wanted: Callable[[str, str], bool]) -> list[StreamInfo]:
    """Those of *run*, or of all runs, in the order of their names, of the sites that are *wanted*."""
    infos = [
        info
        for one in layout.names(only=run or None)
        for site in _sites(layout, one)
        if wanted(one, site)
        for info in never_stored(
            one,
            site,
            recorded(layout.raw((one,), name_of(site))),
            partial(_held, layout),
        )
    ]
    return sorted(infos, key=names_of)


def _held(layout: Layout, stream: StreamId) -> int | None:
    journal, path = layout.files(stream)
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0 if os.path.lexists(journal) else None
    except OSError:
        return None


def _sites(layout: Layout, run: str) -> list[str]:
    try:
        names = os.listdir(layout.root / run)
    except OSError as error:
        unless_gone(error)
        return []
    return [name[1 : -len(SUFFIX)] for name in names if name.startswith(".") and name.endswith(SUFFIX)]
