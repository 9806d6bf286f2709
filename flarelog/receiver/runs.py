"""The runs of a receiver: their states, which the store records, and their ends.

A run begins with its first stream or by an announcement, and ends after its streams. With several workers, home decides
the states and tells the others. Of receivers that share a store each may decide: what counts is the record, which is
read before it is changed, when another receiver tells of a change, and from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any
from weakref import WeakValueDictionary

from flarelog.bus import Bus
from flarelog.delivery.shares import RunShares
from flarelog.errors import StoreError
from flarelog.lifecycle import Event, RunState, advance, events_between
from flarelog.model import StreamId
from flarelog.names import run_name
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.others import Others
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.workers.cluster import Workers
from flarelog.stores.base import Store
from flarelog.stores.runs import STATES, RunRecord, changes, record_of, runs, set_run

log = logging.getLogger(__name__)

MET_EVERY = 0.05  # seconds between two checks whether the streams of an ending run were reopened
AGAIN_EVERY = 0.5  # seconds between two lists of the streams of a run
LOOK_EVERY = 5.0  # seconds between two looks whether the first receiver must end a run
RECALL_EVERY = 6  # looks between two reads of all records: what another receiver told may be lost
RECORD_AGAIN = 1.0  # seconds until a retry, after the state of a run could not be recorded

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Runs a coroutine, which must not raise, as a task that ends with the receiver."""


class Runs:
    """The runs of one event loop. *is_away*: whether a stream belongs to this process and was not opened since its
    start; *waits*: whether the producer of a log of a run was told to wait, and is still there; *lost*: the logs of a
    run that have lost their producers, which may come back; *met*: those of its logs that were opened here.
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
        others: Others,
        waits: Callable[[str], bool],
        lost: Callable[[str], Collection[StreamId]],
        met: Callable[[str], Collection[StreamId]],
    ) -> None:
        self.shares = RunShares(options, certified=options.tls is not None)
        self._store, self._bus, self._sessions = store, bus, sessions
        self._end_timeout, self._idle_timeout = options.end_timeout, options.idle_timeout
        self._workers, self._spawn, self._others = workers, spawn, others
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._states: dict[str, RunState] = {}
        self._recording: set[str] = set()  # runs whose state is not recorded yet
        self._finishing: dict[str, asyncio.Task[None]] = {}  # by run: the task that waits for its end
        self._is_away, self._waits, self._lost, self._met = is_away, waits, lost, met
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
        async with self._lock(run_name(run)):
            before = self.state(run)
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
            await self._keep(run, again=before is RunState.ENDED)
        await self._others.tell("Run", run)

    async def announce(self, run: str, event: Event, maker: str = "") -> RunState:
        """Raise *event* for *run*, with all events that it implies, here and on the bus. *maker*: see ``register``."""
        for implied in events_between(await self.recorded(run_name(run)), event):
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

    # --- the other receivers

    async def recorded(self, run: str) -> RunState:
        """The state of *run*, which another receiver may just have recorded. Raises Unavailable."""
        if self._others.may_be:
            async with self._lock(run):
                raw = await self._store.note(STATES, run)
                if raw:
                    self._hear(run, record_of(raw))
                elif self.state(run) is not RunState.UNKNOWN and not (self.sends(run) or run in self._recording):
                    self.forget(run)  # another receiver has removed it
        return self.state(run)

    async def told(self, run: str) -> None:
        """Learn the state of *run*, which another receiver has changed."""
        with contextlib.suppress(StoreError):
            await self.recorded(run)

    def _hear(self, run: str, record: RunRecord) -> None:
        if record.state in (self.state(run), RunState.UNKNOWN) or run in self._recording:
            return
        if record.state is RunState.ENDED:
            self.shares.over(run)
        else:
            self.shares.known({run: record.maker})
        self.learn(run, record.state)
        self._end_as_first(run)

    def _end_as_first(self, run: str) -> None:
        """End *run* if it is ending: the receiver that was asked to end it may die before that."""
        if self.state(run) is RunState.ENDING and self._others.is_first:
            self.finish(run)

    async def watch(self) -> None:
        """Learn what the other receivers record, and end what they leave, for ever."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_EVERY)
            looks += 1
            if looks % RECALL_EVERY == 0:
                with contextlib.suppress(StoreError):
                    await self._recall_again()
            for run in self.unended():
                self._end_as_first(run)

    async def _recall_again(self) -> None:
        found = await runs(self._store)
        for run, record in found.items():
            if record.state is not self.state(run):
                await self.recorded(run)
        for run in self.states.keys() - found.keys():
            await self.recorded(run)

    def _lock(self, run: str) -> asyncio.Lock:
        """Whoever holds it reads or writes the record of *run*, so that an old one is not taken for a new one."""
        return self._changing.setdefault(run, asyncio.Lock())

    def forget(self, run: str) -> None:
        """Drop *run*, which the store no longer has."""
        self._states.pop(run, None)
        self._recalled.discard(run)
        self.shares.over(run)
        if run in self._finishing:
            self._finishing.pop(run).cancel()  # it would end a new run of that name

    # --- the record

    async def _keep(self, run: str, *, again: bool = False) -> None:
        """Record the state of *run*; retry in the background if the store fails. *again*: it had ended before."""
        if run in self._recording:
            return
        state = self.state(run)
        try:
            await set_run(self._store, run, state, self.shares.maker(run), again=again)
        except StoreError as error:
            # A full disk must neither delay a run nor lose its state.
            log.warning("run %s is %s, but that could not be recorded yet: %s", run, state.value, error)
            self._recording.add(run)
            self._spawn(self._record(run, again))

    async def _record(self, run: str, again: bool) -> None:
        recorded = None
        while recorded is not self.state(run):
            await asyncio.sleep(RECORD_AGAIN)
            with contextlib.suppress(StoreError):
                state = self.state(run)
                if state is RunState.UNKNOWN:
                    break  # it was removed
                await set_run(self._store, run, state, self.shares.maker(run), again=again)
                recorded = state
        self._recording.discard(run)
        await self._others.tell("Run", run)

    # --- ends

    def sends(self, run: str) -> bool:
        """Whether a producer of *run* is connected to this process, or paused and retrying."""
        return bool(self._sessions.of(run)) or self._waits(run)

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no producer sends *run* or may come back; returns False after *timeout* seconds."""
        if self._others.may_be:
            return await self._left_everywhere(run, timeout)
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

    async def producers(self, run: str) -> tuple[bool, list[list[str]], list[list[str]]]:
        """Whether a producer sends *run* to this receiver; the site and name of each log that has lost its own; and of
        each that was opened here.
        """
        lost, met = ([[one.site, one.log] for one in those] for those in (self._lost(run), self._met(run)))
        return self.sends(run), lost, met

    async def _left_everywhere(self, run: str, timeout: float) -> bool:
        """As ``join``, at receivers that share a store: until no producer sends *run* to any of them, and each log
        without a receipt was left at one of them. A receiver that does not answer may have such logs.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while self.state(run) is RunState.ENDING:
            told = await self._others.ask("Producers", run)
            every = [await self.producers(run), *told.answers]
            with contextlib.suppress(StoreError):
                if not any(sends for sends, _, _ in every):
                    lost = {StreamId(run, *one) for _, those, _ in every for one in those}
                    met = {StreamId(run, *one) for _, _, those in every for one in those}
                    async with contextlib.aclosing(self._store.list(f"{run}/")) as streams:
                        unsealed = {info.stream async for info in streams if not info.sealed}
                    if unsealed <= met - lost:
                        return True
            if clock() >= end:
                return False
            await asyncio.sleep(min(AGAIN_EVERY, end - clock()))
        return True  # another receiver has ended it

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
            if not await self.join(run, await self._end_within(run)):
                log.warning("run %s: streams are still open at its end", run)
        finally:
            if self._finishing.get(run) is asyncio.current_task():
                del self._finishing[run]
        if self.state(run) is not RunState.UNKNOWN:  # it was not removed meanwhile
            try:
                await self.announce(run, Event.END_RUN)
            except StoreError as error:  # the first receiver ends it later
                log.warning("run %s: its end could not be recorded yet: %s", run, error)

    async def _end_within(self, run: str) -> float:
        """Seconds that the streams of *run* have to end, from the time at which it was asked to end."""
        if self._others.may_be:
            with contextlib.suppress(StoreError):
                at = max((one.at for one in changes(await self._store.note(STATES, run))), default=0)
                return max(0.0, self._end_timeout - max(0.0, time.time() - at / 1000)) if at else self._end_timeout
        return self._end_timeout
