"""The logs of a site of which nothing was ever stored, and why: a small record beside those that are.

    ROOT/RUN/.SITE.unstored     lines as a journal's: a reason, and the logs that it is of

A log that is stored after all is none of them any more, whatever the record says. The record is never longer than
LIMIT: then it names fewer logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from flarelog.model import LONGEST_REASON, StreamInfo
from flarelog.stores.base import names_of, never_stored
from flarelog.stores.directory import unless_gone
from flarelog.stores.local import chronicle, lines
from flarelog.stores.local.layout import Layout

SUFFIX = ".unstored"
LIMIT = 1 << 20  # bytes of a record
A_LINE = 100  # logs


def name_of(site: str) -> str:
    return f".{site}{SUFFIX}"


def _lines(found: Mapping[str, str]) -> Iterator[bytes]:
    for why, group in groupby(
        sorted(found, key=lambda log: (found[log], log)), lambda log: found[log][:LONGEST_REASON]
    ):
        logs = list(group)
        for at in range(0, len(logs), A_LINE):
            yield lines.line({"t": "unstored", "why": why, "logs": logs[at : at + A_LINE]})


def recorded(raw: bytes) -> dict[str, str]:
    """The logs that *raw* names, each with its latest reason; what makes no sense is left out."""
    found: dict[str, str] = {}
    for record in lines.records(raw):
        if record is None or record.get("t") != "unstored":
            continue
        with suppress(KeyError, TypeError, ValueError):
            found |= dict.fromkeys(map(lines.text, record["logs"]), lines.text(record["why"]))
    return found


def write(root: Path, run: str, site: str, found: Mapping[str, str]) -> None:
    """Add *found* to the record: logs, and why. Raises as ``chronicle.write``."""
    chronicle.add(root, run, name_of(site), b"".join(_lines(found)), LIMIT, shortened)


def shortened(raw: bytes) -> bytes:
    """*raw* with each log once, in half of the room."""
    kept, size = [], 0
    for one in _lines(recorded(raw)):
        size += len(one)
        if size > LIMIT // 2:
            break
        kept.append(one)
    return b"".join(kept)


def found(layout: Layout, run: str, wanted: Callable[[str, str], bool]) -> list[StreamInfo]:
    """Those of *run*, or of all runs, in the order of their names, of the sites that are *wanted*."""
    infos = [
        info
        for one in layout.names(only=run or None)
        for site in _sites(layout, one)
        if wanted(one, site)
        for info in never_stored(one, site, recorded(layout.raw((one,), name_of(site))))
        if not os.path.lexists(layout.files(info.stream)[0])
    ]
    return sorted(infos, key=names_of)


def _sites(layout: Layout, run: str) -> list[str]:
    try:
        names = os.listdir(layout.root / run)
    except OSError as error:
        unless_gone(error)
        return []
    return [name[1 : -len(SUFFIX)] for name in names if name.startswith(".") and name.endswith(SUFFIX)]
