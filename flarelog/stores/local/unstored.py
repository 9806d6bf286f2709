"""The note of a site's logs that have no stored byte, and why: a line is a reason and its logs, or logs to drop.

A refused log leaves the note when its place says so (``refused``), and does not count once the log is stored. An
unreadable log leaves the note when the place that reported it says so (``unread``); if the log has stored bytes,
the entry stands for its rest. A note that would exceed LIMIT names fewer logs, and says that there are others. The
count of files without a name is kept for each place; earlier versions kept only the latest count of all places.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from flarelog.model import LONGEST_REASON, OTHERS, StreamId, StreamInfo, is_unread
from flarelog.stores import full
from flarelog.stores.base import UNNAMED, Missing, Told, entry_of, key_of, names_of, never_stored
from flarelog.stores.local import lines
from flarelog.stores.local.layout import UNSTORED, Layout, record_name

KEPT = 1 << 17  # bytes of a note that has become too long
A_LINE = 100  # logs


class Reason(NamedTuple):
    """Why a log has no stored byte, and the place that reported it or has it (see ``model.News``)."""

    why: str
    place: str = ""


def _lines(found: Mapping[Told, Reason]) -> Iterator[bytes]:
    for reason, group in groupby(sorted(found, key=lambda one: (found[one], one)), found.__getitem__):
        said: dict[str, Any] = {"t": "unstored", "why": reason.why[:LONGEST_REASON]}
        if reason.place:
            said["place"] = reason.place
        yield from _each(said, [what for what, _ in group])


def _each(said: dict[str, Any], every: Sequence[str]) -> Iterator[bytes]:
    """The lines that say *said* of the logs *every*; OTHERS gets its own line, which counts for its place alone."""
    if OTHERS in every:
        yield lines.line({**said, "logs": [OTHERS], "apart": True})
        every = [one for one in every if one != OTHERS]
    for at in range(0, len(every), A_LINE):
        yield lines.line({**said, "logs": every[at : at + A_LINE]})


def recorded(raw: bytes) -> dict[Told, Reason]:
    """The logs in *raw*, each with its latest reason; invalid lines are skipped."""
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


def new_lines(news: Sequence[Missing], written: Callable[[], bytes]) -> bytes:
    """The lines with *news* that the note, which *written* reads, does not have."""
    known, lists = recorded(written()), {one.place: (one.refused, one.unread) for one in news}
    new = {
        key_of(log, one.place): Reason(why[:LONGEST_REASON], one.place)
        for one in news
        for log, why in one.found.items()
    }
    new = {key: reason for key, reason in new.items() if known.get(key) != reason}
    over: defaultdict[str, list[str]] = defaultdict(list)  # by place
    for (log, _), reason in (known | new).items():
        left = lists.get(reason.place, (None, None))[is_unread(reason.why)]
        if left is not None and log not in left:
            over[reason.place].append(log)
    gone = (line for place, logs in over.items() for line in _each({"t": "readable", "place": place}, logs))
    return b"".join((*_lines(new), *gone))


def shortened(raw: bytes) -> bytes:
    """*raw* with each log once, cut to KEPT bytes; one entry stands for the logs that do not fit."""
    found, size = recorded(raw), 0
    every = list(_lines(found))
    for number, one in enumerate(every):
        size += len(one)
        if size > KEPT:
            reason = next(iter(recorded(one).values()))
            kept = b"".join(every[:number])
            others = key_of(OTHERS, reason.place)
            return kept if others in recorded(kept) else kept + b"".join(_lines({others: reason}))
    return b"".join(every)


def found(layout: Layout, run: str, wanted: Callable[[str, str], bool]) -> list[StreamInfo]:
    """The unstored logs of *run*, or of all runs, in the *wanted* sites, sorted by name."""
    infos = [
        info
        for one in layout.names(only=run or None)
        for site in _sites(layout, one)
        if wanted(one, site)
        for info in _of_site(layout, one, site)
    ]
    return sorted(infos, key=names_of)


def _of_site(layout: Layout, run: str, site: str) -> Iterator[StreamInfo]:
    name = record_name(site, UNSTORED)
    try:
        raw = layout.look(partial(layout.at, run), lambda directory: directory.read(name)) or b""
    except OSError as error:
        stream = StreamId(run, site, UNNAMED)
        while _held(layout, stream) is not None:
            stream = StreamId(run, site, f"{stream.log}-")
        yield entry_of(stream, f"{full.reason(error)} ({layout.root / run / name})", OTHERS)
        return
    yield from never_stored(run, site, recorded(raw), partial(_held, layout))


def _held(layout: Layout, stream: StreamId) -> int | None:
    journal, path = layout.files(stream)
    try:
        status = os.lstat(path)
        return None if stat.S_ISDIR(status.st_mode) else status.st_size  # a directory has other logs
    except FileNotFoundError:
        return 0 if os.path.lexists(journal) else None
    except OSError:
        return None


def _sites(layout: Layout, run: str) -> list[str]:
    try:
        names = os.listdir(layout.root / run)
    except OSError as error:
        full.reason(error)  # a list of the run's streams has an entry for its directory
        return []
    suffix = f".{UNSTORED}"
    return [name[1 : -len(suffix)] for name in names if name.startswith(".") and name.endswith(suffix)]
