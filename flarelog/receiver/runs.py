"""The runs that a receiver knows: their states, which the store remembers, and their ends.

A run begins with its first stream or by an announcement, and ends when its streams have. Where a receiver has several
workers, home decides the states, and the others learn them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from flarelog.bus import Bus
from flarelog.delivery.shares import RunShares
from flarelog.errors import StoreError
from flarelog.lifecycle import Event, RunState, advance, events_between
from flarelog.names import run_name
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.workers.cluster import Workers
from flarelog.stores.base import Store

log = logging.getLogger(__name__)

SEALED_EVERY = 1.0  # seconds between two looks at whether all streams of a run that is to end are sealed
RECORD_AGAIN = 1.0  # seconds, after a run's state could not be recorded

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Does some work, which raises nothing, beside the calls, for as long as the receiver serves."""


class Runs:
    """For one event loop."""

    def __init__(
        self, store: Store, bus: Bus, options: ServerOptions, sessions: Sessions, workers: Workers | None, spawn: Spawn
    ) -> None:
        self.shares = RunShares(options, certified=options.tls is not None)
        self._store, self._bus, self._sessions = store, bus, sessions
        self._end_timeout, self._workers, self._spawn = options.end_timeout, workers, spawn
        self._states: dict[str, RunState] = {}
        self._recording: set[str] = set()  # runs whose state is still to be recorded
        self._finishing: dict[str, asyncio.Task[None]] = {}  # by run: what awaits its end

    async def recall(self) -> None:
        """Learn which runs the store holds, before any other is known."""
        found = {run: one for run, one in (await self._store.runs()).items() if one.state is not RunState.UNKNOWN}
        self._states = {run: one.state for run, one in found.items()}
        self.shares.known({run: found[run].maker for run in self.unended()})

    @property
    def states(self) -> dict[str, RunState]:
        """Of those that are known."""
        return dict(self._states)

    def unended(self) -> list[str]:
        """The runs that have not ended."""
        return [run for run, state in self._states.items() if state is not RunState.ENDED]

    def state(self, run: str) -> RunState:
        return self._states.get(run, RunState.UNKNOWN)

    # --- what happens

    async def register(self, run: str, event: Event, maker: str = "") -> None:
        """Take in that *event* happened to *run*, which the site *maker* began, or else whoever may announce runs;
        harmless when repeated. Raises InvalidName, Full.
        """
        before = self.state(run_name(run))
        after = advance(before, event)
        if after is before:
            return
        if after is RunState.ENDED:
            self.shares.over(run)
        elif before in (RunState.UNKNOWN, RunState.ENDED):
            self.shares.begins(run, maker)
        self.learn(run, after)
        if self._workers is not None:
            self._workers.tell(run, after.value)
        await self._keep(run)

    async def announce(self, run: str, event: Event, maker: str = "") -> RunState:
        """Raise *event* for *run*, with the events that it implies, on the bus and here; *maker* as of ``register``."""
        for implied in events_between(self.state(run_name(run)), event):
            await self.register(run, implied, maker)
            self._bus.publish(implied, run)
        if not maker and self.shares.announced(run):
            await self._keep(run)
        return self.state(run)

    def learn(self, run: str, state: RunState) -> None:
        """*run* is in *state*, as home says."""
        self._states[run] = state
        if state is RunState.ENDING:
            for session in self._sessions.of(run):
                session.acknowledge()  # the next reply says that the run is ending

    def forget(self, run: str) -> None:
        """*run* is no longer in the store, and is none of those that are known."""
        self._states.pop(run, None)
        self.shares.over(run)
        if run in self._finishing:
            self._finishing.pop(run).cancel()  # it would end a new run of that name

    # --- what is recorded

    async def _keep(self, run: str) -> None:
        """Record the state of *run*, by and by if it cannot be now."""
        if run in self._recording:
            return
        state = self.state(run)
        try:
            await self._store.set_run(run, state, self.shares.maker(run))
        except StoreError as error:
            # A run must neither wait for a disk that is full nor be lost to it.
            log.warning("run %s is %s, but that could not be recorded yet: %s", run, state.value, error)
            self._recording.add(run)
            self._spawn(self._record(run))

    async def _record(self, run: str) -> None:
        recorded = None
        while recorded is not self.state(run):
            await asyncio.sleep(RECORD_AGAIN)
            with contextlib.suppress(StoreError):
                state = self.state(run)
                if state is RunState.UNKNOWN:
                    break  # it was removed
                await self._store.set_run(run, state, self.shares.maker(run))
                recorded = state
        self._recording.discard(run)

    # --- ends

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no stream of *run* is open; False if some still are after *timeout* seconds."""
        if self._workers is None:
            return await self._sessions.join(run, timeout)
        return all(await asyncio.gather(self._sessions.join(run, timeout), self._workers.join(run, timeout)))

    def finish(self, run: str, patience: float = 0.0) -> asyncio.Task[None]:
        """End *run* when its streams have, however often a peer says that it is to end. *patience*: seconds that those
        get after a restart which are not sealed.
        """
        if run not in self._finishing:
            self._finishing[run] = self._spawn(self._finish(run, patience))
        return self._finishing[run]

    async def _finish(self, run: str, patience: float) -> None:
        try:
            await self.all_sealed(run, patience)
            if not await self.join(run, self._end_timeout):
                log.warning("run %s: streams are still open at its end", run)
        finally:
            if self._finishing.get(run) is asyncio.current_task():
                del self._finishing[run]
        if self.state(run) is not RunState.UNKNOWN:  # it was not removed meanwhile
            await self.announce(run, Event.END_RUN)

    async def all_sealed(self, run: str, patience: float) -> None:
        """Wait until all that is held of *run* is sealed, *patience* seconds at most."""
        clock = asyncio.get_running_loop().time
        end = clock() + patience
        while clock() < end and not await self._all_sealed(run):
            await asyncio.sleep(min(SEALED_EVERY, end - clock()))

    async def _all_sealed(self, run: str) -> bool:
        """Whether all that is held of *run* is sealed, so that nobody needs to come back for it."""
        if self._workers is not None:
            return False  # what the others hold is not known here
        some = False
        try:
            async with contextlib.aclosing(self._store.list(f"{run}/")) as streams:
                async for info in streams:
                    if not info.sealed:
                        return False
                    some = True
        except StoreError:
            return False
        return some
