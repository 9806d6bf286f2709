"""Runs that nobody needs any more leave a local store: those in which nothing has changed for some time.

A run goes whole or not at all: it gets another name first, so that a crash leaves no half of it. One with a stream that
is open, or being opened, stays; so does one in which anything was written while its files were looked at, which takes
time, and of which the files that were looked at first do not tell.
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial

from flarelog.errors import Unavailable
from flarelog.stores.appender import meaning
from flarelog.stores.directory import Directory
from flarelog.stores.local import LocalStore

_REMOVED = ".removed."  # no run's name begins with a dot


async def expire(store: LocalStore, age: float) -> list[str]:
    """Remove the runs in which nothing has changed for *age* seconds, and return their names.

    Raises Unavailable where one cannot be removed.
    """
    await store.aside(partial(_clear, store))
    gone = []
    for run in await store.aside(store.run_names):
        unchanged = store.unchanged(run)
        if time.time() - await store.aside(partial(_touched, store, run)) < age or not unchanged():
            continue
        _rename(store, run)  # in the loop: nobody opens a stream of it meanwhile
        store.forget_run(run)
        gone.append(run)
    await store.aside(partial(_clear, store))
    return gone


def _touched(store: LocalStore, run: str) -> float:
    """When anything in *run* last changed."""
    latest = 0.0
    for directory, _, files in os.walk(store.root / run):
        for name in (".", *files):
            try:
                latest = max(latest, os.lstat(os.path.join(directory, name)).st_mtime)
            except FileNotFoundError:
                latest = time.time()  # it changes just now
    return latest


def _rename(store: LocalStore, run: str) -> None:
    try:
        with Directory(store.root) as root:
            root.rename(run, f"{_REMOVED}{run}")
    except OSError as error:
        raise meaning(error, f"{store.root / run} could not be removed") from error


def _clear(store: LocalStore) -> None:
    """Remove what was renamed, just now or before a crash."""
    for name in os.listdir(store.root):
        if name.startswith(_REMOVED):
            path = store.root / name
            try:
                path.unlink() if path.is_symlink() else shutil.rmtree(path)
            except OSError as error:
                raise Unavailable(f"{path} could not be removed: {error.strerror}") from error
