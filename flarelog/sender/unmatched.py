"""The warning that no log is found although there are files: once, after the job had time to begin its log."""

from __future__ import annotations

import asyncio
import logging

from flarelog.errors import NothingToSend
from flarelog.sources.base import Finder

log = logging.getLogger(__name__)

FIRST, LONGEST = 2.0, 60.0  # seconds until the first look, and at most between later ones


class Unmatched:
    """The check for unmatched files. *once*: the sidecar sends the present files; without any, ``end`` raises."""

    def __init__(self, finder: Finder, *, once: bool) -> None:
        self._finder, self._once = finder, once
        self._said = False

    async def mind(self) -> None:
        """Check now and then, until a log is found."""
        wait = FIRST
        while not (self._once or self._said):
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST)
            if self._finder.logs:
                return
            self._say(await asyncio.to_thread(self._finder.unmatched))

    async def end(self) -> None:
        """Report that the last look has found no log. Raises NothingToSend."""
        empty = self._once and not self._finder.troubles  # an unreadable directory does not count as empty
        sentence = await asyncio.to_thread(lambda: self._finder.unmatched(empty=empty))
        if sentence and self._once:
            raise NothingToSend(f"{sentence}; nothing was sent")
        self._say(sentence)

    def _say(self, sentence: str) -> None:
        if sentence and not self._said:
            log.warning("%s", sentence)
            self._said = True
