"""Bare gRPC: the best latency and throughput that a bidirectional call of grpcio allows.

The sender follows files with inotify, and sends their new bytes in messages of at most 2 MiB, in one bidirectional call
of ``grpc.aio``. The receiver writes the bytes to its files and answers each message with its length. It has no
protobuf, no checksum, no journal and no check: the rest of flarelog's work is left out. A message holds the bytes; with
several files the number of the file, one byte, stands before them.

    python -m bench.bare serve READY-FILE FILE [FILE]
    python -m bench.bare send HOST:PORT FILE [FILE]
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from typing import Any

import grpc

METHOD = "/bench.Bare/Push"
PIECE = 2 << 20
LARGE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_MODIFY = 2  # IN_MODIFY


async def serve(ready: str, *paths: str) -> None:
    fds = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640) for path in paths]

    async def push(_: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while isinstance(data := await context.read(), bytes):
            if len(fds) > 1:
                os.write(fds[data[0]], memoryview(data)[1:])
            else:
                os.write(fds[0], data)
            await context.write(len(data).to_bytes(4, "big"))

    await served(ready, push)


async def served(ready: str, push: Any) -> None:
    """Serve *push* until SIGTERM; write the address to the file *ready*."""
    service, method = METHOD[1:].split("/")
    server = grpc.aio.server(options=LARGE)
    handler: Any = grpc.stream_stream_rpc_method_handler(push)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with open(f"{ready}.new", "w") as file:
        file.write(f"127.0.0.1:{port}\n")
    os.replace(f"{ready}.new", ready)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.stop(None)


async def send(receiver: str, *paths: str) -> None:
    loop, added = asyncio.get_running_loop(), asyncio.Event()
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    for path in paths:
        libc.inotify_add_watch(watch, os.fsencode(path), _MODIFY)

    def modified() -> None:
        os.read(watch, 1 << 16)
        added.set()

    def several(data: bytes, number: int) -> bytes:
        return number.to_bytes(1, "big") + data if len(paths) > 1 else data

    loop.add_reader(watch, modified)
    async with grpc.aio.insecure_channel(receiver, options=LARGE) as channel:
        call: Any = channel.stream_stream(METHOD)()
        answers = asyncio.create_task(heard(call))
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(open(path, "rb", buffering=0)) for path in paths]
            while not answers.done():
                added.clear()
                more = True
                while more:
                    more = False
                    for number, file in enumerate(files):
                        if data := file.read(PIECE):
                            await call.write(several(data, number))
                            more = True
                await added.wait()


async def heard(call: Any) -> None:
    while isinstance(await call.read(), bytes):
        pass


if __name__ == "__main__":
    asyncio.run({"serve": serve, "send": send}[sys.argv[1]](*sys.argv[2:]))
