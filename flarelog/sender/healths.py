"""How the machine fares, and what of its logs cannot be read, looked at while the sidecar sends: whichever of its logs
says something next tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import islice
from typing import Protocol

from flarelog.model import UNREAD, Health
from flarelog.sources.health import EVERY, collect
from flarelog.text import legible


class Speaker(Protocol):
    """A log that can tell something."""

    def changed(self) -> None: ...


class Healths:
    """*directory*: on whose file system the logs are; *troubles*: a sentence for each that cannot be read."""

    def __init__(self, directory: str, troubles: Callable[[], Collection[str]]) -> None:
        self._directory, self._troubles = directory, troubles
        self._untold: Health | None = None

    def take(self) -> Health | None:
        """What is to be told now: each look once."""
        found, self._untold = self._untold, None
        return found

    async def mind(self, speaker: Callable[[], Speaker | None]) -> None:
        """Look again and again, and let a *speaker* tell it, if there is one. Ends by being cancelled."""
        while await self.look(speaker):
            await asyncio.sleep(EVERY)

    async def look(self, speaker: Callable[[], Speaker | None]) -> bool:
        """Look once, as ``mind``. False: the program is ending."""
        try:
            found = await asyncio.to_thread(collect, self._directory)  # a disk may not answer
        except RuntimeError:  # it gives no thread any more
            return False
        place = f"{legible(self._directory).rstrip('/')}/"  # is nobody's business but the site's
        unread = tuple(sentence.removeprefix(place) for sentence in islice(self._troubles(), UNREAD))
        self._untold = replace(found, unread=unread)
        if (one := speaker()) is not None:
            one.changed()
        return True
