"""The sentence after a log's last line."""

from __future__ import annotations

import pytest

from flarelog.viewers.console import summary


@pytest.mark.parametrize(
    ("replaced", "said"),
    [
        pytest.param(1, "1 piece is not UTF-8 and is shown as U+FFFD", id="one"),
        pytest.param(1200, "1,200 pieces are not UTF-8 and are shown as U+FFFD", id="many"),
    ],
)
def test_pieces_that_are_no_text_are_counted(replaced: int, said: str) -> None:
    assert list(summary(replaced, "log.txt")) == [f"note: log.txt: {said}; -o raw shows the bytes"]
