"""The health of the machine, checked while the sidecar sends; the next log with a message carries the report.

A report names a few of the files that are not sent, except those that cannot be read: these are streams (see
``model.Unread``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from itertools import islice
from typing import Protocol

from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, UNREAD, Health, News
from flarelog.sources.health import EVERY, collect
from flarelog.text import legible
from flarelog.values import changed

LOOKED_AT = 100  # troubles among which a report looks for those to name


class Speaker(Protocol):
    """A log that can carry a report."""

    def changed(self) -> None: ...


class Healths:
    """The reports of one sidecar. *directory*: the directory of the logs; *troubles*: a sentence for each file that is
    not sent.
    """

    def __init__(self, directory: str, troubles: Callable[[], Collection[str]]) -> None:
        self._directory, self._troubles = directory, troubles
        self._untold: Health | None = None
        self._latest: Health | None = None  # the health in the last report
        self._said: tuple[str, ...] = ()
        self._looked = asyncio.Event()

    def take(self) -> News | None:
        """The report that is due, as a News without other content; None if there is none. Each look is reported once,
        and again when other files are not sent.
        """
        sentences = islice(self._troubles(), LOOKED_AT)
        said = tuple(one for one in sentences if CANNOT_BE_READ not in one and CANNOT_BE_LISTED not in one)[:UNREAD]
        if said != self._said:
            self._untold = self._untold or self._latest
        found, self._untold = self._untold, None
        if found is None:
            return None
        self._latest, self._said = found, said
        private = f"{legible(self._directory).rstrip('/')}/"  # the path is private to the site
        return News(0, 0, health=changed(found, unread=tuple(one.removeprefix(private) for one in said)))

    async def looked(self, within: float) -> None:
        """Wait for the first look, *within* seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._looked.wait()

    async def mind(self, speaker: Callable[[], Speaker | None]) -> None:
        """Look again and again, and wake a *speaker* to report, if there is one. Ends by being cancelled."""
        while await self.look(speaker):
            await asyncio.sleep(EVERY)

    async def look(self, speaker: Callable[[], Speaker | None]) -> bool:
        """Look once, as ``mind``; returns False if the interpreter is shutting down."""
        try:
            found = await asyncio.to_thread(collect, self._directory)  # a disk may hang
        except RuntimeError:  # the interpreter is shutting down and starts no threads
            return False
        finally:
            self._looked.set()
        self._untold = found
        if (one := speaker()) is not None:
            one.changed()
        return True
