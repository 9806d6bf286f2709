"""A local store after a crash: a part of the uncommitted bytes reached the disk."""

from __future__ import annotations

import os

from flarelog.stores.local.store import LocalStore


def crash(store: LocalStore, data: int, journal: int, hole: bool) -> None:
    """End *store* without cleanup. Of the uncommitted data *data* percent of the bytes and *journal* percent of the
    journal's lines reach the disk; with *hole* the file has its full length, but zeros in place of the rest.
    """
    for appender in list(store._open.values()):
        lines, *_ = appender._batch()
        committed, written = appender.committed, appender._written
        os.ftruncate(appender._data_fd, committed + (written - committed) * data // 100)
        if hole:
            os.ftruncate(appender._data_fd, written)
        os.pwrite(appender._journal_fd, lines[: len(lines) * journal // 100], appender._journal_size)
        os.close(appender._data_fd)
        os.close(appender._journal_fd)
    store._open.clear()
    if store._commits is not None:
        store._commits.shutdown()
    os.close(store.lock)
