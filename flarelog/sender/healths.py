"""How the machine fares, and what of its logs cannot be read, looked at while the sidecar sends: whichever of its logs
says something next tells it.

A receiver remembers what cannot be read, and what it refused, until the place that has it says otherwise: the same
directory on the same machine, also in a later process. Another sidecar of the site may not know those logs. A file
whose name no log can have is told under one that a log can have: what a receiver remembers are logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import islice
from typing import Protocol

from flarelog.errors import InvalidName
from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, CANNOT_BE_SENT, UNREAD, Health, News
from flarelog.names import log_name
from flarelog.sources.health import EVERY, collect
from flarelog.text import legible

STAND_IN = 40  # characters of a file's name in what stands for it: a sentence has room for few


class Speaker(Protocol):
    """A log that can tell something."""

    def changed(self) -> None: ...


class Healths:
    """*directory*: on whose file system the logs are; *place*: what tells it from others of the site; *troubles*: a
    sentence for each log that cannot be read; *all_seen*: whether there is no other; *refused*: the logs that the
    receiver refused and that are still to be sent, None while one was neither opened nor refused.
    """

    def __init__(
        self,
        directory: str,
        place: str,
        troubles: Callable[[], Collection[str]],
        all_seen: Callable[[], bool],
        refused: Callable[[], tuple[str, ...] | None] = lambda: None,
    ) -> None:
        self.place = place
        self._directory, self._troubles, self._all_seen, self._refused = directory, troubles, all_seen, refused
        self._untold: Health | None = None
        self._latest: Health | None = None  # that was told, with
        self._said: tuple[tuple[str, ...], tuple[str, ...] | None] = (), None
        self._looked = asyncio.Event()

    def take(self) -> News | None:
        """What is to be told now, in a News that says nothing else: each look once, and again when other logs cannot be
        read, or were refused, than it said.
        """
        troubles, refused = self._troubles(), self._refused()
        said = tuple(islice(troubles, UNREAD)) if troubles else (), refused
        if said != self._said:
            self._untold = self._untold or self._latest
        found, self._untold = self._untold, None
        if found is None:
            return None
        self._latest, self._said = found, said
        place = f"{legible(self._directory).rstrip('/')}/"  # is nobody's business but the site's
        unread = tuple(_as_told(sentence.removeprefix(place)) for sentence in said[0])
        whole = len(troubles) == len(unread) and self._all_seen()
        whole = whole and not any(CANNOT_BE_LISTED in sentence for sentence in unread)
        refused = refused if whole and refused is not None and len(refused) <= UNREAD else None
        return News(0, 0, health=replace(found, unread=unread), place=self.place, whole=whole, refused=refused)

    async def looked(self, within: float) -> None:
        """Wait for the first look, so many seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._looked.wait()

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
        finally:
            self._looked.set()
        self._untold = found
        if (one := speaker()) is not None:
            one.changed()
        return True


def _as_told(sentence: str) -> str:
    """What a receiver is told of a file that *sentence* says is not sent: of a log that cannot be read."""
    for kind in (CANNOT_BE_SENT, CANNOT_BE_READ):
        path, found, why = sentence.partition(kind)
        if found:
            return f"{stand_in(path)}{CANNOT_BE_READ}{why}"
    return sentence


def stand_in(path: str) -> str:
    """*path*, if it can name a log; else a name like it, which no other path has."""
    try:
        return log_name(path)
    except InvalidName:
        digest = hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()
        return f"{re.sub('[^A-Za-z0-9._-]+', '_', path)[-STAND_IN:]}-{digest}"


def place_of(run: str, site: str, directory: str) -> str:
    """What tells *directory* on this machine from others of *site*: it says nothing of their names."""
    machine = os.uname().nodename
    with contextlib.suppress(OSError), open("/etc/machine-id") as file:
        machine += file.read().strip()
    said = "\0".join((run, site, machine, os.path.realpath(directory)))
    return hashlib.blake2b(os.fsencode(said), digest_size=8).hexdigest()
