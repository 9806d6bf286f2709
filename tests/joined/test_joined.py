"""The two ends of a delivery, joined: delays, cuts, repetitions, reordering, restarts, and all of them at random."""

from __future__ import annotations

import random

import pytest

from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import ReceiverNotReady, StreamRejected
from tests.joined.link import Fault, Kind, Link, generations
from tests.often import often

SOURCE = bytes(range(60))
OPTIONS = DeliveryOptions(max_misses=5, window=16, max_chunk=4)
MARKS = generations(SOURCE, 0, 10, 10, 37, 60)


def link(late: int = 0, lag: int = 1, faults: dict[int, Fault] | None = None) -> Link:
    return Link(SOURCE, MARKS, options=OPTIONS, late=late, lag=lag, faults=faults)


@pytest.mark.parametrize("late", [0, 1, 3, OPTIONS.max_misses])
def test_a_receiver_that_is_late_gets_every_byte_once(late: int) -> None:
    joined = link(late).run()
    assert joined.agrees
    assert joined.appended == len(SOURCE)
    assert joined.producer.all_misses == late
    assert joined.producer.opens == late + 1


def test_a_receiver_that_is_late_once_too_often_ends_the_stream_at_its_offset() -> None:
    joined = link(OPTIONS.max_misses + 1)
    with pytest.raises(ReceiverNotReady, match="6 attempts") as raised:
        joined.run()
    assert raised.value.offset == 0
    assert joined.stored == b""


@pytest.mark.parametrize("late", [0, 3])
def test_until_the_first_ok_one_message_is_in_flight(late: int) -> None:
    assert link(late).run().most_before_ok == 1


LENGTH = link().run().delivered


@pytest.mark.parametrize("arrive", [0, 1, 2, 99], ids=lambda n: f"{n}-still-arrive")
def test_a_cut_at_any_message_loses_and_repeats_nothing(arrive: int) -> None:
    for index in range(1, LENGTH + 1):
        joined = link(lag=3, faults={index: Fault(Kind.CUT, arrive)}).run()
        assert joined.agrees, index
        assert joined.appended == len(SOURCE), index
        assert joined.producer.went_backwards == 0, index


@pytest.mark.parametrize(
    ("fault", "connections"),
    [
        pytest.param(Fault(Kind.REPEAT, 1), {1}, id="a-chunk-that-comes-twice-is-trimmed"),
        pytest.param(Fault(Kind.REPEAT, 5), {1}, id="and-one-that-comes-six-times"),
        pytest.param(Fault(Kind.SWAP), {1, 2}, id="a-request-that-is-overtaken-is-asked-for-again"),
        pytest.param(Fault(Kind.DAMAGE), {1, 2}, id="a-damaged-chunk-is-sent-again"),
        pytest.param(Fault(Kind.MUTE), {1, 2}, id="a-lost-reply-is-made-good-by-the-next"),
        pytest.param(Fault(Kind.PAUSE), {1, 2}, id="a-pause-holds-the-position"),
        pytest.param(Fault(Kind.PAUSE, 40), {1, 42}, id="a-pause-may-last-longer-than-any-bootstrap"),
        pytest.param(Fault(Kind.STALL), {1, 2}, id="a-stall-that-the-receiver-ends-decides-nothing"),
        pytest.param(Fault(Kind.STALL, 1), {2, 3}, id="a-stall-that-the-sender-ends-decides-nothing"),
    ],
)
def test_whatever_befalls_one_message_every_byte_is_stored_once(fault: Fault, connections: set[int]) -> None:
    seen = set()
    for index in range(1, LENGTH + 1):
        joined = link(lag=2, faults={index: fault}).run()
        assert joined.agrees, index
        assert joined.appended == len(SOURCE), index
        seen.add(joined.connections)
    assert seen == connections


@pytest.mark.parametrize("late", [0, 1, OPTIONS.max_misses])
def test_a_restarted_receiver_gets_a_bootstrap_of_its_own(late: int) -> None:
    for index in range(1, LENGTH + 1):
        # The first receiver has used up all misses; those of the second are counted from 0.
        joined = link(OPTIONS.max_misses, faults={index + 2 * OPTIONS.max_misses: Fault(Kind.RESTART, late)}).run()
        assert joined.agrees, index
        assert joined.producer.all_misses == OPTIONS.max_misses + late, index
        assert joined.most_before_ok == 1, index


def test_a_restarted_receiver_may_not_be_late_once_too_often_either() -> None:
    joined = link(faults={20: Fault(Kind.RESTART, OPTIONS.max_misses + 1)})
    with pytest.raises(ReceiverNotReady) as raised:
        joined.run()
    assert 0 < raised.value.offset <= len(joined.stored)


@pytest.mark.parametrize("old", [1, 2, 5, 99], ids=lambda n: f"{n}-commits-old")
def test_a_receiver_that_comes_back_with_an_older_copy_is_filled_up_again(old: int) -> None:
    for index in range(2, LENGTH + 1):
        joined = link(faults={index: Fault(Kind.RESTORE, old)}).run()
        assert joined.agrees, index


def test_bytes_that_a_receiver_lost_are_counted() -> None:
    joined = link(faults={21: Fault(Kind.RESTORE, 99)}).run()
    assert 0 < joined.producer.went_backwards <= joined.appended - len(SOURCE)  # the others were not acknowledged


@pytest.mark.parametrize("index", [3, 10, 20, 30])
def test_the_same_receiver_may_not_miss_after_its_ok(index: int) -> None:
    joined = link(faults={index: Fault(Kind.FORGET, 1)})
    with pytest.raises(StreamRejected, match=r"answered EXECUTION_EXCEPTION while streaming, at offset \d+: run run-1"):
        joined.run()
    assert joined.sealed is None


def test_nothing_but_the_receipt_is_sent_of_an_empty_log() -> None:
    joined = Link(b"").run()
    assert joined.agrees
    assert joined.delivered == 4


@pytest.mark.parametrize("block", range(often(2, 10)), ids=lambda n: f"seeds-{n}00-to-{n}99")
def test_any_schedule_of_faults_ends_with_every_byte_stored_once(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        rng = random.Random(seed)
        source = rng.randbytes(rng.choice([0, 1, 50, 400]))
        chunk = rng.randint(1, 40)
        options = DeliveryOptions(
            max_misses=rng.randint(0, 4), window=chunk * rng.randint(1, 9), max_chunk=chunk, max_refusals=20
        )
        marks = generations(source, *sorted(rng.randint(0, len(source)) for _ in range(rng.randint(0, 6))))
        kinds = [kind for kind in Kind if kind is not Kind.FORGET]
        faults: dict[int, Fault] = {}
        for index in rng.sample(range(1, 200), rng.randint(0, 30)):
            kind = rng.choice(kinds)
            faults[index] = Fault(kind, rng.randint(0, options.max_misses if kind is Kind.RESTART else 5))
        joined = Link(
            source,
            marks,
            options=options,
            late=rng.randint(0, options.max_misses),
            lag=rng.randint(1, 5),
            faults=faults,
        ).run()
        assert joined.agrees, seed
        if not any(fault.kind in (Kind.RESTART, Kind.RESTORE) for fault in faults.values()):
            assert joined.appended == len(source), seed
