"""One Push call for many streams: both of its ends on one loop, over a real store, without a socket."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.checksum import extend
from flarelog.delivery.fair import SMALL, TURN, Gathering
from flarelog.delivery.producer import DeliveryOptions, Producer
from flarelog.errors import StreamFenced, StreamRejected
from flarelog.model import Chunk, Code, News, Open, Receipt, Reply, StreamId
from flarelog.receiver.answers import MANY
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.stores.local.store import LocalStore
from flarelog.talk import MOST, Gathered
from flarelog.wire import heartbeat, several
from flarelog.wire import uplink as mux
from flarelog.wire.codec.push import Request, Said, decode_said
from flarelog.wire.codec.replies import encode_reply
from flarelog.wire.uplink import FULL, Gone, Stream, Unanswered, Uplink
from tests.contexts import Bare
from tests.stored import TemporaryStore

RUN, SITE, ME = "run-1", "site-1", b"the-producer"
DATA = b"one\ntwo\n"


def stream_id(log: str) -> StreamId:
    return StreamId(RUN, SITE, log)


class Line:
    """The gRPC call between the two: bytes in both directions, until one end closes."""

    def __init__(self) -> None:
        self.up: asyncio.Queue[Any] = asyncio.Queue()
        self.down: asyncio.Queue[Any] = asyncio.Queue()
        self.cancelled = asyncio.Event()
        self.passing = asyncio.Event()  # cleared: the producer's writes wait
        self.passing.set()
        self.said: list[Said] = []

    # the producer's end

    async def write(self, raw: bytes) -> None:
        await self.passing.wait()
        await self.up.put(raw)
        self.said += [decode_said(said) for _, said in several.requests(raw)]

    async def read(self) -> Any:
        raw = await self.down.get()
        if isinstance(raw, Exception):
            raise raw
        return raw if raw is grpc.aio.EOF else several.replies_or_malformed(raw)

    def cancel(self) -> None:
        self.cancelled.set()
        self.up.put_nowait(grpc.aio.EOF)


class Context(Bare):
    """The call at the receiver's end."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def read(self) -> Any:
        return await self._line.up.get()

    async def write(self, reply: bytes) -> None:
        await self._line.down.put(reply)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


class Log:
    """A sidecar's part for one log: a producer, and its stream in the call."""

    def __init__(self, uplink: Uplink, log: str) -> None:
        self.id = stream_id(log)
        self.producer = Producer(DeliveryOptions())
        self.replies: list[Reply] = []
        self.changed = asyncio.Event()
        self.left = b""  # the bytes for the next chunks
        self.beats = True
        self.hurries = False
        self.producer.opened()
        self.stream: Stream = uplink.stream(self)

    @property
    def in_flight(self) -> int:
        return self.producer.position - self.producer.acked

    def say(self, room: int) -> tuple[list[Request], bool]:
        size = min(room, self.producer.room())
        data, self.left = self.left[:size], self.left[size:]
        return ([self.producer.chunk(data)] if data else []), bool(self.left)

    def heard(self, reply: Reply) -> bool:
        self.replies.append(reply)
        self.producer.receive(reply)
        if self.left:
            self.stream.wants()
        return self.producer.awaits_reply

    def beat(self) -> Chunk | None:
        return self.producer.heartbeat() if self.beats else None

    def wake(self) -> None:
        self.changed.set()

    async def until(self, what: Callable[[], bool]) -> None:
        while not what():
            self.stream.check()
            self.changed.clear()
            await self.changed.wait()

    async def opened(self) -> None:
        self.stream.put(Open(self.id, ME, self.producer.epoch))
        await self.until(lambda: bool(self.replies))

    async def sends(self, data: bytes) -> None:
        self.stream.put(self.producer.chunk(data))
        await self.until(lambda: self.producer.acked == self.producer.position)

    async def says(self, data: bytes) -> None:
        self.left += data
        self.stream.wants()
        await self.until(lambda: not self.left and self.producer.acked == self.producer.position)

    async def sealed(self) -> None:
        self.stream.put(self.producer.finish())
        await self.until(lambda: self.replies[-1].code is Code.SEALED)
        self.stream.leave()


class Ends:
    """A server over a store, an uplink to it, and the call between them."""

    def __init__(self, server: Server) -> None:
        self.server, self.line = server, Line()
        self.uplink = Uplink(self.line, heartbeat=60.0)
        self.call = asyncio.create_task(self._served())

    async def _served(self) -> None:
        try:
            await self.server.push(None, Context(self.line))
        finally:
            await self.line.down.put(grpc.aio.EOF)

    def log(self, name: str) -> Log:
        return Log(self.uplink, name)


def between(root: Path, play: Callable[[Ends], Awaitable[None]], **limits: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(20), AsyncExitStack() as stack:
            store = await stack.enter_async_context(LocalStore(root, "memory"))
            ends = Ends(Server(store, ServerOptions(**limits)))
            try:
                await play(ends)
            finally:
                ends.uplink.close()
                ends.call.cancel()
                await asyncio.gather(ends.call, return_exceptions=True)

    asyncio.run(go())


def test_many_logs_go_over_one_call_and_each_is_its_own(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(20)]
        await asyncio.gather(*(log.opened() for log in logs))
        for number, log in enumerate(logs):
            await log.sends(b"%d\n" % number)
        for log in logs[::2]:
            await log.sealed()
        await logs[1].sends(b"more\n")
        assert not ends.uplink.over

    between(tmp_path, play)
    for number in range(20):
        more = b"more\n" if number == 1 else b""
        assert (tmp_path / RUN / SITE / f"{number}.log").read_bytes() == b"%d\n" % number + more


def test_what_becomes_of_one_log_is_nothing_to_the_others(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        good, bad = ends.log("good.log"), ends.log("bad.log")
        await asyncio.gather(good.opened(), bad.opened())
        bad.stream.put(Chunk(0, DATA, 7))  # a wrong digest
        await bad.until(lambda: bad.replies[-1].code is Code.CORRUPT)
        bad.stream.put(bad.producer.chunk(DATA))  # this chunk is in flight when the receiver has closed the stream
        bad.stream.leave()
        await good.sends(DATA)
        again = ends.log("bad.log")
        await again.opened()
        await again.sends(DATA)

    between(tmp_path, play)
    assert (tmp_path / RUN / SITE / "good.log").read_bytes() == DATA
    assert (tmp_path / RUN / SITE / "bad.log").read_bytes() == DATA


def test_a_log_over_a_limit_is_held_alone(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        first, second = ends.log("1.log"), ends.log("2.log")
        await first.opened()
        await second.opened()
        assert [log.replies[-1].code for log in (first, second)] == [Code.OK, Code.PAUSE]
        second.stream.leave()
        await first.sends(DATA)

    between(tmp_path, play, max_site_streams=1)


def test_a_number_is_used_once(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        log, other = ends.log("1.log"), ends.log("2.log")
        await log.opened()
        await other.opened()
        await other.sealed()
        ends.uplink._streams[other.stream.number] = log.stream  # the reply to that number goes to log
        other.stream.error = None
        ends.uplink.put(other.stream, Open(stream_id("3.log"), ME))
        await log.until(bool)

    with pytest.raises(StreamRejected, match="stream numbers must grow"):
        between(tmp_path, play)


def test_a_newer_sidecar_that_takes_all_logs_over_is_a_few_lines_at_the_receiver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"{number}.log" for number in range(MOST + 5)]

    async def go() -> None:
        async with asyncio.timeout(20), TemporaryStore() as store:
            server = Server(store, ServerOptions())
            older, newer = Ends(server), Ends(server)
            mine = [older.log(name) for name in names]
            for log in mine:
                await log.opened()
            for log in (newer.log(name) for name in names):
                log.stream.put(Open(log.id, b"another-producer"))
            for log in mine:
                with pytest.raises(StreamFenced, match="a newer sidecar has this log: this one stops at offset 0"):
                    await log.until(bool)
            for ends in (older, newer):
                ends.uplink.close()
                ends.call.cancel()
            await asyncio.gather(older.call, newer.call, return_exceptions=True)

    with caplog.at_level(logging.INFO, "flarelog"):
        asyncio.run(go())
    said = [record for record in caplog.records if "refused at" in record.getMessage()]
    sentence = "refused at offset 0: a newer sidecar has this log"
    assert {record.getMessage() for record in said} == {f"{RUN}/{SITE}/{name}: {sentence}" for name in names}
    assert {record.levelname for record in said} == {"INFO"}
    gathered = Gathered()
    assert sum(gathered.says(record.each_log, 0.0) for record in said) == MOST  # type: ignore[attr-defined]
    assert [text for _, text in gathered.rest()] == ["5 more logs are taken over by a newer sidecar"]


def test_what_is_said_of_the_whole_call_is_heard_by_those_who_wait_for_their_open(tmp_path: Path) -> None:
    async def go() -> None:
        async with asyncio.timeout(20), TemporaryStore() as store:
            server = Server(store, ServerOptions(max_peer_calls=1))
            first = Ends(server)
            await first.log("0.log").opened()
            second = Ends(server)
            log = second.log("1.log")
            await log.opened()
            assert log.replies[-1].code is Code.PAUSE
            assert "--max-peer-calls" in log.replies[-1].reason
            for ends in (first, second):
                ends.uplink.close()
                ends.call.cancel()
            await asyncio.gather(first.call, second.call, return_exceptions=True)

    asyncio.run(go())


def test_the_call_ends_with_its_last_log_and_what_was_sent_is_kept(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        log = ends.log("1.log")
        await log.opened()
        await log.sends(DATA)
        await log.sealed()
        assert ends.uplink.over
        assert ends.line.cancelled.is_set()
        await ends.call
        assert not len(ends.server.sessions)

    between(tmp_path, play)


def test_another_log_may_be_opened_behind_the_last_one_and_then_the_call_ends(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    async def play(ends: Ends) -> None:
        first, second = ends.log("1.log"), ends.log("2.log")
        for log in (first, second):
            await log.opened()
            await log.sealed()
            if log is first:
                mocker.patch("flarelog.receiver.call.OPEN_TIMEOUT", 0.0)

    async def unhurried(ends: Ends) -> None:
        log = ends.log("1.log")
        await log.opened()
        ends.uplink._streams[99] = log.stream  # an unknown number, so that the call does not end by itself
        log.stream.put(log.producer.finish())
        await log.until(lambda: log.replies[-1].code is Code.SEALED)
        await ends.call

    between(tmp_path / "1", play)
    between(tmp_path / "2", unhurried)


def test_a_producer_that_has_gone_leaves_its_bytes_and_no_session(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(3)]
        for log in logs:
            await log.opened()
            log.stream.put(log.producer.chunk(DATA))
        while len(ends.line.said) < 6 or not ends.line.up.empty():
            await asyncio.sleep(0)
        for _ in range(3):  # gRPC cancels when the connection is lost, and when the receiver stops
            ends.call.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(ends.call, return_exceptions=True)
        assert not len(ends.server.sessions)
        for number in range(3):
            ends.server.quota.opens(stream_id(f"other-{number}.log"))  # raises Full if the sessions still count

    between(tmp_path, play, max_streams=3)
    for number in range(3):
        assert (tmp_path / RUN / SITE / f"{number}.log").read_bytes() == DATA


def test_a_heartbeat_of_one_log_is_one_of_all(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.wire.heartbeat.LEAST_HEARTBEAT", 0.001)

    async def play(ends: Ends) -> None:
        first, second = ends.log("1.log"), ends.log("2.log")
        await first.opened()
        await second.opened()
        before = len(ends.line.said)
        await first.until(lambda: len(first.replies) > 3)
        beats = ends.line.said[before:]
        assert {said.number for said in beats} == {first.stream.number}
        assert all(isinstance(said.request, Chunk) and not said.request.data for said in beats)
        heard = [ends.server.states.of(log.id).heard for log in (first, second)]
        assert heard[0] == pytest.approx(heard[1], abs=0.1)

    between(tmp_path, play, idle_timeout=1.0)


def test_no_more_is_made_than_what_leaves(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(8)]
        await asyncio.gather(*(log.opened() for log in logs))
        ends.line.passing.clear()
        for log in logs:
            log.left = bytes(1_000_000)
            log.stream.wants()
        for _ in range(100):
            await asyncio.sleep(0)
        assert 0 < sum(log.producer.position for log in logs) <= 2 * FULL
        ends.line.passing.set()
        for log in logs:
            while log.producer.acked < 1_000_000:
                log.changed.clear()
                await log.changed.wait()

    between(tmp_path, play)


def test_all_that_is_on_its_way_keeps_within_the_window_of_the_call(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(4)]
        await asyncio.gather(*(log.opened() for log in logs))
        assert {log.replies[-1].call_window for log in logs} == {256 << 10}
        ends.line.passing.clear()
        for log in logs:
            log.left = bytes(4_000_000)
            log.stream.wants()
        for _ in range(100):
            await asyncio.sleep(0)
        ends.line.passing.set()
        most = 0
        while any(log.producer.acked < 4_000_000 for log in logs):
            await asyncio.sleep(0)
            most = max(most, sum(log.in_flight for log in logs))
        assert most <= (256 << 10) + TURN

    between(tmp_path, play, max_in_flight=256 << 10)


def test_a_line_leaves_before_the_gigabytes_of_others(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(8)]
        await asyncio.gather(*(log.opened() for log in logs))
        ends.line.passing.clear()
        for log in logs[1:]:
            log.left = bytes(4_000_000)
            log.stream.wants()
        for _ in range(100):
            await asyncio.sleep(0)
        logs[0].left = b"a line\n"
        logs[0].stream.wants()
        ends.line.passing.set()
        while not logs[0].producer.acked:
            logs[0].changed.clear()
            await logs[0].changed.wait()
        chunks = [said for said in ends.line.said if isinstance(said.request, Chunk)]
        place = next(at for at, said in enumerate(chunks) if said.number == logs[0].stream.number)
        before = sum(len(said.request.data) for said in chunks[:place] if isinstance(said.request, Chunk))
        assert before <= len(logs) * SMALL + FULL

    between(tmp_path, play)


def test_what_many_logs_say_little_of_may_be_gathered_and_nothing_else(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWER_WITHIN", (0.01, 0.01))

    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(Gathering.FEW + 100)]
        await asyncio.gather(*(log.opened() for log in logs))
        await asyncio.gather(*(log.says(b"a line\n") for log in logs[: Gathering.FEW]))
        assert ends.uplink.gathers == 0.0
        await asyncio.gather(*(log.says(b"a line\n") for log in logs))
        assert ends.uplink.gathers >= 100 * Gathering.EACH
        logs[0].hurries = True
        logs[0].stream.wants()
        assert ends.uplink.gathers == 0.0

    between(tmp_path, play)


def test_what_was_gathered_leaves_without_another_wait_however_many_turns_it_takes(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWER_WITHIN", (0.01, 0.01))

    class Counted(Gathering):
        waits = 0

        def wait(self, now: float, pace: float = 0.0, *, hurries: bool = False) -> float:
            Counted.waits += 1
            return super().wait(now, pace, hurries=hurries)

    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(200)]
        await asyncio.gather(*(log.opened() for log in logs))
        mocker.patch.object(mux, "LONGEST_TURN", 0.0002)  # seconds; only a few logs get to say their bytes in that time
        Counted.waits = 0
        await asyncio.gather(*(log.says(b"a line\n") for log in logs))
        assert Counted.waits < 10

    mocker.patch.object(mux, "Gathering", Counted)
    between(tmp_path, play)


def test_a_call_that_ends_while_lines_are_gathered_asks_no_log_any_more(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWER_WITHIN", (0.01, 0.01))

    class Long(Gathering):
        def wait(self, now: float, pace: float = 0.0, *, hurries: bool = False) -> float:
            return 60.0

    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(2)]
        await asyncio.gather(*(log.opened() for log in logs))
        for log in logs:
            log.stream.wants()
        for _ in range(5):
            await asyncio.sleep(0)
        ends.uplink.close()
        _, left = await asyncio.wait((ends.uplink._writing,), timeout=5)
        assert not left

    mocker.patch.object(mux, "Gathering", Long)
    between(tmp_path, play)


def test_very_many_messages_are_asked_for_at_a_pace_and_answered_by_and_by(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWER_WITHIN", (60.0, 60.0))

    async def play(ends: Ends) -> None:
        log = ends.log("1.log")
        await log.opened()
        (call,) = ends.server.calls
        call.load.messages = 10_000
        ends.server.pressure.look(1.0)
        before = len(log.replies)
        for number in range(1, 10):
            log.stream.put(log.producer.chunk(DATA))
            while ends.server.sessions.of(RUN)[0].appender.committed < number * len(DATA):
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
        assert len(log.replies) == before
        log.stream.put(log.producer.chunk(bytes(256 << 10)))  # a good part of the log's window
        await log.until(lambda: log.producer.acked == log.producer.position)
        assert log.replies[-1].pace > 0
        for _ in range(20):
            ends.server.pressure.look(1.0)
        await log.sends(DATA)
        assert log.replies[-1].pace == 0

    between(tmp_path, play, max_in_flight=1 << 20)


def test_very_many_logs_that_say_little_are_answered_by_and_by(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWER_WITHIN", (60.0, 60.0))

    async def play(ends: Ends) -> None:
        logs = [ends.log(f"{number}.log") for number in range(MANY + 10)]
        await asyncio.gather(*(log.opened() for log in logs))
        for log in logs:
            log.left = b"a line\n"
            log.stream.wants()
        held = ends.server.sessions
        while sum(one.appender.committed for one in held) < len(logs) * len(b"a line\n"):
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert all(log.in_flight for log in logs)
        await logs[0].sends(bytes(256 << 10))  # a good part of the window, so that all logs are answered
        for log in logs:
            while log.in_flight:
                await asyncio.sleep(0)

    between(tmp_path, play, max_in_flight=1 << 20)


def test_many_who_send_at_a_pace_are_answered_less_often_but_are_told_soon_to_slow_down(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWERS", 0.2)

    async def play(ends: Ends) -> None:
        await ends.log("1.log").opened()
        ends.server.pressure.look(1.0)
        assert ends.server.pressure.crowd.answer_within == 5.0
        (call,) = ends.server.calls
        call.load.messages = 10_000
        mocker.patch("flarelog.delivery.pace.ONE_OF_MANY", 1e6)
        ends.server.pressure.look(1.0)
        assert ends.server.pressure.crowd.answer_within == 2.0
        mocker.patch("flarelog.delivery.pace.ANSWERS", 0.001)
        ends.server.pressure.look(1.0)
        assert ends.server.pressure.crowd.answer_within == 10.0

    between(tmp_path, play)


def test_by_and_by_is_soon_enough(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.delivery.pace.ANSWER_WITHIN", (0.01, 0.01))

    async def play(ends: Ends) -> None:
        log = ends.log("1.log")
        await log.opened()
        mocker.patch.object(ends.server.pressure, "pace_of", return_value=0.2)
        for _ in range(3):
            await log.sends(DATA)

    between(tmp_path, play)


def test_one_who_sends_very_many_messages_slows_down_nobody_else(tmp_path: Path) -> None:
    async def go() -> None:
        async with asyncio.timeout(20), TemporaryStore() as store:
            server = Server(store, ServerOptions())
            loud, calm = Ends(server), Ends(server)
            for ends in (loud, calm):
                await ends.log(f"{id(ends)}.log").opened()
            for call in server.calls:
                call.load.messages = 100_000
                break
            loud_call = call
            server.pressure.look(1.0)
            paces = sorted(server.pressure.pace_of(call.load) for call in server.calls)
            assert paces[0] == 0 < paces[1] == server.pressure.pace_of(loud_call.load)
            for ends in (loud, calm):
                ends.uplink.close()
                ends.call.cancel()
            await asyncio.gather(loud.call, calm.call, return_exceptions=True)

    asyncio.run(go())


def test_a_call_that_has_ended_is_held_by_nobody_and_so_lets_its_connection_go() -> None:
    async def go() -> None:
        line = Line()
        uplink = Uplink(line)
        held = weakref.ref(uplink)
        await asyncio.sleep(0)
        uplink.close()
        del uplink
        for _ in range(10):
            await asyncio.sleep(0)
        assert held() is None

    gc.collect()
    gc.disable()
    try:
        asyncio.run(go())
    finally:
        gc.enable()


def test_an_answer_that_does_not_come_ends_the_call_if_nothing_else_comes_and_else_the_stream(
    mocker: MockerFixture,
) -> None:
    mocker.patch("flarelog.wire.uplink.REPLY_TIMEOUT", 0.01)
    mocker.patch("flarelog.wire.heartbeat.REPLY_TIMEOUT", 0.01)

    async def go() -> tuple[Uplink, Log]:
        async with asyncio.timeout(10):
            line = Line()
            uplink = Uplink(line, heartbeat=60.0)
            first, second = Log(uplink, "1.log"), Log(uplink, "2.log")
            for log in (first, second):
                log.stream.put(Open(log.id, ME))
            while first.stream.error is None:
                await line.down.put(encode_reply(Reply(Code.OK, number=second.stream.number)))
                await asyncio.sleep(0)
            assert not uplink.over
            second.stream.put(second.producer.chunk(DATA))
            with pytest.raises(Unanswered, match="did not answer for"):
                await second.until(bool)
            return uplink, first

    uplink, first = asyncio.run(go())
    assert uplink.over
    assert str(first.stream.error) == "did not answer one log for 0.01 s"
    assert not isinstance(first.stream.error, Unanswered)


def test_a_receiver_that_falls_silent_is_noticed_as_soon_as_the_answer_is_late(mocker: MockerFixture) -> None:
    mocker.patch("flarelog.wire.uplink.REPLY_TIMEOUT", 0.05)  # the regular check comes after seconds

    async def go() -> None:
        async with asyncio.timeout(2):
            log = Log(Uplink(Line(), heartbeat=60.0), "1.log")
            log.stream.put(Open(log.id, ME))
            with pytest.raises(Unanswered, match="did not answer for"):
                await log.until(bool)

    asyncio.run(go())


def test_news_are_not_answered_and_nobody_waits_for_that() -> None:
    async def go() -> None:
        uplink = Uplink(Line(), heartbeat=60.0)
        log = Log(uplink, "1.log")
        owed = []
        for request in (News(1, 2), Receipt(0, extend(0, b""), 0)):
            log.stream.put(request)
            owed.append(log.stream.owed is not None)
        assert owed == [False, True]
        uplink.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        pytest.param(grpc.aio.EOF, "closed the connection", id="the-receiver-ends-it"),
        pytest.param(b"\xff garbage", "answered with an invalid reply", id="nonsense"),
        pytest.param(asyncio.InvalidStateError(), "is no longer called", id="grpc-has-ended-it"),
    ],
)
def test_all_logs_hear_how_a_call_ended(end: Any, sentence: str) -> None:
    async def go() -> None:
        async with asyncio.timeout(10):
            line = Line()
            uplink = Uplink(line)
            logs = [Log(uplink, f"{number}.log") for number in range(3)]
            await line.down.put(end)
            for log in logs:
                with pytest.raises(Gone, match=sentence):
                    await log.until(bool)
                with pytest.raises(Gone):
                    log.stream.put(News(0, 0))
                log.stream.leave()
            assert uplink.over

    asyncio.run(go())


def test_a_receiver_that_says_it_is_going_away_gets_no_new_log() -> None:
    async def go() -> None:
        async with asyncio.timeout(10):
            line = Line()
            uplink = Uplink(line)
            first, second = Log(uplink, "1.log"), Log(uplink, "2.log")
            await line.down.put(encode_reply(Reply(Code.OK, number=first.stream.number)))
            await line.down.put(encode_reply(Reply(Code.GOING_AWAY, number=first.stream.number)))
            await first.until(lambda: len(first.replies) == 2)
            assert uplink.closing
            assert not uplink.over
            await line.down.put(encode_reply(Reply(Code.OK, number=second.stream.number)))
            await second.until(lambda: bool(second.replies))
            uplink.close()

    asyncio.run(go())


def test_a_call_whose_open_is_late_is_tried_again(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.receiver.call.OPEN_TIMEOUT", 0.0)

    async def play(ends: Ends) -> None:
        log = ends.log("1.log")
        await log.until(lambda: bool(log.replies))
        assert (log.replies[0].code, log.replies[0].number) == (Code.GOING_AWAY, 0)
        assert "no Open came" in log.replies[0].reason
        await ends.call

    between(tmp_path, play)


def test_a_call_that_ends_before_its_open_is_tried_again(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        log = ends.log("1.log")
        await ends.line.up.put(grpc.aio.EOF)
        await log.until(lambda: bool(log.replies))
        assert (log.replies[0].code, log.replies[0].number) == (Code.GOING_AWAY, 0)
        await ends.call

    between(tmp_path, play)


@pytest.mark.parametrize("code", [Code.REJECTED, Code.FENCED])
def test_a_refused_call_refuses_none_of_its_streams(code: Code) -> None:
    async def go() -> None:
        async with asyncio.timeout(10):
            line = Line()
            uplink = Uplink(line)
            logs = [Log(uplink, f"{number}.log") for number in range(2)]
            await line.down.put(encode_reply(Reply(Code.OK, number=logs[0].stream.number)))
            await line.down.put(encode_reply(Reply(code, reason="no Open came within 10 s")))
            with pytest.raises(Gone, match="refuses the call: no Open came within 10 s"):
                await logs[1].until(bool)
            assert logs[0].stream.error is None
            uplink.close()

    asyncio.run(go())


def test_a_call_of_which_nothing_is_heard_ends_with_all_its_streams(tmp_path: Path) -> None:
    async def play(ends: Ends) -> None:
        ends.uplink._heartbeat.seconds = heartbeat.HEARTBEAT
        logs = [ends.log(f"{number}.log") for number in range(2)]
        for log in logs:
            log.beats = False
            await log.opened()
        await ends.call
        for log in logs:
            await log.until(lambda log=log: log.replies[-1].code is Code.GOING_AWAY)  # type: ignore[misc]
            assert "no message came" in log.replies[-1].reason

    between(tmp_path, play, idle_timeout=0.5)
