"""Bare gRPC with many files: the least cost of opening, sending, creating and writing 10,000 small logs in Python.

The sender learns from inotify which files were moved into its directory, reads each whole, and sends them in batches of
1 MiB a message, in one bidirectional call of ``grpc.aio``. The receiver creates each file, with a second file of one
line beside it, and answers each message with its number of files. It has no protobuf, no checksum, no mark, no position
and no check, and it follows no file: the rest of flarelog's work is left out.

    python -m bench.bare_files serve READY-FILE DIRECTORY
    python -m bench.bare_files send HOST:PORT DIRECTORY
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections import deque
from typing import Any

import grpc

from bench.bare import LARGE, METHOD, heard, served

FULL = 1 << 20
_MOVED_TO = 0x80  # IN_MOVED_TO
_EVENT = struct.Struct("iIII")
_HEAD = struct.Struct("<HI")  # lengths of the name and of the file, in bytes


async def serve(ready: str, directory: str) -> None:
    async def push(_: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while isinstance(data := await context.read(), bytes):
            at = count = 0
            view = memoryview(data)
            while at < len(data):
                length, size = _HEAD.unpack_from(data, at)
                body = at + _HEAD.size + length
                name = os.path.join(directory, data[at + _HEAD.size : body].decode())
                _written(name, view[body : body + size])
                head, _, tail = name.rpartition("/")
                _written(f"{head}/.{tail}.journal", b'{"t":"seal","n":%d}\n' % size)
                at, count = body + size, count + 1
            await context.write(count.to_bytes(4, "big"))

    await served(ready, push)


def _written(path: str, data: bytes | memoryview) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    os.pwrite(fd, data, 0)
    os.close(fd)


async def send(receiver: str, directory: str) -> None:
    loop, added, names = asyncio.get_running_loop(), asyncio.Event(), deque[str]()
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(watch, os.fsencode(directory), _MOVED_TO)

    def moved() -> None:
        events, at = os.read(watch, 1 << 16), 0
        while at < len(events):
            length = _EVENT.unpack_from(events, at)[3]
            at += _EVENT.size + length
            names.append(events[at - length : at].rstrip(b"\0").decode())
        added.set()

    loop.add_reader(watch, moved)
    async with grpc.aio.insecure_channel(receiver, options=LARGE) as channel:
        call: Any = channel.stream_stream(METHOD)()
        answers = asyncio.create_task(heard(call))
        while not answers.done():
            parts, size = list[bytes](), 0
            while names and size < FULL:
                name = names.popleft()
                fd = os.open(os.path.join(directory, name), os.O_RDONLY)
                data = os.pread(fd, os.fstat(fd).st_size, 0)
                os.close(fd)
                parts += (_HEAD.pack(len(name), len(data)), name.encode(), data)
                size += len(data)
            if parts:
                await call.write(b"".join(parts))
            else:
                added.clear()
                await added.wait()


if __name__ == "__main__":
    asyncio.run({"serve": serve, "send": send}[sys.argv[1]](*sys.argv[2:]))
