"""Lines on a terminal, or in a pipe.

Whatever comes out has been through ``render``: the only escape sequences are colours and, on a terminal, those that
redraw the rows at the bottom which are not final. A pipe gets every line. Lines are written in batches: one
write a line would take fifty times as long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

from flarelog.render.rows import Line, width
from flarelog.render.sgr import highlighted, plain
from flarelog.render.times import shown, stamp

Output = Literal["text", "json"]
DRAW_EVERY = 0.1  # seconds
GAP = "--"  # between groups of lines, as grep has it


class Enough(Exception):
    """As many bytes as were asked for have been written."""


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """How lines are shown."""

    output: Output = "text"
    colour: bool = False
    timestamps: bool = False
    highlight: re.Pattern[str] | None = None
    limit_bytes: int | None = None  # of all that is written
    offsets: bool = True  # whether a line's offset is that of the file's bytes
    prefix: int = 0  # columns of the source's name before each line; 0: none


class Console:
    """Writes lines to *out*. *size*: columns and rows of the terminal that it is; None: it is none.

    *stamped* reads a line's own time.
    """

    def __init__(
        self,
        out: BinaryIO,
        options: ConsoleOptions,
        size: Callable[[], tuple[int, int]] | None = None,
        stamped: Callable[[str], int | None] = stamp,
    ) -> None:
        self._out, self._options, self._size, self._stamped = out, options, size, stamped
        self._left = options.limit_bytes
        self._drawn: list[str] = []  # the rows at the bottom
        self._next = 0.0  # when they may be drawn again: at once, if lines took their place

    def show(self, lines: Sequence[Line | None], source: str = "") -> None:
        """Write *lines* of *source*. Raises BrokenPipeError, and Enough."""
        if not lines:
            return
        options = self._options
        if options.output == "json":
            text = "\n".join(self._object(line, source) for line in lines if line is not None)
            if not text:
                return
        elif options.timestamps or options.highlight or options.prefix:
            text = "\n".join(GAP if line is None else self._decorated(line, source) for line in lines)
        else:
            text = "\n".join([GAP if line is None else line.text for line in lines])
        if not options.colour:
            text = plain(text)
        self._write(self._wiped() + text + "\n")

    def draw(self, rows: Sequence[str], now: float, last: bool = False) -> None:
        """On a terminal: show *rows*, which may change, below all lines; not too often, unless they are the *last* for
        a while. *now*: seconds of any clock.
        """
        if self._size is None or (now < self._next and not last):
            return
        columns, height = self._size()
        fitting = [_fitted(plain(row), columns - 1) for row in rows[-max(1, height // 2) :]]
        if fitting != self._drawn:
            text = self._wiped() + "\n".join(fitting)
            self._drawn, self._next = fitting, now + DRAW_EVERY
            self._write(text)
            self._out.flush()

    def flush(self) -> None:
        """Hand everything to the system."""
        self._out.flush()

    def close(self) -> None:
        """Take away what is drawn, and hand everything to the system."""
        self._write(self._wiped())
        self._out.flush()

    def _wiped(self) -> str:
        """What takes the drawn rows away."""
        rows, self._drawn, self._next = len(self._drawn), [], 0.0
        return f"\r\x1b[{rows - 1}A\x1b[J" if rows > 1 else "\r\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        data = text.encode()
        if self._left is not None:
            data, self._left = data[: self._left], max(0, self._left - len(data))
        self._out.write(data)
        if self._left == 0:
            raise Enough

    def _decorated(self, line: Line, source: str) -> str:
        options, text = self._options, line.text
        if options.highlight is not None and options.colour:
            text = highlighted(text, options.highlight)
        if options.timestamps:
            time = self._time(line)
            text = f"{shown(time)} {text}" if time is not None else text
        return f"{source:<{options.prefix}} │ {text}" if options.prefix else text

    def _object(self, line: Line, source: str) -> str:
        time = self._time(line)
        found: dict[str, object] = {"log.file.path": source}
        found |= {"log.iostream": line.stream} if line.stream else {}
        found |= {"offset": line.offset} if self._options.offsets else {}
        found |= {"time": shown(time)} if time is not None else {}
        found |= {"bar": True} if line.bar else {}
        return json.dumps({**found, "text": plain(line.text)}, ensure_ascii=False)

    def _time(self, line: Line) -> int | None:
        return line.time if line.time is not None else self._stamped(line.text)


def _fitted(text: str, columns: int) -> str:
    """As much of *text* as *columns* hold; tabs are blanks."""
    found, used = [], 0
    for char in text.expandtabs(8):
        used += width(char)
        if used > columns:
            break
        found.append(char)
    return "".join(found)


def colours(choice: str, environment: Callable[[str], str | None], is_terminal: bool) -> bool:
    """Whether there are colours: what was said, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then the terminal."""
    if choice != "auto":
        return choice == "always"
    if environment("NO_COLOR"):
        return False
    if any(environment(name) not in (None, "", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal and environment("TERM") != "dumb"


def legible(name: str) -> str:
    """*name*, of a file, with what could drive a terminal, and what is no text, replaced."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def summary(replaced: int, source: str) -> Iterable[str]:
    """What is to be said of a log after its last line."""
    if replaced:
        yield f"note: {source}: {replaced:,} pieces that are no UTF-8 are shown as U+FFFD; -o raw shows the bytes"
