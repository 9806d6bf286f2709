"""How a command treats its terminal: its size, and Ctrl-C."""

from __future__ import annotations

import os
import sys

import pytest

from flarelog.cli.running import run, terminal_size


@pytest.mark.parametrize(
    ("said", "real", "size"),
    [
        pytest.param({}, None, (80, 24), id="no-terminal"),
        pytest.param({}, (120, 40), (120, 40), id="a-terminal"),
        pytest.param({"COLUMNS": "60", "LINES": "20"}, (120, 40), (60, 20), id="said-to-be-less"),
        pytest.param({"COLUMNS": "200", "LINES": "90"}, (120, 40), (120, 40), id="said-to-be-more"),
        pytest.param({"COLUMNS": "200"}, None, (200, 24), id="said-where-none-is"),
        pytest.param({"COLUMNS": "60"}, (0, 0), (60, 24), id="one-that-does-not-know"),
        pytest.param({"COLUMNS": "many", "LINES": "-3"}, (120, 40), (120, 40), id="nonsense"),
    ],
)
def test_size(
    said: dict[str, str], real: tuple[int, int] | None, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(_: int) -> os.terminal_size:
        if real is None:
            raise OSError
        return os.terminal_size(real)

    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "get_terminal_size", asked)
    assert terminal_size() == size


@pytest.mark.parametrize(("terminal", "said"), [(True, "\n"), (False, "")])
def test_no_prompt_stands_behind_the_ctrl_c_that_a_terminal_shows(
    terminal: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with pytest.raises(SystemExit) as end:
        run(work())
    assert (end.value.code, capsys.readouterr()) == (130, ("", said))
