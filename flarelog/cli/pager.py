"""The user's pager: FLARELOG_PAGER, PAGER, or less. ``cat``, or nothing, is none; a dumb terminal gets none.

A pager that does not exist hides nothing: it is told, and what was for it goes to the terminal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from flarelog.cli.running import say
from flarelog.errors import FlarelogError

_LESS = "less"
_BEGINS_OTHERWISE = set("=$`(){}|&;<>*?~!")  # in the first word of a shell's command: it names no program
_NOT_STARTED = 126, 127  # a shell's exit codes of a command that is none


class Pager:
    """Where to write: the user's pager, if it is *wanted* and there is one, else stdout. It ends when the user says
    so; if that is before everything was written, the rest is not wanted.
    """

    def __init__(self, *, wanted: bool) -> None:
        command = self._command = _pager_command() if wanted else ""
        environment = {"LESS": "FRX", "LV": "-c", **os.environ}
        self._process = (
            subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # noqa: S602  # as git does
            if command
            else None
        )

    @property
    def fd(self) -> int:
        return self._process.stdin.fileno() if self._process and self._process.stdin else sys.stdout.fileno()

    def __enter__(self) -> Pager:
        return self

    def __bool__(self) -> bool:
        return self._process is not None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the pager alone from now on
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        if self._process.returncode in _NOT_STARTED:
            raise FlarelogError(f"the pager {self._command!r} could not be started: give --pager off")
        return kind is not None and issubclass(kind, BrokenPipeError)


def _pager_command() -> str:
    if os.environ.get("TERM", "dumb") == "dumb":  # it has no cursor: a pager would warn, and wait for a key
        return ""
    import shutil  # as in lines: for a terminal alone

    chosen = next((os.environ[name] for name in ("FLARELOG_PAGER", "PAGER") if name in os.environ), None)
    if chosen is None:
        return _LESS if shutil.which(_LESS) else ""
    if chosen.strip() in ("", "cat"):
        return ""
    if (program := _program(chosen)) and not shutil.which(program):
        say(f"flarelog: there is no pager {program}: this is shown without one")
        return ""
    return chosen


def _program(command: str) -> str:
    """The program that a shell starts first for *command*; empty where that is not plain to see."""
    import shlex  # as above

    try:
        first = next(iter(shlex.split(command)), "")
    except ValueError:
        return ""
    return "" if _BEGINS_OTHERWISE & set(first) else first
