"""An HTTP proxy as hospitals have it: the only way out, for CONNECT alone. It works, or fails in one of many ways."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import Iterator
from typing import Literal

from integration.harness.loops import LoopThread

Conduct = Literal["connects", "refuses", "hangs", "cannot reach", "closes", "is no proxy"]
_ANSWERS = {
    "refuses": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
    "cannot reach": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "closes": b"",
    "is no proxy": b"SSH-2.0-OpenSSH_9.2\r\n",
}
_WANTS_LOGIN = b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="x"\r\n\r\n'


class ConnectProxy:
    """A proxy that knows every name, and connects each to the receiver at *target*. Use as a context manager.

    *conduct*: what it does with a request; may be changed at any time. *login*: the ``USER:PASSWORD`` that it requires.
    """

    def __init__(self, target: str = "", conduct: Conduct = "connects", login: str = "") -> None:
        self._target, self.conduct, self._login = target.rpartition(":"), conduct, login
        self.requests: list[str] = []  # ``HOST:PORT`` of each request
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> ConnectProxy:
        self._loop = LoopThread()
        self._server = self._loop.call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.address}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call(self._close())
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, where, _ = head.split(" ", 2)
        self.requests.append(where)
        if self.conduct == "hangs":
            await reader.read()
        elif method != "CONNECT" or self.conduct != "connects":
            await _last(writer, _ANSWERS[self.conduct])
        elif self._login and f"Basic {base64.b64encode(self._login.encode()).decode()}\r\n" not in head:
            await _last(writer, _WANTS_LOGIN)
        else:
            far_reader, far_writer = await asyncio.open_connection(self._target[0], int(self._target[2]))
            self._writers.add(far_writer)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.wait(
                [asyncio.create_task(_pump(*ends)) for ends in ((reader, far_writer), (far_reader, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            far_writer.transport.abort()


async def _last(writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Send *answer*, and close the connection once it has arrived."""
    writer.write(answer)
    writer.close()
    await writer.wait_closed()


async def _pump(source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            drain.write(data)
            await drain.drain()


@contextlib.contextmanager
def dead() -> Iterator[str]:
    """The URL of a proxy that does not run: its port refuses connections, and no other program can take it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
