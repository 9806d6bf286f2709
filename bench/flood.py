"""Cheap sites: each sends as fast as its receiver accepts, without reading a file.

    python -m bench.flood READY-FILE HOST:PORT FIRST COUNT CHUNK MOVES

Site number N of run ``bench`` is called site-N, has its own connection and one log, and sends chunks of CHUNK bytes
until the process is killed. With MOVES 1 it reconnects to the worker that has its site, as a sidecar does; with 0 it
keeps its connection. READY-FILE appears when every site has its first answer.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from flarelog.checksum import extend
from flarelog.model import Chunk, Code, Open, Reply, StreamId
from flarelog.wire import calls
from flarelog.wire.codec.base import SERVICE
from tests.messages import decode_reply, encode_request

LOG = "log.txt"
WINDOW = 4 << 20  # unacknowledged bytes, at most, even if the receiver grants more
AHEAD = 64  # unacknowledged messages, at most


async def opened(receiver: str, site: str, moves: int) -> Any:
    """Open the site's stream, and return its call."""
    while True:
        channel = calls.channel(receiver, None)
        call: Any = channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=decode_reply)()
        await call.write(encode_request(Open(StreamId("bench", site, LOG), os.urandom(16), moves=moves), 1))
        if not (await call.read()).elsewhere:
            return call
        moves += 1
        call.cancel()
        await channel.close()


async def flood(receiver: str, site: str, data: bytes, begun: asyncio.Event, moves: int) -> None:
    call = await opened(receiver, site, moves)
    acked, window, answered = 0, WINDOW, asyncio.Event()
    begun.set()

    async def read() -> None:
        nonlocal acked, window
        while isinstance(reply := await call.read(), Reply):
            if reply.code is not Code.OK:
                sys.exit(f"{site}: {reply.code.name}: {reply.reason}")
            acked, window = reply.committed, min(WINDOW, reply.window or WINDOW, AHEAD * len(data))
            answered.set()
        sys.exit(f"{site}: the receiver has ended the call")

    reading = asyncio.create_task(read())
    offset = digest = 0
    while not reading.done():
        while offset + len(data) - acked > max(window, len(data)):
            answered.clear()
            await answered.wait()
        digest = extend(digest, data)
        await call.write(encode_request(Chunk(offset, data, digest), 1))
        offset += len(data)


async def main(ready: str, receiver: str, first: int, count: int, chunk: int, moves: int) -> None:
    data = (b"2025-06-01 08:00:00,370 - trainer - INFO - step=1234 loss=0.123456\n" * (chunk // 60 + 1))[:chunk]
    begun = [asyncio.Event() for _ in range(count)]
    floods = [flood(receiver, f"site-{first + number}", data, event, moves) for number, event in enumerate(begun)]
    async with asyncio.TaskGroup() as group:
        for one in floods:
            group.create_task(one)
        for event in begun:
            await event.wait()
        Path(ready).write_text("all have begun\n")


if __name__ == "__main__":
    where, address, *numbers = sys.argv[1:]
    asyncio.run(main(where, address, *map(int, numbers)))
