"""A receiver's answers on one call: over a store, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.checksum import extend
from flarelog.delivery.receiving import code_of
from flarelog.errors import Fenced, FlarelogError, Full, Hole, NotAllowed, Unavailable
from flarelog.model import Attributes, Chunk, Code, Generation, News, Open, Receipt, Reply, Started, StreamId
from flarelog.receiver.intake import Intake
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.receiver.standing import Standing
from flarelog.security.access import PolicyFile
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.store import LocalStore
from flarelog.wire.codec.push import Request
from flarelog.wire.several import Batch, decode_replies
from tests.certificates import auth_context
from tests.contexts import Bare
from tests.messages import encode_request
from tests.stored import TemporaryStore

STREAM = StreamId("run-1", "site-1", "log.txt")
DATA = b"one\ntwo\n"
OPEN = Open(STREAM, b"a-producer")


class Call(Bare):
    """A Push whose producer sends *requests* one by one, each after the answer to the last, and then leaves.

    News get no answer, so the producer waits for none.
    """

    def __init__(self, requests: list[Request]) -> None:
        self.replies: list[Reply] = []
        self._requests = list(requests)
        self._answered = asyncio.Event()
        self._answered.set()

    async def read(self) -> Any:
        await self._answered.wait()
        if not self._requests:
            return grpc.aio.EOF
        request = self._requests.pop(0)
        if not isinstance(request, News):
            self._answered.clear()
        return encode_request(request)

    async def write(self, reply: Any) -> None:
        self.replies += decode_replies(reply)
        self._answered.set()

    def peer(self) -> str:
        return "a test"


class Together(Call):
    """A Push whose producer sends *messages* of several requests, each after the answer to the last."""

    def __init__(self, messages: list[bytes]) -> None:
        super().__init__([])
        self._messages = messages

    async def read(self) -> Any:
        await self._answered.wait()
        self._answered.clear()
        return self._messages.pop(0) if self._messages else grpc.aio.EOF


def pushed(root: Path, *requests: Request, announced_runs_only: bool = False) -> list[Reply]:
    """The answers of a receiver with a store at *root* to *requests*."""

    async def go() -> list[Reply]:
        async with LocalStore(root, "memory") as store:
            call = Call(list(requests))
            await Server(store, ServerOptions(announced_runs_only=announced_runs_only)).push(None, call)
            return call.replies

    return asyncio.run(go())


CHUNK = Chunk(0, DATA, extend(0, DATA))


def batch(*requests: tuple[int, Request]) -> bytes:
    """One message with *requests*, each with the number of its stream."""
    made = Batch()
    for number, request in requests:
        made.add(number, request)
    (message,) = made.messages()
    return message


def test_what_is_pushed_is_acknowledged_and_sealed(tmp_path: Path) -> None:
    replies = pushed(tmp_path, OPEN, CHUNK, Receipt(len(DATA), extend(0, DATA), 0))
    assert [(reply.code, reply.committed) for reply in replies] == [
        (Code.OK, 0),
        (Code.OK, len(DATA)),
        (Code.SEALED, len(DATA)),
    ]
    assert (tmp_path / "run-1/site-1/log.txt").read_bytes() == DATA


def test_what_comes_together_is_acknowledged_together(tmp_path: Path) -> None:
    end, stream = extend(0, DATA), Open(STREAM, b"a-producer")
    zone, generation = (0, Attributes(0, 0, "zone:UTC")), (1, Generation(0, 0, "log.txt", 0, "1:2:3"))
    messages = [
        batch((1, stream)),
        batch((1, zone), (1, generation), (1, CHUNK)),
        batch((1, Chunk(len(DATA), b"", end)), (1, Receipt(len(DATA), end, 2))),
    ]

    async def go() -> list[Reply]:
        async with LocalStore(tmp_path, "memory") as store:
            call = Together(messages)
            await Server(store, ServerOptions()).push(None, call)
            return call.replies

    replies = [(reply.code, reply.committed, reply.marks) for reply in asyncio.run(go())]
    assert replies == [(Code.OK, 0, 0), (Code.OK, len(DATA), 2), (Code.SEALED, len(DATA), 2)]


def test_a_receipt_is_committed_together_with_the_bytes_that_came_with_it(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    commits, end = mocker.spy(LocalStore, "commit"), extend(0, DATA)
    messages = [
        batch((1, Open(STREAM, b"a-producer"))),
        batch((1, CHUNK), (1, Receipt(len(DATA), end, 0))),
    ]

    async def go() -> list[Reply]:
        async with LocalStore(tmp_path, "disk") as store:
            call = Together(messages)
            await Server(store, ServerOptions()).push(None, call)
            return call.replies

    assert asyncio.run(go())[-1].code is Code.SEALED
    assert commits.call_count == 1


@pytest.mark.parametrize(
    ("receipt", "code"),
    [
        pytest.param(Receipt(len(DATA) + 1, 7, 0), Code.HOLE, id="for-more-than-came"),
        pytest.param(Receipt(len(DATA), 7, 0), Code.REJECTED, id="for-other-bytes"),
        pytest.param(Receipt(4, extend(0, DATA[:4]), 0), Code.REJECTED, id="for-less-than-came"),
    ],
)
def test_a_receipt_that_the_receiver_cannot_agree_with_seals_nothing(
    tmp_path: Path, receipt: Receipt, code: Code
) -> None:
    replies = pushed(tmp_path, OPEN, CHUNK, receipt)
    assert [reply.code for reply in replies] == [Code.OK, Code.OK, code]
    assert replies[-1].committed == len(DATA)


def test_a_run_that_must_be_announced_and_is_not_is_a_miss(tmp_path: Path) -> None:
    (reply,) = pushed(tmp_path, OPEN, announced_runs_only=True)
    assert reply.code is Code.EXECUTION_EXCEPTION
    assert not (tmp_path / "run-1").exists()


class Staying(Call):
    """A Push of site-1 that is silent once it is open."""

    async def read(self) -> Any:
        return await (super().read() if self._requests else asyncio.Event().wait())

    def auth_context(self) -> dict[str, list[bytes]]:
        return auth_context("site-1")


def standing_of(server: Server) -> Standing:
    return Standing(server.guard, server.sessions, server.calls, server.options.max_connection_age, 1, server.spawn)


def test_a_policy_that_changes_ends_the_streams_that_it_no_longer_allows(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.receiver.standing.EVERY", 0)
    path = tmp_path / "policy.toml"
    path.write_text("defaults = true\n")

    async def go() -> list[Reply]:
        async with asyncio.timeout(10), TemporaryStore() as store:
            server, call = Server(store, ServerOptions(policy=PolicyFile(path))), Staying([OPEN])
            asking = asyncio.create_task(standing_of(server).run())
            pushing = asyncio.create_task(server.push(None, call))
            while not call.replies:
                await asyncio.sleep(0)
            path.write_text("defaults = false\n")
            await pushing
            asking.cancel()
            return call.replies

    first, last = asyncio.run(go())
    assert (first.code, last.code) == (Code.OK, Code.REJECTED)
    assert "may not push into run 'run-1'" in last.reason


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Hole, Code.HOLE),
        (Fenced, Code.FENCED),
        (Full, Code.PAUSE),
        (Unavailable, Code.PAUSE),
        (NotAllowed, Code.REJECTED),
    ],
)
def test_what_a_producer_is_told_of_the_stores_trouble(error: Callable[[str], FlarelogError], code: Code) -> None:
    assert code_of(error("trouble")) is code


class Failing(LocalStore):
    """A store whose appenders raise *trouble* on close, and wait for *go_on* if it is set."""

    trouble: Exception | None = None
    go_on: asyncio.Event | None = None

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> LocalAppender:
        appender = await super().appender(stream, producer, epoch, started)
        close = appender.close

        async def closing() -> None:
            await close()
            if self.go_on is not None:
                await self.go_on.wait()
            if self.trouble is not None:
                raise self.trouble

        appender.close = closing  # type: ignore[method-assign]
        return appender


def test_a_stream_whose_end_fails_is_none_of_the_receivers_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> list[Reply]:
        async with asyncio.timeout(10), (store := Failing(tmp_path, "memory")):
            store.trouble = OSError(5, "Input/output error")
            server, call = Server(store, ServerOptions(max_streams=1)), Call([OPEN, CHUNK])
            await server.push(None, call)
            assert not len(server.sessions)
            server.quota.opens(StreamId("run-1", "site-1", "other.txt"))  # raises Full if the old one counts
            return call.replies

    replies = asyncio.run(go())
    assert [(reply.code, reply.committed) for reply in replies] == [
        (Code.OK, 0),
        (Code.OK, len(DATA)),
        (Code.OK, len(DATA)),
    ]
    (said,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "run-1/site-1/log.txt: the receiver failed" in said.getMessage()
    assert said.exc_info is not None


def test_a_stream_at_which_the_receiver_is_wrong_is_to_be_asked_for_again(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch.object(Intake, "take", side_effect=KeyError("a bug"))
    ok, paused = pushed(tmp_path, OPEN, CHUNK)
    assert (ok.code, paused.code) == (Code.OK, Code.PAUSE)
    assert "KeyError" in paused.reason


def test_a_call_that_is_cancelled_while_its_streams_end_stays_cancelled(tmp_path: Path) -> None:
    async def go() -> None:
        async with asyncio.timeout(10), (store := Failing(tmp_path, "memory")):
            store.go_on = asyncio.Event()
            server, call = Server(store), Staying([OPEN])
            pushing = asyncio.create_task(server.push(None, call))
            while not call.replies:
                await asyncio.sleep(0)
            for _ in range(3):
                pushing.cancel()
                await asyncio.sleep(0)
            assert not pushing.done()  # the taken bytes are being committed
            store.go_on.set()
            await asyncio.wait((pushing,))
            assert pushing.cancelled()
            assert len(server.sessions) == 0

    asyncio.run(go())


def test_a_call_that_the_receiver_ends_is_cancelled_only_by_somebody_else(tmp_path: Path) -> None:
    async def go(cancelled: bool) -> bool:
        async with asyncio.timeout(10), (store := Failing(tmp_path, "memory")):
            store.go_on = asyncio.Event()
            server, call = Server(store), Staying([OPEN])
            pushing = asyncio.create_task(server.push(None, call))
            while not call.replies:
                await asyncio.sleep(0)
            (at_work,) = server.calls
            at_work.leave_all("the receiver is stopping")
            await asyncio.sleep(0)
            if cancelled:
                pushing.cancel()
            store.go_on.set()
            await asyncio.wait((pushing,))
            return pushing.cancelled()

    assert [asyncio.run(go(cancelled)) for cancelled in (False, True)] == [False, True]


def test_stopping_ends_within_its_bound_whatever_a_call_does(
    tmp_path: Path, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    mocker.patch("flarelog.receiver.server.STOP_WITHIN", 0.05)

    class Stuck:
        async def stop(self, grace: float) -> None:
            await asyncio.Event().wait()

    async def go() -> None:
        async with asyncio.timeout(10), TemporaryStore() as store:
            server = Server(store)
            server.listening._servers.append(Stuck())  # type: ignore[arg-type]
            await server.stop()

    asyncio.run(go())
    assert "calls did not end" in caplog.text
