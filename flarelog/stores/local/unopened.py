"""The note of a site's logs that the receiver did not open, and why: a line is a reason and its logs.

A log that is a stream by now does not count. A note that would exceed LIMIT forgets its oldest logs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby

from flarelog.errors import InvalidName
from flarelog.model import LONGEST_REASON, WHOLE, StreamId, StreamInfo
from flarelog.stores import full
from flarelog.stores.base import UNNAMED, Unopened, entry_of, names_of, not_opened
from flarelog.stores.local import lines
from flarelog.stores.local.layout import UNSTORED, Layout, record_name

KEPT = 1 << 17  # bytes of a note that has become too long
A_LINE = 100  # logs


def _lines(found: Mapping[str, str]) -> Iterator[bytes]:
    for why, group in groupby(found, found.__getitem__):
        logs = list(group)
        for at in range(0, len(logs), A_LINE):
            yield lines.line({"t": "unstored", "why": why, "logs": logs[at : at + A_LINE]})


def recorded(raw: bytes) -> dict[str, str]:
    """The logs in *raw*, each with its latest reason; invalid lines are skipped."""
    found: dict[str, str] = {}
    for record in lines.records(raw):
        if record is None or record.get("t") not in ("unstored", "readable"):
            continue
        with suppress(KeyError, TypeError, ValueError):
            logs = [*map(lines.text, record["logs"])]
            if record["t"] == "unstored":
                found |= dict.fromkeys(logs, lines.text(record["why"])[:LONGEST_REASON])
            else:  # an earlier version wrote that its site could read them by now
                for log in logs:
                    found.pop(log, None)
    return found


def new_lines(news: Sequence[Unopened], written: Callable[[], bytes]) -> bytes:
    """The lines with *news* that the note, which *written* reads, does not have."""
    known = recorded(written())
    every = {log: why[:LONGEST_REASON] for one in news for log, why in one.logs.items()}
    return b"".join(_lines({log: why for log, why in every.items() if known.get(log) != why}))


def shortened(raw: bytes) -> bytes:
    """*raw* with each log once, and at most KEPT bytes of the latest lines."""
    kept, size = list[bytes](), 0
    for one in reversed(list(_lines(recorded(raw)))):
        size += len(one)
        if size > KEPT:
            break
        kept.append(one)
    return b"".join(reversed(kept))


def found(layout: Layout, run: str, wanted: Callable[[str, str], bool]) -> list[StreamInfo]:
    """The unopened logs of *run*, or of all runs, in the *wanted* sites, sorted by name."""
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
        while _is_held(layout, stream):
            stream = StreamId(run, site, f"{stream.log}-")
        yield entry_of(stream, f"{full.reason(error)} ({layout.root / run / name})", WHOLE)
        return
    for log, why in recorded(raw).items():
        with suppress(InvalidName):  # an earlier version named directories, and files without a name
            stream = StreamId(run, site, log)
            if not _is_held(layout, stream):
                yield not_opened(stream, why)


def _is_held(layout: Layout, stream: StreamId) -> bool:
    journal, path = layout.files(stream)
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)  # a directory has other logs
    except FileNotFoundError:
        return os.path.lexists(journal)
    except OSError:
        return False


def _sites(layout: Layout, run: str) -> list[str]:
    try:
        names = os.listdir(layout.root / run)
    except OSError as error:
        full.reason(error)  # a list of the run's streams has an entry for its directory
        return []
    suffix = f".{UNSTORED}"
    return [name[1 : -len(suffix)] for name in names if name.startswith(".") and name.endswith(suffix)]
