"""What any messages may do to the two processes: a receiver's calls over a real store, a sidecar's over a real log.

As in ``targets``, a target is a function of bytes that raises for nothing but a broken law. What a peer says here is
bytes: messages in any order, some of them cut short, spoilt, doubled, too large, or with fields of another version.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from flarelog.checksum import extend
from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import FlarelogError, InvalidName
from flarelog.lifecycle import Event
from flarelog.model import MAX_OFFSET, Chunk, Code, Codec, Mark, Open, Packed, Receipt, Reply, StreamId, StreamInfo
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.sender.log import Log
from flarelog.sender.options import SidecarOptions
from flarelog.sender.sidecar import Sidecar
from flarelog.sources.files.patterns import SourceOptions
from flarelog.stores.base import read
from flarelog.stores.local.store import LocalStore
from flarelog.wire import calls, several
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.lists import encode_info
from flarelog.wire.codec.push import Request, decode_said
from flarelog.wire.codec.replies import encode_reply
from flarelog.wire.packing import compress
from fuzz.steps import MARKS, Steps, hold
from tests.contexts import Bare
from tests.messages import decode_request, encode_request

STREAMS = [
    StreamId("run-1", "site-1", "rank-0/stderr.log"),
    StreamId("run-1", "site-1", "log.txt"),
    StreamId("run-2", "site-2", "log.txt"),
]
SOURCE = bytes(range(64))
MOST = 8  # calls of one execution
UNKNOWN_FIELD = b"\x98\x06\x07"  # field 99, a number

_work = tempfile.TemporaryDirectory(prefix="flarelog-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
_runner = asyncio.Runner()


def twisted(steps: Steps, raw: bytes) -> bytes:
    """*raw*, mostly as it is."""
    match steps.one(16):
        case 1:
            return raw[: steps.one(len(raw) + 1)]
        case 2:
            return raw + UNKNOWN_FIELD
        case 3:
            return UNKNOWN_FIELD + raw
        case 4:
            return raw + raw
        case 5 if raw:
            at = steps.one(len(raw))
            return raw[:at] + bytes([steps.one()]) + raw[at + 1 :]
        case 6:
            return steps.data()
    return raw


# --- against a receiver


class Call(Bare):
    """A Push whose producer says *requests*, whatever it is answered, and then goes."""

    def __init__(self, requests: list[bytes], pauses: list[int]) -> None:
        self.replies: list[Reply] = []
        self._requests, self._pauses = requests, pauses

    def asked(self) -> Iterator[StreamId]:
        """The streams that it would open; a name that is none is nowhere stored."""
        for raw in self._requests:
            with contextlib.suppress(Malformed, InvalidName):
                if isinstance(request := decode_request(raw), Open):
                    yield request.stream

    async def read(self) -> Any:
        for _ in range(self._pauses.pop() if self._pauses else 0):
            await asyncio.sleep(0)
        return self._requests.pop(0) if self._requests else grpc.aio.EOF

    async def write(self, reply: bytes) -> None:
        self.replies += several.decode_replies(reply)

    def peer(self) -> str:
        return "a peer"


def session(raw: bytes) -> None:
    """Push calls, one or two at a time: what is committed stays as it is, and nothing is left of a call but bytes."""
    root = Path(_work.name, "store")
    shutil.rmtree(root, ignore_errors=True)
    _runner.run(_sessions(Steps(raw), root))


async def _sessions(steps: Steps, root: Path) -> None:
    async with LocalStore(root, "memory") as store:
        server = Server(store, ServerOptions(announced_runs_only=steps.one(8) == 7, max_streams=4, max_site_bytes=4096))
        if server.options.announced_runs_only and steps.one(2):
            await server.runs.announce(STREAMS[0].run, Event.START_RUN)
        held: dict[StreamId, bytes] = {}
        asked: set[StreamId] = set()
        for _ in range(MOST):
            if not steps:
                break
            calls = [_call(steps, held) for _ in range(1 + (steps.one(4) == 3))]
            asked |= {stream for call in calls for stream in call.asked()}
            await asyncio.gather(*(server.push(None, call) for call in calls))
            for call in calls:
                _answers_hold(call.replies)
            hold(
                not len(server.sessions) and not len(server.sessions.windows),
                "a call has ended, and its session has not",
            )
            held = await _stored(store, root, held, asked)
        await server.stop()


def _call(steps: Steps, held: dict[StreamId, bytes]) -> Call:
    stream = STREAMS[steps.one(3)]
    content, marks = bytearray(held.get(stream, b"")), steps.one(3)
    requests = []
    for number in range(1 + steps.one(8)):
        kind = steps.one(8) if number else 0  # mostly an Open first
        requests.append(twisted(steps, encode_request(_request(steps, kind, stream, content, marks))))
    return Call(requests, [steps.one(4) for _ in requests])


def _request(steps: Steps, kind: int, stream: StreamId, content: bytearray, marks: int) -> Request:
    """Such as an honest producer would say next, or nearly so."""
    if kind == 0:
        return Open(stream, bytes([65 + steps.one(3)]) * (16 - 12 * (steps.one(16) == 9)), steps.small())
    if kind == 1:
        mark: Mark = MARKS[steps.one(len(MARKS))]
        return steps.number(marks), replace(mark, offset=steps.number(len(content)), digest=extend(0, bytes(content)))
    if kind == 2:
        return Receipt(steps.number(len(content)), extend(0, bytes(content)) ^ (steps.one(4) == 3), marks)
    data = bytes(3 << 20) if steps.one(256) == 255 else steps.data() * (64 if kind == 6 else 1)
    offset = len(content) if kind < 7 else steps.number(len(content))
    if kind < 7 and len(data) < 1 << 20:
        content += data
    chunk = Chunk(min(offset, MAX_OFFSET), data, extend(0, bytes(content)))
    if kind != 6:
        return chunk
    return Packed(chunk.offset, compress(data), chunk.digest, Codec.ZSTD, len(data) ^ (steps.one(16) == 15))


def _answers_hold(replies: list[Reply]) -> None:
    hold(bool(replies), "a call that was not answered")
    hold(all(reply.code is Code.OK for reply in replies[:-1]), [reply.code for reply in replies])
    hold(all(reply.reason for reply in replies if reply.code not in (Code.OK, Code.SEALED)), "a refusal says why")
    hold(not any("\n" in reply.reason for reply in replies), "in one sentence")
    committed = [reply.committed for reply in replies if reply.code is Code.OK]
    hold(committed == sorted(committed), "what is committed grows")


async def _stored(
    store: LocalStore, root: Path, before: dict[StreamId, bytes], asked: set[StreamId]
) -> dict[StreamId, bytes]:
    """What is held now of each stream: at least what was held before, and nothing of streams that nobody opened."""
    held: dict[StreamId, bytes] = {}
    async for info in store.list(""):
        data = b"".join([piece async for _, piece in read(store, info.stream)])
        hold(len(data) == info.committed and extend(0, data) == info.digest, "the journal vouches for other bytes")
        hold(store.path(info.stream).read_bytes() == data, "the file holds what nobody vouches for")
        held[info.stream] = data
    for stream, data in before.items():
        hold(held.get(stream, b"").startswith(data), f"bytes of {stream} that were committed have changed")
    own = {path for stream in asked for path in map(Path, store.layout.files(stream))}
    own |= {root / stream.run / ".run.journal" for stream in (*asked, STREAMS[0])} | {root / ".lock"}
    found = {Path(directory, name) for directory, _, names in os.walk(root) for name in names}
    hold(found <= own, found - own)
    return held


# --- against a sidecar


@dataclass
class Heard:
    """A receiver that answers with any bytes; it notes what it is sent."""

    steps: Steps
    said: list[Request]

    def stream_stream(self, _: str, response_deserializer: Any) -> Callable[[], Any]:
        return lambda: _Push(self, response_deserializer)

    def unary_stream(self, _: str, request_serializer: Any) -> Any:
        def call(request: Any, timeout: float | None = None) -> _List:
            request_serializer(request)
            return _List(self)

        return call

    def record(self) -> StreamInfo:
        steps = self.steps
        committed = min(steps.number(len(SOURCE)), MAX_OFFSET)
        marks = tuple(
            replace(MARKS[steps.one(len(MARKS))], offset=min(steps.number(committed), MAX_OFFSET))
            for _ in range(steps.one(4))
        )
        stream = STREAMS[1] if steps.one(4) else STREAMS[steps.one(3)]
        return StreamInfo(stream, 0, committed, extend(0, SOURCE[:committed]), steps.one(4) == 3, marks)

    def reply(self) -> bytes:
        steps = self.steps
        code = Code(1 + steps.one(9)) if steps.one(4) == 3 else Code.OK
        sent = max((one.end for one in self.said if isinstance(one, Chunk)), default=0)
        committed = min(steps.number(sent) if steps.one(4) == 3 else sent, MAX_OFFSET)
        marks = sum(isinstance(one, tuple) for one in self.said)
        digest = extend(0, SOURCE[:committed]) ^ (steps.one(16) == 15)
        who = bytes([steps.one(2)]) * 8
        window = (0, 1 << 20, 1, 2**32 - 1)[steps.one(4)]
        reply = Reply(code, committed, digest, marks, who, steps.one(3), "because", steps.one(8) == 7, window=window)
        return twisted(steps, encode_reply(reply))

    async def close(self) -> None: ...


class _List:
    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._left = heard.steps.one(3)

    async def read(self) -> Any:
        self._left -= 1
        steps = self._heard.steps
        return (
            grpc.aio.EOF if self._left < 0 else twisted(steps, encode_info((self._heard.record(), steps.one(8) // 7)))
        )

    def cancel(self) -> None: ...


class _Push:
    def __init__(self, heard: Heard, deserialize: Any) -> None:
        self._heard, self._deserialize = heard, deserialize
        self._left = 1 + heard.steps.one(6)

    async def write(self, raw: bytes) -> None:
        for _, one in several.requests(raw):
            said = decode_said(one)
            hold(encode_request(said.request, said.number) == one, (said, raw))
            self._heard.said.append(said.request)
        await asyncio.sleep(0)

    async def read(self) -> Any:
        for _ in range(self._heard.steps.one(8)):
            await asyncio.sleep(0)
        self._left -= 1
        return grpc.aio.EOF if self._left < 0 else self._deserialize(self._heard.reply())

    def cancel(self) -> None: ...


_site = Path(_work.name, "site")
_site.mkdir()
(_site / "log.txt").write_bytes(SOURCE)


def sidecar(raw: bytes) -> None:
    """Answers to a sidecar: nothing but the log's own bytes leaves it, and its end is one that it can tell of."""
    _runner.run(_sidecar(Steps(raw)))


async def _sidecar(steps: Steps) -> None:
    heard = Heard(steps, [])
    bounds: dict[str, Any] = vars(calls)
    usual, bounds["channel"] = bounds["channel"], lambda *_, **__: heard
    try:
        delivering = DeliveryOptions(max_misses=2, first_delay=0.001, max_delay=0.001)
        one = Sidecar(SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(_site)), delivering))
    finally:
        bounds["channel"] = usual
    try:
        await _deliver(one, heard, steps)
    finally:
        one.finder.close()


async def _deliver(one: Sidecar, heard: Heard, steps: Steps) -> None:
    one.finder.learn([], time.monotonic())
    if steps.one(2):
        one.finder.drain(time.monotonic())
    log = Log(one, one.finder.logs["log.txt"])
    for _ in range(MOST):
        if not steps or log.delivery.sealed:
            break
        try:
            await log.connect()
        except FlarelogError as error:
            hold("\n" not in str(error), str(error))
            break
    for request in heard.said:
        if isinstance(request, Chunk):
            hold(bytes(request.data) in SOURCE, request)
    outcome = log.outcome()
    hold((outcome.receipt is not None) == log.delivery.sealed, outcome)
    hold((_site / "log.txt").read_bytes() == SOURCE, "the log has changed")
