"""The user's pager: FLARELOG_PAGER, PAGER, or less. ``cat``, an empty name or a dumb terminal means none.

A missing pager hides no output: a message names it, and the output goes to the terminal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import IO, cast

from flarelog.cli.running import say
from flarelog.errors import FlarelogError

_LESS = "less"
_BEGINS_OTHERWISE = set("=$`(){}|&;<>*?~!")  # in the first word of a shell command: the word names no program
_NOT_STARTED = 126, 127  # a shell's exit codes for a command that it cannot run


@contextlib.contextmanager
def pager(*, wanted: bool) -> Iterator[int | None]:
    """The descriptor of the user's pager if *wanted* and there is one; else None, for stdout. The block ends when the
    user leaves the pager; output that was not written by then is dropped.
    """
    command = _pager_command() if wanted else ""
    if not command:
        yield None
        return
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # noqa: S602  # as git does
    text = cast("IO[bytes]", process.stdin)
    try:
        with contextlib.suppress(BrokenPipeError):
            yield text.fileno()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager alone from now on
        with contextlib.suppress(BrokenPipeError):
            text.close()
        process.wait()
        if process.returncode in _NOT_STARTED:
            raise FlarelogError(f"the pager {command!r} could not be started: give --pager off")


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
