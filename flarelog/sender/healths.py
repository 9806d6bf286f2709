"""How the machine fares, and what of its logs cannot be read, looked at while the sidecar sends: whichever of its logs
says something next tells it.

A receiver remembers what cannot be read, and what it refused, until the place that has it says otherwise: the same
directory on the same machine, also in a later process. Another sidecar of the site may not know those logs. So many are
named and no more, and how many others there are is told. An older receiver knows logs alone: a file whose name no log
can have is told to it under one that a log can have.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import islice
from typing import Protocol

from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, CANNOT_BE_SENT, NAMED_UNREAD, UNREAD, Health, News
from flarelog.names import stand_in
from flarelog.sources.health import EVERY, collect
from flarelog.text import legible


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
        self._directory, self._troubles = directory, troubles
        self._all_seen, self._still_refused = all_seen, refused
        self._untold: Health | None = None
        self._latest: Health | None = None  # that was told, with
        self._said: tuple[tuple[str, ...], int, tuple[str, ...] | None] = (), 0, None
        self._looked = asyncio.Event()

    def take(self) -> News | None:
        """What is to be told now, in a News that says nothing else: each look once, and again when other logs cannot be
        read, or were refused, than it said.
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
        place = f"{legible(self._directory).rstrip('/')}/"  # is nobody's business but the site's
        named = [sentence.removeprefix(place) for sentence in sentences]
        known = replace(found, unread=tuple(map(_as_told, named[:UNREAD])))
        unread, more = tuple(filter(None, map(_parted, named))), len(troubles) - len(named)
        whole = not more and self._all_seen() and not any(CANNOT_BE_LISTED in one for one in named)
        refused = refused if whole and refused is not None and len(refused) <= UNREAD else None
        return News(0, 0, health=known, place=self.place, whole=whole, refused=refused, unread=unread, more=more)

    def refused(self) -> None:
        """The receiver has refused a log, and remembers that: what was told before is to be told again."""
        self._said = (), 0, None

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


def _parted(sentence: str) -> tuple[str, str] | None:
    """The file that *sentence* says is not sent, or the directory, and why; None: it tells of something else."""
    for kind in (CANNOT_BE_SENT, CANNOT_BE_READ):
        path, found, why = sentence.partition(kind)
        if found:
            return path, f"{CANNOT_BE_READ.lstrip()}{why}"
    path, found, why = sentence.partition(CANNOT_BE_LISTED)
    return (f"{path}/", f"{CANNOT_BE_LISTED.lstrip()}{why}") if found else None


def _as_told(sentence: str) -> str:
    """What an older receiver understands of a file that *sentence* says is not sent: that a log cannot be read."""
    path, why = _parted(sentence) or ("", "")
    return f"{stand_in(path)} {why}" if path and not path.endswith("/") else sentence


def place_of(run: str, site: str, directory: str, part: Collection[str] = ()) -> str:
    """What tells *directory* on this machine, or the *part* of it that is sent, from others of *site*: it says nothing
    of their names.
    """
    machine = os.uname().nodename
    with contextlib.suppress(OSError), open("/etc/machine-id") as file:
        machine += file.read().strip()
    said = "\0".join((run, site, machine, os.path.realpath(directory), *sorted(set(part))))
    return hashlib.blake2b(os.fsencode(said), digest_size=8).hexdigest()
