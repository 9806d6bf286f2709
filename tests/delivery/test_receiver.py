"""The receiving end: which part of a message is new, and which messages are refused."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from flarelog.checksum import extend
from flarelog.delivery.receiver import KNOWN, MAX_EPOCH, MAX_MARKS, REMEMBERED, Epochs, Holder, Receiver, Refused
from flarelog.errors import Fenced
from flarelog.model import Chunk, Code, Ended, Gap, Generation, Mark, Receipt, Redaction, Started
from tests.rows import together

DATA = b"0123456789abcdef"


def digest(end: int) -> int:
    return extend(0, DATA[:end])


def part(begin: int, end: int) -> Chunk:
    return Chunk(begin, DATA[begin:end], digest(end))


def holding(committed: int, *marks: Mark) -> Receiver:
    """A receiver whose store holds the first *committed* bytes of DATA."""
    return Receiver(committed, digest(committed), marks, max_chunk=12)


@together(
    ("chunk", "new"),
    [
        pytest.param(part(8, 12), DATA[8:12], id="at-the-end-it-is-taken-whole"),
        pytest.param(part(4, 12), DATA[8:12], id="an-overlap-is-trimmed"),
        pytest.param(part(0, 9), DATA[8:9], id="an-overlap-from-the-beginning-is-trimmed"),
        pytest.param(part(4, 8), b"", id="a-repetition-brings-nothing"),
        pytest.param(part(0, 3), b"", id="an-old-repetition-brings-nothing"),
        pytest.param(part(8, 8), b"", id="a-heartbeat-at-the-end-brings-nothing"),
        pytest.param(part(3, 3), b"", id="an-old-heartbeat-brings-nothing"),
    ],
)
def test_what_is_new_in_a_chunk(chunk: Chunk, new: bytes) -> None:
    receiver = holding(8)
    assert bytes(receiver.chunk(chunk)) == new
    assert receiver.accepted == 8 + len(new)
    assert receiver.digest == digest(receiver.accepted)


@together(
    ("chunk", "code", "sentence"),
    [
        pytest.param(part(9, 12), Code.HOLE, "begins at offset 9, but the stream continues at 8", id="a-hole"),
        pytest.param(
            part(9, 9), Code.HOLE, "begins at offset 9, but the stream continues at 8", id="a-heartbeat-from-ahead"
        ),
        pytest.param(Chunk(8, DATA[8:12], 7), Code.CORRUPT, "from 8 to 12 have digest", id="a-wrong-digest"),
        pytest.param(Chunk(8, b"", 7), Code.CORRUPT, "from 8 to 8 have", id="a-heartbeat-with-a-wrong-digest"),
        pytest.param(
            Chunk(6, b"XX89", extend(digest(6), b"XX89")), Code.CORRUPT, "from 8 to 10", id="an-overlap-of-other-bytes"
        ),
        pytest.param(
            Chunk(4, b"XXXX", extend(digest(4), b"XXXX")), Code.CORRUPT, "before offset 8", id="a-repetition-of-others"
        ),
        pytest.param(part(0, 13), Code.REJECTED, "has 13 bytes; at most 12 are allowed", id="a-chunk-over-the-limit"),
    ],
)
def test_a_chunk_that_is_refused_changes_nothing(chunk: Chunk, code: Code, sentence: str) -> None:
    receiver = holding(8)
    with pytest.raises(Refused, match=sentence) as raised:
        receiver.chunk(chunk)
    assert raised.value.code is code
    assert (receiver.accepted, receiver.digest) == (8, digest(8))
    assert bytes(receiver.chunk(part(8, 12))) == DATA[8:12]


@pytest.mark.parametrize(
    ("offset", "size", "code"), [(9, 1, Code.HOLE), (8, 13, Code.REJECTED), (0, 13, Code.REJECTED)]
)
def test_what_is_refused_whatever_its_bytes_are_can_be_told_without_them(offset: int, size: int, code: Code) -> None:
    with pytest.raises(Refused) as raised:
        holding(8).admit(offset, size)
    assert raised.value.code is code


def test_other_bytes_are_noticed_in_repetitions_of_the_latest_chunks() -> None:
    receiver = Receiver()
    for end in range(1, len(DATA) + 1):
        receiver.chunk(part(end - 1, end))
    assert len(DATA) < REMEMBERED
    for _ in range(2 * REMEMBERED):
        receiver.chunk(part(len(DATA), len(DATA)))  # heartbeats are not remembered as chunks
    for end in range(1, len(DATA) + 1):
        assert bytes(receiver.chunk(part(end - 1, end))) == b""
        with pytest.raises(Refused, match=f"the bytes before offset {end}"):
            receiver.chunk(Chunk(end - 1, b"X", extend(digest(end - 1), b"X")))


def test_a_window_of_any_chunks_may_come_again_from_any_point() -> None:
    for again in range(len(DATA)):
        receiver = Receiver()
        taken = b"".join(bytes(receiver.chunk(part(at, at + 4))) for at in range(0, 16, 4))
        taken += b"".join(bytes(receiver.chunk(part(at, min(16, at + 3)))) for at in range(again, 16, 3))
        assert taken == DATA


# --- marks

FIRST = Generation(0, 0, "log.txt", 0, "file-1")
END = Ended(8, digest(8), "rotated")
GAP = Gap(8, digest(8), 5, "truncated before they were read")


def test_marks_are_taken_in_order_once() -> None:
    receiver = Receiver()
    assert receiver.mark(0, FIRST)
    receiver.chunk(part(0, 8))
    assert receiver.mark(1, END)
    assert receiver.mark(2, GAP)
    assert not receiver.mark(0, FIRST)
    assert not receiver.mark(2, GAP)
    assert receiver.marks == [FIRST, END, GAP]


@pytest.mark.parametrize(
    ("index", "mark", "code", "sentence"),
    [
        pytest.param(2, GAP, Code.HOLE, "mark 2 came, but mark 1 is next", id="a-number-too-high"),
        pytest.param(
            1, Gap(9, 0, 1, ""), Code.HOLE, "has offset 9, but the stream continues at 8", id="beyond-the-end"
        ),
        pytest.param(
            1, Gap(7, digest(7), 1, ""), Code.HOLE, "has offset 7, but the stream continues at 8", id="before-the-end"
        ),
        pytest.param(1, Gap(8, 7, 1, ""), Code.CORRUPT, "has digest 00000007", id="a-wrong-digest"),
        pytest.param(0, GAP, Code.REJECTED, "mark 0 was received earlier with another meaning", id="another-meaning"),
    ],
)
def test_a_mark_that_is_refused_changes_nothing(index: int, mark: Mark, code: Code, sentence: str) -> None:
    receiver = holding(8, FIRST)
    with pytest.raises(Refused, match=sentence) as raised:
        receiver.mark(index, mark)
    assert raised.value.code is code
    assert receiver.marks == [FIRST]


def test_marks_without_end_are_refused() -> None:
    receiver = holding(8, *[GAP] * MAX_MARKS)
    with pytest.raises(Refused, match=f"has {MAX_MARKS} marks") as raised:
        receiver.mark(MAX_MARKS, GAP)
    assert raised.value.code is Code.REJECTED


# --- the receipt


@together(
    ("receipt", "code"),
    [
        pytest.param(Receipt(8, digest(8), 1), None, id="agreed"),
        pytest.param(Receipt(8, digest(8), 1, Redaction(1, 3)), None, id="only-the-producer-knows-what-it-masked"),
        pytest.param(Receipt(9, digest(9), 1), Code.HOLE, id="bytes-are-missing"),
        pytest.param(Receipt(8, digest(8), 2), Code.HOLE, id="marks-are-missing"),
        pytest.param(Receipt(7, digest(7), 1), Code.REJECTED, id="more-is-held-than-was-sent"),
        pytest.param(Receipt(8, digest(8), 0), Code.REJECTED, id="more-marks-are-held"),
        pytest.param(Receipt(8, 7, 1), Code.REJECTED, id="other-bytes-are-held"),
    ],
)
def test_a_stream_is_sealed_only_when_both_ends_agree(receipt: Receipt, code: Code | None) -> None:
    receiver = holding(8, FIRST)
    if code is None:
        receiver.finish(receipt)
        return
    with pytest.raises(Refused, match="the receipt") as raised:
        receiver.finish(receipt)
    assert raised.value.code is code


# --- one producer a stream


def held_by(*producers: bytes) -> Holder:
    """A stream that *producers* opened one after the other."""
    holder = Holder()
    for epoch, producer in enumerate(producers, 1):
        holder = holder.followed_by(epoch, producer)
    return holder


@together(
    ("holder", "producer", "epoch", "after"),
    [
        pytest.param(held_by(), b"A", 0, 1, id="the-first-has-it"),
        pytest.param(held_by(b"A"), b"A", 0, 1, id="the-holder-comes-back"),
        pytest.param(held_by(b"A"), b"A", 1, 1, id="the-holder-comes-back-with-its-epoch"),
        pytest.param(held_by(b"A"), b"B", 0, 2, id="a-newer-one-takes-over"),
        pytest.param(held_by(b"A", b"B"), b"A", 1, None, id="the-older-one-is-told"),
        pytest.param(held_by(b"A", b"B"), b"A", 0, None, id="also-when-it-forgot-its-epoch"),
        pytest.param(held_by(b"A", b"B"), b"C", 1, None, id="an-old-epoch-is-an-old-producer"),
        pytest.param(held_by(b"A", b"B"), b"C", 2, 3, id="the-latest-epoch-is-not"),
        pytest.param(held_by(), b"A", 7, 7, id="an-epoch-of-a-lost-store-is-kept"),
        pytest.param(held_by(b"A"), b"B", 7, 7, id="an-epoch-of-a-store-that-went-backwards-is-kept"),
        pytest.param(held_by(), b"A", 1 << 64, MAX_EPOCH, id="an-absurd-epoch-leaves-room-for-the-next"),
    ],
)
def test_who_has_a_stream(holder: Holder, producer: bytes, epoch: int, after: int | None) -> None:
    epochs = Epochs()
    epochs.learn(holder)
    if after is None:
        with pytest.raises(Fenced):
            epochs.claim(holder, producer, epoch)
    else:
        claimed = epochs.claim(holder, producer, epoch)
        assert claimed.producers[-1] == (after, producer)
        assert epochs.claim(claimed, producer, after) == claimed


def test_the_newer_of_two_is_the_newer_in_every_log_of_the_site() -> None:
    epochs = Epochs()
    first, second = epochs.claim(Holder(), b"A", 0), epochs.claim(Holder(), b"B", 0)
    assert epochs.claim(first, b"B", 0).epoch == 2
    with pytest.raises(Fenced):
        epochs.claim(second, b"A", 0)


def test_of_two_of_one_machine_the_one_that_started_later_is_the_newer_though_it_came_first() -> None:
    epochs, old, new = Epochs(), Started("boot", 1), Started("boot", 2)
    first = epochs.claim(Holder(), b"new", 0, new)
    with pytest.raises(Fenced):
        epochs.claim(first, b"old", 0, old)
    second = epochs.claim(Holder(), b"old", 0, old)  # a log that the newer one had not opened yet
    second = epochs.claim(second, b"new", first.epoch, new)
    assert second.producers[-1][1] == b"new"
    with pytest.raises(Fenced):
        epochs.claim(second, b"old", 2, old)
    assert epochs.claim(second, b"new", second.epoch, new) == second
    assert epochs.claim(second, b"newer", 0, Started("boot", 3)).producers[-1][1] == b"newer"


@pytest.mark.parametrize("old", [None, Started("another-boot", 1)], ids=["unknown", "of-another-machine"])
def test_of_two_whose_starts_cannot_be_compared_the_one_that_came_later_is_the_newer(old: Started | None) -> None:
    epochs = Epochs()
    first = epochs.claim(Holder(), b"new", 0, Started("boot", 2))
    assert epochs.claim(first, b"old", 0, old).producers[-1] == (2, b"old")


def test_a_producer_that_started_later_is_newer_also_after_one_of_another_machine_has_followed_it() -> None:
    epochs, old, new = Epochs(), Started("boot", 1), Started("boot", 2)
    holder = epochs.claim(Holder(), b"new", 0, new)
    holder = epochs.claim(holder, b"elsewhere", 0, Started("another-boot", 1))
    with pytest.raises(Fenced):
        epochs.claim(holder, b"old", 0, old)
    assert epochs.claim(holder, b"unknown", 0).producers[-1][1] == b"unknown"


def test_of_a_chain_the_latest_has_the_stream_in_whatever_order_they_come() -> None:
    for order in itertools.permutations(range(4)):
        epochs, holder = Epochs(), Holder()
        for number in order:
            with contextlib.suppress(Fenced):
                holder = epochs.claim(holder, b"producer-%d" % number, 0, Started("boot", number))
        assert holder.producers[-1][1] == b"producer-3", order


def test_a_stream_whose_newer_holder_has_ended_may_be_continued_by_an_older_one() -> None:
    epochs = Epochs()
    held = epochs.claim(Holder(), b"new", 0, Started("boot", 2))
    assert epochs.claim(held, b"old", 0, Started("boot", 1), sealed=True).producers[-1][1] == b"old"


def test_after_a_lost_store_the_older_of_two_is_still_the_older() -> None:
    epochs = Epochs()
    newer = epochs.claim(Holder(), b"B", 6)
    with pytest.raises(Fenced):
        epochs.claim(newer, b"A", 5)


def test_who_came_is_remembered_within_bounds_and_epochs_go_on() -> None:
    epochs, holder = Epochs(), Holder()
    for n in range(3 * KNOWN):
        holder = epochs.claim(holder, b"producer-%d" % n, 0)
    assert holder.epoch == 3 * KNOWN
    assert len(holder.producers) == KNOWN
    for n in range(3 * KNOWN - 1):
        with pytest.raises(Fenced):
            epochs.claim(holder, b"producer-%d" % n, n + 1)
    with pytest.raises(Fenced):
        epochs.claim(holder, b"producer-%d" % (2 * KNOWN), 0)
