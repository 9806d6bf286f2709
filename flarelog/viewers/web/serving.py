"""Serves the page on a socket, with uvicorn, which holds up a writer at 64 KiB that a browser has not read.

Whoever reaches the port may hold connections, but only a session's request keeps its place: if all places are taken,
a new connection takes that of the oldest one without such a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from flarelog.errors import CannotListen
from flarelog.names import parse_address
from flarelog.viewers.web.guarding import Guarded

GRACE = 2  # seconds that endless answers get at shutdown
CONNECTIONS = 500  # at once
SPARE = 128  # connections that may come before those that make room for them are closed; more are answered with 503


class Connection(H11Protocol):
    """A browser's connection, or one of whoever else reaches the port."""

    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as H11Protocol has it
        self.since = self.loop.time()
        others = [one for one in self.connections if isinstance(one, Connection) and not one.is_of_session]
        if len(self.connections) >= CONNECTIONS and others:
            min(others, key=lambda one: one.since).transport.abort()
        super().connection_made(transport)

    @property
    def is_of_session(self) -> bool:
        """Whether a request of a session is under way."""
        return self.cycle is not None and not self.cycle.response_complete and "session" in self.cycle.scope["state"]


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
        limit_concurrency=CONNECTIONS + SPARE,
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
