"""The pager that a terminal gets."""

from __future__ import annotations

import signal

import pytest

from flarelog.cli.pager import pager
from flarelog.errors import FlarelogError


@pytest.mark.parametrize(
    ("terminal", "named", "started"),
    [
        ("xterm", "true", True),
        ("xterm", "cat", False),
        ("dumb", "true", False),
        (None, "true", False),
        ("xterm", "no-such-pager -R", False),
        ("xterm", "X=1 true", True),
    ],
)
def test_a_pager_is_started_where_there_is_one_and_the_terminal_has_a_cursor(
    monkeypatch: pytest.MonkeyPatch, terminal: str | None, named: str, started: bool
) -> None:
    monkeypatch.setenv("FLARELOG_PAGER", named)
    if terminal is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", terminal)
    heeded = signal.getsignal(signal.SIGINT)
    with pager(wanted=True) as found:
        assert (found is not None) is started
    signal.signal(signal.SIGINT, heeded)


def test_a_pager_that_does_not_exist_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FLARELOG_PAGER", "no-such-pager -R")
    with pager(wanted=True) as found:
        assert found is None
    assert capsys.readouterr().err == "flarelog: there is no pager no-such-pager: this is shown without one\n"


def test_a_pager_that_a_shell_could_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FLARELOG_PAGER", "X=1 no-such-pager 2> /dev/null")
    heeded = signal.getsignal(signal.SIGINT)
    with pytest.raises(FlarelogError, match="could not be started: give --pager off"), pager(wanted=True):
        raise BrokenPipeError
    signal.signal(signal.SIGINT, heeded)
