"""The user's pager: FLARELOG_PAGER, PAGER, or less. ``cat``, an empty name or a dumb terminal means none.

A missing pager hides no output: a message names it, and the output goes to the terminal.
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
_BEGINS_OTHERWISE = set("=$`(){}|&;<>*?~!")  # in the first word of a shell command: the word names no program
_NOT_STARTED = 126, 127  # a shell's exit codes for a command that it cannot run


class Pager:
    """The output: the user's pager if *wanted* and there is one, else stdout. The block ends when the user leaves the
    pager; output that was not written by then is dropped.
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
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager alone from now on
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        if self._process.returncode in _NOT_STARTED:
            raise FlarelogError(f"the pager {self._command!r} could not be started: give --pager off")
        return kind is not None and issubclass(kind, BrokenPipeError)


def _pager_command() -> str:
    if os.environ.get("TERM", "dumb") == "dumb":  # without a cursor a pager would warn, and wait for a key
        return ""
    import shutil  # needed on a terminal only

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
    """The program that a shell starts first for *command*; empty if that is unclear."""
    import shlex  # needed on a terminal only

    try:
        first = next(iter(shlex.split(command)), "")
    except ValueError:
        return ""
    return "" if _BEGINS_OTHERWISE & set(first) else first
