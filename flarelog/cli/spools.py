"""The spools below an agent's root that their ``flarelog run`` left behind, because it was killed or no receiver came.

A spool is sent whole, and removed once every receiver has all of it. Its lock tells whether a ``flarelog run``, or the
command that it printed, still has it: then it is theirs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import cache, partial

from flarelog.backoff import delay
from flarelog.errors import FAILED, GAPS, OK, FlarelogError, NotAllowed
from flarelog.sender.ending import Sending
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import worst
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.unmatched import left_out
from flarelog.sources.process import names
from flarelog.text import legible, several

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds between two looks
SHARE = 20  # the pause after a look is at least so many times as long as the look
FIRST, LONGEST = 5.0, 300.0  # seconds before another attempt at a spool


def removed(root: str, logs: SourceOptions) -> str:
    """Remove the spool *root*, whose *logs* are stored; otherwise return the sentence that says why it is kept."""
    if kept := left_out(logs):
        return f"{root} is kept: the site's policy leaves out {several(len(kept), 'file')}"
    if hidden := names.hidden_files(root):
        return f"{root} is kept: hidden files are not sent, such as {hidden[0]}"
    names.remove(root)
    return ""


class LeftSpools:
    """Sends the spools of *site* below *root*. *logs* makes the options of a spool from its directory, and *targets*
    those of its run's sidecars.
    """

    def __init__(
        self,
        root: str,
        site: str,
        logs: Callable[[str], SourceOptions],
        targets: Callable[[str, SourceOptions], Sequence[SidecarOptions]],
        *,
        once: bool,
    ) -> None:
        self._root, self._site, self._logs, self._targets, self._once = root, site, logs, targets, once
        self.any = any(spool.site == site for spool in names.spools(root))  # whether there was one at the start
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._codes: dict[str, int] = {}
        self._say = cache(partial(log.warning, "%s"))  # each sentence once
        self._sending: list[Sending] = []
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Send the present spool to its end, and no other one; idempotent."""
        self._draining.set()
        for sending in self._sending:
            sending.drain()

    def reread(self) -> bool:
        """As ``Sending.reread``, for the spool that is being sent."""
        read = [sending.reread() for sending in self._sending]  # a list: any() alone would stop at the first
        return any(read)

    async def run(self) -> int:
        """Send until drained, and return the exit code."""
        while not self._draining.is_set():
            began = time.monotonic()
            found = await asyncio.to_thread(lambda: list(names.spools(self._root)))
            pause = max(EVERY, SHARE * (time.monotonic() - began))
            for spool in found:
                if spool.site != self._site:
                    self._say(f"{legible(spool.root)} is not sent: it is a spool of site {legible(spool.site)}")
                elif not self._draining.is_set() and time.monotonic() >= self._not_before.get(spool.root, 0.0):
                    await self._send(spool)
            if self._once:
                break
            try:
                await asyncio.wait_for(self._draining.wait(), pause)
            except TimeoutError:
                continue
        return worst(self._codes.values())

    async def _send(self, spool: names.Spool) -> None:
        root = spool.root
        try:
            locks = names.lock_all(root)
        except FileNotFoundError:  # it was removed at this moment
            return
        except NotAllowed:
            if self._once:  # otherwise the agent looks again
                self._say(f"{legible(root)} is not sent: a flarelog run, or a command that sends it, has it")
            return
        except OSError as error:
            self._say(f"{legible(root)} is not sent: {os.strerror(error.errno or 0)}")
            self._codes[root] = FAILED
            return
        try:
            code, why = await self._sent(spool)
        except FlarelogError as error:
            code, why = error.exit_code, str(error)
        finally:
            for lock in locks:
                os.close(lock)
            self._sending = []
        self._codes[root] = code
        if why:
            self._say(why)
        if code in (OK, GAPS):
            log.info("run %s: the spool %s is stored%s", spool.run, legible(root), "" if why else " and removed")
            self._not_before.pop(root, None)
        failures = self._failures[root] = self._failures.get(root, -1) + 1
        if os.path.isdir(root):
            self._not_before[root] = time.monotonic() + delay(failures, FIRST, LONGEST)

    async def _sent(self, spool: names.Spool) -> tuple[int, str]:
        """The exit code for *spool*, and a sentence where it is stored, but kept."""
        logs = self._logs(spool.root)
        self._sending = [Sending(options) for options in self._targets(spool.run, logs)]
        outcomes = await asyncio.gather(*(sending.run() for sending in self._sending))
        code = worst(outcome.exit_code for outcome in outcomes)
        why = await asyncio.to_thread(removed, spool.root, logs) if code in (OK, GAPS) else ""
        return (FAILED if why else code), why
