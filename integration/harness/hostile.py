"""A hostile peer over raw gRPC and raw TCP: its messages are made by hand, and follow no rule of flarelog.

``python -m integration.harness.hostile ATTACK HOST:PORT SECONDS`` attacks for so long, and prints the counts of the
codes, statuses and ends that it got as one JSON object. It is a process of its own with a low priority: a real hostile
peer has its own machine, so its load must not be measured with that of the receiver.
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
BAD_NAMES = [  # each is tried in every field
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
    *("%41", "%e8", "a%2Fb", "%00", "%", f"a%-{'0' * 32}-b", f"%-{'0' * 32}-/a/b"),
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
    """An attacker of *address* until its time is over, which counts the answers."""

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
        """Wait until the attack's time is over."""
        await asyncio.sleep(max(0.0, self._end - time.monotonic()))

    async def channel(self) -> grpc.aio.Channel:
        """A new connection."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        return await self._stack.enter_async_context(grpc.aio.insecure_channel(self.address, options=options))

    async def push(
        self, channel: grpc.aio.Channel, messages: Iterable[bytes], stay: bool = False, answered: bool = True
    ) -> list[pb.Reply]:
        """Send *messages*, and return the replies up to the receiver's end of the call; without *stay* this end closes
        it after the last message. *answered*: each message waits for the reply to the one before.
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
        """Run *work*, *at_once* tasks at a time, until it is done or the time is over."""
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


# --- hostile messages


async def names(peer: Peer) -> None:
    channel = await peer.channel()
    while peer.goes_on:
        for name in BAD_NAMES:
            # Each bad name is tried in every field, with good names in the others.
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
    """Send wrong bytes and digests, invented receipts and marks, and the ids and epochs of other producers."""
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
    """Send a hundred thousand marks and one more, then lists of marks."""
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
    """A Zstandard frame of *size* zeros, four bytes for each 128 KiB, whose header gives its size as *says*."""
    blocks = []
    for at in range(0, size, 1 << 17):
        last = at + (1 << 17) >= size
        blocks.append((min(1 << 17, size - at) << 3 | 2 | last).to_bytes(3, "little") + b"\0")
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + head + says.to_bytes(8, "little") + b"".join(blocks)


async def bombs(peer: Peer) -> None:
    """Send chunks of a hundred bytes that unpack to two megabytes, as many as possible, and some that unpack to far
    more.
    """
    size, data = 2 << 20, bytes(2 << 20)
    whole = bomb(size, size)
    channel = await peer.channel()

    def honest(log: str) -> Iterable[bytes]:
        """Valid chunks; the first of them is repeated."""
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
                (bomb(size, size, 0xC0, b"\x70"), size),  # a window of sixteen megabytes
                (bomb(size, size, 0xE1, b"\x07"), size),  # a dictionary
                (whole * 1000, size),
                (whole + os.urandom(1 << 20), size),
                (whole[:-4], size),
                (os.urandom(1 << 20), size),
                (b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + bytes(3) * 600_000, size),  # only empty blocks
                (whole, size),  # with a wrong digest
            ):
                if not peer.goes_on:
                    return
                await peer.push(channel, [opening(f"lying-{number % 20}.log"), packed(0, frame, says, 7)])
            await peer.push(channel, [opening("codec.log"), packed(0, whole, size, 7, 9)])

    many = (peer.push(channel, honest(f"bombs-{n}.log"), answered=False) for n in range(8))
    await peer.many((*many, lying(), lying()), 10)


async def flood(peer: Peer) -> None:
    """Send as many bytes as possible."""
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


# --- too many calls


async def opens(peer: Peer) -> None:
    """Open one stream after the other, each of another log, site and run."""
    channel = await peer.channel()
    for number in range(10_000):
        if not peer.goes_on:
            break
        await peer.push(channel, [opening(f"{number}.log", f"run-{number}", f"site-{number}")])


async def deep(peer: Peer) -> None:
    """Open endless logs, each in directories of its own at the maximal depth."""
    channel = await peer.channel()

    def name(number: int) -> str:
        return "/".join([f"deep-{number}", *(f"d{n}" for n in range(14)), "a.log"])

    await peer.many((peer.push(channel, [opening(name(n))]) for n in itertools.count()), 50)


async def opens_at_once(peer: Peer) -> None:
    channels = [await peer.channel() for _ in range(4)]
    work = (peer.push(channels[n % 4], [opening(f"{n}.log", "at-once")], stay=True) for n in range(10_000))
    await peer.many(work, 10_000)


async def streams_at_once(peer: Peer) -> None:
    """Open ten thousand logs in one call, then open each again, and send bytes to all."""
    channel = await peer.channel()
    messages = [opening(f"{n % 10_000}.log", "many", producer=b"the-same-for-all", number=n) for n in range(1, 20_000)]
    while peer.goes_on:
        beats = (chunk(0, b"", 0) for _ in range(10_000))
        await peer.push(channel, itertools.chain(messages, beats), answered=False)


async def half_open(peer: Peer) -> None:
    """Open calls that send an Open or nothing, and then stay silent."""
    channels = [await peer.channel() for _ in range(4)]
    calls = []

    async def half(number: int) -> None:
        call: Any = channels[number % 4].stream_stream(f"{SERVICE}/Push")()
        calls.append(call)
        if number % 2:
            with contextlib.suppress(*GONE):  # the receiver may have ended the call
                await call.write(opening(f"half-{number}.log"))

    halves = [asyncio.create_task(half(number)) for number in range(4000)]  # most wait until the receiver has room
    await peer.end()
    peer.told["calls"] = len(calls)
    for task in halves:
        task.cancel()
    await asyncio.gather(*halves, return_exceptions=True)


async def readers(peer: Peer) -> None:
    """Start reads and lists without reading a byte of the answers."""
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
        calls.append(asyncio.create_task(call.initial_metadata()))  # starts the call
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
    """Start endless runs, and start and end one run again and again."""
    channel = await peer.channel()
    flip = pb.RunRequest(run="flip").SerializeToString()

    def work() -> Iterable[Coroutine[Any, Any, Any]]:
        for number in itertools.count():
            yield peer.ask(channel, "StartRun", pb.RunRequest(run=f"r-{number}").SerializeToString())
            yield peer.ask(channel, "StartRun", flip)
            yield peer.ask(channel, "EndRun", flip)
            yield peer.ask(channel, "EndRun", flip)

    await peer.many(work(), 50)


# --- news, and text to search


def opening_with(told: pb.News, run: str, number: int) -> bytes:
    """An Open with *told*."""
    message = pb.PushRequest.FromString(opening("ghost.log", run, "ghost", number=number))
    message.open.news.CopyFrom(told)
    return message.SerializeToString()


async def ghosts(peer: Peer) -> None:
    """Open logs of ever new runs, for which the receiver has no room, each with the health of its machine."""
    numbers, told = itertools.count(), pb.News(clock_ms=1)
    told.health.memory = 1

    def opens(count: int) -> Iterable[bytes]:
        for stream, number in zip(range(1, count + 1), numbers, strict=False):
            if not peer.goes_on:
                return
            yield opening_with(told, f"ghost-{number}", stream)

    channels = [await peer.channel() for _ in range(4)]
    await peer.many((peer.push(channels[n % 4], opens(5_000), answered=False) for n in itertools.count()), 4)


async def unreadable(peer: Peer) -> None:
    """Open ever new logs that cannot be read, and say again and again that they can and that they cannot."""
    channel = await peer.channel()

    def told(log: str) -> Iterable[bytes]:
        yield opening(log, "unreadable")
        for number in range(5_000):
            message = pb.PushRequest()
            message.mark.index = number
            message.mark.mark.unread.reason = "" if number % 2 else f"cannot be read: {'x' * 300}"
            yield message.SerializeToString()
        yield finish(0, 0, 5_000)

    await peer.many((peer.push(channel, told(f"{n}.log"), answered=False) for n in itertools.count()), 3)


async def troubles(peer: Peer) -> None:
    """Send many logs of tracebacks, which take long to search for findings."""
    said = b'Traceback (most recent call last):\n  File "x.py", line 1, in f\nRuntimeError: NCCL error: out of memory\n'
    data, channel = said * 700, await peer.channel()
    messages = [chunk(0, data, zlib.crc32(data))]
    work = (peer.push(channel, [opening(f"{n}.log", "troubles"), *messages]) for n in range(4_000))
    await peer.many(work, 20)


# --- connections


async def loris(peer: Peer) -> None:
    """Open connections that send nothing, only a preface, or a byte now and then."""
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
    """Send thousands of pings over connections without a call."""
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
    """An HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def headers(path: str) -> bytes:
    """The headers of a call, as HPACK literals."""

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
    """Start calls whose answers cannot be sent: the flow control window is 0."""
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
                    if head[3] == 6 and not head[4] & 1:  # answers pings, and so seems alive
                        writer.write(frame(6, 1, 0, payload))
                    elif head[3] == 4 and not head[4] & 1:
                        writer.write(frame(4, 1, 0))
                    elif head[3] == 3:
                        peer.told["reset"] += 1
    writer.transport.abort()


async def resets(peer: Peer) -> None:
    """Start calls and reset them at once."""
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
        *(ghosts, unreadable, troubles),
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
