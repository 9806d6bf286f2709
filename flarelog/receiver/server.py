"""The receiving process: Push, Read, List and control, over delivery, store and bus.

What all calls share is here: runs and their ends, who may do what, what one peer may ask, who sends. Nothing that one
peer sends can end more than its own call; the calls that bring logs are in ``session``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from flarelog.bus import Bus
from flarelog.delivery.quota import Limits, Quota, share
from flarelog.delivery.rates import Breath, Pace
from flarelog.delivery.receiver import Refused
from flarelog.errors import CannotListen, FlarelogError, InvalidOption, NotFound, StoreError
from flarelog.lifecycle import Event, RunState, advance, events_between
from flarelog.model import Action, Code, Removed, StreamId
from flarelog.names import is_loopback, parse_address, run_name, site_name
from flarelog.policy import NOBODY, OPEN, Identity, Policy
from flarelog.receiver.admission import Admission
from flarelog.receiver.happenings import Happenings
from flarelog.receiver.lists import Lists
from flarelog.receiver.peers import Patience, Peers, Turns
from flarelog.receiver.removals import Removals
from flarelog.receiver.session import Call, Session
from flarelog.receiver.standing import Standing
from flarelog.receiver.states import States
from flarelog.receiver.workers import Passed, Workers, said_of
from flarelog.render.sieving import Sieving
from flarelog.security.access import PolicyFile
from flarelog.security.callers import key_of
from flarelog.security.connections import AGE, MAX_AGE, aging
from flarelog.security.guard import Guard, identity_of
from flarelog.security.tls import ServerCertificates, Tls
from flarelog.security.tokens import Tokens
from flarelog.stores.base import Store
from flarelog.stores.local.chronicle import CLOSED, LEFT, OPENED
from flarelog.wire import codec as wire
from flarelog.wire.packing import Unpacking
from flarelog.wire.uplink import IDLE_TIMEOUT

log = logging.getLogger(__name__)

LISTEN = "127.0.0.1:4721"
STOP_GRACE = 3.0  # seconds that a stopping receiver gives its calls
STOP_WITHIN = 15.0  # seconds after which it stops though what was taken is still being committed
SAY_EVERY = 30.0  # seconds between two log lines about the same pressure
SHARE_EVERY = 1.0  # seconds between two looks at who is sending
ANSWER_WITHIN = (2.0, 10.0)  # seconds, from and to, while producers are asked to gather lines
ANSWERS = 250.0  # a second: an answer costs as much as a message, and tells of all that came before it
LATE = 0.1  # seconds: with so much behind, the loop does not keep up
ONE_OF_MANY = 100.0  # messages a second: whoever sends more is by himself, and nobody else is slowed down for it
BUSY = 256 << 10  # bytes that a stream took since the last such look, which make it one that is sending
SEALED_EVERY = 1.0  # seconds between two looks at whether all streams of a run that is to end are sealed
RECORD_AGAIN = 1.0  # seconds, after a run's state could not be recorded
RATE_BURST = 4 << 20  # bytes
SLOWED = 0.5  # seconds between two replies to a producer that is slowed down, so that it does not think it is lost
GATHERED, GATHER = 16 << 10, 0.02  # bytes, seconds: what follows a smaller piece waits for more to go with it
SIEVED, SIEVE_SECONDS = (4 << 10, 64 << 10), 0.005  # bytes that are sieved at once, from and to; how long it may take
TELL_EVERY = 0.5  # seconds between two words on how far a sieve is, where it keeps nothing
UNPACKED = 2  # chunks that are in memory unpacked: one is stored while the next is unpacked


@dataclass(frozen=True, slots=True)
class ServerOptions(Limits):
    """How a receiver serves, and how much it takes. Raises InvalidOption."""

    listen: str = LISTEN  # HOST:PORT; port 0 takes a free one
    idle_timeout: float = IDLE_TIMEOUT  # seconds of silence after which a call is ended, and its streams with it
    announced_runs_only: bool = False  # a run that nobody announced is answered EXECUTION_EXCEPTION
    tls: Tls | None = None  # only certificates of this CA get in
    insecure: bool = False  # let other machines in without TLS
    policy: Policy | PolicyFile | None = None  # None: what Policy() says with TLS, and everything without
    reader_listen: str = ""  # HOST:PORT for readers and operators who show a token instead of a certificate
    tokens: Tokens | None = None  # who is let in there
    end_timeout: float = 60.0  # seconds that an ending run waits for its streams
    compression: bool = True  # take chunks that are compressed
    max_connection_age: float = AGE  # seconds after which a peer is to connect anew; what it sends goes on there

    def __post_init__(self) -> None:
        Limits.__post_init__(self)
        host, _ = parse_address(self.listen)
        if self.tls is None and not self.insecure and not is_loopback(host):
            raise InvalidOption(
                f"{self.listen} is open to other machines: give --tls-ca, --tls-cert and --tls-key, or say --insecure"
            )
        if self.tls is not None:
            self.tls.whole()
        if self.reader_listen:
            self._check_readers()
        if not 0.1 <= self.idle_timeout < math.inf:
            raise InvalidOption(f"idle_timeout must be a number of seconds from 0.1 on, not {self.idle_timeout:g}")
        if not 0 < self.end_timeout < math.inf:
            raise InvalidOption(f"end_timeout must be a positive number of seconds, not {self.end_timeout:g}")
        if not 1 <= self.max_connection_age <= MAX_AGE:
            raise InvalidOption(f"max_connection_age must be a number of seconds from 1 to {MAX_AGE}")

    def _check_readers(self) -> None:
        _, port = parse_address(self.reader_listen)
        if self.tls is None:
            raise InvalidOption(
                f"--reader-listen {self.reader_listen} is of no use without TLS: a token would go unencrypted, and"
                " everybody may read at --listen; give --tls-ca, --tls-cert and --tls-key, or leave it out"
            )
        if self.tokens is None:
            raise InvalidOption("reader_listen needs the tokens of those who are let in there")
        if self.reader_listen == self.listen and port:
            raise InvalidOption(
                f"--listen and --reader-listen are both {self.listen}: name two ports, one for certificates and one for"
                " tokens"
            )


class Server:
    """A receiver of many runs. ``start`` returns its address, ``stop`` ends it; both are for one event loop. With
    *workers* it is one of several processes: what a peer sends or asks for goes to the one that has its site.
    """

    def __init__(
        self,
        store: Store,
        options: ServerOptions | None = None,
        bus: Bus | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.store = store
        self.workers = workers
        self.options = options or ServerOptions()
        self.bus = bus or Bus()
        self.incarnation = workers.incarnation if workers is not None else os.urandom(8)
        self.address = self.reader_address = ""
        self.quota = Quota(self.options)
        policy = self.options.policy or (Policy() if self.options.tls is not None else OPEN)
        self.guard = Guard(policy, self.options.tokens if self.options.reader_listen else None, tells=self.is_home)
        self._certificates: ServerCertificates | None = None
        self.peers = Peers(self.options, self.said)
        self._run_rate = Pace(self.options.max_run_rate, RATE_BURST)
        self._site_rate = Pace(self.options.max_site_rate, RATE_BURST)
        self.admission = Admission(self)
        self.lists = Lists(self)
        self._sieving = Turns()
        self._sieved_at_once = SIEVED[1] // 4  # nobody knows yet how long it takes
        self.ending = Turns()
        self.unpacking = Unpacking(taken=self.options.compression)
        self.unpacked = Turns(UNPACKED)  # by site as well
        self.writing = Turns()  # by site: whoever sends much, over however many streams, is one of those who write
        self._finishing: dict[str, asyncio.Task[None]] = {}  # by run: what awaits its end
        self._runs: dict[str, RunState] = {}
        self._recording: set[str] = set()  # runs whose state is still to be recorded
        self._said: dict[str, float] = {}
        self._sessions: dict[StreamId, Session] = {}
        self._busy = 0  # of them
        self.calls: set[Call] = set()
        self._breath = Breath()
        self.answer_within = ANSWER_WITHIN[0]  # seconds, of what need not be answered at once
        self._silent: dict[StreamId, asyncio.TimerHandle] = {}
        self.states = States(self.options.idle_timeout, time.monotonic, time.time)
        self.removals = Removals(self)
        self.happenings = Happenings(store, lambda: time.time_ns() // 1_000_000)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[grpc.aio.Server] = []  # one a port

    async def start(self) -> str:
        """Listen, and return ``HOST:PORT``. Raises CannotListen."""
        await self.recall()
        if self.workers is not None:
            await self._meet_workers(self.workers)
        if self.options.tls is not None:
            self._certificates = self.guard.certificates = ServerCertificates(self.options.tls)
        self.address = self._bind(self.options.listen, self.guard.meet)
        if self.options.reader_listen:
            self.reader_address = self._bind(self.options.reader_listen, self.guard.meet_token, demanded=False)
        for server in self._servers:
            await server.start()
        self.spawn(self._share())
        self.spawn(self.happenings.run())
        self.spawn(Standing(self).run())
        if self.is_home:
            self.spawn(self.removals.clear())  # what a crash left
        for run in [run for run, state in self._runs.items() if state is RunState.ENDING and self.is_home]:
            self._finish(run, self.options.end_timeout)
        self.bus.publish(Event.SYSTEM_START)
        return self.address

    def _bind(self, address: str, meet: wire.Meet, *, demanded: bool = True) -> str:
        """Take *address* for calls that *meet* lets in, and return ``HOST:PORT``; *demanded*: certificates are.

        Raises CannotListen.
        """
        age = aging(self.options.max_connection_age) if self._certificates is not None else []
        server = wire.server(self.options.max_connections, shared=self.workers is not None, more=age)
        server.add_generic_rpc_handlers(self._handlers(meet))
        host, port = parse_address(address)
        try:
            if self._certificates is not None:
                bound = server.add_secure_port(f"{host}:{port}", self._certificates.credentials(demanded=demanded))
            else:
                bound = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError:
            bound = 0
        if not bound:
            raise CannotListen(
                f"the address {address} cannot be had: another process listens there, or it is not this machine's; name"
                " another port (0 takes a free one)"
            )
        self._servers.append(server)
        return f"{host}:{bound}"

    def _handlers(self, meet: wire.Meet) -> list[Any]:
        runs: list[Any] = [self._start_run, self._end_run, self._get_run]
        if self.workers is not None and not self.workers.home:
            runs = [partial(self._ask_home, self.workers, method) for method in ("StartRun", "EndRun", "GetRun")]
        more: dict[str, Any] = {"list_runs": self.lists.runs, "remove_run": self._remove_run}
        return wire.handlers(self._push, self._read, self.lists.streams, *runs, counted=self.call, meet=meet, **more)

    async def _meet_workers(self, workers: Workers) -> None:
        async def states() -> None:
            async for run, state in workers.told():
                self._learn(run, RunState(state))

        known = self._runs
        handlers = self._handlers(workers.meet)
        removing = self.removals.hold, self.removals.let_go
        states_now = lambda: {run: at.value for run, at in known.items()}  # noqa: E731
        await workers.start(handlers, self.admission.admit_elsewhere, self._join, *removing, states_now)
        if not workers.home:
            self.spawn(states())

    async def stop(self) -> None:
        """Accept nothing new, finish what is being appended, tell the producers, and close.

        It ends in little more than STOP_WITHIN seconds, whatever a call or a disk does.
        """
        for call in self.calls:
            call.ended = "the receiver is stopping"
        for session in list(self._sessions.values()):
            session.leave(Code.GOING_AWAY, "the receiver is stopping")
        stopping = [asyncio.create_task(server.stop(STOP_GRACE)) for server in self._servers]
        if self.workers is not None:
            stopping.append(asyncio.create_task(self.workers.stop(STOP_GRACE)))
        if stopping and (await asyncio.wait(stopping, timeout=STOP_WITHIN))[1]:
            log.error(
                "%d calls did not end within %g s; what they brought and was not committed is sent again",
                *(len(self.calls), STOP_WITHIN),
            )
        self.guard.look(0, at_once=True)
        for timer in self._silent.values():
            timer.cancel()
        for task in (*stopping, *self._tasks):
            task.cancel()
        if left := [*stopping, *self._tasks]:
            await asyncio.wait(left, timeout=STOP_GRACE)
        await self.happenings.close()
        self.unpacking.close()
        if self.workers is not None:
            await self.workers.close()
        self.bus.publish(Event.SYSTEM_END)

    # --- workers

    @property
    def is_home(self) -> bool:
        """Whether the states of runs are decided here."""
        return self.workers is None or self.workers.home

    def elsewhere(self, context: Any, run: str, site: str) -> int | None:
        """The worker that a call about *site* of *run* is to be passed on to, if it is not this one."""
        if self.workers is None or isinstance(context, Passed) or self.workers.place.mine(run, site):
            return None
        return self.workers.place.owner(run, site)

    def who(self, context: Any) -> bytes:
        """Who calls, for the worker that a call is passed on to."""
        identity = identity_of(context) if self.options.tls is not None else NOBODY
        return said_of(identity, context.peer(), self.guard.connection_of(context))

    async def _ask_home(self, workers: Workers, method: str, run: str, context: Any) -> str:
        try:
            async with self.call(context):
                return await workers.ask_home(method, run, context, self.who(context))
        except FlarelogError as error:
            await context.abort(wire.status_of(error), str(error))
            raise

    def _learn(self, run: str, state: RunState) -> None:
        """Home says that *run* is in *state*."""
        self._runs[run] = state
        self._hear_of(run)

    def _hear_of(self, run: str) -> None:
        if self.state(run) is RunState.ENDING:
            for session in self._of(run):
                session.acknowledge()  # the next reply says that the run is ending

    # --- runs

    async def recall(self) -> None:
        """Learn which runs the store holds, before any other is known."""
        self._runs, makers = await self.store.runs(), await self.store.makers()
        self.admission.runs.known({run: makers.get(run, "") for run in self.unended()})

    @property
    def runs(self) -> list[str]:
        """Those that are known."""
        return list(self._runs)

    def unended(self) -> list[str]:
        """The runs that have not ended."""
        return [run for run, state in self._runs.items() if state is not RunState.ENDED]

    def state(self, run: str) -> RunState:
        return self._runs.get(run, RunState.UNKNOWN)

    async def register(self, run: str, event: Event, maker: str = "") -> None:
        """Take in that *event* happened to *run*, which the site *maker* began, or else whoever may announce runs;
        harmless when repeated. Raises InvalidName, Full.
        """
        before, shares = self.state(run_name(run)), self.admission.runs
        after = advance(before, event)
        if after is before:
            return
        if after is RunState.ENDED:
            shares.over(run)
        elif before in (RunState.UNKNOWN, RunState.ENDED):
            shares.begins(run, maker)
        self._runs[run] = after
        if self.workers is not None:
            self.workers.tell(run, after.value)
        self._hear_of(run)
        await self._keep(run)

    async def _keep(self, run: str) -> None:
        """Record the state of *run*, by and by if it cannot be now."""
        if run in self._recording:
            return
        state = self.state(run)
        try:
            await self.store.set_run(run, state, self.admission.runs.maker(run))
        except StoreError as error:
            # A run must neither wait for a disk that is full nor be lost to it.
            log.warning("run %s is %s, which will be recorded when that is possible: %s", run, state.value, error)
            self._recording.add(run)
            self.spawn(self._record(run))

    async def _record(self, run: str) -> None:
        recorded = None
        while recorded is not self.state(run):
            await asyncio.sleep(RECORD_AGAIN)
            with contextlib.suppress(StoreError):
                state = self.state(run)
                if state is RunState.UNKNOWN:
                    break  # it was removed
                await self.store.set_run(run, state, self.admission.runs.maker(run))
                recorded = state
        self._recording.discard(run)

    async def announce(self, run: str, event: Event, maker: str = "") -> RunState:
        """Raise *event* for *run*, with the events that it implies, on the bus and here; *maker* as of ``register``."""
        for implied in events_between(self.state(run_name(run)), event):
            await self.register(run, implied, maker)
            self.bus.publish(implied, run)
        if not maker and self.admission.runs.announced(run):
            await self._keep(run)
        return self.state(run)

    def forget(self, run: str, site: str = "") -> None:
        """*run*, or *site* in it, is no longer in the store: it is none of those that are known, and whoever sends to
        it begins anew.
        """
        if self.sessions_of(run, site):
            return
        if not site:
            self._runs.pop(run, None)
            if run in self._finishing:
                self._finishing.pop(run).cancel()  # it would end a new run of that name
        self.admission.forget(run, site)
        self.states.forget(run, site)
        self.happenings.forget(run, site)
        self.quota.forget(run, site)
        for stream in [one for one in self._silent if one.run == run and site in ("", one.site)]:
            self._silent.pop(stream).cancel()
        if self.workers is not None:
            self.workers.forget(run, site)

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no stream of *run* is open; False if some still are after *timeout* seconds."""
        if self.workers is None:
            return await self._join(run, timeout)
        return all(await asyncio.gather(self._join(run, timeout), self.workers.join(run, timeout)))

    async def _join(self, run: str, timeout: float) -> bool:
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while (waiting := [session.closed for session in self._of(run)]) and clock() < end:
            await asyncio.wait(waiting, timeout=end - clock())
        return not waiting

    def _of(self, run: str) -> list[Session]:
        return self.sessions_of(run)

    def sessions_of(self, run: str, site: str = "") -> list[Session]:
        """Those that are open, of *run* or of *site* in it."""
        sessions = self._sessions.values()
        return [one for one in sessions if one.stream.run == run and site in ("", one.stream.site)]

    def is_open(self, stream: StreamId) -> bool:
        return stream in self._sessions

    def _finish(self, run: str, patience: float = 0.0) -> None:
        if run not in self._finishing:  # however often a peer says that it is to end
            self._finishing[run] = self.spawn(self._finish_run(run, patience))

    async def _finish_run(self, run: str, patience: float = 0.0) -> None:
        """End *run* when its streams have; *patience*: seconds that those get after a restart which are not sealed."""
        try:
            await self.all_sealed(run, patience)
            if not await self.join(run, self.options.end_timeout):
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
        if self.workers is not None:
            return False  # what the others hold is not known here
        some = False
        try:
            async with contextlib.aclosing(self.store.list(f"{run}/")) as streams:
                async for info in streams:
                    if not info.sealed:
                        return False
                    some = True
        except StoreError:
            return False
        return some

    # --- who may do what

    @property
    def policy(self) -> Policy:
        """As it is now."""
        return self.guard.policy

    def asks(self, context: Any, action: Action, run: str | None = None, site: str | None = None) -> Identity:
        """Who it is that asks for *action*. Raises NotAllowed: he may not."""
        return self.guard.asks(context, action, run, site)

    def reread(self) -> None:
        """Read certificates, policy and tokens again though they seem unchanged, and say what came of it."""
        if self._certificates is not None:
            self._certificates.reread()
        if not self.guard.reread() and self._certificates is None:
            log.info("there is nothing to read again: this receiver has neither certificates nor a policy's file")

    def sessions(self) -> list[Session]:
        """All streams that are open."""
        return list(self._sessions.values())

    # --- calls

    async def _push(self, _: Any, context: Any) -> None:
        call = Call(self, context)
        self.calls.add(call)
        try:
            await call.run()
        finally:
            self.calls.discard(call)

    def peer_of(self, context: Any) -> str:
        """Whose calls are counted together: those of one certificate or token; of nobody, those of one address."""
        identity = identity_of(context) if self.options.tls is not None else NOBODY
        return key_of(identity) if identity != NOBODY else context.peer().rpartition(":")[0]

    def call(self, context: Any) -> contextlib.AbstractAsyncContextManager[None]:
        """Count a call of a peer, and let it wait if there are too many. Raises Full."""
        return self.peers.call(context, self.peer_of(context))

    @contextlib.asynccontextmanager
    async def reading(self, context: Any) -> AsyncIterator[tuple[str, Patience]]:
        """A call that reads or lists: it is dropped when it takes nothing, and told why when it may not."""
        try:
            peer = self.peer_of(context)
            async with self.peers.reading(context, peer) as patience:
                yield peer, patience
        except FlarelogError as error:
            await context.abort(wire.status_of(error), str(error))

    async def _read(self, request: Any, context: Any) -> AsyncIterator[wire.Found | bytes]:
        async with self.reading(context) as (peer, patience):
            wanted = wire.read_request(request)
            async with contextlib.aclosing(self._reads(request, wanted, peer, context)) as found:
                async for piece in found:
                    with patience:
                        yield piece

    async def _reads(
        self, request: Any, wanted: wire.Wanted, peer: str, context: Any
    ) -> AsyncGenerator[wire.Found | bytes, None]:
        stream = wanted.stream
        owner = self.elsewhere(context, stream.run, stream.site)
        if self.workers is not None and owner is not None:
            async with contextlib.aclosing(self.workers.read(owner, request, context, self.who(context))) as raw:
                async for piece in raw:
                    yield piece
            return
        identity = self.asks(context, Action.READ, stream.run, stream.site)
        read = partial(self.store.read, stream, follow=wanted.follow)
        reads = self.guard.reads(identity, context.peer(), stream, wanted.start, read)
        async with contextlib.aclosing(reads) as pieces:
            async for found in self._found(wanted, peer, pieces):
                yield found

    async def _found(
        self, wanted: wire.Wanted, peer: str, pieces: AsyncIterator[tuple[int, bytes]]
    ) -> AsyncIterator[wire.Found]:
        """What *wanted* asks for, of *pieces* of its stream."""
        marks, clock = wanted.first_mark, asyncio.get_running_loop().time
        sieving = Sieving(wanted.sieve, wanted.start) if wanted.sieve is not None else None
        told = clock()
        async for offset, data in pieces:
            if wanted.stop:
                data = data[: max(0, wanted.stop - offset)]
            if marks is not None:
                for mark in await self.store.marks(wanted.stream, marks):
                    yield marks, mark
                    marks += 1
            if sieving is None:
                yield offset, data
            else:
                for at in range(0, len(data), size := self._sieved_at_once):
                    async with self._sieving.one(peer):  # whoever sends has a turn in between, and another reader
                        began = clock()
                        kept = sieving.feed(offset + at, data[at : at + size])
                        self._paced(clock() - began)
                    for found in kept:
                        yield found
                    if not kept and clock() - told > TELL_EVERY:
                        kept = [(sieving.position, b"")]
                        yield kept[0]
                    told = clock() if kept else told
            if wanted.stop and offset + len(data) >= wanted.stop:
                break
            if wanted.follow and len(data) < GATHERED:
                await asyncio.sleep(GATHER)
        if sieving is not None:
            for found in sieving.close():
                yield found
        if marks is not None:
            for mark in await self.store.marks(wanted.stream, marks):
                yield marks, mark
                marks += 1

    def _paced(self, took: float) -> None:
        """Sieve less at once where that takes so long that others notice."""
        if took > SIEVE_SECONDS:
            self._sieved_at_once = max(SIEVED[0], self._sieved_at_once // 2)
        elif took < SIEVE_SECONDS / 4:
            self._sieved_at_once = min(SIEVED[1], self._sieved_at_once * 2)

    async def _start_run(self, run: str, context: Any) -> str:
        try:
            async with self.call(context):
                self.asks(context, Action.START_RUN, run_name(run))
                return (await self.announce(run, Event.START_RUN)).value
        except FlarelogError as error:
            await context.abort(wire.status_of(error), str(error))
            raise

    async def _get_run(self, run: str, context: Any) -> str:
        try:
            async with self.call(context):
                identity = self.asks(context, Action.GET_RUN, run_name(run))
                return (self.state(run) if await self.admission.knows(identity, run) else RunState.UNKNOWN).value
        except FlarelogError as error:
            await context.abort(wire.status_of(error), str(error))
            raise

    async def _end_run(self, run: str, context: Any) -> str:
        try:
            async with self.call(context):
                self.asks(context, Action.END_RUN, run_name(run))
                if self.state(run) is RunState.UNKNOWN:
                    raise NotFound(f"this receiver knows no run {run}")
                await self.announce(run, Event.ABOUT_TO_END_RUN)
            if self.state(run) is RunState.ENDING:
                self._finish(run)
        except FlarelogError as error:
            await context.abort(wire.status_of(error), str(error))
        return self.state(run).value

    async def _remove_run(self, request: tuple[str, str, bool], context: Any) -> Removed:
        run, site, force = request
        try:
            async with self.call(context):
                if self.workers is not None and not self.workers.home:
                    return await self.workers.ask_home_to_remove(request, context, self.who(context))
                identity = self.asks(context, Action.DELETE, run_name(run), site_name(site) if site else None)
                found = await self.removals.remove(run, site, force=force)
                self.guard.removed(identity, context.peer(), run, site, found)
                return found
        except FlarelogError as error:
            await context.abort(wire.status_of(error), str(error))
            raise

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Do *work*, which raises nothing, beside the calls, for as long as the receiver serves."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _share(self) -> None:
        """Tell streams that have become quiet, or too many, that less of them should be on its way."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            await asyncio.sleep(SHARE_EVERY)
            for session in self._sessions.values():
                session.busy = session.taken >= BUSY
                session.taken = 0
            now = clock()
            self._breathe(now - began)
            began = now
            self._busy = sum(session.busy for session in self._sessions.values())
            for session in self._sessions.values():
                if session.told_window > 2 * self.window_of(session):  # as many open, not each of them needs a reply
                    session.acknowledge()  # the next reply tells

    def _breathe(self, took: float) -> None:
        """Slow down whoever sent very many messages in *took* seconds, and everybody only if many did."""
        heard = 0.0
        for call in self.calls:
            heard += min(call.messages / took, ONE_OF_MANY)
            call.breath.heard(call.messages / took)
            call.messages = 0
        self._breath.heard(heard, late=took > SHARE_EVERY + LATE)
        soonest, latest = ANSWER_WITHIN
        self.answer_within = soonest if self._breath.rising else min(max(soonest, len(self.calls) / ANSWERS), latest)

    def pace_of(self, call: Call) -> float:
        """Seconds that should pass between two chunks of a stream in *call* which are not full."""
        return max(self._breath.pace, call.breath.pace)

    def window_of(self, session: Session) -> int:
        """Bytes that *session* should have on their way at most.

        Those who send share what there is; of the others, each may begin as if all that are open did.
        """
        streams = self._busy if session.busy else len(self._sessions)
        return share(self.options.max_in_flight, streams)

    # --- streams

    async def slow_down(self, session: Session, size: int) -> None:
        """Wait until *size* bytes more are within what a run and a site may send a second."""
        if self._run_rate.rate is None and self._site_rate.rate is None:
            return
        stream, now = session.stream, asyncio.get_running_loop().time()
        waits = (
            (self._run_rate.wait(stream.run, size, now), "max_run_rate", f"run {stream.run}"),
            (self._site_rate.wait((stream.run, stream.site), size, now), "max_site_rate", f"site {stream.site}"),
        )
        wait, name, who = max(waits)
        if wait <= 0:
            return
        flag = f"--{name.replace('_', '-')}"
        sentence = f"{who} sends more than {getattr(self.options, name)} bytes a second ({flag}) and is slowed down"
        if not self.said(sentence):
            log.warning("%s", sentence)
        while wait > 0 and session.open:
            await asyncio.sleep(min(wait, SLOWED))
            wait -= SLOWED
            session.acknowledge()

    def entered(self, session: Session, producer: bytes) -> None:
        stream = session.stream
        self.quota.holds(stream, session.appender.committed)
        timer = self._silent.pop(stream, None)
        if timer is not None:
            timer.cancel()
        before = self._sessions.get(stream)
        self._sessions[stream] = session
        if before is not None:
            self._busy -= before.busy  # when it leaves, it is none of the sessions any more
            same = before.producer == producer
            before.leave(
                Code.GOING_AWAY if same else Code.FENCED,
                "its producer opened it again" if same else "a newer producer opened it",
            )
        self._busy += session.busy
        self.states.opened(stream, producer)
        if stream not in self.happenings.paused:
            self.happenings.note(stream, OPENED)
        log.info("%s: opened at offset %d", stream, session.appender.committed)
        self.bus.publish(Event.STREAM_OPENED, stream.run, stream=stream)

    def take(self, session: Session, size: int) -> None:
        """Count what a stream is about to append. Raises Full."""
        if self._sessions.get(session.stream) is not session:
            return  # another call has the stream, and of this one nothing will be stored
        self.quota.take(session.stream, size)
        self.admission.writes(session.stream, session.appender)
        self.states.took(session.stream, size)
        if size and self.happenings.paused:
            self.happenings.resume(session.stream)
        session.taken += size
        if session.taken >= BUSY and not session.busy:
            session.busy = True
            self._busy += 1

    def left(self, session: Session, sealed: bool) -> None:
        stream = session.stream
        if self._sessions.get(stream) is not session:
            return
        del self._sessions[stream]
        self._busy -= session.busy
        self.states.left(stream)
        if sealed:
            self.happenings.resume(stream)
        elif stream not in self.happenings.paused:
            self.happenings.note(stream, LEFT, session.left_because)
        self.quota.holds(stream, session.appender.committed)
        if sealed:
            log.info("%s: sealed at offset %d", stream, session.appender.committed)
            self.bus.publish(Event.STREAM_ENDED, stream.run, stream=stream, text="sealed by a receipt")
        else:
            loop = asyncio.get_running_loop()
            self._silent[stream] = loop.call_later(self.options.idle_timeout, self._timed_out, stream)

    def said(self, sentence: str) -> bool:
        """Whether *sentence* was said just now; if not, it counts as said."""
        now = asyncio.get_running_loop().time()
        if now - self._said.get(sentence, -math.inf) < SAY_EVERY:
            return True
        if len(self._said) > 1000:
            self._said.clear()
        self._said[sentence] = now
        return False

    def wrong(self, where: object, bug: Exception) -> Refused:
        """Say that the receiver itself failed at *where*, and return what its producer is told: to ask again."""
        if not self.said(f"{where}: {bug!r}"):
            log.error("%s: the receiver failed at it; what else it receives goes on", where, exc_info=bug)
        return Refused(Code.PAUSE, f"the receiver failed ({type(bug).__name__}): its own log says how")

    def _timed_out(self, stream: StreamId) -> None:
        self._silent.pop(stream, None)
        self.happenings.paused.pop(stream, None)
        self.happenings.note(stream, CLOSED)
        text = f"closed without a receipt: its producer has been gone for {self.options.idle_timeout:g} s"
        log.warning("%s: %s", stream, text)
        self.bus.publish(Event.STREAM_ENDED, stream.run, stream=stream, text=text, ok=False)
