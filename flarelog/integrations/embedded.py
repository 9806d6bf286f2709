"""A receiver and a producer for any threaded program: they follow the run's events on a bus.

ABOUT_TO_START_RUN registers a run at the receiver, START_RUN starts its producers, ABOUT_TO_END_RUN asks them to
drain and returns at once, END_RUN waits for them within a bound. Nothing that happens to a log raises into the
program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from flarelog.bus import Bus, Notice
from flarelog.integrations import _background
from flarelog.lifecycle import Event
from flarelog.server import Server, ServerOptions
from flarelog.sidecar import Outcome, Sidecar, SidecarOptions
from flarelog.sources.discovery import SourceOptions
from flarelog.stores.local import Durability, LocalStore

log = logging.getLogger(__name__)

JOIN_TIMEOUT = 60.0  # seconds that END_RUN waits at most
_MARGIN = 5.0  # seconds that a bounded piece of work may exceed its own bound before it is given up


class _Embedded:
    """What both ends share: a place in the background, and a bus."""

    def __init__(self, bus: Bus | None) -> None:
        self.bus = bus or Bus()
        self._inner = Bus()
        self._inner.subscribe(self._forward)
        self._background: _background.Background | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> Self:
        """Begin to follow the bus; harmless when repeated."""
        if self._background is None:
            self._background = _background.shared()
            try:
                self._enter(self._background)
            except BaseException:
                _background.release(self._background)
                self._background = None
                raise
            self._unsubscribe = self.bus.subscribe(
                self._on, Event.ABOUT_TO_START_RUN, Event.START_RUN, Event.ABOUT_TO_END_RUN, Event.END_RUN
            )
        return self

    def stop(self) -> None:
        """End within a bound; harmless when repeated."""
        if self._background is not None:
            self._unsubscribe()
            background, self._background = self._background, None
            try:
                self._leave(background)
            finally:
                _background.release(background)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _enter(self, background: _background.Background) -> None: ...

    def _leave(self, background: _background.Background) -> None: ...

    def _on(self, notice: Notice) -> None: ...

    def _forward(self, notice: Notice) -> None:
        """Streams' ends and findings go to the program's bus; the run's events came from there."""
        if self._background is not None and notice.event in (Event.STREAM_OPENED, Event.STREAM_ENDED, Event.FINDING):
            self._background.tell(lambda: self.bus.publish_notice(notice))


class Receiver(_Embedded):
    """Stores the logs of the runs that are announced on *bus*.

    *store*: the directory. *listen*: ``HOST:PORT``; port 0 takes a free one, and ``address`` tells which.
    *join_timeout*: seconds that END_RUN waits for the run's streams. Raises, on ``start``: CannotListen, NotAllowed,
    StoreLocked.
    """

    def __init__(
        self,
        store: str,
        *,
        listen: str = "127.0.0.1:0",
        bus: Bus | None = None,
        durability: Durability = "disk",
        announced_runs_only: bool = True,
        join_timeout: float = JOIN_TIMEOUT,
    ) -> None:
        super().__init__(bus)
        self.address = ""
        self._options = ServerOptions(listen, announced_runs_only=announced_runs_only, end_timeout=join_timeout)
        self._store = LocalStore(store, durability)
        self._server: Server | None = None

    def _enter(self, background: _background.Background) -> None:
        async def begin() -> Server:
            await self._store.__aenter__()
            try:
                server = Server(self._store, self._options, self._inner)
                await server.start()
            except BaseException:
                await self._store.__aexit__()
                raise
            return server

        self._server = background.call(begin())
        self.address = self._server.address

    def _leave(self, background: _background.Background) -> None:
        async def end() -> None:
            assert self._server is not None
            await self._server.stop()
            await self._store.__aexit__()

        background.call(end(), JOIN_TIMEOUT)
        self._server = None

    def _on(self, notice: Notice) -> None:
        if self._background is None or self._server is None:
            return
        server, timeout = self._server, self._options.end_timeout

        async def register() -> bool:
            if notice.event is not Event.END_RUN:
                await server.register(notice.run, notice.event)
                return True
            await server.register(notice.run, Event.ABOUT_TO_END_RUN)  # whoever still sends is asked to drain
            joined = await server.join(notice.run, timeout)
            await server.register(notice.run, Event.END_RUN)
            return joined

        if not self._background.call(register(), timeout + _MARGIN):
            log.warning("run %s ended while logs were still coming in; what is stored stays", notice.run)


class Producer(_Embedded):
    """Sends the logs under *root* as *site* while a run goes on.

    *receiver*: ``HOST:PORT``, or several; each gets everything, and one that fails does not hold the others.
    *join_timeout*: seconds from the order to drain to the end. ``outcomes`` tells, for each run that has ended, how
    each receiver was served.
    """

    def __init__(
        self,
        receiver: str | Sequence[str],
        site: str,
        root: str,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        bus: Bus | None = None,
        join_timeout: float = JOIN_TIMEOUT,
    ) -> None:
        super().__init__(bus)
        self.outcomes: dict[str, list[Outcome]] = {}
        self._receivers = [receiver] if isinstance(receiver, str) else list(receiver)
        self._site = site
        self._source = SourceOptions(root, tuple(include), tuple(exclude))
        self._join_timeout = join_timeout
        self._running: dict[str, list[tuple[Sidecar, Future[Outcome]]]] = {}
        for address in self._receivers:
            SidecarOptions(address, "run", site, self._source)  # refuses now what would fail when the run starts

    def _on(self, notice: Notice) -> None:
        match notice.event:
            case Event.START_RUN:
                self._begin(notice.run)
            case Event.ABOUT_TO_END_RUN:
                self._drain(notice.run)
            case Event.END_RUN:
                self._join(notice.run)

    def _begin(self, run: str) -> None:
        if self._background is None or run in self._running:
            return
        background = self._background

        async def make(options: SidecarOptions) -> Sidecar:
            return Sidecar(options, self._inner)

        self._running[run] = []
        for address in self._receivers:
            options = SidecarOptions(address, run, self._site, self._source, drain_timeout=self._join_timeout)
            sidecar = background.call(make(options))
            self._running[run].append((sidecar, background.start(sidecar.run())))

    def _drain(self, run: str) -> None:
        if self._background is not None:
            for sidecar, _ in self._running.get(run, ()):
                self._background.soon(sidecar.drain)

    def _join(self, run: str) -> None:
        self._drain(run)
        for _, ended in self._running.pop(run, ()):
            try:
                self.outcomes.setdefault(run, []).append(ended.result(self._join_timeout + _MARGIN))
            except Exception:
                log.exception("the logs of run %s: their sidecar failed; the run goes on", run)
                ended.cancel()

    def _leave(self, background: _background.Background) -> None:
        for run in list(self._running):
            for sidecar, _ in self._running[run]:
                background.soon(sidecar.drain)
        for run in list(self._running):
            self._join(run)
