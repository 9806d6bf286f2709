"""An answer of the API that comes in very many small chunks, as a log that is followed: over a connection of its own.

The API server sends a chunk for each line. httpx2 takes 100 us of CPU for a chunk, and this reader 2 us; a reader that
cannot keep up loses lines, because the kubelet does not wait with a rotation. (RFC 9112, sections 4, 6 and 7)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

_READ = 1 << 18  # bytes
_HEAD = 1 << 16  # bytes of a head, at most
_SIZE = 1 << 10  # bytes of the line before a chunk, at most
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # a dead connection is noticed in 40 s


class Broken(Exception):
    """The answer is no HTTP, or ends within its body."""


@dataclass
class Body:
    """The body of an answer, out of what comes after its head. *left*: its length; None: it is in chunks; negative: it
    ends with the connection.
    """

    left: int | None
    ended: bool = False
    _chunk: int = 0  # bytes left of the present chunk
    _rest: bytes = field(default=b"", repr=False)  # the beginning of the line before a chunk
    _begun: bool = False  # a line end comes first, which ends the chunk before

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in *data*. Raises Broken."""
        if self.left is not None:
            if self.left < 0:
                return data
            found = data[: self.left]
            self.left -= len(found)
            self.ended = not self.left
            return found
        data, self._rest = self._rest + data, b""
        at, found_all = 0, []
        while not self.ended and at < len(data):
            if self._chunk:
                piece = data[at : at + self._chunk]
                found_all.append(piece)
                at, self._chunk = at + len(piece), self._chunk - len(piece)
                continue
            end = data.find(b"\r\n", at + 2 * self._begun)
            if end < 0:
                self._rest = data[at:]
                if len(self._rest) > _SIZE:
                    raise Broken("a chunk has no length")
                break
            try:
                self._chunk = int(data[at + 2 * self._begun : end].partition(b";")[0], 16)
            except ValueError:
                raise Broken("a chunk has no length") from None
            at, self._begun, self.ended = end + 2, True, not self._chunk
        return b"".join(found_all)

    def end(self) -> None:
        """The connection has ended. Raises Broken within the body."""
        if not self.ended and (self.left is None or self.left > 0):
            raise Broken("the connection ended within the answer")


@dataclass
class Answer:
    status: int
    body: Body
    first: bytes  # what came with the head


def parsed(head: bytes) -> Answer:
    """The answer that begins with *head*, which has the empty line, and what came after it. Raises Broken."""
    lines, _, rest = head.partition(b"\r\n\r\n")
    first, *fields = lines.split(b"\r\n")
    version, _, said = first.partition(b" ")
    status = said[:3]
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise Broken("the answer is no HTTP")
    named = {name.strip().lower(): value.strip().lower() for name, _, value in (one.partition(b":") for one in fields)}
    length = named.get(b"content-length", b"")
    left = None if named.get(b"transfer-encoding") == b"chunked" else int(length) if length.isdigit() else -1
    return Answer(int(status), Body(left, ended=left == 0), rest)


class Secured:
    """TLS over a connection: asyncio's own is not there in flarelog's commands, and is slower with many small records.

    Each method raises OSError.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, host: str):
        import ssl

        self._reader, self._writer, self._wants = reader, writer, ssl.SSLWantReadError
        self._ends = (ssl.SSLZeroReturnError, ssl.SSLEOFError)
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._coming, self._going, server_hostname=host)

    async def greet(self) -> None:
        """Make sure that the server is the one that is meant."""
        while True:
            try:
                self._tls.do_handshake()
            except self._wants:
                await self._exchange()
            else:
                return await self._send()

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await self._send()

    async def read(self) -> bytes:
        """All that has come; empty at the end."""
        found: list[bytes] = []
        while True:
            try:
                while data := self._tls.read(_READ):
                    found.append(data)
            except self._wants:
                if found:
                    return b"".join(found)
                await self._exchange()
                continue
            except self._ends:
                pass
            return b"".join(found)

    def close(self) -> None:
        self._writer.transport.abort()

    async def _exchange(self) -> None:
        await self._send()
        data = await self._reader.read(_READ)
        if data:
            self._coming.write(data)
        else:
            self._coming.write_eof()

    async def _send(self) -> None:
        if data := self._going.read():
            self._writer.write(data)
            await self._writer.drain()


async def connect(host: str, port: int, context: ssl.SSLContext) -> Secured:
    """A connection to a server. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port, limit=_READ)
    secured = Secured(reader, writer, context, host)
    try:
        opened = writer.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        await secured.greet()
    except BaseException:
        secured.close()
        raise
    return secured


async def get(
    url: str, path: str, headers: Mapping[str, str], context: ssl.SSLContext, *, within: float, silence: float
) -> AsyncGenerator[int | bytes]:
    """The status of the answer to GET *path* at *url*, and then its bytes as they come. *within*: seconds for the
    connection and the head; *silence*: between two pieces. Raises OSError, TimeoutError among them, and Broken.
    """
    where = urlsplit(url)
    host = where.hostname or ""
    given = {"Host": where.netloc, **headers, "Accept": "*/*", "Connection": "close"}
    request = "\r\n".join((f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""))
    async with asyncio.timeout(within):
        server = await connect(host, where.port or 443, context)
    try:
        async with asyncio.timeout(within):
            await server.write(request.encode("latin-1", "replace"))
            head = b""
            while b"\r\n\r\n" not in head:
                data = await server.read()
                head += data
                if not data or len(head) > _HEAD + _READ:
                    raise Broken("the answer has no head")
        answer = parsed(head)
        yield answer.status
        data = answer.first
        while True:
            if data and (found := answer.body.feed(data)):
                yield found
            if answer.body.ended:
                return
            async with asyncio.timeout(silence):
                data = await server.read()
            if not data:
                answer.body.end()
                return
    finally:
        server.close()
