"""The faults that a simulation can be given, and a proxy that can cut every connection."""

from __future__ import annotations

import asyncio
import contextlib

FAULTS = {
    "late-receiver": "the receiver starts after its producers, and learns of the run later still",
    "rotate": "the logs are rotated by renaming, with their tails unread",
    "restart-receiver": "the receiver is stopped and started again",
    "kill-receiver": "the receiver is killed and started again",
    "kill-sidecar": "a sidecar is killed and started again",
    "cut-connection": "all connections are cut in the middle",
}
DEFAULT = ("late-receiver", "rotate")
PROOF = "corrupt-store"
"""Not a fault that flarelog promises to survive: one stored byte is changed, to show that the table can fail."""


class Proxy:
    """Forwards TCP connections to *port* on this machine, until ``cut`` ends them all."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        for source, target in ((reader, downstream), (upstream, writer)):
            self._connections.add(target)
            pump = asyncio.create_task(self._pump(source, target))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        self._connections.discard(target)
        target.close()

    def cut(self) -> None:
        """End every connection at once, whatever is on its way."""
        for writer in list(self._connections):
            writer.transport.abort()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
