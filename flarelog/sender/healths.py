"""How the machine fares, looked at while the sidecar sends: whichever of its logs says something next tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from flarelog.model import Health
from flarelog.sources.health import EVERY, collect


class Speaker(Protocol):
    """A log that can tell something."""

    def changed(self) -> None: ...


class Healths:
    """*directory*: on whose file system the logs are."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._untold: Health | None = None

    def take(self) -> Health | None:
        """What is to be told now: each look once."""
        found, self._untold = self._untold, None
        return found

    async def mind(self, speaker: Callable[[], Speaker | None]) -> None:
        """Look again and again, and let a *speaker* tell it, if there is one. Ends by being cancelled."""
        while True:
            try:
                self._untold = await asyncio.to_thread(collect, self._directory)  # a disk may not answer
            except RuntimeError:  # a program that is ending gives no thread any more
                return
            if (one := speaker()) is not None:
                one.changed()
            await asyncio.sleep(EVERY)
