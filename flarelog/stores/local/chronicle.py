"""The events of a site's streams in a run: a small record beside the site's logs, for people, years later.

    ROOT/RUN/.SITE.events     lines in the journal's format; the record says nothing about bytes

One line names all streams with the same event at the same moment, so that a lost connection costs one line and not
thousands. A record that would exceed LIMIT loses its middle, and a line says how much was dropped. Writes do not wait
for the disk: a kill costs the last second of the record, and a torn line costs only itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from flarelog.model import LONGEST_REASON
from flarelog.replace import replace_file
from flarelog.stores.directory import FILE_MODE, Directory
from flarelog.stores.local import lines
from flarelog.stores.local.layout import EVENTS, Layout, record_name
from flarelog.stores.moments import FORGOTTEN, Happening, Moment

LIMIT = 256 << 10  # bytes of a record
KEPT = 64 << 10  # bytes kept at the start and at the end of a record whose middle is dropped


def line(happening: Happening) -> bytes:
    said: dict[str, Any] = {"t": "event", "at": happening.at, "what": happening.what}
    if happening.why:
        said["why"] = happening.why[:LONGEST_REASON]
    if happening.count != 1:
        said["n"] = happening.count
    if happening.logs:
        said["logs"] = list(happening.logs)
    if happening.since:
        said["since"] = happening.since
    return lines.line(said)


def happenings(raw: bytes) -> Iterator[Happening]:
    """The happenings in *raw*, in the order in which they were written; invalid lines are skipped."""
    for record in lines.records(raw):
        if record is None or record.get("t") != "event":
            continue
        try:
            yield Happening(
                lines.number(record["at"]),
                lines.text(record["what"]),
                lines.text(record.get("why", "")),
                lines.number(record.get("n", 1)),
                tuple(lines.text(log) for log in record.get("logs", ())),
                lines.number(record.get("since", 0)),
            )
        except (KeyError, TypeError, ValueError):
            continue


def moments(layout: Layout, run: str, site: str) -> list[Moment]:
    """The moments of a timeline of *site*, from the happenings of its streams."""
    return [
        Moment(one.at, one.what, site, one.logs[0] if one.count == len(one.logs) == 1 else "", happening=one)
        for one in happenings(layout.record(run, site, EVENTS))
    ]


def write(root: Path, run: str, site: str, found: Iterable[Happening]) -> None:
    """Append *found* to the record. Raises OSError: FileNotFoundError if the run is gone; Unavailable for a link."""
    add(root, run, record_name(site, EVENTS), b"".join(map(line, found)), LIMIT, shortened)


def add(root: Path, run: str, name: str, lines: bytes, limit: int, shortened: Callable[[bytes], bytes]) -> None:
    """Append *lines* to the file *name* in *run*; a file that would exceed *limit* bytes is *shortened* first. Raises
    as ``write``.
    """
    with Directory(root, (run,)) as directory:
        fd = directory.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            if size + len(lines) > limit:
                lines = shortened(os.pread(fd, limit, max(0, size - limit))) + lines
                lines = shortened(lines) if len(lines) > limit else lines
                replace_file(name, lines, FILE_MODE, dir_fd=directory.fd)
            else:
                torn = size and os.pread(fd, 1, size - 1) != b"\n"
                _all(fd, b"\n" + lines if torn else lines)
        finally:
            os.close(fd)


def _all(fd: int, lines: bytes) -> None:
    while lines:
        lines = lines[os.write(fd, lines) :]


def shortened(raw: bytes) -> bytes:
    """*raw* with its middle replaced by one line that counts the dropped lines."""
    before = raw.find(b'"what":"%s"' % FORGOTTEN.encode())  # the new line includes the count of an earlier one
    begin = raw.rfind(b"\n", 0, min(KEPT, before) if before >= 0 else KEPT) + 1
    end = max(begin, raw.find(b"\n", len(raw) - KEPT) + 1)
    lost, first = 0, 0
    for one in happenings(raw[begin:end]):
        lost += one.count if one.what == FORGOTTEN else 1
        first = first or (one.since if one.what == FORGOTTEN else one.at)
        last = one.at
    if not lost:
        return raw[:begin] + raw[end:]
    return raw[:begin] + line(Happening(last, FORGOTTEN, count=lost, since=first)) + raw[end:]
