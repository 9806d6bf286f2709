"""The logs of a site of which nothing was ever stored, and why: a small record beside those that are.

    ROOT/RUN/.SITE.unstored     lines as a journal's: a reason and its logs, or logs that are none any more ("readable")

A log that the receiver refused is none of them any more once it is stored, whatever the record says, or when the place
that had it says that it has no others that were refused. One that cannot be read is none any more when the place that
said so says that it can read all others; of one that is stored, the rest is what cannot be read. The record is never
longer than LIMIT: then it names fewer logs, and that there are others. How many files without a name a place has is
told apart from those of other places, which earlier versions did not do: theirs is the last word of all places.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from flarelog.model import LONGEST_REASON, OTHERS, StreamId, StreamInfo, is_unread
from flarelog.stores.base import Told, key_of, names_of, never_stored
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


def _lines(found: Mapping[Told, Reason]) -> Iterator[bytes]:
    for reason, group in groupby(sorted(found, key=lambda one: (found[one], one)), found.__getitem__):
        said: dict[str, Any] = {"t": "unstored", "why": reason.why[:LONGEST_REASON]}
        if reason.place:
            said["place"] = reason.place
        yield from _each(said, [what for what, _ in group])


def _each(said: dict[str, Any], every: Sequence[str]) -> Iterator[bytes]:
    """*said* of *every*: of files without a name it is said of those of its place alone."""
    if OTHERS in every:
        yield lines.line({**said, "logs": [OTHERS], "apart": True})
        every = [one for one in every if one != OTHERS]
    for at in range(0, len(every), A_LINE):
        yield lines.line({**said, "logs": every[at : at + A_LINE]})


def recorded(raw: bytes) -> dict[Told, Reason]:
    """What *raw* names, each with its latest reason; what makes no sense is left out."""
    found: dict[Told, Reason] = {}
    for record in lines.records(raw):
        if record is None or record.get("t") not in ("unstored", "readable"):
            continue
        with suppress(KeyError, TypeError, ValueError):
            place, logs = lines.text(record.get("place", "")), [*map(lines.text, record["logs"])]
            if OTHERS in logs and not record.get("apart"):
                for one in [one for one in found if one[0] == OTHERS]:
                    del found[one]
            keys = [key_of(log, place) for log in logs]
            if record["t"] == "unstored":
                found |= dict.fromkeys(keys, Reason(lines.text(record["why"]), place))
            else:
                for key in keys:
                    found.pop(key, None)
    return found


def write(layout: Layout, run: str, site: str, found: Mapping[str, str], place: str) -> None:
    """Add *found* of *place* to the record: logs, and why. Raises as ``chronicle.write``."""
    known = recorded(layout.raw((run,), name_of(site)))
    reasons = {key_of(log, place): Reason(why[:LONGEST_REASON], place) for log, why in found.items()}
    new = {log: reason for log, reason in reasons.items() if known.get(log) != reason}
    if new:
        chronicle.add(layout.root, run, name_of(site), b"".join(_lines(new)), LIMIT, shortened)


def forget(layout: Layout, run: str, site: str, place: str, but: Collection[str], *, unread: bool) -> None:
    """Take out of the record the logs of *place* that it cannot read, or else (*unread*) that were refused, all *but*
    those. Raises as ``chronicle.write``.
    """
    known = recorded(layout.raw((run,), name_of(site)))
    of_place = [log for (log, _), said in known.items() if said.place == place and is_unread(said.why) == unread]
    over = [log for log in of_place if log not in but]
    if over:
        said = {"t": "readable", "place": place}
        chronicle.add(layout.root, run, name_of(site), b"".join(_each(said, over)), LIMIT, shortened)


def shortened(raw: bytes) -> bytes:
    """*raw* with each log once, in half of the room; one entry stands for those that it has no room for."""
    found, size = recorded(raw), 0
    every = list(_lines(found))
    for number, one in enumerate(every):
        size += len(one)
        if size > LIMIT // 2:
            reason = next(iter(recorded(one).values()))
            kept = b"".join(every[:number])
            others = key_of(OTHERS, reason.place)
            return kept if others in recorded(kept) else kept + b"".join(_lines({others: reason}))
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
