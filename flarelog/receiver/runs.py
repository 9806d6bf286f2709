"""The runs of a receiver: their states, which the store records, and their ends.

A run begins with its first stream or by an announcement, and ends after its streams. With several workers, home decides
the states and tells the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from flarelog.bus import Bus
from flarelog.delivery.shares import RunShares
from flarelog.errors import StoreError
from flarelog.lifecycle import Event, RunState, advance, events_between
from flarelog.model import StreamId
from flarelog.names import run_name
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.workers.cluster import Workers
from flarelog.stores.base import Store
from flarelog.stores.runs import runs, set_run

log = logging.getLogger(__name__)

MET_EVERY = 0.05  # seconds between two checks whether the streams of an ending run were reopened
AGAIN_EVERY = 0.5  # seconds between two lists of the streams of a run
LOOK_EVERY = 1.0  # seconds between two looks at the states that other receivers have recorded
LOOK_RESTS = 20  # times as long as a look took, the next one waits
EVENTS = {
    RunState.REGISTERED: Event.ABOUT_TO_START_RUN,
    RunState.RUNNING: Event.START_RUN,
    RunState.ENDING: Event.ABOUT_TO_END_RUN,
    RunState.ENDED: Event.END_RUN,
}
RECORD_AGAIN = 1.0  # seconds until a retry, after the state of a run could not be recorded

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Runs a coroutine, which must not raise, as a task that ends with the receiver."""


class Runs:
    """The runs of one event loop. *is_away*: whether a stream belongs to this process and was not opened since its
    start; *waits*: whether the producer of a log of a run was told to wait, and is still there; *lost*: whether a log
    of a run has lost its producer, which may come back.
    """

    def __init__(
        self,
        store: Store,
        bus: Bus,
        options: ServerOptions,
        sessions: Sessions,
        workers: Workers | None,
        is_away: Callable[[StreamId], bool],
        spawn: Spawn,
        waits: Callable[[str], bool] = lambda run: False,
        lost: Callable[[str], bool] = lambda run: False,
    ) -> None:
        self.shares = RunShares(options, certified=options.tls is not None)
        self._store, self._bus, self._sessions = store, bus, sessions
        self._end_timeout, self._idle_timeout = options.end_timeout, options.idle_timeout
        self._workers, self._spawn = workers, spawn
        self._states: dict[str, RunState] = {}
        self._recording: set[str] = set()  # runs whose state is not recorded yet
        self._finishing: dict[str, asyncio.Task[None]] = {}  # by run: the task that waits for its end
        self._is_away, self._waits, self._lost = is_away, waits, lost
        self._heard: dict[str, RunState] = {}  # the recorded states at the latest look
        self._recalled: set[str] = set()  # runs that had not ended when an earlier receiver stopped
        self._back_by = -math.inf  # deadline for their producers to come back, by the event loop's time

    async def recall(self) -> None:
        """Load the runs of the store, before any other run; gives their producers the idle timeout to come back."""
        self._back_by = asyncio.get_running_loop().time() + self._idle_timeout
        found = {run: one for run, one in (await runs(self._store)).items() if one.state is not RunState.UNKNOWN}
        self._states = {run: one.state for run, one in found.items()}
        self._recalled = set(self.unended())
        self.shares.known({run: found[run].maker for run in self._recalled})

    @property
    def states(self) -> dict[str, RunState]:
        """The states of all known runs."""
        return dict(self._states)

    def unended(self) -> list[str]:
        """The runs that have not ended."""
        return [run for run, state in self._states.items() if state is not RunState.ENDED]

    def state(self, run: str) -> RunState:
        return self._states.get(run, RunState.UNKNOWN)

    # --- events

    async def register(self, run: str, event: Event, maker: str = "") -> None:
        """Apply *event* to *run*, which the site *maker* started; empty: it was announced. Idempotent. Raises
        InvalidName, Full.
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
        """Raise *event* for *run*, with all events that it implies, here and on the bus. *maker*: see ``register``."""
        for implied in events_between(self.state(run_name(run)), event):
            await self.register(run, implied, maker)
            self._bus.publish(implied, run)
        if not maker and self.shares.announced(run):
            await self._keep(run)
        return self.state(run)

    def learn(self, run: str, state: RunState) -> None:
        """Set the *state* of *run*, which home has decided."""
        self._states[run] = state
        if state is RunState.ENDING:
            for session in self._sessions.of(run):
                session.acknowledge()  # the reply says that the run is ending

    # --- what the other receivers of a shared store decide

    async def watch(self) -> None:
        """Learn the states that other receivers of the store record, and which runs they remove."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            with contextlib.suppress(StoreError):  # the next look may succeed
                await self._look()
            await asyncio.sleep(max(LOOK_EVERY, LOOK_RESTS * (clock() - began)))

    async def recorded_state(self, run: str) -> RunState:
        """The state of *run*, which another receiver of the store may just have recorded."""
        if self.state(run) is RunState.UNKNOWN and self._store.space is None:
            await self._look()
        return self.state(run)

    async def _look(self) -> None:
        self.hear({run: one.state for run, one in (await runs(self._store)).items()})

    def hear(self, recorded: Mapping[str, RunState]) -> None:
        """Learn *recorded*, the states of all runs in the store. An old one decides nothing: states advance, except
        that a run that has ended is announced again.
        """
        for run in self._heard.keys() - recorded.keys():
            if not self.sends(run) and run not in self._recording:
                self.forget(run)
        before, self._heard = self._heard, dict(recorded)
        for run, state in recorded.items():
            own = self.state(run)
            if state in (own, before.get(run), RunState.UNKNOWN) or run in self._recording:
                continue
            events = events_between(own, EVENTS[state])
            for event in events:
                self._bus.publish(event, run)
            if events:
                self.learn(run, state)
            if events and state is RunState.ENDING:
                self.finish(run)  # the receiver that was asked to end it may die before

    async def _sealed(self, run: str) -> None:
        """Wait until all streams of *run* have a receipt, at whichever receiver, or the end timeout is over."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._end_timeout
        while clock() < end:
            with contextlib.suppress(StoreError):
                async with contextlib.aclosing(self._store.list(f"{run}/")) as streams:
                    if all([info.sealed async for info in streams]):
                        return
            await asyncio.sleep(AGAIN_EVERY)

    def forget(self, run: str) -> None:
        """Drop *run*, which the store no longer has."""
        self._states.pop(run, None)
        self._recalled.discard(run)
        self.shares.over(run)
        if run in self._finishing:
            self._finishing.pop(run).cancel()  # it would end a new run of that name

    # --- the record

    async def _keep(self, run: str) -> None:
        """Record the state of *run*; retry in the background if the store fails."""
        if run in self._recording:
            return
        state = self.state(run)
        try:
            await set_run(self._store, run, state, self.shares.maker(run))
        except StoreError as error:
            # A full disk must neither delay a run nor lose its state.
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
                await set_run(self._store, run, state, self.shares.maker(run))
                recorded = state
        self._recording.discard(run)

    # --- ends

    def sends(self, run: str) -> bool:
        """Whether a producer of *run* is connected to this process, or paused and retrying."""
        return bool(self._sessions.of(run)) or self._waits(run)

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no producer sends *run* or may come back; returns False after *timeout* seconds."""
        if self._workers is None:
            return await self.left(run, timeout)
        return all(await asyncio.gather(self.left(run, timeout), self._workers.join(run, timeout)))

    async def left(self, run: str, timeout: float) -> bool:
        """As ``join``, for the streams of this process. After a restart it waits for streams without a receipt until
        they are reopened, for the idle timeout at most, as after a lost connection. A paused producer opens its stream
        for a moment again and again, so closed streams alone do not end the wait.
        """
        clock = asyncio.get_running_loop().time
        end, away = clock() + timeout, None
        while run in self._recalled and clock() < min(end, self._back_by):
            away = await self._away(run) if away is None else [one for one in away if self._is_away(one)]
            if away == []:
                break
            await asyncio.sleep(AGAIN_EVERY if away is None else MET_EVERY)
        while await self._sessions.join(run, end - clock()):
            if not self._waits(run) and not self._lost(run):
                return True
            if clock() >= end:
                return False
            await asyncio.sleep(min(AGAIN_EVERY, end - clock()))
        return False

    async def _away(self, run: str) -> list[StreamId] | None:
        """The streams of *run* without a receipt that were not reopened yet; None if the store has no stream of it, or
        fails.
        """
        try:
            async with contextlib.aclosing(self._store.list(f"{run}/")) as streams:
                found = [info async for info in streams]
        except StoreError:
            return None
        return [one.stream for one in found if not one.sealed and self._is_away(one.stream)] if found else None

    def finish(self, run: str) -> asyncio.Task[None]:
        """End *run* after its streams; returns the task, which is one for repeated calls."""
        if run not in self._finishing:
            self._finishing[run] = self._spawn(self._finish(run))
        return self._finishing[run]

    async def _finish(self, run: str) -> None:
        try:
            if self._store.space is None:
                await self._sealed(run)
            if not await self.join(run, self._end_timeout):
                log.warning("run %s: streams are still open at its end", run)
        finally:
            if self._finishing.get(run) is asyncio.current_task():
                del self._finishing[run]
        if self.state(run) is not RunState.UNKNOWN:  # it was not removed meanwhile
            await self.announce(run, Event.END_RUN)
