"""When a log's connection is opened, what is sent over it when, and when it is replaced."""

from __future__ import annotations

import pytest

from flarelog.checksum import extend
from flarelog.delivery.producer import DeliveryOptions
from flarelog.delivery.sending import (
    GATHERED,
    MOST_MOVES,
    NEWS_EVERY,
    Again,
    Delivery,
    Elsewhere,
    Lost,
    Miss,
    Silent,
)
from flarelog.errors import GoesOn, SourceAway
from flarelog.model import Activity, Chunk, Code, Gap, Generation, Mark, News, Receipt, Reply, StreamId
from tests.joined.link import Memory

STREAM, ME = StreamId("run-1", "site-1", "log.txt"), b"a-producer-of-16"
OPTIONS = DeliveryOptions(first_delay=0.1, max_delay=5.0)


class Growing(Memory):
    """A source that grows."""

    draining = False

    def drained(self, now: float) -> bool:
        return self.draining and not self.unread()


class Looked(Growing):
    """A source that counts the looks at it beside ``next``; without a look it tells what it had at the latest one."""

    looks, seen = 0, 0

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        self.seen = Memory.unread(self) + self.end
        return super().next(offset, marks, room, now)

    def unread(self, *, look: bool = True) -> int:
        self.looks += look
        return Memory.unread(self) if look else self.seen - self.end


def held(data: bytes, code: Code = Code.OK, elsewhere: bool = False) -> Reply:
    return Reply(code, len(data), extend(0, data), 0, b"A", 1, "because", elsewhere=elsewhere)


def opened(source: Memory, now: float = 0.0) -> Delivery:
    delivery = Delivery(STREAM, source, OPTIONS)
    delivery.open(ME, 0, 0, now, 0.0)
    delivery.heard(held(b""), now)
    return delivery


def test_a_log_that_cannot_be_read_for_now_gets_no_receipt_and_ends_once_all_is_acknowledged() -> None:
    source = Growing(b"abc")
    source.draining, source.away = True, "nobody answers"
    delivery = opened(source)
    assert isinstance(delivery.next(0.0, 0.0), Chunk)
    assert delivery.next(0.0, 0.0) is None
    delivery.heard(held(b"abc"), 0.0)
    with pytest.raises(SourceAway, match=r"offset 3.*nobody answers"):
        delivery.next(0.0, 0.0)


def test_a_log_whose_writer_goes_on_gets_no_receipt_at_the_end_of_a_process() -> None:
    source = Growing(b"abc")
    source.draining, source.goes_on = True, True
    delivery = opened(source)
    assert isinstance(delivery.next(0.0, 0.0), Chunk)
    assert delivery.next(0.0, 0.0) is None
    delivery.heard(held(b"abc"), 0.0)
    with pytest.raises(GoesOn, match="after offset 3"):
        delivery.next(0.0, 0.0)


# --- connections


def test_the_open_has_the_latest_epoch_and_says_how_often_it_was_elsewhere() -> None:
    delivery = Delivery(STREAM, Memory(b"abc"), OPTIONS)
    said = delivery.open(ME, 7, 3, now=0.0, wall=2.5)
    assert (said.stream, said.producer, said.epoch, said.moves, said.news) == (STREAM, ME, 7, 4, News(2500, 3))
    assert not delivery.answered


@pytest.mark.parametrize(
    ("brings", "lasts", "failures"),
    [
        pytest.param(b"", 0.0, [0, 1, 2], id="one-that-brought-nothing-is-followed-by-longer-and-longer-pauses"),
        pytest.param(b"abc", 0.0, [None, 0, 1], id="one-that-brought-it-on-by-none"),
        pytest.param(b"", OPTIONS.max_delay, [None, None, None], id="nor-one-that-lasted"),
    ],
)
def test_after_a_connection(brings: bytes, lasts: float, failures: list[int | None]) -> None:
    delivery, now, found = Delivery(STREAM, Memory(b"abc"), OPTIONS), 0.0, []
    for _ in failures:
        delivery.open(ME, 0, 0, now, 0.0)
        delivery.heard(held(brings), now)
        now += lasts
        found.append(delivery.ended(Lost("gone"), 0, now))
    assert found == failures


def test_the_first_silence_of_a_receiver_is_a_failure_whatever_the_connection_brought_before() -> None:
    delivery = Delivery(STREAM, Memory(b"abc"), OPTIONS)
    found = []
    for begun, brings in ((0.0, b"a"), (100.0, b"ab"), (200.0, b"ab"), (200.0, b"ab")):
        delivery.open(ME, 0, 0, begun, 0.0)
        delivery.heard(held(brings), begun)
        found.append(delivery.ended(Silent("it did not answer"), 0, begun + OPTIONS.max_delay / 2))
    assert found == [0, 0, 1, 2]


def test_a_receiver_that_takes_a_little_at_each_open_is_not_called_without_a_pause() -> None:
    delivery = Delivery(STREAM, Memory(b"abc"), OPTIONS)
    assert delivery.wait(0.0) <= 0
    delivery.open(ME, 0, 0, 10.0, 0.0)
    assert delivery.wait(10.02) == pytest.approx(0.08)
    assert delivery.wait(10.2) <= 0


@pytest.mark.parametrize(("moves", "at_once"), [(1, True), (MOST_MOVES, True), (MOST_MOVES + 1, False)])
def test_another_process_of_the_receiver_is_looked_for_at_once_and_not_for_ever(moves: int, at_once: bool) -> None:
    delivery = Delivery(STREAM, Memory(b"abc"), OPTIONS)
    delivery.open(ME, 0, 0, 10.0, 0.0)
    with pytest.raises(Elsewhere) as raised:
        delivery.heard(held(b"", code=Code.GOING_AWAY, elsewhere=True), 10.0)
    assert delivery.ended(raised.value, moves, 10.0) is None
    assert (delivery.wait(10.0) <= 0) is at_once
    assert delivery.reconnects == 0


def test_a_miss_is_told_from_what_people_are_to_hear_of() -> None:
    delivery = Delivery(STREAM, Memory(b"abc"), OPTIONS)
    delivery.open(ME, 0, 0, 0.0, 0.0)
    with pytest.raises(Miss, match="miss 1 of 24"):
        delivery.heard(held(b"", code=Code.EXECUTION_EXCEPTION), 0.0)
    delivery.open(ME, 0, 0, 0.0, 0.0)
    with pytest.raises(Again, match="tells it to wait at offset 0: because"):
        delivery.heard(held(b"", code=Code.PAUSE), 0.0)


def test_bytes_that_the_receivers_record_does_not_show_are_no_place_to_go_on_from() -> None:
    delivery = Delivery(STREAM, Memory(b"abc"), OPTIONS)
    delivery.learned(shown=False)
    delivery.open(ME, 0, 0, 0.0, 0.0)
    delivery.heard(held(b"abc"), 0.0)
    delivery.learned(shown=True)
    with pytest.raises(Again, match="holds 3 bytes that the producer's record does not contain"):
        delivery.learned(shown=False)


# --- messages over a connection


def test_a_log_goes_over_as_bytes_and_a_receipt_when_it_is_drained() -> None:
    source = Growing(b"abc")
    delivery = opened(source)
    chunk = delivery.next(0.0, 0.0)
    assert isinstance(chunk, Chunk)
    assert (chunk.data, delivery.next(0.0, 0.0)) == (b"abc", None)
    source.draining = True
    assert delivery.beat() is not None
    assert delivery.next(0.0, 0.0) == Receipt(3, extend(0, b"abc"), 0)
    assert delivery.beat() is None, "a heartbeat behind the receipt would be one chunk too many"
    delivery.heard(held(b"abc", code=Code.SEALED), 0.0)
    assert delivery.sealed


def test_a_log_is_whole_if_the_receiver_has_all_bytes_and_all_marks() -> None:
    source = Growing(b"ab", [Generation(0, 0, "log.txt", 0, "one")])
    delivery = Delivery(STREAM, source, OPTIONS)
    assert not delivery.whole(1, 0.0)
    source.end = 2
    assert delivery.whole(1, 0.0)
    source.marks.append(Gap(2, 0, 1, "it came after the seal"))
    assert (delivery.whole(1, 0.0), delivery.whole(2, 0.0)) == (False, True)


@pytest.mark.parametrize(
    ("more", "draining", "hurries"),
    [
        pytest.param(b"x", False, False, id="not-a-line"),
        pytest.param(bytes(GATHERED), False, True, id="where-much-has-come-since-the-latest-look"),
        pytest.param(b"x", True, True, id="at-the-end"),
    ],
)
def test_a_log_hurries(more: bytes, draining: bool, hurries: bool) -> None:
    source = Looked(b"abc")
    delivery = opened(source)
    delivery.next(0.0, 0.0)
    source.data += more
    source.draining = draining
    assert delivery.hurries == hurries


def test_a_gap_is_given_to_be_said_when_it_is_sent_first() -> None:
    source = Growing(b"abc", [Generation(0, 0, "log.txt", 0, "one"), Gap(0, 0, 5, "truncated")])
    delivery = opened(source)
    for _ in range(2):
        assert delivery.next(0.0, 1.0) is not None
    (gap,) = delivery.losses
    assert isinstance(gap, Gap)
    assert (gap.offset, gap.length, gap.reason) == (0, 5, "truncated")
    delivery.losses.clear()
    delivery.ended(Lost("gone"), 0, 1.0)
    delivery.open(ME, 0, 0, 1.0, 2.0)
    delivery.heard(held(b""), 1.0)
    for _ in range(2):
        assert delivery.next(1.0, 2.0) is not None
    assert not delivery.losses, "it is sent again"


def test_how_far_the_source_is_ahead_is_told_now_and_then_while_it_is() -> None:
    source = Growing(b"abc")
    delivery = opened(source)
    delivery.next(0.0, 0.0)
    source.data += bytes(1000)
    assert delivery.news(NEWS_EVERY / 2, 0.0) is None
    assert delivery.news(NEWS_EVERY, 8.0) == News(8000, 1003)
    assert delivery.news(NEWS_EVERY, 8.0) is None
    delivery.next(NEWS_EVERY, 0.0)
    assert delivery.news(2 * NEWS_EVERY, 9.0) is None, "all of it is sent"


def test_how_the_writers_fare_is_told_once_it_has_changed() -> None:
    source = Memory(b"")
    delivery = Delivery(STREAM, source, DeliveryOptions())
    source.activity = Activity(2, 0.5)
    assert delivery.open(ME, 0, 0, 0.0, 1.0).news == News(1000, 0, Activity(2, 0.5))
    assert delivery.news(NEWS_EVERY, 2.0) is None, "it was told"
    source.activity = Activity(2, 0.0, 15.0)
    assert delivery.news(2 * NEWS_EVERY, 4.0) == News(4000, 0, Activity(2, 0.0, 15.0))
    source.activity = None
    assert delivery.news(3 * NEWS_EVERY, 6.0) == News(6000, 0)


def test_whether_a_chunk_was_the_last_is_told_without_another_look_at_the_file() -> None:
    source = Looked(b"abc")
    delivery, before = opened(source), source.looks
    more = [(delivery.next(0.0, 0.0, 2), delivery.has_more)[1] for _ in range(2)]
    assert (more, source.looks) == ([True, False], before)
