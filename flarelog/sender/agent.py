"""The agent: one process that sends many runs of a site, one directory below a root each.

The agent seals the logs of a run that is over, but does not end the run: other sites may still send it. The runs share
connections; each has its own call, its own streams, and its own end. A run that fails, or is fenced or refused, holds
up no other run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping

import grpc

from flarelog.errors import (
    FAILED,
    GAPS,
    NOT_FOUND,
    OK,
    TIMEOUT,
    CannotConnect,
    FlarelogError,
    GoesOn,
    InvalidOption,
    NotFound,
    TimedOut,
)
from flarelog.model import Started
from flarelog.names import shown
from flarelog.options import option
from flarelog.sender import starts
from flarelog.sender.ending import Sending
from flarelog.sender.link import Channels
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome, worst
from flarelog.sender.runs import Runs
from flarelog.sources import choose
from flarelog.sources.base import Contents, Wanted
from flarelog.text import several
from flarelog.values import changed, frozen
from flarelog.wire import listing
from flarelog.wire.heartbeat import REPLY_TIMEOUT
from flarelog.wire.uplink import ENDED

log = logging.getLogger(__name__)

LOOK_EVERY, LOOK_AT_LEAST = 1.0, 15.0  # seconds between two looks at the root
SHARE = 20  # the pause after a look is at least so many times the look's CPU time
RUNS_A_CONNECTION = 80  # a receiver accepts 200 calls over a connection, and a run may make two at the same time


@frozen
class AgentOptions:
    """Which directories are runs, and when a run is over. Raises InvalidOption."""

    run_from: str = option(
        "path:{run}/**",
        "Which directories are runs: a path with {run}. Of pods also: label:KEY, job or jobset.",
        metavar="PATTERN",
    )
    idle: float = option(
        300.0, "Seconds without a new byte after which a run is over. A later byte resumes the run.", unit="seconds"
    )

    def __post_init__(self) -> None:
        if not 0.1 <= self.idle <= 1e9:
            raise InvalidOption(f"idle must be a number of seconds from 0.1 to 1e9, not {self.idle:g}")


class Agent:
    """Sends the runs that *source* finds to one receiver. *sidecar* makes the options of a run from its name and its
    source. *others*: whether something else below the root is sent.
    """

    def __init__(
        self,
        source: Wanted,
        options: AgentOptions,
        sidecar: Callable[[str, Wanted], SidecarOptions],
        *,
        others: bool = False,
    ) -> None:
        self._others = others
        self._sidecar, sample = sidecar, sidecar("run", source)
        self._source = choose.runs(source, options.run_from, state=sample.state)
        self._once, self._limit = sample.once, sample.drain_limit
        self._runs = Runs(options.idle, once=self._once)
        self._connections: list[tuple[Channels, set[str]]] = []
        self._sending: dict[str, Sending] = {}
        self._directories: dict[str, str] = {}  # of the runs that are being sent
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._outcomes: dict[str, Outcome] = {}  # of runs whose latest sending failed or had gaps
        self._any = False  # whether any run was sent
        self._said: set[str] = set()
        # By run: the id by which the receiver knows its producer, the same for all attempts, and when it was asked for.
        self._producers: dict[str, tuple[bytes, Started | None]] = {}
        self._finishing = self._unanswered = False
        self._draining, self._ended = asyncio.Event(), asyncio.Event()

    def drain(self) -> None:
        """Send all present bytes and end; idempotent."""
        self._draining.set()

    def reread(self) -> bool:
        """Read the certificates again, even if they seem unchanged; returns False if there are none."""
        read = [channels.reread() for channels, _ in self._connections]  # a list: any() alone would stop at the first
        return any(read)

    async def run(self) -> int:
        """Send until drained, and return the exit code. Raises NotFound if the root never appeared."""
        waiting, limit = False, math.inf
        while True:
            if self._draining.is_set() and not self._finishing:
                self._finishing = True
                self._runs.finish()
                limit = time.monotonic() + (self._limit or math.inf)
            found, cost = await asyncio.to_thread(self._look)
            if found is None and not waiting and not self._once:
                log.info("waiting for %s", self._source.root)
                waiting = True
            runs, troubles = found or ({}, [])
            self._say(troubles)
            if not (runs or waiting or self._once or found is None or self._said):
                log.info("waiting for a run: %s has no directory that --run-from finds", self._source.root)
                waiting = True
            if not self._unanswered:
                self._step(runs)
            if self._over() or time.monotonic() >= limit:
                break
            await self._pause(runs, min(max(LOOK_EVERY, SHARE * cost), LOOK_AT_LEAST, limit - time.monotonic()))
        return await self._close(missing=found is None)

    def _over(self) -> bool:
        """Whether nothing is left to send, or no receiver answers."""
        if not (self._once or self._finishing):
            return False
        return not (self._runs.sending if self._unanswered else self._runs.left)

    async def _close(self, *, missing: bool) -> int:
        left = self._runs.left
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for channels, _ in self._connections:
            await channels.close()
        if not self._any and missing:
            raise NotFound(f"--root {self._source.root} does not exist; nothing was sent")
        if not self._any and self._once and not self._said and not self._others:
            why = await asyncio.to_thread(self._source.unmatched)
            what = f"--root {self._source.root} has no log in a directory of a run"
            raise NotFound(f"{what}{f': {why}' if why else ''}; nothing was sent")
        if left:
            log.error("%d more run%s not sent; a restarted agent sends them", left, " was" if left == 1 else "s were")
        codes = [outcome.exit_code for outcome in self._outcomes.values()] + [FAILED] * bool(self._said)
        if unknown := self._source.unknown():
            log.error("%s", unknown)
        codes += [TIMEOUT] * bool(left) + [NOT_FOUND] * bool(unknown)
        return worst(codes)

    def _look(self) -> tuple[tuple[Mapping[str, tuple[Wanted, Contents]], list[str]] | None, float]:
        """The runs below the root, None if it is missing; and the CPU time of the look in seconds."""
        began = time.thread_time()
        return self._source.look(), time.thread_time() - began

    async def _pause(self, runs: Mapping[str, tuple[Wanted, Contents]], seconds: float) -> None:
        """Wait for the next look. When a run ends meanwhile, the next waiting run starts at once."""
        until = time.monotonic() + seconds
        before = self._draining.is_set()
        while (left := until - time.monotonic()) > 0 and self._draining.is_set() is before:
            self._ended.clear()
            waits = [asyncio.create_task(self._ended.wait())]
            if not before:
                waits.append(asyncio.create_task(self._draining.wait()))
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if self._over():
                return
            if not self._unanswered:
                self._step(runs)

    def _say(self, troubles: Iterable[str]) -> None:
        for trouble in troubles:
            if trouble not in self._said:
                self._said.add(trouble)
                log.warning("%s", trouble)

    def _step(self, found: Mapping[str, tuple[Wanted, Contents]]) -> None:
        for run, directory in self._directories.items():
            if run in found and found[run][0].directory != directory:  # it was moved: the rest is sent from there
                self._sending[run].drain()
        steps = self._runs.look({run: seen for run, (_, seen) in found.items()}, time.monotonic(), time.time())
        leaving = self._finishing and not self._once
        for gone in self._producers.keys() - found.keys():
            del self._producers[gone]
        for run in (*steps.live, *steps.past):
            options = self._sidecar(run, found[run][0])
            past = run in steps.past
            # A log that the receiver's record shows as sealed is not reopened, unless its files hold more.
            producer, started = self._producers.setdefault(run, (os.urandom(16), options.started))
            options = changed(options, once=past, again=True, heed=not past, producer=producer, started=started)
            channels, runs = self._connection(options)
            runs.add(run)
            try:
                self._sending[run] = Sending(options, channels=channels)
            except FlarelogError as error:
                log.error("run %s: %s", shown(run), error)
                self._end(run, Outcome((), (), error))
                continue
            self._directories[run] = found[run][0].directory
            self._tasks[run] = asyncio.create_task(self._send(run))
            if past and leaving:
                self._sending[run].leave()
        for run in steps.drain:
            if leaving:
                self._sending[run].leave()
            else:
                self._sending[run].drain()
        for run in steps.asked:
            self._tasks[f"? {run}"] = asyncio.create_task(self._ask(run, self._sidecar(run, found[run][0])))

    async def _ask(self, run: str, options: SidecarOptions) -> None:
        """Check whether the newer process that took over *run* has sealed all its logs; if so, take the run back."""
        channels, _ = self._connection(options)
        free = False
        with contextlib.suppress(grpc.RpcError, TimeoutError, FlarelogError, *ENDED):
            streams = await listing.streams(channels.current(), run, options.site, silence=REPLY_TIMEOUT)
            free = all(info.sealed for info in streams)
        del self._tasks[f"? {run}"]
        self._runs.free(run, time.monotonic(), free=free)
        if free:
            self._producers[run] = os.urandom(16), starts.now()  # later than the newer process

    def _connection(self, options: SidecarOptions) -> tuple[Channels, set[str]]:
        for channels, runs in self._connections:
            if len(runs) < RUNS_A_CONNECTION:
                return channels, runs
        self._connections.append((Channels(options), set()))
        return self._connections[-1]

    async def _send(self, run: str) -> None:
        try:
            outcome = await self._sending[run].run()
        finally:
            del self._sending[run], self._tasks[run], self._directories[run]
        self._end(run, outcome)

    def _end(self, run: str, outcome: Outcome) -> None:
        for _, runs in self._connections:
            runs.discard(run)
        code = outcome.exit_code
        if code in (OK, GAPS):
            self._outcomes.pop(run, None)
            going = sum(isinstance(one.error, GoesOn) for one in outcome.streams)
            stored = (
                f"all of it so far is stored; {several(going, 'log')} may go on" if going else "all of it is stored"
            )
            log.info("run %s: %s", shown(run), outcome.lacks.loss or stored)
        if code != OK:
            self._outcomes[run] = outcome
        self._any = True
        unanswered = isinstance(outcome.error, CannotConnect | TimedOut)  # not for one log of the run alone
        self._unanswered = self._unanswered or (unanswered and (self._once or self._finishing))
        fenced = outcome.fenced is not None
        final = outcome.final and not fenced
        self._runs.ended(run, time.monotonic(), well=code in (OK, GAPS), final=final, fenced=fenced)
        self._ended.set()
