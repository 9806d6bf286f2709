"""A sidecar's reports of its machine and of files that it cannot read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from flarelog.model import CANNOT_BE_LISTED, NAMED_UNREAD, UNREAD
from flarelog.sender.healths import Healths, place_of

DENIED = "cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("troubles", "all_seen", "whole"),
    [
        pytest.param([], True, True, id="nothing"),
        pytest.param([f"a.log {DENIED}"], True, True, id="a-file"),
        pytest.param([f"{n}.log {DENIED}" for n in range(UNREAD + 1)], True, True, id="more-than-an-older-one-is-told"),
        pytest.param([f"{n}.log {DENIED}" for n in range(NAMED_UNREAD)], True, True, id="as-many-as-are-named"),
        pytest.param([f"{n}.log {DENIED}" for n in range(NAMED_UNREAD + 3)], True, False, id="more-than-are-named"),
        pytest.param(["d cannot be listed: Permission denied"], True, False, id="a-directory-may-have-more"),
        pytest.param([], False, False, id="a-root-that-is-not-there"),
    ],
)
def test_a_sidecar_says_whether_these_are_all_that_it_cannot_read(
    tmp_path: Path, troubles: list[str], all_seen: bool, whole: bool
) -> None:
    healths = Healths(str(tmp_path), "a-place", lambda: [f"{tmp_path}/{one}" for one in troubles], lambda: all_seen)
    assert healths.take() is None
    asyncio.run(healths.look(lambda: None))
    told = healths.take()
    assert told is not None
    assert told.health is not None
    assert (list(told.health.unread), told.place, told.whole) == (troubles[:UNREAD], "a-place", whole)
    listed = [one.replace(CANNOT_BE_LISTED, f"/{CANNOT_BE_LISTED}") for one in troubles]
    assert [" ".join(one) for one in told.unread] == listed[:NAMED_UNREAD]
    assert told.more == max(0, len(troubles) - NAMED_UNREAD)
    assert healths.take() is None


@pytest.mark.parametrize(
    ("refused", "troubles", "told"),
    [
        pytest.param((), [], (), id="none"),
        pytest.param(("b/c.log", "a/b.log"), [], ("b/c.log", "a/b.log"), id="two"),
        pytest.param(None, [], None, id="one-may-be-refused-yet"),
        pytest.param(tuple(f"a/{n}.log" for n in range(UNREAD + 1)), [], None, id="more-than-are-told"),
        pytest.param((), [f"{n}.log {DENIED}" for n in range(NAMED_UNREAD + 1)], None, id="a-list-that-is-not-whole"),
        pytest.param((), ["d cannot be listed: Permission denied"], None, id="a-directory-may-have-more"),
    ],
)
def test_a_sidecar_says_which_logs_were_refused_where_it_knows_them_all(
    tmp_path: Path, refused: tuple[str, ...] | None, troubles: list[str], told: tuple[str, ...] | None
) -> None:
    sentences = [f"{tmp_path}/{one}" for one in troubles]
    healths = Healths(str(tmp_path), "a-place", lambda: sentences, lambda: True, lambda: refused)
    asyncio.run(healths.look(lambda: None))
    news = healths.take()
    assert news is not None
    assert news.refused == told


def test_a_sidecar_says_at_once_that_all_its_logs_are_taken_and_that_one_was_refused_or_is_gone(tmp_path: Path) -> None:
    refused: list[tuple[str, ...] | None] = [None, None, (), (), ("a/b.log",), ("a/b.log",), ()]
    healths = Healths(str(tmp_path), "a-place", list, lambda: True, lambda: refused.pop(0))
    asyncio.run(healths.look(lambda: None))
    said = [None if (news := healths.take()) is None else (news.refused,) for _ in range(7)]
    assert said == [(None,), None, ((),), None, (("a/b.log",),), None, ((),)]


def test_a_sidecar_says_at_once_that_it_can_read_what_it_could_not(tmp_path: Path) -> None:
    troubles = [f"{tmp_path}/a.log {DENIED}"]
    healths = Healths(str(tmp_path), "a-place", lambda: troubles, lambda: True)
    asyncio.run(healths.look(lambda: None))
    said = []
    for _ in range(2):
        if (told := healths.take()) is not None and told.health is not None:
            said.append(told.health.unread)
        troubles.clear()
    assert said == [(f"a.log {DENIED}",), ()]
    assert healths.take() is None


def test_a_place_is_a_directory_of_a_site_in_a_run_or_what_is_included_of_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    os.symlink("logs", tmp_path / "link")
    here = place_of("run-1", "site-1", f"{tmp_path}/logs")
    assert here == place_of("run-1", "site-1", f"{tmp_path}/link/")
    others = [
        ("run-1", "site-1", str(tmp_path)),
        ("run-1", "site-2", f"{tmp_path}/logs"),
        ("r", "s", f"{tmp_path}/logs"),
    ]
    assert here not in {place_of(*one) for one in others}
    parts = [place_of("run-1", "site-1", f"{tmp_path}/logs", part) for part in (("a*", "b*"), ("b*", "a*"), ("c*",))]
    assert here not in parts
    assert (parts[0] == parts[1], parts[0] == parts[2]) == (True, False)
    assert "logs" not in here
