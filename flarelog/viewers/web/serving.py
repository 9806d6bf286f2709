"""Serves the page on a socket, with uvicorn, which holds up a writer at 64 KiB that a browser has not read.

Whoever reaches the port may hold STRANGERS connections; of more, the oldest is closed, so that logged-in visitors keep
their places. If all places are taken, the session with the most connections loses one. Whoever begins a request sends
its header within HEADER seconds, and its body within as many, see ``guarding``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from flarelog.errors import CannotListen
from flarelog.names import parse_address
from flarelog.viewers.web.guarding import Guarded

GRACE = 2  # seconds that endless answers get at shutdown
CONNECTIONS = 500  # at once
STRANGERS = 250  # of them without a session
HEADER = 10.0  # seconds from the beginning of a connection, or of a later request on it, until the header has come
BACKLOG = 100  # connections that are accepted before they count: each takes a descriptor


class Connection(H11Protocol):
    """A browser's connection, or one of whoever else reaches the port. It is its last request's session's."""

    since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as H11Protocol has it
        self.since = self.loop.time()
        super().connection_made(transport)
        self._expect_header()
        if len(self.connections) > STRANGERS:
            _make_room([one for one in self.connections if isinstance(one, Connection)])

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_busy:
            self._expect_nothing()
        elif self._deadline is None:
            self._expect_header()

    def end(self) -> None:
        self.connections.discard(self)  # the transport reports its end only after connections that come meanwhile
        self.transport.abort()

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def session(self) -> Any:
        """The session of the last request; None: a stranger's."""
        return None if self.cycle is None else self.cycle.scope["state"].get("session")

    def _expect_header(self) -> None:
        self._deadline = self.loop.call_later(HEADER, self.end)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _make_room(connections: list[Connection]) -> None:
    """End one of *connections* if they are too many: the oldest, but the oldest idle one of a session."""
    strangers = [one for one in connections if one.session is None]
    if len(strangers) > STRANGERS:
        min(strangers, key=lambda one: one.since).end()
    elif len(connections) > CONNECTIONS:
        counts = Counter(id(one.session) for one in connections if one.session is not None)
        most = max(counts, key=counts.__getitem__)
        min((one for one in connections if id(one.session) == most), key=lambda one: (one.is_busy, one.since)).end()


class _Server(uvicorn.Server):
    """A server whose caller decides what a signal does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(address: str) -> socket.socket:
    """A socket that listens at *address*. Raises CannotListen."""
    host, port = parse_address(address)
    try:
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        # asyncio sets TCP_NODELAY only with the protocol's number: without it an answer waits 40 ms for the one before.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host.strip("[]"), port))
        found.listen(128)
    except OSError as error:
        raise CannotListen(f"cannot listen at {address}: {error.strerror}; give another address") from error
    found.setblocking(False)
    return found


async def serve(app: Guarded, listening: socket.socket, stopped: asyncio.Event, ready: Callable[[], object]) -> None:
    """Serve *app* at *listening* until *stopped*; *ready* is called when the server answers requests."""
    # Bad requests are warnings there: whoever reaches the port could fill the log with them.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="on",
        ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=30,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        ready()
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    app.end()
    server.should_exit = True
    stopping.cancel()
    await serving
