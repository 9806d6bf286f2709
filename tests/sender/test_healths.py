"""What a sidecar tells of its machine and of what it cannot read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from flarelog.model import UNREAD
from flarelog.sender.healths import Healths, place_of

DENIED = "cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("troubles", "all_seen", "whole"),
    [
        pytest.param([], True, True, id="nothing"),
        pytest.param([f"a.log {DENIED}"], True, True, id="a-file"),
        pytest.param([f"{n}.log {DENIED}" for n in range(UNREAD)], True, True, id="as-many-as-are-told"),
        pytest.param([f"{n}.log {DENIED}" for n in range(UNREAD + 1)], True, False, id="more-than-are-told"),
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
    assert healths.take() is None


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


def test_a_place_is_a_directory_of_a_site_in_a_run(tmp_path: Path) -> None:
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
    assert "logs" not in here
