"""Which pager a terminal gets."""

from __future__ import annotations

import signal

import pytest

from flarelog.cli.pager import Pager


@pytest.mark.parametrize(
    ("terminal", "pager", "started"),
    [("xterm", "true", True), ("xterm", "cat", False), ("dumb", "true", False), (None, "true", False)],
)
def test_a_pager_is_started_where_there_is_one_and_the_terminal_has_a_cursor(
    monkeypatch: pytest.MonkeyPatch, terminal: str | None, pager: str, started: bool
) -> None:
    monkeypatch.setenv("FLARELOG_PAGER", pager)
    if terminal is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", terminal)
    heeded = signal.getsignal(signal.SIGINT)
    with Pager(wanted=True) as found:
        assert bool(found) is started
    signal.signal(signal.SIGINT, heeded)
