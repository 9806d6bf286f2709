"""A receiver for any threaded program: it stores the logs of the runs that the program's bus announces.

It publishes the end of each stream, and findings, on that bus.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, replace
from typing import Any, TypeVar, get_args

from flarelog.bus import Bus, Notice
from flarelog.delivery.quota import Limits
from flarelog.errors import FlarelogError, InvalidOption
from flarelog.integrations.background import Background, Stopped
from flarelog.integrations.embedded import (
    EXIT_TIMEOUT,
    JOIN_TIMEOUT,
    MARGIN,
    REGISTER_TIMEOUT,
    Embedded,
    Found,
    directory,
    seconds,
)
from flarelog.lifecycle import Event
from flarelog.model import StreamId
from flarelog.names import is_loopback, parse_address
from flarelog.placeholders import Placeholder
from flarelog.policy import Policy
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.phases import missing, standing
from flarelog.receiver.server import Server
from flarelog.security.connections import sockets
from flarelog.security.tls import Tls
from flarelog.stores import choose
from flarelog.stores.base import Durability
from flarelog.stores.unopened import with_unopened
from flarelog.wire.heartbeat import IDLE_TIMEOUT
from flarelog.wire.packing import Compression

log = logging.getLogger(__name__)

T = TypeVar("T")


class Receiver(Embedded):
    """Stores the logs of the runs that are announced on *bus*.

    *store*: the directory. *listen*: ``HOST:PORT``; port 0 takes a free one, which ``address`` then has. *tls*: the
    receiver's files; an address open to other machines needs them, or *insecure*. *policy*: who may do what; *limits*:
    how much is accepted; both default as in ``flarelog serve``. *idle_timeout*: seconds of silence before a stream is
    closed. *join_timeout*: seconds that END_RUN waits for the run's streams. *exit_timeout*: maximum seconds to stop
    when the program exits without ``stop()``. *compression*: whether compressed chunks are accepted, as in ``flarelog
    serve``; True is auto, False off. *log_url_template*: the URL of a log in your own system, as for ``flarelog
    status``.
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
        log_url_template: str = "",
    ) -> None:
        super().__init__(bus, exit_timeout, log_url_template)
        self.address = ""
        if durability not in get_args(Durability):
            raise InvalidOption(f"durability must be 'disk' or 'memory', not {durability!r}")
        if tls is None and not insecure and not is_loopback(parse_address(listen)[0]):
            raise InvalidOption(f"{listen} is open to other machines: give tls, or insecure=True")
        self._options = ServerOptions(
            listen,
            idle_timeout,
            announced_runs_only,
            tls,
            insecure,
            policy,
            end_timeout=seconds("join_timeout", join_timeout),
            compression=compression if isinstance(compression, str) else "auto" if compression else "off",
            **asdict(limits or Limits()),
        )
        self._store = choose.local(directory("store", store), durability)
        self._server: Server | None = None

    def _enter(self, background: Background) -> None:
        async def begin() -> Server:
            await self._store.__aenter__()
            try:
                server = Server(self._store, self._options, self._inner)
                self._serve(server)
                await server.start()
            except BaseException:
                await self._store.__aexit__()
                raise
            return server

        self._server = background.call(begin(), JOIN_TIMEOUT)
        self.address = self._server.address

    def _serve(self, server: Server) -> None:
        """Called in the loop before *server* listens; its bus publishes each stream's events there."""

    async def _cease(self) -> None:
        """Called in the loop before the server stops."""

    def submit(self, work: Callable[[Server], Coroutine[Any, Any, T]]) -> Future[T] | None:
        """Run *work* in the loop of the server and its store; None if the server does not run."""
        background, server = self._background, self._server
        if background is None or server is None:
            return None
        try:
            return background.start(work(server))
        except Stopped:
            return None

    def placeholder(self, run: str, site: str, log: str = "log.txt") -> Placeholder:
        """The placeholder for a log: why it is not available (empty: it is), and how to look at it. Callable at any
        time; blocks for a second at most, and raises nothing.
        """
        return self._placeholder(str(run), str(site), str(log))

    def _found(self, background: Background, run: str, site: str, log: str) -> Found:
        server, stream = self._server, StreamId.given(run, site, log)
        if server is None:
            return Found("the receiver is not started")

        async def ask() -> Found:
            found = [info async for info in with_unopened(self._store, run, lambda _, one: one == site)]
            for info in found:
                if info.stream == stream and not info.unstored:
                    why = missing(standing(replace(info, state=server.states.of(stream))))
                    return Found(why, self.address, info.committed, info.begun, info.ended)
            unreadable = (f"{info.name} {info.unstored}" for info in found if info.is_unreadable)
            return Found(next(unreadable, "nothing of it has come"), self.address)

        return background.call(ask(), MARGIN)

    @property
    def _place(self) -> tuple[str, ...]:
        return "--store", self._store.name

    def _leave(self, background: Background) -> None:
        if not self._end(background, JOIN_TIMEOUT):
            log.warning("the receiver of %s did not stop within %g s", self._store.name, JOIN_TIMEOUT)

    def _end(self, background: Background, timeout: float) -> bool:
        server, self._server = self._server, None
        if server is None:
            return True

        async def end() -> None:
            await self._cease()
            await server.stop()
            await self._store.__aexit__()

        try:
            background.call(end(), timeout)
        except (TimeoutError, CancelledError, Stopped):
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

    def _follow(self, background: Background, notice: Notice) -> None:
        server, timeout = self._server, self._options.end_timeout
        if server is None:
            return
        match notice.event:
            case Event.ABOUT_TO_END_RUN:
                self._register(background, server, notice)  # does not wait
            case Event.END_RUN:

                async def join() -> bool:
                    await server.runs.register(notice.run, Event.ABOUT_TO_END_RUN)  # asks connected producers to drain
                    joined = await server.runs.join(notice.run, timeout)
                    await server.runs.register(notice.run, Event.END_RUN)
                    return joined

                try:
                    joined = background.call(join(), timeout + MARGIN)
                except (TimeoutError, CancelledError):
                    joined = False
                if not joined:
                    log.warning("run %s ended while logs were still arriving; stored bytes remain", notice.run)
            case _:
                try:
                    # Waiting for the registration spares the run's producers the misses.
                    self._register(background, server, notice).result(REGISTER_TIMEOUT)
                except (TimeoutError, CancelledError):
                    log.warning("run %s is not registered after %g s; it continues", notice.run, REGISTER_TIMEOUT)

    def _register(self, background: Background, server: Server, notice: Notice) -> Future[None]:
        async def register() -> None:
            try:
                await server.runs.register(notice.run, notice.event)
            except FlarelogError as error:
                log.error("run %s: %s; the run continues", notice.run, error)

        return background.start(register())


def _let_go_of_sockets(port: int) -> None:
    """In a forked child: close its copies of a receiver's sockets, which would keep the port and the connections
    alive after the parent's end. /dev/null takes their descriptors, which gRPC still believes to be its own.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, _ in sockets(port):
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)
