"""What is known of copies of files, where ``containers`` reads copies that another part of the agent writes."""

from __future__ import annotations

import asyncio
import logging
import math
import tempfile
import time
from collections.abc import Coroutine
from typing import Protocol

from flarelog.errors import NotAllowed
from flarelog.text import legible

log = logging.getLogger(__name__)

ANSWERS_WITHIN = 30.0  # seconds that --once waits for the API, or a kubelet, to answer
LAST_WITHIN = 5.0  # seconds for the last look of a drain
ROTATED = 2  # rotated files in the first listing of a container from which on older ones may be gone
REPEAT = 300.0  # seconds between two warnings of one trouble


class Copies:
    """Paths are relative to the root, and those of a moment: an answer is ready before a file gets its name."""

    tells_losses = False  # whether ``gap`` tells of each loss between files, so that their names need not

    def gap(self, path: str) -> str:
        """Why bytes before those of the file are missing; empty: none are."""
        return ""

    def ending(self, path: str) -> str:
        """How the generation ends, where the files alone do not tell; as in ``Ended``."""
        return ""

    def notes(self, path: str) -> tuple[str, ...]:
        """Words for the notes of the generation."""
        return ()

    def stored(self, receiver: str, path: str) -> None:
        """*receiver* has all of the file, which has not got its last name yet, or no later bytes follow."""

    def came(self, directory: str) -> bool:
        """Whether the container in *directory* is newer than the first look at the others."""
        return False

    def blind(self, directory: str) -> str:
        """Why the container in *directory* cannot be read at present, though it may have later bytes; empty: it can."""
        return ""

    def seen(self, directory: str) -> float:
        """The beginning of the latest look at the container in *directory* that left nothing to copy; seconds of the
        monotonic clock.
        """
        return math.inf


async def unless(draining: asyncio.Event, work: Coroutine[object, None, None]) -> None:
    """Do *work* until it is done, or *draining* is set. Raises what it raises."""
    tasks = asyncio.create_task(work), asyncio.create_task(draining.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            await tasks[0]
    finally:
        for task in tasks:
            task.cancel()


def made_in(directory: str | None, prefix: str) -> str:
    """A new directory for copies in *directory*, by default that of temporary files. Raises NotAllowed."""
    try:
        return tempfile.mkdtemp(prefix=prefix, dir=directory)
    except OSError as error:
        raise no_copies(directory or "the directory of temporary files", error) from error


def no_copies(directory: str, error: OSError) -> NotAllowed:
    return NotAllowed(f"copies of logs cannot be kept in {legible(directory)}: {error.strerror}")


class Sender(Protocol):
    """What an agent runs."""

    async def run(self) -> int: ...

    def drain(self) -> None: ...


class Copying(Copies):
    """Copies that are made until ``drain``."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()
        self._said: dict[str, float] = {}

    def drain(self) -> None:
        self._draining.set()

    def _say(self, sentence: str) -> None:
        """Log *sentence*, about what is tried again, now and then."""
        now = time.monotonic()
        if now - self._said.get(sentence, -REPEAT) >= REPEAT:
            self._said[sentence] = now
            log.warning("%s; retrying", sentence)
