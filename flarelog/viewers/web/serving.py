"""Serves the page on a socket, with uvicorn, which holds up a writer at 64 KiB that a browser has not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn

from flarelog.errors import CannotListen
from flarelog.names import parse_address
from flarelog.viewers.web.guarding import Guarded

GRACE = 2  # seconds that endless answers get at shutdown
CONNECTIONS = 500  # at once; more are answered with 503


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
    config = uvicorn.Config(
        *(app,),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="on",
        ws="none",
        limit_concurrency=CONNECTIONS,
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
