"""What the logs of a sidecar share: the receiver's record."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.delivery.producer import DeliveryOptions
from flarelog.delivery.sending import Again, Lost, Miss, Silent
from flarelog.errors import NotAllowed
from flarelog.model import StreamId, StreamInfo
from flarelog.sender.link import Link
from flarelog.sender.options import SidecarOptions
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.codec.base import Malformed

LOGS = [StreamId("run-1", "site-1", f"{number}.log") for number in range(100)]


def failed(status: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class Record:
    """A receiver's record, whose answers wait for ``answer``."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[list[StreamInfo]]] = []

    async def streams(self, *_: Any, **__: Any) -> list[StreamInfo]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    async def answer(self, committed: int) -> None:
        """Answer the latest request: each log has *committed* bytes."""
        self.asked[-1].set_result([StreamInfo(log, 0, committed, 0, False) for log in LOGS])
        await _turns()


async def _turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def asking(link: Link, logs: list[StreamId]) -> list[asyncio.Task[list[StreamInfo]]]:
    tasks = [asyncio.create_task(link.record_of(log)) for log in logs]
    await _turns()
    return tasks


def test_logs_that_ask_for_their_record_at_the_same_time_share_an_answer_that_is_no_older_than_their_question(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    record = Record()
    mocker.patch("flarelog.wire.listing.streams", record.streams)

    async def go() -> None:
        link = Link(SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path))))
        first = await asking(link, LOGS[:1])
        others = await asking(link, LOGS[1:])
        await record.answer(1)
        assert [[info.committed for info in task.result()] for task in first] == [[1]]
        assert not any(task.done() for task in others), "they asked behind the first request"
        await record.answer(2)
        assert [[(info.stream, info.committed) for info in task.result()] for task in others] == [
            [(log, 2)] for log in LOGS[1:]
        ]
        assert len(record.asked) == 2
        (unknown,) = await asking(link, [StreamId("run-1", "site-1", "none.log")])
        await record.answer(3)
        assert unknown.result() == []
        (left,) = await asking(link, LOGS[:1])
        await link.close()
        await _turns()
        assert left.cancelled(), "no request goes on without a link"

    asyncio.run(go())


@pytest.mark.parametrize(
    "trouble",
    [
        Malformed("nonsense"),
        asyncio.CancelledError(),
        TimeoutError(),
        grpc.aio.UsageError(),
        failed(grpc.StatusCode.INTERNAL, "nonsense"),
        failed(grpc.StatusCode.NOT_FOUND, "nonsense"),
        failed(grpc.StatusCode.DATA_LOSS, "nonsense"),
        failed(grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
        failed(grpc.StatusCode.PERMISSION_DENIED, "Received http2 header with status: 403"),
    ],
    ids=repr,
)
def test_a_request_for_the_record_that_fails_is_repeated(
    tmp_path: Path, mocker: MockerFixture, trouble: BaseException
) -> None:
    mocker.patch("flarelog.wire.listing.streams", side_effect=[trouble, []])
    mocker.patch("flarelog.sender.link.why", return_value="")

    async def go() -> None:
        delivery = DeliveryOptions(first_delay=0.0001, max_delay=0.0001)
        files = SourceOptions(str(tmp_path))
        link = Link(SidecarOptions("127.0.0.1:1", "run-1", "site-1", files, delivery=delivery))
        assert await link.record() == []
        await link.close()

    asyncio.run(go())


def test_a_receiver_that_refuses_the_record_is_not_asked_again(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.wire.listing.streams", side_effect=failed(grpc.StatusCode.PERMISSION_DENIED, "revoked"))

    async def go() -> None:
        link = Link(SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path))))
        with pytest.raises(NotAllowed, match="refuses: revoked"):
            await link.record()
        await link.close()

    asyncio.run(go())


def test_a_connection_that_fails_in_turns_is_told_of_once(
    tmp_path: Path, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    causes = ["Connection reset by peer", "Socket closed", "ping timeout", "Connection refused"]

    async def streams(*_: Any, **__: Any) -> list[StreamInfo]:
        if not causes:
            return []
        raise failed(grpc.StatusCode.UNAVAILABLE, causes.pop(0))

    mocker.patch("flarelog.wire.listing.streams", streams)
    mocker.patch("flarelog.sender.link.why", return_value="")

    async def go() -> None:
        delivery = DeliveryOptions(first_delay=0.0001, max_delay=0.0001)
        files = SourceOptions(str(tmp_path))
        link = Link(SidecarOptions("127.0.0.1:1", "run-1", "site-1", files, delivery=delivery))
        assert await link.record() == []
        await link.pause(Lost("127.0.0.1:1 closed the connection"), 0, "127.0.0.1:1")
        await link.pause(Again("r/s/a.log: its source cannot be read: Permission denied"), 0, "127.0.0.1:1")
        await link.close()

    asyncio.run(go())
    assert [record.getMessage() for record in caplog.records] == [
        "no connection to 127.0.0.1:1: Connection reset by peer; retrying",
        "r/s/a.log: its source cannot be read: Permission denied; retrying",
    ]


def test_one_log_alone_asks_often_whether_the_run_is_announced_and_the_others_follow_it(tmp_path: Path) -> None:
    async def go() -> None:
        delivery = DeliveryOptions(first_delay=0.0001, max_delay=1000.0, max_miss_delay=0.0001)
        link = Link(SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), delivery=delivery))
        scout, follower = (asyncio.create_task(link.pause(Miss("not here"), 60, "127.0.0.1:1")) for _ in range(2))
        await scout
        await link.pause(Miss("not here"), 60, "127.0.0.1:1")  # the next one to ask
        assert not follower.done()
        link.answers(1)
        await follower
        await link.close()

    asyncio.run(go())


class Ended:
    """An uplink that is over or ends."""

    def __init__(self, *, closing: bool = True) -> None:
        self.closing = closing


def test_the_record_is_asked_for_at_each_end_in_turn_and_the_pause_grows_by_the_round(
    tmp_path: Path, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    asked, pauses = list[str](), list[float]()

    async def streams(*_: Any, **__: Any) -> list[StreamInfo]:
        asked.append(link.end)
        if len(asked) == 5:
            return []
        raise failed(grpc.StatusCode.UNAVAILABLE, f"broken {len(asked)}")

    async def slept(seconds: float) -> None:
        pauses.append(seconds)

    mocker.patch("flarelog.wire.listing.streams", streams)
    mocker.patch("flarelog.sender.link.why", return_value="")
    mocker.patch("flarelog.sender.link.random.random", return_value=0.0)
    link: Link

    async def go() -> None:
        nonlocal link
        delivery = DeliveryOptions(first_delay=1.0, max_delay=1000.0)
        link = Link(SidecarOptions("a:1,b:1", "run-1", "site-1", SourceOptions(str(tmp_path)), delivery=delivery))
        mocker.patch("flarelog.sender.link.asyncio.sleep", slept)
        await link.record()
        mocker.stopall()
        await link.close()

    asyncio.run(go())
    first, second = asked[:2]
    assert asked == [first, second, first, second, first]
    assert {first, second} == {"a:1", "b:1"}
    assert pauses == [1.0, 1.0, 2.0, 2.0]
    assert [record.getMessage() for record in caplog.records] == [
        f"no connection to {first}: broken 1; retrying at {second}"
    ]


@pytest.mark.parametrize(
    ("trouble", "closing", "turns"),
    [
        pytest.param(Lost("lost"), True, True, id="a lost connection"),
        pytest.param(Silent("silent"), True, True, id="silence"),
        pytest.param(Again("GOING_AWAY"), True, True, id="GOING_AWAY"),
        pytest.param(Miss("not here yet"), False, False, id="a miss"),
        pytest.param(Again("PAUSE"), False, False, id="a pause"),
    ],
)
def test_an_end_is_left_when_its_call_ends_and_by_one_log_alone(
    tmp_path: Path, trouble: Again, closing: bool, turns: bool
) -> None:
    async def go() -> None:
        link = Link(SidecarOptions("a:1,b:1,c:1", "run-1", "site-1", SourceOptions(str(tmp_path))))
        before, uplink, wanted = link.end, Ended(closing=closing), copy.deepcopy(link.channels.ends)
        wanted.turn(lost=True)
        link._uplink = link.channels.current(), cast(Any, uplink)
        for _ in range(2):  # two logs of one call
            assert link.turned(cast(Any, uplink), trouble) is trouble
        assert link.end == (wanted.current if turns else before)
        assert link.whose == f"{link.end}: "
        link._uplink = None
        await link.close()

    asyncio.run(go())
