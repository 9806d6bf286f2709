"""Runs that nobody needs any more leave a local store: those in which nothing has changed for some time.

One with a stream that is open, or being opened, stays; so does one in which anything was written while its files were
looked at, which takes time, and of which the files that were looked at first do not tell.
"""

from __future__ import annotations

import time
from functools import partial

from flarelog.stores.appender import meaning
from flarelog.stores.local import LocalStore
from flarelog.stores.removal import extent, move_away


async def expire(store: LocalStore, age: float) -> list[str]:
    """Remove the runs in which nothing has changed for *age* seconds, and return their names.

    Raises Unavailable where one cannot be removed.
    """
    await store.clear()
    gone = []
    for run in await store.aside(store.run_names):
        unchanged = store.unchanged(run)
        found = await store.aside(partial(extent, store.root / run))
        if time.time() - found.changed < age or not unchanged():
            continue
        try:
            move_away(store.root, run)  # in the loop: nobody opens a stream of it meanwhile
        except OSError as error:
            raise meaning(error, f"{store.root / run} could not be removed") from error
        store.forget_run(run)
        gone.append(run)
    await store.clear()
    return gone
