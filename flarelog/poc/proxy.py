"""A proxy between one site and the receiver, which can cut connections and swallow bytes."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """Forwards TCP connections to *port* on this machine.

    ``cut`` ends them all; from ``hang`` until then nothing passes in either direction, and ``swallowed`` counts the
    bytes that came from the site.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._hanging = False
        self.port = 0
        self.swallowed = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        for source, target, is_site in ((reader, downstream, True), (upstream, writer, False)):
            self._connections.add(target)
            pump = asyncio.create_task(self._pump(source, target, is_site))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_site: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                if self._hanging:
                    self.swallowed += len(data) if is_site else 0
                    continue
                target.write(data)
                await target.drain()
        self._connections.discard(target)
        target.close()

    def hang(self) -> None:
        self._hanging, self.swallowed = True, 0

    def cut(self) -> None:
        """Abort every connection at once, whatever is in flight; new ones are forwarded again."""
        for writer in list(self._connections):
            writer.transport.abort()
        self._hanging = False

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
