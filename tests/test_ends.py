"""The choice of a receiver's end: at random at first, then each in turn."""

from __future__ import annotations

import pytest

from flarelog.ends import Ends
from flarelog.errors import InvalidOption
from flarelog.names import independent, receiver_ends
from tests.rows import rows


def _reversed(ends: list[str]) -> None:
    ends.reverse()


def test_each_end_is_used_once_in_a_round() -> None:
    ends = Ends("a:1,b:1,c:1", _reversed)
    used = []
    for _ in range(6):
        used.append(ends.current)
        assert ends.turn(lost=True), "another end needs another connection"
    assert used == ["c:1", "b:1", "a:1"] * 2


def test_a_sole_end_connects_anew_unless_grpc_does() -> None:
    ends = Ends("a:1")
    assert [ends.turn(lost=lost) for lost in (True, False)] == [False, True]
    assert (len(ends), ends.current) == (1, "a:1")


def test_the_first_end_is_random() -> None:
    assert {Ends("a:1,b:1").current for _ in range(64)} == {"a:1", "b:1"}


@pytest.mark.parametrize(
    ("receiver", "ends"),
    [
        ("a:1", ("a:1",)),
        ("a:1,b:2", ("a:1", "b:2")),
        (" a:1 , [::1]:2,a:1", ("a:1", "[::1]:2")),
    ],
)
def test_ends_are_separated_by_commas(receiver: str, ends: tuple[str, ...]) -> None:
    assert receiver_ends(receiver) == ends


@rows(["", "a:1,", ",", "a:1,b", "a:1;b:1", "a:1,b:0"])
def test_each_end_must_be_an_address(receiver: str) -> None:
    with pytest.raises(InvalidOption):
        receiver_ends(receiver)


def test_independent_receivers_share_no_end() -> None:
    assert independent(["a:1,b:1", "c:1", "c:1"]) == ("a:1,b:1", "c:1")
    with pytest.raises(InvalidOption, match="'b:1' is in two receivers"):
        independent(["a:1,b:1", "b:1,c:1"])
