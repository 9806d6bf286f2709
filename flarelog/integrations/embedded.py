"""A receiver and a producer for any threaded program: they follow the run's events on a bus.

ABOUT_TO_START_RUN registers a run at the receiver, START_RUN starts its producers, ABOUT_TO_END_RUN asks them to
drain; these return at once. END_RUN waits for them within a bound. Nothing that happens to a log raises into the
program, and in a forked child all of it is inert: the logs are the parent's.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from flarelog.bus import Bus, Notice
from flarelog.delivery.quota import Limits
from flarelog.errors import FlarelogError, InvalidOption, TimedOut
from flarelog.integrations import background as _background
from flarelog.lifecycle import Event
from flarelog.model import parse_address
from flarelog.policy import Policy
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.security.tls import Tls
from flarelog.sender.ending import Sending, reach
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome
from flarelog.sources.consent import in_force
from flarelog.sources.files.patterns import SourceOptions
from flarelog.stores import choose
from flarelog.stores.base import Durability, Store
from flarelog.wire.packing import Compression
from flarelog.wire.uplink import IDLE_TIMEOUT

log = logging.getLogger(__name__)

T = TypeVar("T")

JOIN_TIMEOUT = 60.0  # seconds that END_RUN waits at most
EXIT_TIMEOUT = 5.0  # seconds that a program which ends without END_RUN is held up at most
REGISTER_TIMEOUT = 5.0  # seconds that the begin of a run waits for its receiver at most
KEPT_OUTCOMES = 100  # runs whose outcomes a producer remembers
_MARGIN = 1.0  # seconds that a bounded piece of work may exceed its own bound before it is given up


class _Embedded:
    """What both ends share: a place in the background, and a bus."""

    ends_last = False

    def __init__(self, bus: Bus | None, exit_timeout: float) -> None:
        if not 0 <= exit_timeout < math.inf:
            raise InvalidOption("exit_timeout must be a number of seconds, 0 or more")
        self.bus = bus or Bus()
        self._exit_timeout = exit_timeout
        self._inner = Bus()
        self._inner.subscribe(self._forward)
        self._background: _background.Background | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._lock = threading.Lock()  # of starting and stopping

    def start(self) -> Self:
        """Begin to follow the bus; harmless when repeated. Raises NotAllowed in a process that was forked from one that
        had used flarelog.
        """
        with self._lock:
            if self._background is None:
                background = _background.shared()
                try:
                    self._enter(background)
                except BaseException:
                    _background.release(background)
                    raise
                self._background = background
                background.members.append(self)
                self._unsubscribe = self.bus.subscribe(
                    self._on, Event.ABOUT_TO_START_RUN, Event.START_RUN, Event.ABOUT_TO_END_RUN, Event.END_RUN
                )
        return self

    def stop(self) -> None:
        """End within a bound; harmless when repeated."""
        with self._lock:
            background, self._background = self._background, None
        if background is None:
            return
        self._unsubscribe()
        try:
            self._leave(background)
        finally:
            background.members.remove(self)
            _background.release(background)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def forget(self) -> None:
        """This is a forked child: there is nothing to stop, and no event to follow."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._background = None
        self._unsubscribe()

    def drain(self) -> None: ...

    def end_at_exit(self, began: float) -> list[str]:
        return []

    def _enter(self, background: _background.Background) -> None: ...

    def _leave(self, background: _background.Background) -> None: ...

    def _follow(self, background: _background.Background, notice: Notice) -> None: ...

    def _on(self, notice: Notice) -> None:
        background = self._background
        if background is None:
            return
        try:
            self._follow(background, notice)
        except _background.Stopped:
            pass
        except FlarelogError as error:
            log.error("run %s: %s; the run goes on", notice.run, error)

    def _forward(self, notice: Notice) -> None:
        """Streams' ends and findings go to the program's bus; the run's events came from there."""
        background = self._background
        if background is not None and notice.event in (Event.STREAM_OPENED, Event.STREAM_ENDED, Event.FINDING):
            background.tell(lambda: self.bus.publish_notice(notice))


class Beside(Protocol):
    """What lives in the loop beside a receiver's server, and reads its store."""

    def begin(self, server: Server, store: Store) -> None:
        """*server* is about to listen; its bus tells, in the loop, of each stream."""

    async def end(self) -> None:
        """It is about to stop."""


class Receiver(_Embedded):
    """Stores the logs of the runs that are announced on *bus*.

    *store*: the directory. *listen*: ``HOST:PORT``; port 0 takes a free one, and ``address`` tells which. *tls*: the
    files of the receiver; what other machines can reach needs them, or *insecure*. *policy*: who may do what; *limits*:
    how much is taken; both as of ``flarelog serve`` unless given. *idle_timeout*: seconds of silence after which a
    stream is closed. *join_timeout*: seconds that END_RUN waits for the run's streams. *exit_timeout*: seconds that it
    may take to stop when the program ends without ``stop()``. *compression*: whether compressed chunks are
    taken, as of ``flarelog serve``; True is auto, False off. *beside*: lives with the server.
    Raises, on ``start``: CannotListen, NotAllowed, StoreLocked.
    """

    ends_last = True

    def __init__(
        self,
        store: str,
        *,
        listen: str = "127.0.0.1:0",
        bus: Bus | None = None,
        durability: Durability = "disk",
        announced_runs_only: bool = True,
        tls: Tls | None = None,
        insecure: bool = False,
        policy: Policy | None = None,
        limits: Limits | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        join_timeout: float = JOIN_TIMEOUT,
        exit_timeout: float = EXIT_TIMEOUT,
        compression: Compression | bool = True,
        beside: Beside | None = None,
    ) -> None:
        super().__init__(bus, exit_timeout)
        self.address = ""
        self._options = ServerOptions(
            listen,
            idle_timeout,
            announced_runs_only,
            tls,
            insecure,
            policy,
            end_timeout=join_timeout,
            compression=compression if isinstance(compression, str) else "auto" if compression else "off",
            **asdict(limits or Limits()),
        )
        self._store = choose.store(store, durability)
        self._beside = beside
        self._server: Server | None = None

    def _enter(self, background: _background.Background) -> None:
        async def begin() -> Server:
            await self._store.__aenter__()
            try:
                server = Server(self._store, self._options, self._inner)
                if self._beside is not None:
                    self._beside.begin(server, self._store)
                await server.start()
            except BaseException:
                await self._store.__aexit__()
                raise
            return server

        self._server = background.call(begin(), JOIN_TIMEOUT)
        self.address = self._server.address

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T] | None:
        """Begin *work* in the loop in which the server, its store and *beside* live; None when they do not."""
        background = self._background
        if background is None or self._server is None:
            return None
        try:
            return background.start(work())
        except _background.Stopped:
            return None

    def _leave(self, background: _background.Background) -> None:
        if not self._end(background, JOIN_TIMEOUT):
            log.warning("the receiver of %s did not stop within %g s", self._store.name, JOIN_TIMEOUT)

    def _end(self, background: _background.Background, timeout: float) -> bool:
        server, self._server = self._server, None
        if server is None:
            return True

        async def end() -> None:
            if self._beside is not None:
                await self._beside.end()
            await server.stop()
            await self._store.__aexit__()

        try:
            background.call(end(), timeout)
        except (TimeoutError, CancelledError, _background.Stopped):
            return False
        return True

    def end_at_exit(self, began: float) -> list[str]:
        try:
            ended = self._end(background, self._exit_timeout) if (background := self._background) else True
        except KeyboardInterrupt:
            ended = False
        return [] if ended else [f"the receiver of {self._store.name} did not stop in time"]

    def forget(self) -> None:
        server = self._server
        super().forget()
        self._server = None
        self._store.forget()
        if server is not None and server.address:
            _let_go_of_sockets(parse_address(server.address)[1])

    def _follow(self, background: _background.Background, notice: Notice) -> None:
        server, timeout = self._server, self._options.end_timeout
        if server is None:
            return
        match notice.event:
            case Event.ABOUT_TO_END_RUN:
                self._register(background, server, notice)  # nobody waits for it
            case Event.END_RUN:

                async def join() -> bool:
                    await server.runs.register(notice.run, Event.ABOUT_TO_END_RUN)  # who still sends is asked to drain
                    joined = await server.runs.join(notice.run, timeout)
                    await server.runs.register(notice.run, Event.END_RUN)
                    return joined

                try:
                    joined = background.call(join(), timeout + _MARGIN)
                except (TimeoutError, CancelledError):
                    joined = False
                if not joined:
                    log.warning("run %s ended while logs were still coming in; what is stored stays", notice.run)
            case _:
                try:
                    # Who waits for the registration spares its producers the misses.
                    self._register(background, server, notice).result(REGISTER_TIMEOUT)
                except (TimeoutError, CancelledError):
                    log.warning("run %s is not registered after %g s; it goes on", notice.run, REGISTER_TIMEOUT)

    def _register(self, background: _background.Background, server: Server, notice: Notice) -> Future[None]:
        async def register() -> None:
            try:
                await server.runs.register(notice.run, notice.event)
            except FlarelogError as error:
                log.error("run %s: %s; the run goes on", notice.run, error)

        return background.start(register())


def _let_go_of_sockets(port: int) -> None:
    """In a forked child: give up its copies of a receiver's sockets, which would keep the port and the connections
    alive when the parent is gone. Their numbers stay taken: gRPC still believes that they are its own.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
            with contextlib.suppress(OSError):
                fd = int(name)
                if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                    continue
                with socket.socket(fileno=os.dup(fd)) as found:
                    internet = found.family in (socket.AF_INET, socket.AF_INET6)
                    ours = internet and found.type == socket.SOCK_STREAM and found.getsockname()[1] == port
                if ours:
                    os.dup2(null, fd, inheritable=False)
    finally:
        os.close(null)


class _Sending:
    """The logs of one run on their way to one receiver."""

    def __init__(self, options: SidecarOptions, bus: Bus, background: _background.Background) -> None:
        self.options = options
        self._bus = bus
        self._background = background
        self._sending: Sending | None = None
        self._ordered: Callable[[Sending], None] | None = None  # before there was one
        self.ended = background.start(self._run())

    async def _run(self) -> Outcome:
        self._sending = Sending(self.options, self._bus, owned=True)
        if self._ordered is not None:
            self._ordered(self._sending)
        return await self._sending.run()

    def drain(self) -> None:
        """Ask it to end, from any thread: the run has ended."""
        self._order(Sending.drain)

    def drain_early(self) -> None:
        """Ask it to send what is there, from any thread: the run is about to end, and may still write."""
        self._order(Sending.drain_early)

    def _order(self, order: Callable[[Sending], None]) -> None:
        def give() -> None:
            if self._sending is not None:
                order(self._sending)
            elif self._ordered is not Sending.drain:
                self._ordered = order

        self._background.soon(give)

    def outcome(self, deadline: float) -> Outcome:
        """How it ended, at the *deadline* at the latest."""
        options = self.options
        try:
            return self.ended.result(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, CancelledError):
            self.ended.cancel()
            sentence = f"the logs of run {options.run} were given up: sending them to {options.receiver} did not end"
        except Exception as error:
            sentence = f"the logs of run {options.run} were not sent to {options.receiver}: {error}"
            log.exception("%s; the run goes on", sentence)
            return Outcome((), (), FlarelogError(sentence))
        log.error("%s; the run goes on", sentence)
        return Outcome((), (), TimedOut(sentence))

    def left(self) -> str:
        """What was not sent, in words."""

        async def count() -> tuple[int, int]:
            return (0, 0) if self._sending is None else self._sending.sidecar.unsent()

        of = f"run {self.options.run} to {self.options.receiver}"
        try:
            size, logs = self._background.call(count(), _MARGIN)
        except (TimeoutError, CancelledError, _background.Stopped):
            return f"an unknown part of {of}"
        return f"{size:,} bytes in {logs} logs of {of}"


class Producer(_Embedded):
    """Sends the logs under *root* as *site* while a run goes on.

    *receiver*: ``HOST:PORT``, or several; each gets everything, and one that fails does not hold the others. *tls*: the
    files of the site, for all of them. *redact*: names of what is masked. *site_policy*: files that say what the site
    lets go, read again at the start of each run; those that FLARELOG_SITE_POLICY names hold as well. *compression*: on,
    off or auto, which is not on loopback.
    *join_timeout*: seconds from the order to drain to the end. *exit_timeout*: seconds that a program which ends
    without END_RUN and without ``stop()`` is held up at most, so that what is written is sent. *heed*: drain when a
    receiver says that the run is ending, so that it need not wait; what is written until END_RUN opens the streams
    again. ``outcomes`` tells, for each of the last runs that have ended (KEPT_OUTCOMES of them), how each receiver was
    served.
    """

    def __init__(
        self,
        receiver: str | Sequence[str],
        site: str,
        root: str,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        redact: Sequence[str] = (),
        site_policy: str | Sequence[str] = (),
        bus: Bus | None = None,
        tls: Tls | None = None,
        join_timeout: float = JOIN_TIMEOUT,
        exit_timeout: float = EXIT_TIMEOUT,
        compression: Compression = "auto",
        heed: bool = True,
    ) -> None:
        super().__init__(bus, exit_timeout)
        self.outcomes: dict[str, list[Outcome]] = {}
        self._receivers = [receiver] if isinstance(receiver, str) else list(receiver)
        self._site = site
        self._source = SourceOptions(root, tuple(include), tuple(exclude), redact=tuple(redact))
        self._site_policy = [site_policy] if isinstance(site_policy, str) else list(site_policy)
        self._tls = tls
        self._join_timeout = join_timeout
        self._compression = compression
        self._heed = heed
        self._running: dict[str, list[_Sending]] = {}
        if tls is not None:
            tls.check("client")
        self._options("run")  # refuses now what would fail when the run starts

    def _options(self, run: str) -> list[SidecarOptions]:
        source = replace(self._source, sites=in_force(*self._site_policy))
        return [
            SidecarOptions(
                *(address, run, self._site, source),
                drain_timeout=self._join_timeout,
                drain_limit=self._join_timeout,  # a program is not held up for longer, whatever moves
                tls=self._tls,
                compression=self._compression,
                heed=self._heed,
            )
            for address in self._receivers
        ]

    def _follow(self, background: _background.Background, notice: Notice) -> None:
        match notice.event:
            case Event.START_RUN:
                self._begin(background, notice.run)
            case Event.ABOUT_TO_END_RUN:
                for sending in self._running.get(notice.run, ()):
                    sending.drain_early()
            case Event.END_RUN:
                self._join(notice.run)

    def _begin(self, background: _background.Background, run: str) -> None:
        options, sendings = self._options(run), list[_Sending]()
        if self._running.setdefault(run, sendings) is sendings:  # else it was begun, by another thread perhaps
            sendings += [_Sending(one, self._inner, background) for one in options]

    def _drain(self, run: str) -> None:
        for sending in self._running.get(run, ()):
            sending.drain()

    def _join(self, run: str) -> None:
        self._drain(run)
        deadline = time.monotonic() + self._join_timeout + _MARGIN
        outcomes = [sending.outcome(deadline) for sending in self._running.pop(run, ())]
        if outcomes:
            self.outcomes[run] = self.outcomes.pop(run, []) + outcomes
            for oldest in list(self.outcomes)[:-KEPT_OUTCOMES]:
                self.outcomes.pop(oldest, None)

    def send_rest(self, run: str) -> list[Outcome]:
        """Send what is there of *run*, whose writers have gone, and wait for the receipts: streams that are sealed and
        have nothing more stay as they are. Blocks, within the bound of END_RUN; how each receiver was served, nothing
        when this producer was not started.
        """
        if (background := self._background) is None:
            return []
        options = [replace(one, once=True, again=True) for one in self._options(run)]
        sendings = [_Sending(one, self._inner, background) for one in options]
        deadline = time.monotonic() + self._join_timeout + _MARGIN
        return [sending.outcome(deadline) for sending in sendings]

    def unreachable(self) -> list[str]:
        """For each receiver that does not answer, why. Blocks for REGISTER_TIMEOUT seconds at most."""
        if (background := self._background) is None:
            return []
        asked = [(one, background.start(reach(one.receiver, one.tls))) for one in self._options("run")]
        found, deadline = [], time.monotonic() + REGISTER_TIMEOUT
        for one, answer in asked:
            try:
                found.append(answer.result(max(0.0, deadline - time.monotonic())))
            except (TimeoutError, CancelledError):
                answer.cancel()
                found.append(f"{one.receiver} did not answer within {REGISTER_TIMEOUT:g} s")
        return [sentence for sentence in found if sentence]

    def _leave(self, background: _background.Background) -> None:
        self.drain()
        for run in list(self._running):
            self._join(run)

    def drain(self) -> None:
        for run in list(self._running):
            self._drain(run)

    def end_at_exit(self, began: float) -> list[str]:
        sendings = [sending for run in list(self._running) for sending in self._running.pop(run)]
        with contextlib.suppress(KeyboardInterrupt):  # whoever interrupts it does not want to wait
            deadline = began + self._exit_timeout
            for sending in sendings:
                with contextlib.suppress(Exception):
                    sending.ended.result(max(0.0, deadline - time.monotonic()))
        return [sending.left() for sending in sendings if not sending.ended.done()]

    def forget(self) -> None:
        super().forget()
        self._running = {}
