"""How a command runs and ends: errors as sentences and exit codes, signals, tables on the terminal."""

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
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click
from click.core import ParameterSource

from flarelog.errors import FAILED, TIMEOUT, FlarelogError, InvalidName, InvalidOption, NotFound
from flarelog.text import LONGEST, legible, several

if TYPE_CHECKING:
    from flarelog.model import Redaction

T = TypeVar("T")


def say(sentence: str) -> None:
    """Write *sentence* to stderr, and ignore a failure: a closed terminal or a full disk must not end the command."""
    with contextlib.suppress(OSError):
        click.echo(legible(sentence, 2 * LONGEST), err=True)


MAY_BE_SHORT = "flarelog.may_be_short"  # where a command's context says that it takes the beginning of a run's name
INSTEAD = ContextVar("INSTEAD", default="")
"""The run that is read instead of the one that the command line names."""


class Meant(BaseException):
    """The command is to be called again, for the run *instead*."""

    def __init__(self, instead: str) -> None:
        super().__init__(instead)
        self.instead = instead


def take_instead(error: FlarelogError) -> None:
    """Raises Meant if *error* says which run the user meant, and the command takes that one."""
    context = click.get_current_context(silent=True)
    instead = error.instead if isinstance(error, NotFound) else ""
    if instead and not INSTEAD.get() and context is not None and context.meta.get(MAY_BE_SHORT):
        say(f"note: the run is {instead}")
        raise Meant(instead)


def run(work: Coroutine[object, None, T]) -> T:
    """Run *work*; a FlarelogError becomes its sentence on stderr and its exit code."""
    import asyncio  # help needs no event loop, and the import would take a third of its time

    try:
        return checked(lambda: asyncio.run(work))
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            say("")  # otherwise the prompt would follow the terminal's ^C
        sys.exit(interrupted())


_TIMED_OUT = "flarelog.timed_out"


def end_within(context: click.Context, _: click.Parameter, seconds: float | None) -> None:
    """Let the command of *context* end as by Ctrl-C after *seconds*; None: never."""
    if seconds is None or context.resilient_parsing:
        return

    def over(*_: object) -> None:
        context.meta[_TIMED_OUT] = seconds
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a script's background job
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    context.call_on_close(lambda: signal.setitimer(signal.ITIMER_REAL, 0))


def interrupted() -> int:
    """The exit code after Ctrl-C, or after ``end_within``, which it reports."""
    context = click.get_current_context(silent=True)
    seconds = None if context is None else context.meta.get(_TIMED_OUT)
    if seconds is None:
        return 130
    say(f"flarelog: the command did not end within {seconds:g} s: give it more time with --timeout")
    return TIMEOUT


def checked(make: Callable[[], T]) -> T:
    """The result of *make*; a FlarelogError ends the command with its sentence and its exit code."""
    try:
        return make()
    except FlarelogError as error:
        take_instead(error)
        say(f"flarelog: {sentence(error)}")
        sys.exit(error.exit_code)


def end(work: Callable[[], int]) -> NoReturn:
    """Exit with the code that *work* returns, or with that of an error, of Ctrl-C or of an output that is closed."""
    try:
        sys.exit(checked(work))
    except KeyboardInterrupt:
        sys.exit(interrupted())
    except OSError as error:
        sys.exit(ended_by(error))


def talk(text: str) -> None:
    click.echo(f"flarelog: {text}", err=True)


def sentence(error: FlarelogError) -> str:
    """The sentence of *error*, with the source of the wrong value; fields are renamed to the options of the command
    line.
    """
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, InvalidOption):
        return told_at(str(error)) if isinstance(error, InvalidName | NotFound) else str(error)
    flags = {
        flag[2:].replace("-", "_"): (flag, param) for param in context.command.params for flag in param.opts if flag[2:]
    }
    places: list[str] = []  # the sources of the options that the sentence names

    def flag(found: re.Match[str]) -> str:
        plain = found.start() > 0 and "_" not in found[0]  # an ordinary word, unless the sentence begins with it
        if plain or found[0] not in flags:
            return found[0]
        name, param = flags[found[0]]
        places.append(_place(context, param))
        return name

    text = re.sub(r"(?<![\w'\"/.-])[a-z]+(?:_[a-z]+)*(?![\w'\"/-])", flag, str(error))
    place = next(filter(None, places), "")
    return f"{place}: {text}" if place else told_at(text)


def told_at(text: str) -> str:
    """*text*, preceded by the variable or the line of a file that gave the wrong value, if any did: of the option that
    the sentence names before its advice, or else of the value that it quotes first.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    given = [param for param in context.command.params if not _is_default(context, param)]
    named = re.findall(r"(?<!\S)--[a-z][a-z-]*", re.split(r"[:;] ", text, maxsplit=1)[0])
    places = [_place(context, param) for flag in named for param in given if flag in param.opts]
    if not any(places):
        found = [(_quoted_at(text, param, context.params.get(param.name or "")), param) for param in given]
        first = min((at for at, _ in found), default=_NOWHERE)
        places = [_place(context, param) for at, param in found if at == first < _NOWHERE]
        places = places if all(places) else []
    place = next(filter(None, places), "")
    return f"{place}: {text}" if place and place not in text else text


_NOWHERE = sys.maxsize


def _is_default(context: click.Context, param: click.Parameter) -> bool:
    source = context.get_parameter_source(param.name or "")
    return source in (None, ParameterSource.DEFAULT)


def _quoted_at(text: str, param: click.Parameter, value: object) -> int:
    """Where *text* quotes *value* of *param*; _NOWHERE if it does not."""
    forms: list[str] = []
    for each in (str(each) for each in (value if isinstance(value, tuple) else (value,)) if each is not None):
        # An empty path leaves two spaces. A sentence does not quote a path, and may have made it absolute.
        paths = (each, os.path.abspath(each)) if each and isinstance(param.type, click.Path) else ()
        bare = [rf"(?<!\S){re.escape(legible(path))}(?![^\s:;,])" for path in paths]
        forms.append("|".join([f"'{re.escape(legible(each))}'", *bare]) if each else r"''|\bis empty\b|  |^ ")
    return min((found.start() for form in forms if (found := re.search(form, text))), default=_NOWHERE)


def _place(context: click.Context, param: click.Parameter) -> str:
    """The source of *param*'s value: ``NAME=VALUE``, or a file and a line; empty for the command line."""
    source = context.get_parameter_source(param.name or "")
    if source is ParameterSource.DEFAULT_MAP:
        told: Callable[[click.Parameter], str] = context.meta["flarelog.told"]
        return told(param)
    name = param.envvar if isinstance(param.envvar, str) else ""
    if source is not ParameterSource.ENVIRONMENT or not name:
        return ""
    value = os.environ.get(name, "")
    return f"{name}={legible(value.rpartition('@')[2] if name == 'FLARELOG_PROXY' else value)}"  # without a login


class Closed(io.TextIOWrapper):
    """Replaces an output that was closed at the start: *how* is the mode of /dev/null, in which a write may fail."""

    def __init__(self, how: int) -> None:
        super().__init__(os.fdopen(os.open(os.devnull, how), "wb"), "utf-8", "backslashreplace")


def stand_in() -> None:
    """Replace outputs that are closed, as by ``>&-``. Messages are then lost; a command that writes data to stdout
    fails as on a full disk.
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
    """The exit code after the write error *error*; a message unless the reader has just closed the pipe or terminal."""
    terminal = stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if stdout_is_closed():
        say("flarelog: cannot write: stdout is closed")
        return FAILED
    if isinstance(error, BrokenPipeError) or (terminal and error.errno == errno.EIO):
        return 141  # the reader has closed the pipe, or the terminal is gone
    say(f"flarelog: cannot write: {error.strerror}")
    return FAILED


def on_stop(first: Callable[[], object], at_once: Callable[[], object] = lambda: None) -> None:
    """Let SIGTERM and SIGINT call *first*; a second signal calls *at_once* and ends the process."""
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def on_hangup(again: Callable[[], object]) -> None:
    """Let SIGHUP call *again*, to reread files; it never ends the process."""
    import asyncio

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again)


def on_end_of_stdin(first: Callable[[], object]) -> None:
    """Call *first* at the end of stdin, or at once if stdin is closed."""
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

    COLUMNS and LINES may reduce the size, but not enlarge it: a line that wraps breaks a table that is drawn in place.
    """
    # shutil would give the size as well, but imports three modules for archives.
    try:
        real = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no terminal, or has no descriptor
        real = os.terminal_size((0, 0))
    sizes = zip((_said("COLUMNS"), _said("LINES")), real, (80, 24), strict=True)
    return os.terminal_size(min(filter(None, (said, there)), default=usual) for said, there, usual in sizes)


def _said(name: str) -> int:
    """The environment's value for *name*; 0: none."""
    try:
        return max(0, int(os.environ.get(name, "")))
    except ValueError:
        return 0


def terminal_columns() -> int | None:
    """The width of stdout's terminal; None if stdout is no terminal."""
    return terminal_size().columns if sys.stdout.isatty() else None


def width(rows: Sequence[Sequence[str]]) -> int:
    """Characters of a line of the table *rows*."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


def narrowed(rows: Sequence[tuple[str, ...]], least: Sequence[str], columns: int | None) -> Sequence[tuple[str, ...]]:
    """*rows*, header first, without as many of the *least* needed columns as it takes to stay below *columns*."""
    for name in least:
        if columns is None or width(rows) < columns:
            break
        at = rows[0].index(name)
        rows = [row[:at] + row[at + 1 :] for row in rows]
    return rows


def redaction_text(redacted: Redaction) -> str:
    """The sentence about what was masked, from a receipt."""
    if not redacted.matches:  # nothing was masked, or only files that no longer exist had matches
        return "how much was masked is not known"
    matches = several(redacted.matches, "match", "matches")
    return f"at least {matches}, at least {several(redacted.bytes, 'byte')} masked"
