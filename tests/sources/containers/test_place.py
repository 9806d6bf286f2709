"""Which files of a container's directory come next."""

from __future__ import annotations

import itertools

import pytest

from flarelog.sources.containers.layouts import LAYOUTS, Turn
from flarelog.sources.containers.place import Entry, Key, may_lack, steps
from tests.rows import together

S1, S2, S3 = (f"0.log.20261128-10000{n}" for n in (1, 2, 3))


def entry(name: str, inode: int) -> Entry:
    place = LAYOUTS["cri"].place(name)
    assert place is not None
    return Entry(name, place, (1, inode, inode))


def known(**names: str) -> dict[Key, Turn]:
    """The turns of known files, given as ``i7="0.log"``."""
    return {(1, int(inode[1:]), int(inode[1:])): entry(name, 0).place.turn for inode, name in names.items()}


def test_new_files_come_in_order_whatever_the_order_of_the_listing() -> None:
    found = steps([entry("0.log", 4), entry(S2, 2), entry(f"{S1}.gz", 1), entry("1.log", 5), entry(S3, 3)], {}, ())
    assert [one.name for one in found.new] == [f"{S1}.gz", S2, S3, "0.log", "1.log"]


def test_a_rotated_file_is_known_by_its_inode_and_birth() -> None:
    found = steps([entry(S1, 7), entry("0.log", 8)], known(i7="0.log"), ())
    assert {key[1]: one.name for key, one in found.names.items()} == {7: S1}
    assert [one.name for one in found.new] == ["0.log"]


def test_a_compressed_file_is_no_new_one_while_its_raw_file_is_there_or_was() -> None:
    assert [one.name for one in steps([entry(S1, 7), entry(f"{S1}.gz", 9)], {}, ()).new] == [S1]
    assert not steps([entry(f"{S1}.gz", 9)], {}, {entry(S1, 0).place.turn}).new
    assert not steps([entry(S1, 7), entry(f"{S1}.gz", 9)], known(i7="0.log"), ()).new


def test_a_file_that_is_in_no_listing_any_more_is_gone() -> None:
    assert [key[1] for key in steps([entry("0.log", 8)], known(i7=S1, i8="0.log"), ()).gone] == [7]


@together(
    "before, first, lacks",
    [
        pytest.param(S1, S2, False, id="neighbours-of-one-attempt"),
        pytest.param(S1, "0.log", False, id="the-current-file-after-a-rotated-one"),
        pytest.param("0.log", "1.log", False, id="the-next-attempt-not-rotated"),
        pytest.param("0.log", "1.log.20261128-100009", True, id="the-next-attempts-first-files-may-be-removed"),
        pytest.param(S1, "1.log", True, id="the-end-of-the-attempt-was-removed"),
        pytest.param(None, S2, True, id="the-latest-file-was-removed"),
        pytest.param(None, "0.log", True, id="the-latest-file-was-removed-and-only-the-current-is-there"),
    ],
)
def test_a_file_may_be_missing_where_the_runtime_can_have_removed_one(
    before: str | None, first: str, lacks: bool
) -> None:
    assert may_lack(entry(before, 1).place.turn if before else None, entry(first, 2).place.turn) == lacks


def test_dockers_files_follow_each_other_as_those_of_one_attempt() -> None:
    names = [f"{'ab' * 32}-json.log{ending}" for ending in (".2.gz", ".1", "")]
    turns = [place.turn for place in map(LAYOUTS["docker"].place, names) if place is not None]
    assert [may_lack(*two) for two in itertools.pairwise(turns)] == [False, False]
    assert may_lack(None, turns[-1])
