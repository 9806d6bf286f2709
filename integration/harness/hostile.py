"""A hostile peer, against raw gRPC and raw TCP: what it says is made by hand, and no rule of flarelog's holds it.

``python -m integration.harness.hostile ATTACK HOST:PORT SECONDS`` attacks for so long, and prints what it was told as
one JSON object: how often which code, status or end came. It is a process of its own, and gives way to the others: a
hostile peer has a machine of its own, and must not be measured together with what it attacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import grpc

from flarelog.v1 import log_pb2 as pb

GONE = (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)
SERVICE = "/flarelog.v1.LogService"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BAD_NAMES = [  # in every field
    *("", ".", "..", "../x", "../../../../tmp/x", "/etc/passwd", "a/../../b", "a\0b", "a\nb", "a b", "*", "\\..\\x"),
    *(
        "x" * 201,
        "x" * 1025,
        "x/" * 600 + "x",
        "x" * 1_000_000,
        "größe",
        "\u202etxt.gol",
        "\ufeffx",
        "𝄞" * 100,
        "%2e%2e",
    ),
    *(".run.journal", ".app.log.journal", "~root", "a//b", "a/"),
]

Told = Counter[str]
Attack = Callable[["Peer"], Awaitable[None]]


def opening(
    log: str, run: str = "hostile", site: str = "mallory", producer: bytes = b"", epoch: int = 0, number: int = 0
) -> bytes:
    message = pb.PushRequest(number=number)
    message.open.version.major = 1
    message.open.stream.run, message.open.stream.site, message.open.stream.log = run, site, log
    message.open.producer = producer or os.urandom(16)
    message.open.epoch = epoch
    return message.SerializeToString()


def chunk(offset: int, data: bytes, digest: int) -> bytes:
    message = pb.PushRequest()
    message.chunk.offset, message.chunk.data, message.chunk.digest = offset, data, digest
    return message.SerializeToString()


def finish(length: int, digest: int, marks: int) -> bytes:
    message = pb.PushRequest()
    message.finish.receipt.length, message.finish.receipt.digest = length, digest
    message.finish.receipt.marks = marks
    return message.SerializeToString()


def mark(index: int, offset: int = 0, digest: int = 0, text: str = "t", number: int = 0) -> bytes:
    message = pb.PushRequest()
    message.mark.index = index
    made = message.mark.mark
    made.offset, made.digest = offset, digest
    made.generation.path = made.generation.identity = made.generation.notes = text
    made.generation.source_offset, made.generation.head_length = number, number & 0xFFFFFFFF
    return message.SerializeToString()


class Peer:
    """One that attacks *address* until its time is over, and counts what it is told."""

    def __init__(self, address: str, seconds: float) -> None:
        self.address = address
        self.told: Told = Counter()
        self._end = time.monotonic() + seconds
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._end

    async def end(self) -> None:
        """Wait until the time is over."""
        await asyncio.sleep(max(0.0, self._end - time.monotonic()))

    async def channel(self) -> grpc.aio.Channel:
        """A connection of its own."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        return await self._stack.enter_async_context(grpc.aio.insecure_channel(self.address, options=options))

    async def push(
        self, channel: grpc.aio.Channel, messages: Iterable[bytes], stay: bool = False, answered: bool = True
    ) -> list[pb.Reply]:
        """Say *messages*, and return the replies that came until the receiver ended the call; without *stay* it is
        ended here when all is said. *answered*: each message waits for a reply to the one before.
        """
        call: Any = channel.stream_stream(f"{SERVICE}/Push")(timeout=30.0)
        replies: list[pb.Reply] = []
        try:
            async with asyncio.timeout(30.0):
                for message in messages:
                    await call.write(message)
                    if answered:
                        raw = await call.read()
                        if raw is grpc.aio.EOF:
                            break
                        replies.append(pb.Reply.FromString(raw))
                if not stay:
                    await call.done_writing()
                while (raw := await call.read()) is not grpc.aio.EOF:
                    replies.append(pb.Reply.FromString(raw))
        except (*GONE, TimeoutError) as error:
            self._count(error)
        finally:
            call.cancel()
        for reply in replies[-1:]:
            self.told[pb.Code.Name(reply.code)] += 1
        return replies

    async def ask(self, channel: grpc.aio.Channel, method: str, request: bytes, timeout: float = 30.0) -> list[bytes]:
        try:
            call: Any = channel.unary_stream(f"{SERVICE}/{method}")
            answers = [raw async for raw in call(request, timeout=timeout)]
        except grpc.RpcError as error:
            self._count(error)
            return []
        self.told["answered"] += 1
        return answers

    def _count(self, error: Any) -> None:
        self.told[error.code().name if isinstance(error, grpc.aio.AioRpcError) else type(error).__name__] += 1

    async def many(self, work: Iterable[Coroutine[Any, Any, Any]], at_once: int) -> None:
        """Do *work*, so much of it *at_once*, until it or the time is over."""
        waiting: set[asyncio.Task[Any]] = set()
        for one in work:
            if not self.goes_on:
                one.close()
                break
            waiting.add(asyncio.create_task(one))
            if len(waiting) >= at_once:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting:
            _, waiting = await asyncio.wait(waiting, timeout=max(1.0, self._end - time.monotonic()))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        host, _, port = self.address.rpartition(":")
        try:
            async with asyncio.timeout(5.0):
                return await asyncio.open_connection(host, int(port))
        except (OSError, TimeoutError):
            self.told["not connected"] += 1
            return None


# --- what is said


async def names(peer: Peer) -> None:
    channel = await peer.channel()
    while peer.goes_on:
        for name in BAD_NAMES:
            # In every field; as long as it names nothing else as well.
            for part in ("run", "site", "log"):
                where = {"run": "hostile", "site": "mallory", "log": "x.log"} | {part: name}
                replies = await peer.push(channel, [opening(**where)])  # type: ignore[arg-type]  # never the epoch
                peer.told["accepted"] += bool(replies) and replies[0].code == pb.OK
                with contextlib.suppress(UnicodeError):
                    await peer.ask(channel, "Read", pb.ReadRequest(stream=pb.StreamId(**where)).SerializeToString())
            for method in ("StartRun", "EndRun", "GetRun"):
                await peer.ask(channel, method, pb.RunRequest(run=name).SerializeToString())
            await peer.ask(channel, "List", pb.ListRequest(run=name, site=name).SerializeToString())


async def lies(peer: Peer) -> None:
    """Other bytes, other digests, receipts and marks of what never was, ids and epochs of others."""
    channel, data, top = await peer.channel(), b"0123456789", (1 << 64) - 1
    good = zlib.crc32(data)
    for number in itertools.count():
        if not peer.goes_on:
            return
        log = f"lies-{number % 50}.log"
        same = b"the-same-for-all"
        for messages in (
            [opening(log), chunk(0, data, good), chunk(5, b"wrong" + b"more", zlib.crc32(b"01234wrongmore"))],
            [opening(log), chunk(0, data[::-1], zlib.crc32(data[::-1]))],
            [opening(log), chunk(top, data, good), chunk(top - 1, b"", 0)],
            [opening(log), finish(top, 1, top)],
            [opening(log), finish(3, zlib.crc32(b"012"), 0)],
            [opening(log), mark(top, top), mark(1)],
            [opening(log), mark(0, 10, good, "t", top)],
            [opening(log), mark(5, 10, good)],
            [opening(log, epoch=top)],
            [opening(log, epoch=1)],
            [opening(log, producer=same), opening(log, producer=same)],
            [opening(log, site="another", producer=same), finish(1, 1, 1)],
            [chunk(0, data, good)],
            [finish(0, 0, 0)],
            [b"\xff garbage"],
            [b""],
            [opening(log) + b"\xfa\x3f\x04more", b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"],
        ):
            await peer.push(channel, messages)


async def marks(peer: Peer, text: str = "t") -> None:
    """A hundred thousand marks and one, then lists of them."""
    channel = await peer.channel()
    said = (mark(number, text=text, number=number) for number in range(100_001))
    await peer.push(channel, itertools.chain([opening("marks.log")], said), stay=True, answered=False)
    request = pb.ListRequest(run="hostile").SerializeToString()
    await peer.many((peer.ask(channel, "List", request) for _ in itertools.count()), 20)


async def fat_marks(peer: Peer) -> None:
    await marks(peer, "𝄞" * 1024)


async def too_large(peer: Peer) -> None:
    channel, data = await peer.channel(), bytes(8 << 20)
    work = (peer.push(channel, [opening(f"large-{n}.log"), chunk(0, data, 0)]) for n in itertools.count())
    await peer.many(work, 4)


def packed(offset: int, data: bytes, raw_length: int, digest: int, codec: int = pb.CODEC_ZSTD) -> bytes:
    message = pb.PushRequest()
    message.chunk.offset, message.chunk.digest, message.chunk.data = offset, digest, data
    message.chunk.codec, message.chunk.raw_length = codec, raw_length  # type: ignore[assignment]
    return message.SerializeToString()


def bomb(size: int, says: int, descriptor: int = 0xE0, head: bytes = b"") -> bytes:
    """A frame of Zstandard that is *size* zeros, four bytes for each 128 KiB, and that says that it is *says*."""
    blocks = []
    for at in range(0, size, 1 << 17):
        last = at + (1 << 17) >= size
        blocks.append((min(1 << 17, size - at) << 3 | 2 | last).to_bytes(3, "little") + b"\0")
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + head + says.to_bytes(8, "little") + b"".join(blocks)


async def bombs(peer: Peer) -> None:
    """Chunks of a hundred bytes that unpack to two megabytes, as many as go, and some that would to much more."""
    size, data = 2 << 20, bytes(2 << 20)
    whole = bomb(size, size)
    channel = await peer.channel()

    def honest(log: str) -> Iterable[bytes]:
        """Good ones, the first of them again and again."""
        yield opening(log)
        digest = 0
        for number in range(128):
            digest = zlib.crc32(data, digest)
            yield packed(number * size, whole, size, digest)
        first = zlib.crc32(data)
        while peer.goes_on:
            yield packed(0, whole, size, first)

    async def lying() -> None:
        for number in itertools.count():
            for frame, says in (
                (bomb(1 << 30, size), size),
                (bomb(1 << 30, 1 << 30), 1 << 30),
                (bomb(1 << 30, 1 << 30), size),
                (bomb(1 << 30, 1 << 30), (1 << 32) - 1),
                (bomb(size, size, 0xC0, b"\xff"), size),  # a window of terabytes
                (bomb(size, size, 0xC0, b"\x70"), size),  # of sixteen megabytes
                (bomb(size, size, 0xE1, b"\x07"), size),  # a dictionary
                (whole * 1000, size),
                (whole + os.urandom(1 << 20), size),
                (whole[:-4], size),
                (os.urandom(1 << 20), size),
                (b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + bytes(3) * 600_000, size),  # of empty blocks
                (whole, size),  # with another digest
            ):
                if not peer.goes_on:
                    return
                await peer.push(channel, [opening(f"lying-{number % 20}.log"), packed(0, frame, says, 7)])
            await peer.push(channel, [opening("codec.log"), packed(0, whole, size, 7, 9)])

    many = (peer.push(channel, honest(f"bombs-{n}.log"), answered=False) for n in range(8))
    await peer.many((*many, lying(), lying()), 10)


async def flood(peer: Peer) -> None:
    """Bytes, as many as go."""
    data = bytes(1 << 20)

    def chunks(log: str) -> Iterable[bytes]:
        yield opening(log)
        digest = 0
        for number in range(1000):
            if not peer.goes_on:
                return
            digest = zlib.crc32(data, digest)
            yield chunk(number << 20, data, digest)

    channel = await peer.channel()
    await peer.many((peer.push(channel, chunks(f"flood-{n}.log"), answered=False) for n in range(4)), 4)


# --- calls, more than there should be


async def opens(peer: Peer) -> None:
    """One behind the other, each of another log, site and run."""
    channel = await peer.channel()
    for number in range(10_000):
        if not peer.goes_on:
            break
        await peer.push(channel, [opening(f"{number}.log", f"run-{number}", f"site-{number}")])


async def deep(peer: Peer) -> None:
    """Logs without number, each in directories of its own, as deep as they may be."""
    channel = await peer.channel()

    def name(number: int) -> str:
        return "/".join([f"deep-{number}", *(f"d{n}" for n in range(14)), "a.log"])

    await peer.many((peer.push(channel, [opening(name(n))]) for n in itertools.count()), 50)


async def opens_at_once(peer: Peer) -> None:
    channels = [await peer.channel() for _ in range(4)]
    work = (peer.push(channels[n % 4], [opening(f"{n}.log", "at-once")], stay=True) for n in range(10_000))
    await peer.many(work, 10_000)


async def streams_at_once(peer: Peer) -> None:
    """Ten thousand logs in one call, then as many again over those that are open, and bytes to all of them."""
    channel = await peer.channel()
    messages = [opening(f"{n % 10_000}.log", "many", producer=b"the-same-for-all", number=n) for n in range(1, 20_000)]
    while peer.goes_on:
        beats = (chunk(0, b"", 0) for _ in range(10_000))
        await peer.push(channel, itertools.chain(messages, beats), answered=False)


async def half_open(peer: Peer) -> None:
    """Calls that say Open or nothing, and then nothing."""
    channels = [await peer.channel() for _ in range(4)]
    calls = []

    async def half(number: int) -> None:
        call: Any = channels[number % 4].stream_stream(f"{SERVICE}/Push")()
        calls.append(call)
        if number % 2:
            with contextlib.suppress(*GONE):  # the receiver may have ended it by then
                await call.write(opening(f"half-{number}.log"))

    halves = [asyncio.create_task(half(number)) for number in range(4000)]  # most wait until the receiver has room
    await peer.end()
    peer.told["calls"] = len(calls)
    for task in halves:
        task.cancel()
    await asyncio.gather(*halves, return_exceptions=True)


async def readers(peer: Peer) -> None:
    """Reads and lists of which no byte is ever read."""
    channels = [await peer.channel() for _ in range(4)]
    data = os.urandom(1 << 20)
    digest, messages = 0, [opening("large.log")]
    for number in range(8):
        digest = zlib.crc32(data, digest)
        messages.append(chunk(number << 20, data, digest))
    await peer.push(channels[0], [*messages, finish(8 << 20, digest, 0)])
    request = pb.ReadRequest(follow=True)
    request.stream.run, request.stream.site, request.stream.log = "hostile", "mallory", "large.log"
    calls = []
    for number in range(3000):
        read: Any = channels[number % 4].unary_stream(f"{SERVICE}/Read")
        call = read(request.SerializeToString())
        calls.append(asyncio.create_task(call.initial_metadata()))  # begins it
    peer.told["calls"] = len(calls)
    await peer.end()
    for task in calls:
        task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def lists(peer: Peer) -> None:
    channel = await peer.channel()
    await peer.many((peer.push(channel, [opening(f"l-{n}.log")]) for n in range(200)), 20)
    await peer.many((peer.ask(channel, "List", b"") for _ in itertools.count()), 500)


async def runs(peer: Peer) -> None:
    """Runs without number, and one that begins and ends all the time."""
    channel = await peer.channel()
    flip = pb.RunRequest(run="flip").SerializeToString()

    def work() -> Iterable[Coroutine[Any, Any, Any]]:
        for number in itertools.count():
            yield peer.ask(channel, "StartRun", pb.RunRequest(run=f"r-{number}").SerializeToString())
            yield peer.ask(channel, "StartRun", flip)
            yield peer.ask(channel, "EndRun", flip)
            yield peer.ask(channel, "EndRun", flip)

    await peer.many(work(), 50)


# --- connections


async def loris(peer: Peer) -> None:
    """Connections that say nothing, a preface and nothing, or a byte now and then."""
    connections = []
    for number in range(3000):
        if not peer.goes_on or (connection := await peer.connect()) is None:
            continue
        connections.append(connection)
        if number % 3 == 1:
            connection[1].write(PREFACE)
    peer.told["connected"] = len(connections)
    for byte in PREFACE * 100:
        if not peer.goes_on:
            break
        for _, writer in connections[2::3]:
            with contextlib.suppress(OSError):
                writer.write(bytes([byte]))
        await asyncio.sleep(1.0)
    for _, writer in connections:
        writer.transport.abort()


async def garbage(peer: Peer) -> None:
    async def say(data: bytes) -> None:
        connection = await peer.connect()
        if connection is None:
            return
        reader, writer = connection
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                writer.write(data)
                while await reader.read(1 << 16):
                    pass
        peer.told["said"] += 1
        writer.transport.abort()

    def work() -> Iterable[Coroutine[Any, Any, None]]:
        while True:
            yield say(os.urandom(1000))
            yield say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            yield say(PREFACE + os.urandom(5000))
            yield say(PREFACE + frame(4, 0, 0) + frame(1, 4, 1, b"\xff" * 1000))
            yield say(PREFACE + frame(4, 0, 0) + b"".join(frame(6, 0, 0, bytes(8)) for _ in range(5000)))  # pings
            yield say(PREFACE + frame(4, 0, 0) + b"".join(frame(4, 0, 0) for _ in range(5000)))  # settings

    await peer.many(work(), 20)


async def pings(peer: Peer) -> None:
    """Pings by the thousand over connections without a call."""
    flood = PREFACE + frame(4, 0, 0) + 20_000 * frame(6, 0, 0, b"12345678")

    async def one() -> None:
        while peer.goes_on and (connection := await peer.connect()) is not None:
            reader, writer = connection
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(2.0):
                    writer.write(flood)
                    while await reader.read(1 << 16):
                        pass
            peer.told["said"] += 1
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(20)))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def headers(path: str) -> bytes:
    """What begins a call, as HPACK literals."""

    def literal(name: bytes, value: bytes) -> bytes:
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    return b"".join(
        literal(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"x"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
    )


def message(raw: bytes) -> bytes:
    return b"\0" + len(raw).to_bytes(4, "big") + raw


async def no_window(peer: Peer) -> None:
    """Calls whose answers cannot leave: the peer's flow control grants not one byte."""
    connection = await peer.connect()
    if connection is None:
        return
    reader, writer = connection
    writer.write(PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)))
    for number in range(1000):
        stream = 2 * number + 1
        writer.write(frame(1, 4, stream, headers(f"{SERVICE}/Push")))
        writer.write(frame(0, 0, stream, message(opening(f"no-window-{number}.log"))))
        if number % 2:
            writer.write(frame(0, 0, stream, message(b"\xff garbage")))
    peer.told["calls"] = 1000
    with contextlib.suppress(OSError):
        await writer.drain()
        while peer.goes_on:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    head = await reader.readexactly(9)
                    payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                    if head[3] == 6 and not head[4] & 1:  # alive it is
                        writer.write(frame(6, 1, 0, payload))
                    elif head[3] == 4 and not head[4] & 1:
                        writer.write(frame(4, 1, 0))
                    elif head[3] == 3:
                        peer.told["reset"] += 1
    writer.transport.abort()


async def resets(peer: Peer) -> None:
    """Calls that are begun and given up at once."""
    while peer.goes_on:
        connection = await peer.connect()
        if connection is None:
            return
        _, writer = connection
        with contextlib.suppress(OSError):
            writer.write(PREFACE + frame(4, 0, 0))
            for number in range(5000):
                stream = 2 * number + 1
                writer.write(frame(1, 4, stream, headers(f"{SERVICE}/List")) + frame(3, 0, stream, bytes(4)))
                if number % 100 == 0:
                    await writer.drain()
                    peer.told["reset"] += 100
        writer.transport.abort()


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        *(
            names,
            lies,
            marks,
            fat_marks,
            too_large,
            bombs,
            flood,
            opens,
            deep,
            opens_at_once,
            streams_at_once,
            half_open,
            readers,
            lists,
            runs,
        ),
        *(loris, garbage, no_window, resets, pings),
    )
}


async def main(name: str, address: str, seconds: float) -> Told:
    async with Peer(address, seconds) as peer:
        await ATTACKS[name](peer)
        return peer.told


if __name__ == "__main__":
    os.nice(10)
    socket.setdefaulttimeout(10.0)
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))))
