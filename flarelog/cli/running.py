"""How a command runs and ends: its errors as sentences and exit codes, the signals that end it, and its tables."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Container, Coroutine, Sequence
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from flarelog.errors import FAILED, FlarelogError, InvalidName, InvalidOption, NotFound
from flarelog.text import LONGEST, legible, several

if TYPE_CHECKING:
    from flarelog.model import Redaction

T = TypeVar("T")


def say(sentence: str) -> None:
    """Say *sentence* on stderr. A terminal that is gone, or a log on a full disk, is no reason to end."""
    with contextlib.suppress(OSError):
        click.echo(legible(sentence, 2 * LONGEST), err=True)


def run(work: Coroutine[object, None, T]) -> T:
    """Run *work* to its end; an error of flarelog's becomes its sentence on stderr and its exit code."""
    import asyncio  # help needs no event loop, and a third of its time would go into this

    try:
        return asyncio.run(work)
    except FlarelogError as error:
        say(f"flarelog: {sentence(error)}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say("")  # or the prompt would stand behind the terminal's ^C
        sys.exit(130)


def checked(make: Callable[[], T]) -> T:
    """What *make* returns; an option or a name that it refuses ends the command with its sentence."""
    try:
        return make()
    except FlarelogError as error:
        say(f"flarelog: {sentence(error)}")
        sys.exit(error.exit_code)


def sentence(error: FlarelogError) -> str:
    """What *error* says, and where a wrong value was told; options bear the names that they have on the command line,
    and not those of their fields.
    """
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, InvalidOption):
        return told_at(str(error)) if isinstance(error, InvalidName | NotFound) else str(error)
    flags = {
        flag[2:].replace("-", "_"): (flag, param) for param in context.command.params for flag in param.opts if flag[2:]
    }
    places: list[str] = []  # where options that are named were told

    def flag(found: re.Match[str]) -> str:
        plain = found.start() > 0 and "_" not in found[0]  # a word, as it is anywhere but where a sentence begins
        if plain or found[0] not in flags:
            return found[0]
        name, param = flags[found[0]]
        places.append(_place(context, param))
        return name

    text = re.sub(r"(?<![\w'\"/.-])[a-z]+(?:_[a-z]+)*(?![\w'\"/-])", flag, str(error))
    place = next(filter(None, places), "")
    return f"{place}: {text}" if place else told_at(text)


def told_at(text: str) -> str:
    """*text*, which quotes a wrong value, behind the variable or the line of a file that told it, where one did."""
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    quoting = [param for param in context.command.params if _quotes(text, param, context.params.get(param.name or ""))]
    places = [_place(context, param) for param in quoting]
    return f"{places[0]}: {text}" if places and all(places) else text


def _quotes(text: str, param: click.Parameter, value: object) -> bool:
    values = [str(each) for each in (value if isinstance(value, tuple) else (value,)) if each is not None]
    named = isinstance(param.type, click.Path)  # a file or a directory, which a sentence names as it is
    return any(
        repr(each) in text or (named and re.search(rf"(?<!\S){re.escape(each)}(?![^\s:;,])", text)) for each in values
    )


def _place(context: click.Context, param: click.Parameter) -> str:
    """Where the value of *param* was told: ``NAME=VALUE``, or a file and a line; empty for the command line."""
    source = context.get_parameter_source(param.name or "")
    if source is ParameterSource.DEFAULT_MAP:
        told: Callable[[click.Parameter], str] = context.meta["flarelog.told"]
        return told(param)
    name = param.envvar if isinstance(param.envvar, str) else ""
    return f"{name}={legible(os.environ.get(name, ''))}" if source is ParameterSource.ENVIRONMENT and name else ""


class Closed(io.TextIOWrapper):
    """Stands for an output that this process was started without: it writes where *how* says, or fails with EBADF."""

    def __init__(self, how: int) -> None:
        super().__init__(os.fdopen(os.open(os.devnull, how), "wb"), "utf-8", "backslashreplace")


def stand_in() -> None:
    """Let no command see an output that is closed, as ``>&-`` does. What is said then is lost; who writes data to
    stdout ends as on a full disk.
    """
    if sys.stdout is None:
        sys.stdout = Closed(os.O_RDONLY)
    if sys.stderr is None:
        sys.stderr = Closed(os.O_WRONLY)


def stdout_is_closed() -> bool:
    return isinstance(sys.stdout, Closed)


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def ended_by(error: OSError) -> int:
    """The exit code of a command that could not write, for *error*; it is said if whoever reads did not just leave."""
    if stdout_is_closed():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say("flarelog: cannot write: stdout is closed")
        return FAILED
    terminal = stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError) or (terminal and error.errno == errno.EIO):
        return 141  # whoever read it has seen enough, or is gone with his terminal
    say(f"flarelog: cannot write: {error.strerror}")
    return FAILED


def on_stop(first: Callable[[], object], at_once: Callable[[], object] = lambda: None) -> None:
    """SIGTERM and SIGINT call *first*; the second of them calls *at_once* and ends the process."""
    import asyncio

    loop = asyncio.get_running_loop()
    asked = 0

    def stop(number: int) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            at_once()
            os._exit(128 + number)
        first()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)


def ignore_stops() -> None:
    """SIGTERM and SIGINT do nothing."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def on_hangup(again: Callable[[], object]) -> None:
    """SIGHUP calls *again*, to read files again; it never ends the process."""
    import asyncio

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again)


def on_end_of_stdin(first: Callable[[], object]) -> None:
    """The end of stdin calls *first*; one that is closed has ended."""
    import asyncio

    if sys.stdin is None:
        first()
        return

    loop = asyncio.get_running_loop()

    def heard() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            first()

    loop.add_reader(0, heard)


def aligned(rows: Sequence[Sequence[str]], to_the_right: Container[int]) -> list[str]:
    """*rows* as lines of a table; the columns *to_the_right* hold numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in to_the_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def terminal_size() -> os.terminal_size:
    """Columns and rows of stdout's terminal.

    COLUMNS and LINES may say less, and not more: a line that wraps breaks a table that is drawn in place.
    """
    # shutil has half of this, and with it come three modules for archives.
    try:
        real = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no terminal, or nothing that has a number
        real = os.terminal_size((0, 0))
    sizes = zip((_said("COLUMNS"), _said("LINES")), real, (80, 24), strict=True)
    return os.terminal_size(min(filter(None, (said, there)), default=usual) for said, there, usual in sizes)


def _said(name: str) -> int:
    """What the environment says of the terminal; 0: nothing."""
    try:
        return max(0, int(os.environ.get(name, "")))
    except ValueError:
        return 0


def terminal_columns() -> int | None:
    """How wide the terminal is that stdout goes to; None where it goes elsewhere."""
    return terminal_size().columns if sys.stdout.isatty() else None


def width(rows: Sequence[Sequence[str]]) -> int:
    """Characters of a line of the table *rows*."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


def narrowed(rows: Sequence[tuple[str, ...]], least: Sequence[str], columns: int | None) -> Sequence[tuple[str, ...]]:
    """*rows*, the first of which names columns; less than *columns* characters go without the *least* needed ones."""
    for name in least:
        if columns is None or width(rows) < columns:
            break
        at = rows[0].index(name)
        rows = [row[:at] + row[at + 1 :] for row in rows]
    return rows


def redaction_text(redacted: Redaction) -> str:
    """What a receipt says of what was masked."""
    if not redacted.matches:  # nothing was, or only files that are gone by now tell
        return "how much was masked is not known"
    matches = several(redacted.matches, "match", "matches")
    return f"at least {matches}, at least {several(redacted.bytes, 'byte')} masked"
