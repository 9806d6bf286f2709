"""The receiving process: it connects the parts of the receiver, starts them and stops them.

No message of a peer can end more than that peer's own call.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from flarelog.bus import Bus
from flarelog.delivery.quota import Quota
from flarelog.delivery.receiver import Refused
from flarelog.errors import FlarelogError
from flarelog.lifecycle import Event, RunState
from flarelog.model import Code, StreamId
from flarelog.names import is_loopback, parse_address
from flarelog.policy import OPEN, Policy
from flarelog.receiver.admission import Admission
from flarelog.receiver.call import Call
from flarelog.receiver.callers import Callers
from flarelog.receiver.control import Control
from flarelog.receiver.elsewhere import Elsewhere
from flarelog.receiver.findings import Findings
from flarelog.receiver.happenings import Happenings
from flarelog.receiver.intake import Intake
from flarelog.receiver.listening import Listening
from flarelog.receiver.lists import Lists
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.others import Answers, Others
from flarelog.receiver.peers import Peers
from flarelog.receiver.reads import Reads
from flarelog.receiver.recording import Recording
from flarelog.receiver.removals import Removals
from flarelog.receiver.runs import Runs
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.standing import Standing
from flarelog.receiver.states import States
from flarelog.receiver.taken import Taken
from flarelog.receiver.unopened import Unopened
from flarelog.receiver.windows import Lately, Pressure
from flarelog.receiver.workers.cluster import Workers
from flarelog.security.context import Context
from flarelog.security.guard import Guard
from flarelog.stores.base import Extent, Store
from flarelog.wire import service

log = logging.getLogger(__name__)

STOP_GRACE = 3.0  # seconds that a stopping receiver gives its calls
STOP_WITHIN = 15.0  # seconds after which it stops, even if received bytes are not committed yet
ANY_HOST = ("0.0.0.0", "[::]", "::")  # noqa: S104  compared, not bound
STOPPING = "the receiver is stopping"


class Server:
    """A receiver of many runs, in one event loop. ``start`` returns its address, and ``stop`` ends it. With *workers*
    it is one of several processes, and relays a call to the worker that has its site.
    """

    def __init__(
        self,
        store: Store,
        options: ServerOptions | None = None,
        bus: Bus | None = None,
        workers: Workers | None = None,
    ) -> None:
        options = self.options = options or ServerOptions()
        self.store, self.workers, self.bus = store, workers, bus or Bus()
        self.is_home = workers is None or workers.home  # whether this process decides the states of runs
        self.others = others = Others(store.shared)
        self._tasks: set[asyncio.Task[None]] = set()
        policy = options.policy or (Policy() if options.tls is not None else OPEN)
        tokens = options.tokens if options.reader_listen else None
        guard = self.guard = Guard(policy, tokens, tells=self.is_home)
        self.listening = Listening(options, guard, shared=workers is not None)
        self.sessions = sessions = Sessions()
        self.calls: set[Call] = set()
        self.quota, lately = Quota(options), Lately()
        self.states = States(options.idle_timeout, time.monotonic, time.time)
        mine = workers.place.mine if workers is not None else (lambda run, site: True)

        def is_away(stream: StreamId) -> bool:
            return mine(stream.run, stream.site) and not self.states.met(stream)

        elsewhere = self.elsewhere = Elsewhere(others, self.states, sessions)
        searched = (store, mine, sessions.appender, elsewhere.has, lambda: others.is_first)
        self.findings = Findings(*searched) if options.findings == "on" else None
        if self.findings is not None:
            others.gone = self.findings.look_again
        self.happenings = Happenings(store, lambda: time.time_ns() // 1_000_000)
        self.unopened = Unopened(store, lambda stream: self.admission.lets_in(stream), self.states.drop)
        self.recording = Recording(self.happenings, self.unopened)

        def asking(run: str, site: str = "") -> list[StreamId]:
            held = (*self.happenings.paused, *self.unopened.logs)
            return [one for one in held if one.run == run and site in ("", one.site) and self.states.asks(one)]

        self.pressure = Pressure(options, sessions, lately)
        taken = self.taken = Taken(others, self.quota, self.pressure)
        callers = Callers(options, guard, Peers(options, lately.said), workers)
        runs = self.runs = Runs(
            *(store, self.bus, options, sessions, workers, is_away, self.spawn, others),
            waits=lambda run: bool(asking(run)),
            lost=lambda run: self.intake.lost(run),
            met=self.states.of_run,
        )
        self.removals = Removals(
            store,
            runs,
            sessions,
            self.states,
            workers,
            others,
            self._forget,
            self.spawn,
            lately,
            self.unopened.waits,
            asking,
        )
        self.admission = Admission(store, options, runs, sessions, self.quota, workers, others, self.removals.check)
        self.intake = Intake(
            options,
            workers.incarnation if workers is not None else os.urandom(8),
            self.bus,
            callers,
            self.admission,
            runs,
            sessions,
            self.states,
            self.happenings,
            self.unopened,
            self.quota,
            self.pressure,
            lately,
            self.findings.grew if self.findings is not None else _nothing,
            self.findings.ends if self.findings is not None else _nothing,
            taken.take,
            self._went_on if others.may_be else None,
            self.spawn,
        )
        self.lists = Lists(store, callers, runs, sessions, self.states, self.findings, self.unopened, elsewhere)
        self.control = Control(callers, runs, self.admission, self.removals)
        self._reads, self._callers = Reads(store, callers), callers

    @property
    def address(self) -> str:
        """``HOST:PORT``; empty before ``start``."""
        return self.listening.address

    @property
    def reader_address(self) -> str:
        return self.listening.reader_address

    async def start(self) -> str:
        """Listen, and return ``HOST:PORT``. Raises CannotListen."""
        await self.runs.recall()
        if self.workers is not None:
            await self._meet_workers(self.workers)
        await self.listening.start(self._handlers)
        if self.others.may_be:
            await self.meet_others(self.address)
            self.spawn(self.others.run())
            self.spawn(self.runs.watch())
            if self.taken.counts:
                self.spawn(self.taken.run())
        self.spawn(self.pressure.watch())
        self.spawn(self._count_inodes())
        self.spawn(self.recording.run())
        if self.findings is not None:
            self.spawn(self.findings.run())
        port, age = parse_address(self.address)[1], self.options.max_connection_age
        self.spawn(Standing(self.guard, self.sessions, self.calls, age, port, self.spawn).run())
        if self.is_home:
            self.spawn(self.removals.clear())  # the rest of removals before a crash
        for run, state in self.runs.states.items():
            if state is RunState.ENDING and self.is_home:
                self.runs.finish(run)
        self.bus.publish(Event.SYSTEM_START)
        return self.address

    def _handlers(self, meet: service.Meet) -> list[Any]:
        control = self.control
        return service.handlers(
            self.push,
            self._reads.read,
            self.lists.streams,
            control.start_run,
            control.end_run,
            control.get_run,
            counted=self._callers.counted,
            meet=meet,
            list_runs=self.lists.runs,
            remove_run=control.remove_run,
            timeline=self.lists.timeline,
            findings=self.lists.findings,
        )

    async def push(self, _: Any, context: Context) -> None:
        call = Call(self.intake, context)
        self.calls.add(call)
        try:
            await call.run()
        finally:
            self.calls.discard(call)

    async def _count_inodes(self) -> None:
        try:
            if (space := self.store.space) is not None:
                await space.count_inodes()
        except FlarelogError as error:
            log.warning("the files of earlier runs could not be counted, so they do not count in a limit: %s", error)

    async def _meet_workers(self, workers: Workers) -> None:
        async def learn() -> None:
            async for run, state in workers.told():
                self.runs.learn(run, RunState(state))

        def known() -> dict[str, str]:
            return {run: state.value for run, state in self.runs.states.items()}

        removals = self.removals
        answers: dict[str, Callable[..., Awaitable[Any]]] = {
            "Admit": self.admission.admit_elsewhere,
            "Join": self.runs.left,
            "Hold": removals.hold,
            "LetGo": removals.let_go,
            "Waits": removals.waits,
        }
        await workers.start(self._handlers(workers.meet), answers, known)
        if not workers.home:
            self.spawn(learn())

    async def meet_others(self, address: str) -> None:
        """Meet the other receivers of the store, and answer them."""
        host, port = parse_address(address)
        own = host if not is_loopback(host) and host not in ANY_HOST else socket.gethostname()
        removals = self.removals
        answers: Answers = {
            "Run": self.runs.told,
            "Producers": self.runs.producers,
            "Hold": removals.hold_elsewhere,
            "LetGo": removals.let_go,
            "Took": self.taken.told,
            "States": self.elsewhere.answer,
        }
        await self.others.start(f"{own}:{port}", answers)

    async def stop(self) -> None:
        """Accept no new calls, finish the running appends, tell the producers, and close.

        Takes little more than STOP_WITHIN seconds, even if a call or a disk hangs.
        """
        for call in self.calls:
            call.ended = STOPPING
        for session in self.sessions:
            session.refuse(Refused(Code.GOING_AWAY, STOPPING))
        stopping = self.listening.stop(STOP_GRACE)
        if self.workers is not None:
            stopping.append(asyncio.create_task(self.workers.stop(STOP_GRACE)))
        if stopping and (await asyncio.wait(stopping, timeout=STOP_WITHIN))[1]:
            log.error(
                "%d calls did not end within %g s; their uncommitted bytes are sent again",
                len(self.calls),
                STOP_WITHIN,
            )
        self.guard.look(0, at_once=True)
        left = [*stopping, *self._tasks]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=STOP_GRACE)
        await self.recording.close()
        if self.findings is not None:
            await self.findings.close()
        self.intake.close()
        await self.others.stop()
        if self.workers is not None:
            await self.workers.close()
        self.bus.publish(Event.SYSTEM_END)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *work*, which must not raise, as a task that ends with the receiver."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def expire(self, run: str, was: Extent, why: str) -> None:
        """Remove *run*, if *was* is still its extent, because of *why*; a producer that sends to it later starts anew.

        Raises NotFound, InUse, Unavailable.
        """
        found = await self.removals.remove(run, barred=False, was=was)
        log.info("run %s: removed, because %s", run, why)
        self.guard.removed("this receiver", self.address, run, "", found)

    async def _went_on(self, stream: StreamId) -> bool:
        """Whether *stream*, which was left here, went on at another receiver, or has its receipt."""
        own = self.states.of(stream)
        if (await self.elsewhere.of(stream.run, stream.site)).state(stream, own).receiver != self.others.name:
            return True
        info = await self.store.info(stream)
        return info is None or info.sealed

    def _forget(self, run: str, site: str) -> None:
        """Forget *run*, or *site* in it, which the store no longer has, unless a session of it is open."""
        if self.sessions.of(run, site):
            return
        if not site:
            self.runs.forget(run)
        self.admission.forget(run)
        if self.findings is not None:
            self.findings.forget(run, site)
        self.intake.forget(run, site)
        if self.workers is not None:
            self.workers.forget(run, site)


def _nothing(stream: StreamId) -> None:
    """Do nothing: the search for findings is off."""
