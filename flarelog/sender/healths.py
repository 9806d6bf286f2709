"""The health of the machine and its unreadable logs, checked while the sidecar sends; the next log with a message
carries the report.

A receiver remembers unreadable and refused logs until the same place reports otherwise: the same directory on the same
machine, also from a later process, because another sidecar of the site may not know those logs. A report names a
bounded number of files, and the count of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Collection
from itertools import islice
from typing import Protocol

from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, NAMED_UNREAD, UNREAD, Health, News
from flarelog.sources.health import EVERY, collect
from flarelog.text import legible
from flarelog.values import changed


class Speaker(Protocol):
    """A log that can carry a report."""

    def changed(self) -> None: ...


class Healths:
    """The reports of one sidecar. *directory*: the directory of the logs; *place*: its id among those of the site;
    *troubles*: a sentence for each unreadable log; *all_seen*: whether all logs were looked at; *refused*: the logs
    that the receiver refused and that are still to be sent, None until each log was opened or refused.
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
        self._directory, self._troubles = directory, troubles
        self._all_seen, self._still_refused = all_seen, refused
        self._untold: Health | None = None
        self._latest: Health | None = None  # the health in the last report
        self._said: tuple[tuple[str, ...], int, tuple[str, ...] | None] = (), 0, None
        self._looked = asyncio.Event()

    def take(self) -> News | None:
        """The report that is due, as a News without other content; None if there is none. Each look is reported once,
        and again when the unreadable or refused logs change.
        """
        troubles, refused = self._troubles(), self._still_refused()
        sentences = tuple(islice(troubles, NAMED_UNREAD)) if troubles else ()
        said = sentences, len(troubles), refused
        if said != self._said:
            self._untold = self._untold or self._latest
        found, self._untold = self._untold, None
        if found is None:
            return None
        self._latest, self._said = found, said
        place = f"{legible(self._directory).rstrip('/')}/"  # removed, because the path is private to the site
        named = [sentence.removeprefix(place) for sentence in sentences]
        known = changed(found, unread=tuple(named[:UNREAD]))
        unread, more = tuple(filter(None, map(_parted, named))), len(troubles) - len(named)
        whole = not more and self._all_seen() and not any(CANNOT_BE_LISTED in one for one in named)
        refused = refused if whole and refused is not None and len(refused) <= UNREAD else None
        return News(0, 0, health=known, place=self.place, whole=whole, refused=refused, unread=unread, more=more)

    def refused(self) -> None:
        """Make the last report due again, because the receiver has refused a log, and remembers that."""
        self._said = (), 0, None

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


def _parted(sentence: str) -> tuple[str, str] | None:
    """The unreadable file or directory in *sentence*, and the reason; None: the sentence is about something else."""
    path, found, why = sentence.partition(CANNOT_BE_READ)
    if found:
        return path, f"{CANNOT_BE_READ.lstrip()}{why}"
    path, found, why = sentence.partition(CANNOT_BE_LISTED)
    return (f"{path}/", f"{CANNOT_BE_LISTED.lstrip()}{why}") if found else None


def place_of(run: str, site: str, directory: str, part: Collection[str] = ()) -> str:
    """An id of *directory* on this machine, or of the *part* of it that is sent, among those of *site*; a digest, which
    does not reveal names.
    """
    machine = os.uname().nodename
    with contextlib.suppress(OSError), open("/etc/machine-id") as file:
        machine += file.read().strip()
    said = "\0".join((run, site, machine, os.path.realpath(directory), *sorted(set(part))))
    return hashlib.blake2b(os.fsencode(said), digest_size=8).hexdigest()
