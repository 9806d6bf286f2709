"""How a receiver's session takes each message, depending on those before it."""

from __future__ import annotations

import itertools

import pytest

from flarelog.checksum import extend
from flarelog.delivery.receiver import Receiver, Refused
from flarelog.delivery.receiving import TRANSITIONS, Reception, State, What, code_of
from flarelog.errors import Fenced, FlarelogError, Full, Moved, Unavailable
from flarelog.model import Attributes, Chunk, Code, Leave, News, Open, Receipt, StreamId

DATA = b"one\ntwo\n"
CHUNK = Chunk(0, DATA, extend(0, DATA))
RECEIPT = Receipt(len(DATA), extend(0, DATA), 0)
OPEN = Open(StreamId("run-1", "site-1", "log.txt"), b"a-producer")


def receiving() -> Reception:
    reception = Reception()
    reception.held(Receiver())
    return reception


def test_bytes_are_to_be_written_once() -> None:
    reception = receiving()
    assert reception.take(CHUNK) == DATA
    assert reception.take(CHUNK) == b""
    assert (reception.state, reception.taking) == (State.RECEIVING, True)


def test_a_mark_is_to_be_written_once() -> None:
    reception, mark = receiving(), Attributes(0, 0, "epoch=1")
    assert reception.take((0, mark)) == mark
    assert reception.take((0, mark)) is None


def test_a_receipt_that_both_agree_on_seals_the_stream() -> None:
    reception = receiving()
    reception.take(CHUNK)
    assert reception.take(RECEIPT) is None
    assert (reception.state, reception.taking) == (State.SEALING, False)
    reception.sealed()
    assert reception.last_word is Code.SEALED


def test_a_receipt_that_they_do_not_agree_on_is_refused_and_ends_nothing_by_itself() -> None:
    reception = receiving()
    with pytest.raises(Refused):
        reception.take(RECEIPT)
    assert (reception.state, reception.receipt) == (State.RECEIVING, None)


def test_a_second_open_is_refused() -> None:
    with pytest.raises(Refused, match="one Open"):
        receiving().take(OPEN)


@pytest.mark.parametrize("end", ["receipt", "leave", "refusal"])
def test_nothing_is_taken_behind_the_end(end: str) -> None:
    reception = receiving()
    if end == "receipt":
        reception.take(Receipt(0, 0, 0))
    elif end == "leave":
        reception.take(Leave())
    else:
        reception.refuse(Full("no room"))
    before = reception.state
    for message in (CHUNK, RECEIPT, OPEN, News(0, 0), Leave()):
        assert reception.take(message) is None
    assert (reception.state, reception.taking) == (before, False)


def test_the_first_refusal_counts() -> None:
    reception, first = receiving(), Full("no room")
    reception.refuse(first)
    reception.refuse(Fenced("a newer producer"))
    assert (reception.refusal, reception.last_word) == (first, Code.PAUSE)


def test_a_refusal_while_the_receipt_is_committed_takes_its_place() -> None:
    reception = receiving()
    reception.take(Receipt(0, 0, 0))
    reception.refuse(Unavailable("the disk"))
    assert (reception.state, reception.last_word) == (State.REFUSING, Code.PAUSE)


def test_what_the_store_has_sealed_is_sealed_whatever_came_meanwhile() -> None:
    reception = receiving()
    reception.take(Receipt(0, 0, 0))
    reception.refuse(Refused(Code.GOING_AWAY, "the receiver is stopping"))
    reception.sealed()
    reception.refuse(Full("no room"))
    assert (reception.state, reception.last_word, reception.refusal) == (State.SEALED, Code.SEALED, None)


def test_a_producer_that_leaves_while_the_store_opens_its_stream_is_told_what_is_held() -> None:
    reception = Reception()
    reception.leave()
    reception.held(Receiver())
    assert (reception.state, reception.last_word) == (State.LEAVING, Code.OK)
    reception.committed()
    assert reception.state is State.CLOSED


def test_from_its_end_on_a_stream_takes_no_way_back() -> None:
    taking = {State.OPENING, State.RECEIVING}
    back = [(state, what) for (state, what), after in TRANSITIONS.items() if state not in taking and after in taking]
    assert back == []


def test_whatever_the_state_a_stream_can_be_left_and_refused() -> None:
    ends = itertools.product(State, (What.LEAVE, What.REFUSAL))
    assert [end for end in ends if end not in TRANSITIONS] == []


def test_a_stream_that_went_to_another_receiver_does_not_end_its_producer() -> None:
    assert (code_of(Moved("elsewhere")), code_of(Fenced("newer"))) == (Code.GOING_AWAY, Code.FENCED)


def test_an_error_that_has_no_code_of_its_own_is_a_rejection() -> None:
    assert code_of(FlarelogError("whatever")) is Code.REJECTED
