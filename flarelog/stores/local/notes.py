"""How a note of a local store is a file beside the logs: appended to, replaced, read."""

from __future__ import annotations

import os
from functools import partial
from operator import methodcaller

from flarelog.replace import replace_file
from flarelog.stores.directory import FILE_MODE
from flarelog.stores.full import reason
from flarelog.stores.local.layout import Layout, record_name
from flarelog.stores.notes import Kind


def add(layout: Layout, kind: Kind, said: bytes, run: str, site: str) -> None:
    """Append the lines *said*, and shorten a note that would become too long. Raises OSError: FileNotFoundError if the
    run is gone; Unavailable for a link.
    """
    name, durable = record_name(site, kind.name), kind.durable and layout.durable
    with layout.at(run, make=kind.durable) as directory:
        fd = directory.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            if size + len(said) > kind.limit:
                raw = os.pread(fd, kind.limit, max(0, size - kind.limit))
                replace_file(name, kind.bounded(raw, said), FILE_MODE, dir_fd=directory.fd)
            else:
                said = b"\n" + said if size and os.pread(fd, 1, size - 1) != b"\n" else said  # a torn line
                while said:
                    said = said[os.write(fd, said) :]
                if durable:
                    os.fdatasync(fd)
        finally:
            os.close(fd)
        if durable:
            directory.sync()


def replace(layout: Layout, kind: Kind, said: bytes, run: str, site: str) -> None:
    """Raises as ``add``; ignored where the site is gone."""
    with layout.at(*((run,) if run else ())) as directory:
        if not site or directory.is_directory(site):
            replace_file(record_name(site, kind.name), said, FILE_MODE, dir_fd=directory.fd)


def found(
    layout: Layout, kind: Kind, run: str, unread: dict[tuple[str, str], str] | None
) -> dict[tuple[str, str], bytes]:
    """As ``Reader.notes``."""
    every = {}
    for one in layout.names(only=run or None):
        for site in layout.notes(one, kind.name):
            name = record_name(site, kind.name)
            try:
                every[one, site] = layout.look(partial(layout.at, one), methodcaller("read", name)) or b""
            except OSError as error:
                (unread if unread is not None else {})[one, site] = f"{reason(error)} ({layout.root / one / name})"
    return every
