"""The sending end: what it sends next, and how it takes each reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flarelog.checksum import extend
from flarelog.delivery.producer import CHUNKS, PROBE, TRANSITIONS, DeliveryOptions, Event, Producer, State
from flarelog.errors import InvalidOption, ReceiverNotReady, StreamEnded, StreamFenced, StreamRejected
from flarelog.model import MAX_CHUNK, Code, Reply
from tests.rows import together

DATA = b"0123456789abcdefghij"
OPTIONS = DeliveryOptions(max_misses=3, window=12, max_chunk=4, max_refusals=2)
S, C = State, Code


def answer(code: Code, committed: int = 0, marks: int = 0, who: bytes = b"A", reason: str = "") -> Reply:
    """A reply of the receiver *who*, which holds the first *committed* bytes of DATA."""
    return Reply(code, committed, extend(0, DATA[:committed]), marks, who, 1, reason)


def send(producer: Producer, chunks: int = 1) -> None:
    for _ in range(chunks):
        producer.chunk(DATA[producer.position : producer.position + producer.room()])


def streaming(committed: int = 0) -> Producer:
    producer = Producer(OPTIONS)
    producer.opened()
    producer.receive(answer(C.OK, committed))
    return producer


def in_state(state: State) -> Producer:
    """A producer in *state*, whose connection is open and which has sent four bytes."""
    producer = Producer(OPTIONS)
    producer.opened()
    if state is S.BOOTSTRAP:
        producer.receive(answer(C.PAUSE))
        producer.opened()
        return producer
    producer.receive(answer(C.OK))
    if state is S.PAUSED:
        producer.receive(answer(C.PAUSE))
        producer.opened()
        producer.receive(answer(C.OK))
    send(producer)
    if state in (S.FINISHING, S.SEALED):
        producer.finish()
    if state is S.SEALED:
        producer.receive(answer(C.SEALED, 4))
    assert producer.state is state
    return producer


@together(
    ("state", "code", "after"),
    [
        pytest.param(S.BOOTSTRAP, C.OK, S.STREAMING, id="the-first-ok-opens-the-window"),
        pytest.param(S.BOOTSTRAP, C.EXECUTION_EXCEPTION, S.BOOTSTRAP, id="a-miss-is-no-end"),
        pytest.param(S.BOOTSTRAP, C.PAUSE, S.BOOTSTRAP, id="a-full-disk-at-the-open-is-asked-again"),
        pytest.param(S.BOOTSTRAP, C.GOING_AWAY, S.BOOTSTRAP, id="a-stopping-receiver-is-asked-again"),
        pytest.param(S.STREAMING, C.OK, S.STREAMING, id="an-ack-goes-on"),
        pytest.param(S.STREAMING, C.HOLE, S.STREAMING, id="a-hole-is-filled"),
        pytest.param(S.STREAMING, C.CORRUPT, S.STREAMING, id="damage-is-repaired"),
        pytest.param(S.STREAMING, C.PAUSE, S.PAUSED, id="a-full-disk-pauses"),
        pytest.param(S.STREAMING, C.GOING_AWAY, S.STREAMING, id="a-receiver-may-leave"),
        pytest.param(S.PAUSED, C.PAUSE, S.PAUSED, id="a-pause-may-go-on"),
        pytest.param(S.PAUSED, C.OK, S.PAUSED, id="an-ok-that-takes-nothing-keeps-the-pause"),
        pytest.param(S.PAUSED, C.HOLE, S.PAUSED, id="a-hole-keeps-the-pause"),
        pytest.param(S.PAUSED, C.CORRUPT, S.PAUSED, id="damage-keeps-the-pause"),
        pytest.param(S.PAUSED, C.GOING_AWAY, S.PAUSED, id="leaving-keeps-the-pause"),
        pytest.param(S.FINISHING, C.OK, S.FINISHING, id="acks-come-before-the-seal"),
        pytest.param(S.FINISHING, C.SEALED, S.SEALED, id="sealed-is-the-end"),
        pytest.param(S.FINISHING, C.HOLE, S.STREAMING, id="a-receipt-with-a-hole-is-too-early"),
        pytest.param(S.FINISHING, C.CORRUPT, S.STREAMING, id="damage-before-the-receipt-is-repaired"),
        pytest.param(S.FINISHING, C.PAUSE, S.PAUSED, id="a-full-disk-pauses-the-end-too"),
        pytest.param(S.FINISHING, C.GOING_AWAY, S.STREAMING, id="a-receiver-may-leave-before-the-seal"),
    ],
)
def test_a_reply_that_is_allowed(state: State, code: Code, after: State) -> None:
    producer = in_state(state)
    committed = 4 if code is C.SEALED else 0
    assert producer.receive(answer(code, committed)) == producer.position
    assert producer.state is after
    assert producer.acked == committed


STRICT = [(state, code) for state in State for code in Code if (state, code) not in TRANSITIONS]


@together(("state", "code"), [pytest.param(*pair, id=f"{pair[1].name}-while-{pair[0].value}") for pair in STRICT])
def test_every_other_reply_ends_the_stream_and_names_the_offset(state: State, code: Code) -> None:
    producer = in_state(state)
    with pytest.raises(StreamEnded, match=f"offset {producer.acked}") as raised:
        producer.receive(answer(code, producer.acked, reason="no such run"))
    assert raised.value.offset == producer.acked
    if code is C.FENCED:
        assert isinstance(raised.value, StreamFenced)
        assert "a newer sidecar has this log" in str(raised.value)
    else:
        assert "no such run" in str(raised.value)


def test_strict_is_what_the_law_says() -> None:
    assert (S.STREAMING, C.EXECUTION_EXCEPTION) in STRICT
    assert (S.PAUSED, C.EXECUTION_EXCEPTION) in STRICT
    assert (S.FINISHING, C.EXECUTION_EXCEPTION) in STRICT
    assert all((state, C.REJECTED) in STRICT for state in State)


# --- bootstrap


def test_before_the_answer_to_the_open_nothing_else_may_be_sent() -> None:
    producer = Producer(OPTIONS)
    producer.opened()
    assert producer.room() == 0


@pytest.mark.parametrize("late", [0, 1, 3])
def test_misses_up_to_the_bound_move_nothing(late: int) -> None:
    producer = Producer(OPTIONS)
    for miss in range(1, late + 1):
        producer.opened()
        assert producer.receive(answer(C.EXECUTION_EXCEPTION)) == 0
        assert (producer.misses, producer.acked, producer.room()) == (miss, 0, 0)
    producer.opened()
    assert producer.receive(answer(C.OK)) == 0
    assert producer.room() == OPTIONS.max_chunk


def test_one_miss_too_many_ends_the_stream_with_a_sentence() -> None:
    producer = Producer(OPTIONS)
    for _ in range(OPTIONS.max_misses):
        producer.opened()
        producer.receive(answer(C.EXECUTION_EXCEPTION))
    producer.opened()
    with pytest.raises(ReceiverNotReady, match=r"after 4 attempts \(not here\): announce the run") as raised:
        producer.receive(answer(C.EXECUTION_EXCEPTION, reason="not here"))
    assert raised.value.offset == 0
    assert raised.value.retry_safe


def test_no_miss_is_allowed_when_none_is_wanted() -> None:
    producer = Producer(DeliveryOptions(max_misses=0))
    producer.opened()
    with pytest.raises(ReceiverNotReady):
        producer.receive(answer(C.EXECUTION_EXCEPTION))


def test_by_default_a_receiver_may_be_half_a_minute_late() -> None:
    options = DeliveryOptions()
    assert sum(map(options.delay, range(options.max_misses))) >= 30
    assert sum(options.miss_delay(miss, 0.0) for miss in range(options.max_misses)) >= 30


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_a_run_that_was_announced_is_asked_for_within_two_seconds(chance: float) -> None:
    options = DeliveryOptions()
    delays = [options.miss_delay(miss, chance) for miss in range(options.max_misses)]
    assert max(delays) <= 2.0
    assert delays == sorted(delays)


def test_lost_connections_and_pauses_are_no_misses() -> None:
    producer = Producer(OPTIONS)
    for _ in range(10 * OPTIONS.max_misses):
        producer.opened()
        producer.opened()
        producer.receive(answer(C.PAUSE))
        producer.opened()
        producer.receive(answer(C.GOING_AWAY))
    assert producer.misses == 0


def test_a_miss_seeks_back_to_what_is_acknowledged() -> None:
    producer = streaming(4)
    send(producer, 2)
    assert producer.receive(answer(C.EXECUTION_EXCEPTION, who=b"B")) == 4
    assert producer.position == 4


def test_a_restarted_receiver_is_granted_all_misses_again_and_what_was_acknowledged_stays() -> None:
    producer = streaming(4)
    send(producer, 2)
    for who in (b"B", b"C"):
        for miss in range(1, OPTIONS.max_misses + 1):
            producer.opened()
            assert producer.receive(answer(C.EXECUTION_EXCEPTION, who=who)) == 4
            assert producer.misses == miss
    producer.opened()
    with pytest.raises(ReceiverNotReady) as raised:
        producer.receive(answer(C.EXECUTION_EXCEPTION, who=b"C"))
    assert raised.value.offset == 4
    assert producer.all_misses == 2 * OPTIONS.max_misses + 1


def test_a_reply_without_an_incarnation_is_the_same_receiver() -> None:
    producer = streaming()
    producer.opened()
    with pytest.raises(StreamRejected, match="EXECUTION_EXCEPTION while streaming"):
        producer.receive(answer(C.EXECUTION_EXCEPTION, who=b""))


# --- the window


def test_the_window_is_filled_with_whole_chunks_and_no_further() -> None:
    producer = streaming()
    sizes = []
    while producer.room() and producer.position < len(DATA):
        before = producer.position
        send(producer)
        sizes.append(producer.position - before)
    assert sizes == [4, 4, 4]
    assert producer.acked == 0


def test_one_ack_answers_many_chunks() -> None:
    producer = streaming()
    send(producer, 3)
    assert producer.receive(answer(C.OK, 8)) == 12
    assert (producer.acked, producer.position, producer.room()) == (8, 12, 4)


def test_an_ack_may_end_within_a_chunk() -> None:
    producer = streaming()
    send(producer, 2)
    producer.receive(answer(C.OK, 6))
    producer.receive(answer(C.OK, 8))
    assert producer.acked == 8


def test_a_chunk_has_the_digest_of_all_bytes_up_to_its_end() -> None:
    producer = streaming(4)
    chunk = producer.chunk(DATA[4:8])
    assert (chunk.offset, chunk.end, chunk.digest) == (4, 8, extend(0, DATA[:8]))


def test_a_heartbeat_moves_nothing_whatever_answers_it() -> None:
    producer = streaming(4)
    beat = producer.heartbeat()
    assert (beat.offset, beat.end, beat.digest) == (4, 4, extend(0, DATA[:4]))
    producer.receive(answer(C.OK, 4))
    producer.heartbeat()
    producer.receive(answer(C.EXECUTION_EXCEPTION, 0, who=b"B"))
    assert (producer.acked, producer.position, producer.misses) == (4, 4, 1)


def test_a_pause_lets_one_chunk_through_at_a_time_until_one_is_taken() -> None:
    producer = streaming()
    send(producer, 3)
    producer.receive(answer(C.PAUSE, 4))
    producer.opened()
    producer.receive(answer(C.OK, 4))
    assert (producer.state, producer.position, producer.room()) == (S.PAUSED, 4, 4)
    send(producer)
    assert producer.room() == 0
    producer.receive(answer(C.OK, 4))
    assert producer.room() == 0
    producer.receive(answer(C.OK, 8))
    assert (producer.state, producer.room()) == (S.STREAMING, 4)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        pytest.param(
            answer(C.OK, 16), "acknowledges offset 16, outside the sent range 4 to 12", id="more-than-was-sent"
        ),
        pytest.param(
            answer(C.OK, 3),
            "acknowledges offset 3, outside the sent range 4 to 12",
            id="less-than-before-on-one-connection",
        ),
        pytest.param(
            answer(C.OK, 8, marks=1),
            "acknowledges 1 marks at offset 8, outside the sent range 0 to 0",
            id="marks-never-sent",
        ),
        pytest.param(Reply(C.OK, 8, 7, 0, b"A", 1), "holds other bytes before offset 8", id="other-bytes"),
        pytest.param(Reply(C.OK, 4, 7, 0, b"A", 1), "holds other bytes before offset 4", id="other-bytes-than-acked"),
    ],
)
def test_an_ack_that_cannot_be_true_ends_the_stream(reply: Reply, sentence: str) -> None:
    producer = streaming(4)
    send(producer, 2)
    with pytest.raises(StreamRejected, match=sentence) as raised:
        producer.receive(reply)
    assert raised.value.offset == 4


# --- lost connections


@pytest.mark.parametrize(
    ("committed", "backwards"),
    [
        pytest.param(4, 0, id="what-was-in-flight-is-lost"),
        pytest.param(7, 0, id="a-part-had-arrived"),
        pytest.param(12, 0, id="all-had-arrived-and-the-ack-was-lost"),
        pytest.param(1, 3, id="the-receiver-came-back-with-less"),
        pytest.param(0, 4, id="the-receiver-came-back-with-nothing"),
    ],
)
def test_after_a_lost_connection_the_receivers_record_says_where_to_go_on(committed: int, backwards: int) -> None:
    producer = streaming(4)
    send(producer, 2)
    producer.opened()
    assert (producer.position, producer.acked, producer.room()) == (4, 4, 0)
    assert producer.receive(answer(C.OK, committed)) == committed
    assert (producer.acked, producer.went_backwards) == (committed, backwards)
    assert producer.chunk(DATA[committed : committed + 4]).digest == extend(0, DATA[: committed + 4])


def test_a_receiver_with_other_bytes_than_it_acknowledged_is_told_from_one_with_fewer() -> None:
    producer = streaming(4)
    producer.opened()
    with pytest.raises(StreamRejected, match="holds other bytes before offset 4"):
        producer.receive(Reply(C.OK, 4, 7, 0, b"A", 1))


@pytest.mark.parametrize(
    ("committed", "unproven"),
    [
        pytest.param(4, False, id="what-was-acknowledged-is-known"),
        pytest.param(8, False, id="what-was-in-flight-is-known"),
        pytest.param(6, True, id="the-middle-of-a-chunk-is-not"),
        pytest.param(2, True, id="less-than-was-acknowledged-is-not"),
    ],
)
def test_what_a_receiver_holds_is_compared_with_what_was_sent_or_said_to_be_unproven(
    committed: int, unproven: bool
) -> None:
    producer = streaming(4)
    send(producer, 2)
    producer.opened()
    producer.opened()  # a connection that is lost before its answer changes nothing
    producer.receive(answer(C.OK, committed))
    assert producer.unproven is unproven


def test_other_bytes_in_place_of_those_in_flight_end_the_stream() -> None:
    producer = streaming(4)
    send(producer, 2)
    producer.opened()
    with pytest.raises(StreamRejected, match="holds other bytes before offset 8"):
        producer.receive(Reply(C.OK, 8, 7, 0, b"A", 1))


def test_what_the_first_connection_finds_is_the_receivers_word() -> None:
    producer = Producer(OPTIONS)
    producer.opened()
    producer.receive(answer(C.OK, 6))
    assert not producer.unproven


def test_the_epoch_of_the_last_answer_is_kept() -> None:
    producer = streaming()
    producer.opened()
    producer.receive(answer(C.PAUSE))
    assert producer.epoch == 1


@pytest.mark.parametrize("code", [C.HOLE, C.CORRUPT])
def test_a_refusal_seeks_to_what_is_committed(code: Code) -> None:
    producer = streaming()
    send(producer, 3)
    assert producer.receive(answer(code, 4)) == 4
    assert (producer.position, producer.acked) == (4, 4)


def test_refusals_without_progress_are_bounded() -> None:
    producer = streaming()
    for _ in range(OPTIONS.max_refusals):
        send(producer)
        producer.receive(answer(C.CORRUPT))
        producer.opened()
        producer.receive(answer(C.OK))
    send(producer)
    with pytest.raises(StreamRejected, match=r"the bytes at offset 0 3 times \(bad\)"):
        producer.receive(answer(C.CORRUPT, reason="bad"))


def test_refusals_with_progress_are_not() -> None:
    producer = streaming()
    for committed in range(1, 1 + 2 * OPTIONS.max_refusals):
        send(producer)
        producer.receive(answer(C.CORRUPT, committed))
        producer.opened()
        producer.receive(answer(C.OK, committed))
    assert producer.acked == 2 * OPTIONS.max_refusals


# --- marks and the end


def test_marks_are_numbered_and_those_not_held_are_sent_again() -> None:
    producer = streaming()
    assert [producer.mark(), producer.mark(), producer.mark()] == [0, 1, 2]
    producer.receive(answer(C.OK, marks=1))
    producer.opened()
    producer.receive(answer(C.OK, marks=2))
    assert producer.mark() == 2


def test_a_mark_alone_is_progress_for_a_paused_stream() -> None:
    producer = in_state(S.PAUSED)
    producer.mark()
    producer.receive(answer(C.OK, marks=1))
    assert producer.state is S.STREAMING


def test_the_receipt_is_of_all_that_was_sent_and_nothing_follows_it() -> None:
    producer = streaming(4)
    send(producer)
    producer.mark()
    receipt = producer.finish()
    assert (receipt.length, receipt.digest, receipt.marks) == (8, extend(0, DATA[:8]), 1)
    assert producer.room() == 0


def test_a_lost_seal_is_asked_for_again() -> None:
    producer = streaming()
    send(producer)
    first = producer.finish()
    producer.opened()
    producer.receive(answer(C.OK, 4))
    assert producer.state is S.STREAMING
    assert producer.finish() == first
    producer.receive(answer(C.SEALED, 4))
    assert (producer.state, producer.acked, producer.room()) == (S.SEALED, 4, 0)


@together(
    ("options", "sentence"),
    [
        pytest.param({"max_misses": -1}, "must not be negative", id="negative-misses"),
        pytest.param({"max_refusals": -1}, "must not be negative", id="negative-refusals"),
        pytest.param({"max_chunk": 0}, f"from 1 to {MAX_CHUNK} bytes, not 0", id="no-chunk"),
        pytest.param({"max_chunk": MAX_CHUNK + 1}, f"from 1 to {MAX_CHUNK}", id="a-chunk-no-receiver-takes"),
        pytest.param({"window": 3, "max_chunk": 4}, "hold at least one chunk of 4", id="a-window-under-a-chunk"),
        pytest.param({"first_delay": 0.0}, "must be positive", id="no-delay"),
        pytest.param({"first_delay": 9.0}, "at most max_delay", id="a-first-delay-over-the-largest"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        DeliveryOptions(**options)


# --- the receiver's capacity


def test_the_receiver_says_how_much_may_be_on_its_way() -> None:
    producer = Producer(DeliveryOptions(window=1000, max_chunk=400))
    producer.opened()
    producer.receive(replace(answer(C.OK), window=16))
    assert producer.room() == 16 // CHUNKS
    send(producer, CHUNKS)
    assert producer.position == 16
    assert producer.room() == 0
    producer.receive(replace(answer(C.OK, 4), window=16))
    assert producer.room() == 16 // CHUNKS
    producer.receive(replace(answer(C.OK, 16), window=2000))
    assert producer.room() == 400


def test_a_stream_that_is_held_asks_with_little() -> None:
    producer = Producer()
    producer.opened()
    producer.receive(answer(C.OK))
    assert producer.room() == MAX_CHUNK
    producer.receive(answer(C.PAUSE))
    producer.opened()
    producer.receive(answer(C.OK))
    assert producer.room() == PROBE
    producer.chunk(DATA[:4])
    assert producer.room() == 0
    producer.receive(answer(C.OK, 4))
    assert producer.room() == MAX_CHUNK


# --- changes of state without a code


@together(
    ("state", "event", "after"),
    [
        pytest.param(S.BOOTSTRAP, Event.OPENED, S.BOOTSTRAP, id="a-bootstrap-outlasts-connections"),
        pytest.param(S.PAUSED, Event.OPENED, S.PAUSED, id="a-pause-outlasts-connections"),
        pytest.param(S.FINISHING, Event.OPENED, S.STREAMING, id="a-receipt-that-was-lost-is-sent-again"),
        pytest.param(S.SEALED, Event.OPENED, S.SEALED, id="what-is-sealed-stays-sealed"),
        pytest.param(S.STREAMING, Event.ANOTHER, S.BOOTSTRAP, id="another-receiver-may-not-know-the-run"),
        pytest.param(S.FINISHING, Event.ANOTHER, S.BOOTSTRAP, id="nor-one-that-comes-before-the-seal"),
        pytest.param(S.SEALED, Event.ANOTHER, None, id="another-receiver-opens-nothing-that-is-sealed"),
        pytest.param(S.PAUSED, Event.TAKEN, S.STREAMING, id="what-is-taken-ends-a-pause"),
        pytest.param(S.FINISHING, Event.TAKEN, S.FINISHING, id="what-is-taken-last-leaves-the-receipt-where-it-is"),
        pytest.param(S.BOOTSTRAP, Event.FINISHED, None, id="no-receipt-before-the-first-ok"),
        pytest.param(S.FINISHING, Event.FINISHED, None, id="one-receipt"),
    ],
)
def test_what_moves_it_beside_the_codes(state: State, event: Event, after: State | None) -> None:
    assert TRANSITIONS.get((state, event)) is after


@pytest.mark.parametrize("code", [C.OK, C.PAUSE, C.EXECUTION_EXCEPTION], ids=lambda code: code.name)
def test_another_receivers_answer_opens_nothing_that_is_sealed(code: Code) -> None:
    producer = in_state(S.SEALED)
    with pytest.raises(StreamRejected, match="another receiver answers while sealed, at offset 4"):
        producer.receive(answer(code, 4, who=b"B"))
    assert producer.state is S.SEALED
