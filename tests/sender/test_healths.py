"""A sidecar's reports of its machine and of files that it does not send."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flarelog.model import UNREAD
from flarelog.sender.healths import Healths

PACKED = "is compressed and is not sent"


@pytest.mark.parametrize(
    ("troubles", "said"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([f"a.gz {PACKED}"], [f"a.gz {PACKED}"], id="a-file"),
        pytest.param(
            [f"{n}.gz {PACKED}" for n in range(UNREAD + 1)], [f"{n}.gz {PACKED}" for n in range(UNREAD)], id="many"
        ),
        pytest.param(
            ["a.log cannot be read: x", "d cannot be listed: x", f"a.gz {PACKED}"], [f"a.gz {PACKED}"], id="streams"
        ),
    ],
)
def test_a_sidecar_says_once_which_files_it_does_not_send(tmp_path: Path, troubles: list[str], said: list[str]) -> None:
    healths = Healths(str(tmp_path), lambda: [f"{tmp_path}/{one}" for one in troubles])
    assert healths.take() is None
    asyncio.run(healths.look(lambda: None))
    told = healths.take()
    assert told is not None
    assert told.health is not None
    assert list(told.health.unread) == said
    assert healths.take() is None


def test_a_sidecar_says_at_once_that_it_sends_what_it_did_not(tmp_path: Path) -> None:
    troubles = [f"{tmp_path}/a.gz {PACKED}"]
    healths = Healths(str(tmp_path), lambda: troubles)
    asyncio.run(healths.look(lambda: None))
    said = []
    for _ in range(2):
        if (told := healths.take()) is not None and told.health is not None:
            said.append(told.health.unread)
        troubles.clear()
    assert said == [(f"a.gz {PACKED}",), ()]
    assert healths.take() is None
