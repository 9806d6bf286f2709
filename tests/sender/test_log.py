"""One log, as the call asks it for what to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.delivery.fair import SMALL
from flarelog.delivery.sending import Again, Lost, Silent
from flarelog.model import Chunk, Code, Codec, Packed, Reply
from flarelog.sender.consents import Consents
from flarelog.sender.log import Log, Site
from flarelog.sender.options import SidecarOptions
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.codec.push import Request
from flarelog.wire.packing import Compressing, decompress
from flarelog.wire.uplink import Gone, Unanswered
from tests.sources.memory import MemorySource, Origin

TEXT = b"".join(b"step=%d loss=%d\n" % (step, step * 7919 % 1000) for step in range(20_000))
TAKEN = Reply(Code.OK, incarnation=b"A", epoch=1, codecs=(Codec.ZSTD,))


def failed(details: str) -> grpc.RpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class Link:
    """A receiver that accepts each log."""

    moves, epoch, producer_id, whose, started, peer = 0, 1, b"the-producer", "", None, "receiver.example:4721"
    end = peer

    def beginning(self, unread: int) -> asyncio.Semaphore:
        return asyncio.Semaphore(1)

    def uplink(self) -> Link:
        return self

    def answers(self, epoch: int) -> None: ...
    def turned(self, uplink: Link, trouble: Again) -> Again:
        return trouble

    def stream(self, speaker: Log) -> Stream:
        self.latest = Stream(speaker)
        return self.latest


class Stream:
    """One log's stream: the test asks for its requests where the call would."""

    def __init__(self, speaker: Log) -> None:
        self.speaker, self.answered, self.wanted = speaker, False, False
        self.error: Exception | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def put(self, request: Request) -> None:
        self.answered = self.speaker.heard(TAKEN) or True

    def wants(self) -> None:
        self.wanted = True

    def lost(self, error: Exception) -> None:
        self.error = error
        self.speaker.wake()

    def leave(self) -> None: ...


class Run:
    """A log of TEXT at a site, over a network where it is compressed."""

    place, consents = "", Consents(())

    def __init__(self) -> None:
        self.options = SidecarOptions("receiver.example:4721", "run-1", "site-1", SourceOptions("."))
        self.link, self.compressing = Link(), Compressing("on", "receiver.example:4721")
        self.tasks: list[asyncio.Task[None]] = []
        origin = Origin("log.txt")
        origin.write(TEXT)
        self.log = Log(cast(Site, self), cast(Any, MemorySource(origin)))

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    def health(self) -> None: ...
    def brought(self) -> None: ...

    async def connected(self) -> asyncio.Task[Again | None]:
        connection = asyncio.create_task(self.log.connect())
        while self.log._stream is None:
            await asyncio.sleep(0)
        return connection

    def said(self) -> list[Request]:
        return list(self.log.say(SMALL)[0])

    async def compressed(self) -> None:
        await asyncio.gather(*self.tasks)
        self.tasks.clear()


def test_a_log_that_is_asked_again_before_its_large_chunk_is_compressed_sends_nothing_behind_it() -> None:
    """Beside busy logs the call asks a log again in the same turn: a chunk that overtakes another one is a HOLE."""

    async def go() -> list[Request]:
        run = Run()
        await run.connected()
        said: list[Request] = []
        for _ in range(4):
            said += run.said()
            said += run.said()
            assert run.log.beat() is None
            await run.compressed()
        run.compressing.close()
        return said

    chunks = [one for one in asyncio.run(go()) if isinstance(one, Chunk | Packed)]
    assert len(chunks) == 3
    assert b"".join(bytes_of(chunk) for chunk in chunks) == TEXT[: 3 * SMALL]


def test_a_chunk_that_is_compressed_over_a_reconnect_does_not_hold_up_the_new_connection(
    mocker: MockerFixture,
) -> None:
    async def go() -> list[Request]:
        run = Run()
        held = asyncio.Event()

        async def slowly(size: int, work: Callable[[], bytes]) -> bytes:
            await held.wait()
            return work()

        mocker.patch.object(run.compressing.crew, "do", slowly)
        first = await run.connected()
        run.said()  # begins to compress
        run.log.delivery.heard(Reply(Code.OK, incarnation=b"A", epoch=1), 0.0)
        run.link.latest.lost(Again("the connection was lost"))
        await first
        await run.connected()
        stream = run.link.latest
        stream.wanted = False
        assert not run.said()  # it is asked before the compressed chunk of the former connection is dropped
        held.set()
        await run.compressed()
        assert stream.wanted
        said = run.said()
        await run.compressed()
        run.compressing.close()
        return said + run.said()

    (chunk,) = [one for one in asyncio.run(go()) if isinstance(one, Chunk | Packed)]
    assert chunk.offset == 0
    assert bytes_of(chunk) == TEXT[:SMALL]


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        pytest.param(Unanswered("did not answer for 30 s"), Silent, "did not answer for 30 s", id="an-answer-is-late"),
        pytest.param(failed("Stream removed (ping timeout)"), Silent, "it no longer answers", id="a-ping-is-late"),
        pytest.param(Gone("closed the connection"), Lost, "closed the connection", id="the-receiver-ends-it"),
        pytest.param(failed("Socket closed"), Lost, "the connection was closed", id="the-connection-ends"),
    ],
)
def test_a_receiver_that_stands_still_is_told_from_a_connection_that_is_lost(
    error: Exception, kind: type[Again], sentence: str
) -> None:
    async def go() -> Again | None:
        run = Run()
        connection = await run.connected()
        run.link.latest.lost(error)
        run.compressing.close()
        return await connection

    trouble = asyncio.run(go())
    assert type(trouble) is kind
    assert str(trouble).endswith(sentence)


def bytes_of(chunk: Chunk | Packed) -> bytes:
    return decompress(chunk.data, chunk.raw_length) if isinstance(chunk, Packed) else bytes(chunk.data)
