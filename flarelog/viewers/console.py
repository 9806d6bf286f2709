"""Writes lines to a terminal or a pipe.

All text has been through ``render``: the only escape sequences are colours and, on a terminal, those that redraw the
rows at the bottom, which are not final. A pipe gets every line. Lines are written in batches: one write a line would
take fifty times as long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, tzinfo
from string import Formatter
from typing import Literal, Protocol

from flarelog.errors import InvalidOption
from flarelog.late import late
from flarelog.lines.levels import STYLES as LEVEL_STYLES
from flarelog.lines.line import Line, Note
from flarelog.lines.sgr import RESET, highlighted, painted, plain
from flarelog.lines.times import SECOND, shown
from flarelog.render.rows import width
from flarelog.text import several
from flarelog.values import frozen

Output = Literal["text", "json"]
DRAW_EVERY = 0.1  # seconds
AT_ONCE = 4096  # lines in one write
WIDEST = 9999  # characters: the most that the widths in a template add up to, because each line is as wide
MOST_SPECS = 4096  # characters of all format specs in a template
GAP = "--"  # between groups of lines, as grep has it


class Enough(Exception):
    """The limit of bytes to write is reached."""


class Writable(Protocol):
    """A destination of bytes: a file, or a ``Pipe``."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


@frozen
class Label:
    """The source of lines, as it is shown with them."""

    name: str
    fields: Mapping[str, object] = field(default_factory=dict)  # keys of a JSON object, and fields of a template
    style: str = ""  # SGR parameters of the name's colour
    short: str = ""  # the name before its lines, where that is not the whole name
    rank: Callable[[Line], int | None] = lambda line: None  # the rank of a line; None: unknown
    begin: int = 0  # where its file begins, if several files form one log


@frozen
class ConsoleOptions:
    """How lines are shown."""

    output: Output = "text"
    colour: bool = False
    timestamps: bool = False
    highlight: tuple[re.Pattern[str], ...] = ()
    limit_bytes: int | None = None  # of the whole output
    offsets: bool = True  # whether a line's offset is an offset in the file
    prefix: int = 0  # columns of the source's name before each line; 0: no name
    zone: tzinfo | None = None  # of shown times; None: UTC
    template: Template | None = None


class Console:
    """Writes lines, as a ``Reader`` annotated them, to *out*. *size*: columns and rows of the terminal; None: *out* is
    no terminal.
    """

    def __init__(
        self,
        out: Writable,
        options: ConsoleOptions,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._out, self._options, self._size = out, options, size
        self._left = options.limit_bytes
        self.prefix = options.prefix  # grows when longer names appear
        self._heads: dict[tuple[str, str, int], str] = {}
        self._drawn: list[str] = []  # the rows at the bottom
        self._next = 0.0  # when the rows may be drawn again; 0: at once, because lines replaced them
        if options.output == "json":
            from flarelog.viewers.dumped import dumped  # text output needs no JSON

            self._dumped = dumped

    def show(self, lines: Sequence[Line | None], source: Label | str = "") -> None:
        """Write *lines* of *source*, a label or the name of a file. Raises BrokenPipeError, and Enough."""
        if lines:
            self.show_all([(lines, Label(source, {"log.file.path": source}) if isinstance(source, str) else source)])

    def show_all(self, blocks: Iterable[tuple[Sequence[Line | None], Label]]) -> None:
        """Write the lines of several sources in one write. Raises as ``show``."""
        options = self._options
        texts: list[str] = []
        for lines, source in _at_once(blocks):
            if len(texts) > AT_ONCE:
                self._said(texts)
                texts = []
            if options.colour and options.output == "text":
                lines = [_coloured(line) if line and line[5][1] in LEVEL_STYLES else line for line in lines]
            if options.output == "json":
                head = "".join(
                    f"{self._dumped(name)}: {self._dumped(value)}, " for name, value in source.fields.items()
                )
                texts += [self._object(line, source, head) for line in lines if line is not None]
            elif options.timestamps or options.highlight or options.template:
                texts += [GAP if line is None else self._decorated(line, source) for line in lines]
            elif self.prefix:
                head = self.head(source)
                texts += [GAP if line is None else head + line.text for line in lines]
            else:
                texts += [GAP if line is None else line.text for line in lines]
        self._said(texts)

    def _said(self, texts: list[str]) -> None:
        if texts:
            text = "\n".join(texts)
            self._write(self._wiped() + (text if self._options.colour else plain(text)) + "\n")

    def draw(self, rows: Callable[[], Sequence[str]], now: float, last: bool = False) -> None:
        """Draw *rows*, which may change, below all lines of a terminal: at most every DRAW_EVERY seconds, unless they
        are the *last* for a while. *now*: seconds of any clock.
        """
        if self._size is None or (now < self._next and not last):
            return
        columns, height = self._size()
        wanted = _last(rows(), max(1, height // 2))
        fitting = [_fitted(plain(row), columns - 1) for row in wanted]
        if fitting != self._drawn:
            drawn = map(_named, wanted, fitting) if self._options.colour else fitting
            text = self._wiped() + "\n".join(drawn)
            self._drawn, self._next = fitting, now + DRAW_EVERY
            self._write(text)
            self._out.flush()

    def flush(self) -> None:
        """Flush the output."""
        self._out.flush()

    def close(self) -> None:
        """Wipe the drawn rows, and flush the output."""
        self._write(self._wiped())
        self._out.flush()

    def _wiped(self) -> str:
        """The escape sequence that wipes the drawn rows."""
        if not self._drawn or self._size is None:
            return ""
        columns = max(1, self._size()[0])  # the terminal may be narrower now: rows wrap
        rows = sum(max(1, -(-sum(map(width, row)) // columns)) for row in self._drawn)
        self._drawn, self._next = [], 0.0
        return f"\r\x1b[{rows - 1}A\x1b[J" if rows > 1 else "\r\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        data = text.encode()
        if self._left is not None:
            data, self._left = data[: self._left], max(0, self._left - len(data))
        self._out.write(data)
        if self._left == 0:
            raise Enough

    def _decorated(self, line: Line, source: Label) -> str:
        options, text = self._options, line.text
        if options.highlight and options.colour and not isinstance(line, Note):
            text = highlighted(text, options.highlight)
        if options.template is not None and not isinstance(line, Note):
            return options.template.text(line, text, source, line.time, options.zone)
        if options.timestamps and not isinstance(line, Note):
            time = line.time
            text = f"{_as_exact(time, line.text, options.zone)} {text}" if time is not None else text
        return self.head(source) + text if self.prefix else text

    def head(self, source: Label) -> str:
        """The prefix of a line of *source*."""
        shown = source.short or source.name
        key = shown, source.style, self.prefix
        found = self._heads.get(key)
        if found is None:
            name = f"{shown:<{self.prefix}}"
            styled = f"{painted('', source.style)}{name}{RESET}" if source.style else name
            found = self._heads[key] = f"{styled} │ "
        return found

    def _object(self, line: Line, source: Label, head: str) -> str:
        """*line* as a JSON object that begins with *head*, the source's fields; keys are OpenTelemetry's, if any.

        Built piece by piece: json.dumps takes twice as long.
        """
        if isinstance(line, Note):
            event = {"event_name" if name == "event" else name: value for name, value in line.event.items()}
            return self._dumped({**source.fields, "offset": line.offset - source.begin, **event})
        text = plain(line.text)
        level, time, rank = line.level, line.time, source.rank(line)
        found = f'{{{head}"rank": {rank}, ' if rank is not None else f"{{{head}"
        if line.stream:
            found += f'"log.iostream": {self._dumped(line.stream)}, '
        if self._options.offsets:
            found += f'"offset": {line.offset - source.begin}, '
        if time is not None:
            found += f'"timestamp": "{shown(time, self._options.zone)}", '
        if line.bar:
            found += '"bar": true, '
        if level is not None:
            found += f'"severity_text": "{level.name}", "severity_number": {level.value}, '
        return f'{found}"body": {self._dumped(text)}}}'


def _coloured(line: Line) -> Line:
    """*line* in the colour of its level; a line with colours of its own keeps them."""
    if line.level is None or "\x1b" in line.text:
        return line
    return line._replace(text=f"{painted('', LEVEL_STYLES[line.level])}{line.text}{RESET}")


_CLOCK = late(r"\d\d:\d\d:\d\d(?:[.,](\d{1,9}))?(?!\d)", re.ASCII)


def _as_exact(time: int, text: str, zone: tzinfo | None) -> str:
    """*time* with 0, 3, 6 or 9 digits, as many as the stamp of *text* has; 9 where a runtime told the time."""
    found = _CLOCK.search(text, 0, 96)
    digits = 9 if found is None else -(-len(found[1] or "") // 3) * 3
    if digits == 9 or time % 10 ** (9 - digits):
        return shown(time, zone)
    seconds, dot, rest = shown(time, zone).partition(".")
    return f"{seconds}{dot}{rest[:digits]}{rest[9:]}" if digits else seconds + rest[9:]


class Template:
    """A template for ``--format``: text with fields, as in Python's format strings. Raises InvalidOption.

    A field within a field is refused: the text of a log would set the width of a line.
    """

    FIELDS = ("run", "site", "log", "rank", "offset", "time", "stream", "text")

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            fields = [(name, spec or "") for _, name, spec, _ in Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise InvalidOption(f"{text!r} is not a format: {error}") from error
        for name, spec in fields:
            if "{" in spec:
                raise InvalidOption(f"{text!r} has a field inside the field {name!r}: write two separate fields")
            if name not in self.FIELDS:
                known = ", ".join(self.FIELDS)
                raise InvalidOption(f"{text!r} has the field {name!r}: give one of {known}; {{{{ stands for a brace")
        specs = " ".join(spec for _, spec in fields)
        if len(specs) > MOST_SPECS or sum(map(int, re.findall(r"\d+", specs))) > WIDEST:
            raise InvalidOption(f"the format makes a line too wide: give its fields {WIDEST} characters at most")
        ranked = Label("", {}, rank=lambda line: 0)
        try:  # an unknown rank is a string, not a number
            self.text(Line(0, 0, ""), "", Label("", {}), 0, None).encode()
            self.text(Line(sys.maxsize, 0, ""), "", ranked, 0, None).encode()
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            raise InvalidOption(f"{text!r} cannot be used as a format: {error}") from error

    def text(self, line: Line, text: str, source: Label, time: int | None, zone: tzinfo | None) -> str:
        """*line* of *source*, with *text* as its text."""
        fields: dict[str, object] = {"run": "", "site": "", "log": "", "rank": "", **source.fields}
        rank = source.rank(line)
        fields["rank"] = "" if rank is None else rank
        moment = _Moment(time, zone)
        return self._text.format_map(
            {**fields, "offset": line.offset, "time": moment, "stream": line.stream, "text": text}
        )


class _Moment:
    """A time that a template formats like a datetime, or as RFC 3339 without a spec; empty where it is unknown."""

    def __init__(self, time: int | None, zone: tzinfo | None) -> None:
        self._time, self._zone = time, zone

    def __format__(self, spec: str) -> str:
        if self._time is None:
            return ""
        if not spec:
            return shown(self._time, self._zone)
        try:
            return format(datetime.fromtimestamp(self._time / SECOND, self._zone or UTC), spec)
        except (ValueError, OverflowError, OSError):
            return shown(self._time)


def _at_once(
    blocks: Iterable[tuple[Sequence[Line | None], Label]],
) -> Iterator[tuple[Sequence[Line | None], Label]]:
    """*blocks* in parts of AT_ONCE lines, because a prefix or a template may add a page to each line."""
    for lines, source in blocks:
        if len(lines) <= AT_ONCE:
            yield lines, source
        else:
            for at in range(0, len(lines), AT_ONCE):
                yield lines[at : at + AT_ONCE], source


def _last(rows: Sequence[str], most: int) -> Sequence[str]:
    """The last *most* of *rows*; where there are more, the first says how many are left out."""
    if len(rows) <= most or most < 2:
        return rows[-most:]
    return [f"\u2026 {len(rows) - most + 1} more bars", *rows[len(rows) - most + 1 :]]


def _named(row: str, fitting: str) -> str:
    """*fitting*, the part of *row* that fits, with the colour of the name at its beginning."""
    head, mark, _ = row.partition(f"{RESET} \u2502 ")
    name = plain(head)
    if not (mark and row.startswith("\x1b") and fitting.startswith(name)):
        return fitting
    return f"{head}{RESET}{fitting[len(name) :]}"


def _fitted(text: str, columns: int) -> str:
    """The part of *text* that fits into *columns*; tabs are expanded."""
    found, used = [], 0
    for char in text.expandtabs(8):
        used += width(char)
        if used > columns:
            break
        found.append(char)
    return "".join(found)


def colours(choice: str, environment: Callable[[str], str | None], is_terminal: bool) -> bool:
    """Whether to use colours: *choice* decides, then NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, then the terminal."""
    if choice != "auto":
        return choice == "always"
    if environment("NO_COLOR"):
        return False
    if any(environment(name) not in (None, "", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal and environment("TERM") != "dumb"


def summary(replaced: int, source: str, cut: int = 0, limit: int = 0) -> Iterable[str]:
    """The notes below a log's last line: *replaced* pieces are not UTF-8, and of *cut* lines that did not match only
    the first *limit* characters were searched.
    """
    if cut:
        what = f"{several(cut, 'line')} longer than {limit:,} characters did not match in that part"
        yield f"note: {source}: {what}; the rest was not searched: give a larger --max-line"
    if replaced:
        what = "1 piece is not UTF-8 and is" if replaced == 1 else f"{replaced:,} pieces are not UTF-8 and are"
        yield f"note: {source}: {what} shown as U+FFFD; -o raw shows the bytes"
