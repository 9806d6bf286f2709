"""Connections to a receiver inside another framework's messages, for sites that may not open connections themselves.

At the site the tunnel listens on loopback; at the receiver it connects to the receiver. Bytes read at one end are
written at the other. The tunnel does not interpret them: TLS is end to end, and the delivery sees an occasional lost
connection. A piece that is refused or out of order ends its connection; the delivery then reconnects and resumes at
the committed offset.

Security does not rely on a message's stated sender. The certificate inside the connection authenticates the site. A
message reaches a connection only with its name, which is random and known to its two ends and to the carrier of their
messages. The limit of open connections applies to the name that the framework has verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

from flarelog.names import parse_address
from flarelog.security.refusals import Repetitions
from flarelog.text import legible
from flarelog.values import frozen

log = logging.getLogger(__name__)

PIECE = 512 << 10  # bytes in a message at most
TAKE_TIMEOUT = 20.0  # seconds within which the other end must accept a piece
MAX_CONNECTIONS = 64  # of one owner, including those being opened
MAX_ALL = 1024  # of all owners
MAX_NAME = 64  # characters of a connection's name


@frozen
class Piece:
    """The *number*-th piece of *connection* in this direction; empty data means its end."""

    connection: str
    number: int
    data: bytes


Send = Callable[[str, Piece], bool]
"""Sends a piece to a peer; whether the peer accepted it. Blocks, and is called in a thread."""


class _Connection:
    def __init__(
        self, peer: str, owner: str, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.peer, self.owner, self.name, self.reader, self.writer = peer, owner, name, reader, writer
        self.taken = 0  # pieces
        self.busy = False  # a piece is being written


class Tunnel:
    """One end, for one event loop; only ``take`` is thread-safe. *target*: the receiver; None at a site."""

    def __init__(self, send: Send, target: str | None = None) -> None:
        self._send = send
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._connections: dict[tuple[str, str], _Connection] = {}
        self._opening: dict[tuple[str, str], str] = {}  # by key: the owner
        self._complaints = Repetitions(("anybody", ""), 1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._closed = False

    async def listen(self, peer: str) -> str:
        """At a site: listen on loopback, and return the address whose connections lead to *peer*'s end."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._begin(_Connection(peer, peer, os.urandom(16).hex(), reader, writer))

        self._server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=PIECE)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()
        for connection in self._connections.values():
            connection.writer.transport.abort()  # a task that is cancelled before it begins does not abort
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, peer: str, piece: Piece, owner: str = "") -> bool:
        """Accept a piece from *peer*, in any thread but the loop's; whether it was accepted.

        *owner*: the sender's name if the framework has verified one; *peer* is the address for answers.
        """
        try:
            taking = asyncio.run_coroutine_threadsafe(self.taken(peer, piece, owner or peer), self._loop)
        except RuntimeError:  # the loop has ended
            return False
        try:
            return taking.result(TAKE_TIMEOUT)
        except (CancelledError, OSError, RuntimeError, TimeoutError):  # the loop or the connection has ended
            taking.cancel()
            return False

    async def taken(self, peer: str, piece: Piece, owner: str) -> bool:
        """As ``take``, in the loop itself."""
        key = peer, piece.connection
        connection = self._connections.get(key)
        if connection is not None and connection.owner != owner:
            self._complain(owner, f"sent data for a connection of {legible(connection.owner, 100)}")
            return False
        if len(piece.data) > PIECE:
            self._complain(owner, f"sent pieces of {len(piece.data):,} bytes; a piece has at most {PIECE:,}")
            if connection is not None:
                connection.writer.transport.abort()
            return False
        if connection is None and self._target is not None and piece.number == 0 and piece.data:
            connection = await self._connect(key, owner)
        if connection is None:
            return not piece.data
        # The other end waits for the answer to each piece, so at most one piece per connection is in memory.
        if piece.number != connection.taken or connection.busy or not piece.data:
            connection.writer.transport.abort()
            return not piece.data
        connection.taken += 1
        connection.busy = True
        try:
            connection.writer.write(piece.data)
            await connection.writer.drain()
        except asyncio.CancelledError:
            connection.writer.transport.abort()  # the other end was told that the piece was refused
            raise
        finally:
            connection.busy = False
        return True

    async def _connect(self, key: tuple[str, str], owner: str) -> _Connection | None:
        """Open a connection for *key*, counted before the first await. None: it is refused."""
        if key in self._opening or len(key[1]) > MAX_NAME:
            return None
        owners = [*(one.owner for one in self._connections.values()), *self._opening.values()]
        if owners.count(owner) >= MAX_CONNECTIONS or len(owners) >= MAX_ALL:
            whose = f"has {MAX_CONNECTIONS}" if len(owners) < MAX_ALL else f"and others have {MAX_ALL}"
            self._complain(owner, f"{whose} connections, the limit: a new one is refused")
            return None
        self._opening[key] = owner
        try:
            host, port = parse_address(self._target or "")
            reader, writer = await asyncio.open_connection(host.strip("[]"), port, limit=PIECE)
            connection = _Connection(key[0], owner, key[1], reader, writer)
            self._begin(connection)
            return connection
        finally:
            del self._opening[key]

    def _complain(self, owner: str, what: str) -> None:
        """Log *what* is wrong with the messages of *owner*, once a minute."""
        now, about = time.monotonic(), (owner[:MAX_NAME], what.partition(" ")[0])
        self._complaints.over(now)
        if self._complaints.says(about, now):
            log.warning("through the tunnel %s %s", legible(owner, 100), what)

    def _begin(self, connection: _Connection) -> None:
        if self._closed:  # the tunnel was closed during the connect
            connection.writer.transport.abort()
            return
        self._connections[connection.peer, connection.name] = connection
        task = asyncio.create_task(self._carry(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, connection: _Connection) -> None:
        """Send the connection's bytes until either end closes."""
        number = 0
        try:
            with contextlib.suppress(OSError):
                while data := await connection.reader.read(PIECE):
                    if not await self._sent(connection, Piece(connection.name, number, data)):
                        break
                    number += 1
        finally:
            connection.writer.transport.abort()
            self._connections.pop((connection.peer, connection.name), None)
        await self._sent(connection, Piece(connection.name, number, b""))

    async def _sent(self, connection: _Connection, piece: Piece) -> bool:
        """Whether the peer accepted *piece*. Uses a thread of its own: the interpreter waits at its exit for a pool's
        threads, and this one may wait for a peer that has gone.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def tell(taken: bool) -> None:
            if not answer.done():
                answer.set_result(taken)

        def send() -> None:
            try:
                taken = self._send(connection.peer, piece)
            except Exception as error:  # any exception of the framework loses the connection
                log.debug("a piece for %s was not sent: %s: %s", connection.peer, type(error).__name__, error)
                taken = False
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(tell, taken)

        threading.Thread(target=send, name="flarelog-tunnel", daemon=True).start()
        return await answer
