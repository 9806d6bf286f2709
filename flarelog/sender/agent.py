"""One process that sends many runs of a site: directories below a root, each of which begins and ends by itself.

The runs share connections; each has its own call, its own streams, and its own end. One run that fails, is fenced or is
refused holds no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from flarelog.errors import GAPS, NOT_ALLOWED, OK, FlarelogError, InvalidOption, NotFound
from flarelog.options import option
from flarelog.sender.ending import Sending
from flarelog.sender.link import Channels
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome
from flarelog.sender.runs import Runs
from flarelog.sources import choose
from flarelog.sources.base import Contents, Wanted

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0  # seconds between two looks at the root
SHARE = 20  # a look that takes long is followed by a pause of so many times its length
RUNS_A_CONNECTION = 80  # a receiver takes 200 calls over a connection, and a run may make two at the same time


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Which directories are runs, and when a run is over. Raises InvalidOption."""

    run_from: str = option(
        "path:{run}/**",
        "Which directories below --root are runs: a path in which {run} is the run's name.",
        metavar="PATTERN",
    )
    idle: float = option(300.0, "Seconds without a new byte after which a run is over. A later byte resumes the run.")

    def __post_init__(self) -> None:
        if not 0.1 <= self.idle <= 1e9:
            raise InvalidOption(f"idle must be a number of seconds from 0.1 to 1e9, not {self.idle:g}")


class Agent:
    """Sends the runs that there are of *source* to one receiver. *sidecar* makes a run's options of its name and of
    what is wanted of it.
    """

    def __init__(self, source: Wanted, options: AgentOptions, sidecar: Callable[[str, Wanted], SidecarOptions]) -> None:
        self._source, self._sidecar = choose.runs(source, options.run_from), sidecar
        self._once = sidecar("run", source).once
        self._runs = Runs(options.idle, once=self._once)
        self._connections: list[tuple[Channels, set[str]]] = []
        self._sending: dict[str, Sending] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._outcomes: dict[str, Outcome] = {}  # of each run, the latest that did not end well
        self._any = False  # has any run been sent
        self._said: set[str] = set()
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Send what is there and end; harmless when repeated."""
        self._draining.set()

    def reread(self) -> bool:
        """Read the certificates again though they seem unchanged; False: there are none."""
        read = [channels.reread() for channels, _ in self._connections]  # all of them, whatever the first one has
        return any(read)

    async def run(self) -> int:
        """Send until drained; the exit code. Raises NotFound where the root never appeared."""
        waiting, found = False, None
        while not self._draining.is_set():
            began = time.monotonic()
            found = await asyncio.to_thread(self._source.look)
            if found is None and not waiting and not self._once:
                log.info("waiting for %s", self._source.root)
                waiting = True
            self._step(*found or ({}, []))
            if self._once and not self._runs.left:
                break
            pause = max(LOOK_EVERY, SHARE * (time.monotonic() - began))
            await self._paused(min(pause, 0.1) if self._once else pause)
        for sending in self._sending.values():
            sending.drain()
        await asyncio.gather(*self._tasks.values())
        for channels, _ in self._connections:
            await channels.close()
        if not self._any and found is None:
            raise NotFound(f"--root {self._source.root} does not exist; nothing was sent")
        if not self._any and self._once:
            raise NotFound(f"--root {self._source.root} has no log in a directory of a run; nothing was sent")
        codes = [outcome.exit_code for outcome in self._outcomes.values()]
        return NOT_ALLOWED if NOT_ALLOWED in codes else codes[0] if codes else OK

    async def _paused(self, seconds: float) -> None:
        waiting = [asyncio.create_task(self._draining.wait()), *(self._tasks.values() if self._once else ())]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        waiting[0].cancel()

    def _step(self, found: Mapping[str, tuple[Wanted, Contents]], troubles: list[str]) -> None:
        for trouble in troubles:
            if trouble not in self._said:
                self._said.add(trouble)
                log.warning("%s", trouble)
        steps = self._runs.look({run: seen for run, (_, seen) in found.items()}, time.monotonic(), time.time())
        for run in (*steps.live, *steps.past):
            options = self._sidecar(run, found[run][0])
            past = run in steps.past
            # What a run's record shows as sealed is not opened again, unless it holds more.
            options = replace(options, once=past, again=True, heed=not past)
            channels, runs = self._connection(options)
            runs.add(run)
            try:
                self._sending[run] = Sending(options, channels=channels)
            except FlarelogError as error:
                log.error("run %s: %s", run, error)
                self._ended(run, Outcome((), (), error))
                continue
            self._tasks[run] = asyncio.create_task(self._send(run))
        for run in steps.drain:
            self._sending[run].drain()

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
            del self._sending[run], self._tasks[run]
        self._ended(run, outcome)

    def _ended(self, run: str, outcome: Outcome) -> None:
        for _, runs in self._connections:
            runs.discard(run)
        code = outcome.exit_code
        if code in (OK, GAPS):
            self._outcomes.pop(run, None)
            log.info("run %s: all of it is stored", run)
        if code != OK:
            self._outcomes[run] = outcome
        self._any = True
        self._runs.ended(run, time.monotonic(), well=code in (OK, GAPS), final=code == NOT_ALLOWED)
