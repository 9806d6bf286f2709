"""Turn bytes into lines, as a terminal of any width would show them, incrementally.

Lines end at LF alone. Carriage returns, backspaces and cursor moves are resolved within the last ``WINDOW`` rows: a row
that far above the last one is final. SGR stays. Every other escape sequence and control character is removed, and so
is every character that reorders a line or is invisible: a log of a foreign site must not drive the reader's terminal.
Two things differ from a terminal on purpose, so that no text is lost: clearing the screen begins a new page below, and
an unterminated escape sequence ends with its line.

No log costs more than its size allows. Each byte earns units of work and ``SHOWN`` bytes of output, whole lines of
plain text are free, and every control sequence costs units by the cells it touches (``Allowance``). No clock is read.
Once the units are spent, the next ``UNDRAWN`` bytes, to the end of their line, are shown undrawn below a note: each
control character as a picture of itself. A line longer than the output budget is cut with ``MARK``. The rows that a
cursor can reach hold at most ``HELD`` cells; beyond that they become final, and a new page begins.

The result does not depend on how the bytes are cut into pieces. Lines without control characters are drawn in bulk.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from itertools import accumulate, repeat

from flarelog.late import late
from flarelog.lines.line import BAR, TEXT, Line, Note
from flarelog.lines.sgr import RESET, changed, painted
from flarelog.render.allowance import (
    COLOUR,
    DRAWN_AGAIN,
    EARNS,
    LINE,
    MOVE,
    NEW,
    ROUGH,
    TABBED,
    TOKEN,
    Allowance,
    size_of,
)
from flarelog.render.bars import LIMIT, Reach
from flarelog.render.controls import (
    COLOURS,
    PAINTED,
    PARTING,
    PICTURE_OF_CR,
    REDRAWN,
    STRING_END,
    TOKENS,
    pictured,
    plain_until,
    suspects_of,
)
from flarelog.render.rows import TAB, TAIL, WINDOW, Overlong, Row, shortened, width

REACH = 4096  # columns; a wider row, wider than any terminal, is final, and so are the rows above it
WIDEST = 1024  # the last column that a cursor can be moved to beyond the end of its row
STEP_SECONDS = 30.0  # between the steps shown of a bar without progress in its percentage
UNDRAWN = 64 << 10  # bytes shown undrawn before drawing resumes
SMOOTH = 4096  # characters of the longest line of text and colours on the fast path
STYLES = 1024  # cached styles
BARS = 128  # labels of bars whose last step is remembered
AT_ONCE = 4096  # characters turned into cells at once
TOGETHER, ALONE = 8, 256  # states of a row that make a batch worthwhile; most states taken one by one before a retry
TOO_MUCH = (
    f"this line costs too much to draw: {UNDRAWN >> 10} KiB of it, and its rest,"
    " are shown undrawn, control characters as pictures; -o raw shows the bytes"
)

_PERCENT = late(r"(\d{1,3})(?:\.\d*)?%")
_OF_TQDM = late(r"(\d{1,3})(?:\.\d*)?%\|")
_NO_LETTERS = late(r"[\W\d_]+")
_SUBSTITUTED = "\udc00"  # no UTF-8 decodes to it, so a substitution differs from a U+FFFD in the log
codecs.register_error("flarelog.substitute", lambda error: (_SUBSTITUTED, error.end))  # type: ignore[attr-defined]


class Screen:
    """Draw one stream.

    *steps*: output the state of a bar at every 10 %, or every ``STEP_SECONDS``; without it a row is output once it is
    final. *wanted*: output each state of a row for which it returns True, as a bar's state. *overlong* decides whether
    a line of more than *limit* characters is cut (with ``MARK``), split or dropped.
    ``position``, ``stream`` and ``time`` describe the bytes fed next; ``feed`` advances ``position``.
    ``replaced`` counts the U+FFFD that replaced invalid UTF-8.
    """

    def __init__(
        self,
        *,
        steps: bool = False,
        limit: int = LIMIT,
        overlong: Overlong = "cut",
        wanted: Callable[[str], bool] | None = None,
    ) -> None:
        self.position, self.stream = 0, ""
        self.time: int | None = None
        self.replaced = 0
        self._steps, self._limit, self._overlong, self._wanted = steps, limit, overlong, wanted
        self._presents = steps or wanted is not None
        self._allowance = Allowance()
        self._reach = Reach(self._allowance, limit, overlong)
        self._begin: int | None = None  # the offset of the unfinished line
        self._column = 0  # of the cursor
        self._style = ""
        self._kept: tuple[int, int, str] | None = None  # the saved cursor: a row's number, a column, a style
        self._styles: dict[tuple[str, str], str] = {}  # cache: the new style by style and parameters
        self._decoder = codecs.getincrementaldecoder("utf-8")("flarelog.substitute")
        self._half = ""  # an incomplete escape sequence
        self._in_string = False  # inside a sequence that ends with ST
        self._marked = False  # this line has more than text, or did not begin on a fresh row without a style
        self._rough = False  # this line has more than text and colours
        self._returned = False  # the last character was a CR, which is free before an LF
        self._alone = self._one_by_one = 0  # states to take one by one after a small batch: in total; still left
        self._run = "", 0  # the kind and end of a run of control characters, whose further characters are free
        self._undrawn = 0  # the position from which drawing resumes at the next line; 0: drawing
        self._record = 0  # the end of the record being fed
        self._bars: dict[str, tuple[int, float]] = {}  # by label: the bar's last step, a tenth, and its time

    def feed(self, data: bytes, now: float = 0.0) -> list[Line]:
        """Draw the next bytes, received at *now* (seconds). Returns the lines that became final, and steps of bars."""
        out: list[Line] = []
        at = 0
        suspects = suspects_of(data)
        while at < len(data):
            if self._undrawn:
                at = self._as_it_is(data, at, out)
                continue
            if self._fresh() and (end := plain_until(data, suspects, at)) > at:
                self._bulk(data[at:end] if at or end < len(data) else data, out)
            else:
                end = data.find(b"\n", at) + 1 or len(data)
                if self._begin is None and self._painted(data[at:end], out):
                    at = end
                    continue
                self._begin = self.position if self._begin is None else self._begin
                self.position += end - at
                self._emulate(self._decoded(data[at:end]), now, out)
            at = end
        return out

    def record(self, data: bytes, begin: int, end: int, now: float = 0.0) -> list[Line]:
        """As ``feed``, for a line or a part of one, *data*, whose record stands between *begin* and *end*."""
        if (
            self._fresh()
            and not self._undrawn
            and data.find(b"\n") == len(data) - 1 == plain_until(data, suspects_of(data), 0) - 1
        ):
            out: list[Line] = []
            text = self._text(data)
            self._allowance.earn(size_of(text))
            self._allowance.line()
            parts = self._short(text[:-1].removesuffix("\r"))
            self._reach.rows += [Line(begin, end, part, self.stream, self.time) for part in parts]
            self._reach.row, self.position = len(self._reach.rows), end
            self._reach.paged(any(len(part) > REACH for part in parts), out)
            return out
        self._begin = begin if self._begin is None else self._begin
        self.position, self._record = end - len(data), end
        found = self.feed(data, now)
        self._record = 0
        return found

    def settle(self, before: int | None = None) -> list[Line]:
        """Output complete rows that are not final, because no more bytes come for now. A row that the cursor came back
        to is left out. A row that changes later is output again.

        *before*: only rows that ended before this position.
        """
        out: list[Line] = []
        self._reach.settle(before, out)
        return out

    def open(self, most: int = WINDOW) -> list[str]:
        """The present texts of the last *most* open rows: bars, and the line without an LF."""
        return self._reach.open(most)

    @property
    def spent(self) -> int:
        """Units of work spent so far."""
        return self._allowance.spent

    @property
    def first_open(self) -> int | None:
        """The offset of the first line that was not fully output; None without one."""
        found = self._reach.first_open
        return self._begin if found is None else found

    def close(self, now: float = 0.0) -> list[Line]:
        """Output all remaining rows at the end of the stream."""
        out: list[Line] = []
        self._half = ""
        rest = self._decoded(b"", final=True)
        if rest:
            self._emulate(rest, now, out)
        self._reach.drop(len(self._reach.rows), out, self.position)
        self._reach.row = self._column = 0
        self._begin = None
        self._style, self._half, self._in_string, self._kept = "", "", False, None
        self._marked = self._rough = self._returned = False
        self._undrawn = 0
        return out

    def jump(self, position: int, style: str = "") -> None:
        """Skip to *position*, a line's beginning, from the end of a whole line. *style*: the colours in force there;
        empty keeps the present ones.
        """
        self.position, self._style = position, style or self._style

    # --- many lines at a time

    def _fresh(self) -> bool:
        return (
            self._reach.row == len(self._reach.rows)
            and self._begin is None
            and not (self._column or self._style or self._half or self._in_string)
        )

    def _bulk(self, block: bytes, out: list[Line], *, drawn: bool = True) -> None:
        """Output *block*, whole lines without control characters but CR LF; if not *drawn*, any whole lines."""
        returns = b"\r" in block
        whole = self._text(block.replace(b"\r\n", b"\n") if returns else block)
        self._allowance.earn(size_of(whole) + (block.count(b"\r\n") if returns else 0))
        self._allowance.line()
        texts = (whole if drawn else pictured(whole)).split("\n")
        texts.pop()
        own = texts if block.isascii() and not returns else block.split(b"\n")[:-1]
        sizes = [len(line) + 1 for line in own]
        ends = list(accumulate(sizes, initial=self.position))
        longest = max(sizes) - 1
        if longest > REACH:  # in bytes; a line never has more characters than bytes
            longest = max(map(len, texts))
        if longest > self._limit:
            lines = [
                Line(begin, end, text, self.stream, self.time)
                for begin, end, whole in zip(ends, ends[1:], texts, strict=False)
                for text in self._short(whole)
            ]
        else:
            values = zip(ends, ends[1:], texts, repeat(self.stream), repeat(self.time), repeat(TEXT))
            lines = list(map(tuple.__new__, repeat(Line), values))
        self.position = ends[-1]
        final = len(lines) - WINDOW
        if final > 0:  # and then all earlier rows are final too
            self._reach.drop(len(self._reach.rows), out)
            out += lines[:final]
            del lines[:final]
        wide = [index for index, line in enumerate(lines) if len(line.text) > REACH] if longest > REACH else []
        self._reach.page = len(self._reach.rows) + wide[-1] + 1 if wide else self._reach.page
        self._reach.rows += lines
        self._reach.row = len(self._reach.rows)
        self._reach.drop(max(self._reach.page if wide else 0, len(self._reach.rows) - WINDOW), out)

    def _painted(self, line: bytes, out: list[Line]) -> bool:
        """Draw *line* if it holds only text and colours, three times as fast as ``_emulate``; False: not drawn."""
        if self._reach.row != len(self._reach.rows) or self._column or self._half or self._in_string:
            return False
        if not self._style and b"\x1b" not in line:
            return False  # another control character is in it
        text = line.decode(errors="replace")
        if "\ufffd" in text or len(text) > self._limit or len(line) > SMOOTH or not PAINTED.fullmatch(text):
            return False
        colours = text.count("\x1b")
        if colours * (COLOUR + NEW) + LINE + len(text) // 2 + 4 > self._allowance.work:  # it may overspend
            return False
        pieces = COLOURS.split(text[:-1].removesuffix("\r"))
        if not text.isascii() and any(part and width(part[0]) == 0 for part in pieces[::2]):
            return False  # a zero-width character joins the glyph before the colour
        parts, now, style = [], "", self._style
        for number, part in enumerate(pieces):
            if number % 2:
                found = self._styles.get((style, part))
                style = found if found is not None else self._changed(style, part)
            elif part:
                if style != now:
                    parts.append(painted(now, style))
                    now = style
                parts.append(part)
        whole = "".join(parts) + (RESET if now else "")
        begin, self.position, self._style = self.position, self.position + len(line), style
        self._allowance.earn(len(line) if text.isascii() else size_of(text))
        [whole] = self._reach.said([whole])
        self._allowance.line(LINE + colours * COLOUR)
        self._reach.rows.append(Line(begin, self.position, whole, self.stream, self.time))
        self._reach.row, self._marked = len(self._reach.rows), bool(style)
        self._reach.paged(len(whole) > REACH, out)
        return True

    def _changed(self, style: str, parameters: str) -> str:
        found = self._styles.get((style, parameters))
        if found is None:
            self._allowance.work -= NEW
            if len(self._styles) >= STYLES:
                self._styles.clear()
            known = not parameters.strip("0123456789;:")
            found = self._styles[style, parameters] = changed(style, parameters) if known else style
        return found

    # --- input too expensive to draw

    def _give_up(self, out: list[Line]) -> None:
        """Stop drawing: from here on the bytes are shown undrawn."""
        begin = self._begin if self._begin is not None else self.position
        self._reach.new_page(len(self._reach.rows), out)
        self._column, self._style, self._half, self._in_string, self._kept = 0, "", "", False, None
        self._returned, self._undrawn = False, begin + UNDRAWN
        out.append(Note.at(begin, TOO_MUCH, {"event": "not-drawn"}))

    def _as_it_is(self, data: bytes, at: int, out: list[Line]) -> int:
        """Show *data* from *at* up to an LF, undrawn. Returns the end of the shown bytes."""
        if self._begin is None and (end := data.rfind(b"\n", at) + 1) > at:
            last = data.find(b"\n", max(at, at + self._undrawn - self.position - 1)) + 1
            self._bulk(data[at : last or end], out, drawn=False)
            end = last or end
        else:
            end = data.find(b"\n", at) + 1 or len(data)
            self._begin = self.position if self._begin is None else self._begin
            self.position += end - at
            self._put_as_it_is(self._decoded(data[at:end]), out)
        self._drawn_again(data[end - 1] == 0x0A)
        return end

    def _drawn_again(self, whole: bool) -> None:
        """Resume drawing once a *whole* line has ended and ``UNDRAWN`` bytes were shown undrawn."""
        if whole and self.position >= self._undrawn:
            self._undrawn = 0
            self._allowance.have(DRAWN_AGAIN)

    def _put_as_it_is(self, text: str, out: list[Line]) -> None:
        whole = text.endswith("\n")
        self._allowance.earn(size_of(text))
        row = self._at_cursor()
        text = pictured(text.removesuffix("\n"))
        for begin in range(0, len(text), AT_ONCE):
            row = self._append(row, text[begin : begin + AT_ONCE], out, as_it_is=True)
        if whole:
            if row.chars and row.chars[-1] == PICTURE_OF_CR:
                del row.chars[-1], row.styles[-1]
            self._allowance.line()
            self._line_feed(out)

    def _short(self, text: str) -> list[str]:
        return [text] if len(text) <= self._limit else shortened(text, self._limit, self._overlong)

    def _text(self, block: bytes) -> str:
        try:
            return block.decode()
        except UnicodeDecodeError:
            return self._counted(block.decode(errors="flarelog.substitute"))

    def _decoded(self, data: bytes, final: bool = False) -> str:
        return self._half + self._counted(self._decoder.decode(data, final))

    def _counted(self, text: str) -> str:
        if _SUBSTITUTED not in text:
            return text
        self.replaced += text.count(_SUBSTITUTED)
        return text.replace(_SUBSTITUTED, "\ufffd")

    # --- terminal emulation

    def _emulate(self, text: str, now: float, out: list[Line]) -> None:
        at, self._half = 0, ""
        allowance, length, ascii_ = self._allowance, len(text), text.isascii()
        while at < length:
            if self._in_string:
                end = STRING_END.search(text, at)
                if end is None:
                    self._half = "\x1b" if text[-1] == "\x1b" else ""
                    allowance.earn((length - at if ascii_ else size_of(text[at:])) - len(self._half))
                    return
                self._in_string, stop = False, end.end() - (end[0] == "\x1b")
                allowance.earn(stop - at if ascii_ else size_of(text[at:stop]))
                at = stop
                continue
            token = TOKENS.match(text, at)
            assert token is not None  # noqa: S101  # its last alternative is any character
            kind = token.lastgroup
            if kind == "half":
                self._half = token[0]
                return
            if self._returned and text[at] not in "\r\n":
                self._returned, self._marked, self._rough = False, True, True
                allowance.work -= TOKEN
                if allowance.work < 0:
                    break
            begin, at = at, token.end()
            if kind == "text":
                if at - begin <= AT_ONCE:
                    self._write(token[0], out)
                    continue
                for each in range(begin, at, AT_ONCE):
                    self._write(text[each : min(at, each + AT_ONCE)], out)
                continue
            size = at - begin if ascii_ else size_of(token[0])
            allowance.work += EARNS * size
            allowance.earned += size
            if kind == "control":
                if text[begin] == "\r":
                    if self._presents:
                        allowance.earned -= size - 1  # the first of several CRs shows the state: a piece may end there
                        self._presented(now, out)
                        allowance.earned += size - 1
                    if self._one_by_one:
                        self._one_by_one -= 1
                    elif (behind := self._redrawn(text, begin, now)) > begin:
                        at = behind
                        continue
                    self._column, self._returned = 0, True
                    continue
                self._control(token[0], size, out)
            elif kind == "final" and token["final"] == "m":
                allowance.work -= ROUGH if self._rough or allowance.earned - allowance.begun > SMOOTH else COLOUR
                self._marked = True
                self._style = self._changed(self._style, token["parameters"])
            else:
                self._marked = self._rough = True
                allowance.work -= TOKEN
                if kind == "final":
                    self._sequence(token["parameters"], token["final"], now, out)
                elif kind == "string":
                    self._in_string = True
                elif token[0] in ("\x1b7", "\x1b8"):
                    self._keep_or_return(token[0] == "\x1b7", now, out)
            if allowance.work < 0:
                if kind == "control":  # only the first of a run costs units
                    allowance.earned -= size_of(text[begin + 1 : at])
                    at = begin + 1
                break
        else:
            return  # text alone never overspends here, or the result would depend on the pieces
        self._give_up(out)
        if at < length:
            self._put_as_it_is(text[at:], out)
            self._drawn_again(text.endswith("\n"))

    def _redrawn(self, text: str, begin: int, now: float) -> int:
        """Draw a batch of states of a row, from the CR at *begin* on, by writing their final cells once. Returns the
        end of the last state drawn; *begin* if none was. After a small batch the next states are drawn one by one for a
        while, because each try scans many states.
        """
        taken = self._taken_together(text, begin, now)
        self._alone = 0 if taken.count("\r") >= TOGETHER else min(2 * self._alone + TOGETHER, ALONE)
        self._one_by_one = self._alone
        return begin + len(taken)

    def _taken_together(self, text: str, begin: int, now: float) -> str:
        reach, allowance = self._reach, self._allowance
        row = reach.rows[reach.row] if reach.row < len(reach.rows) else None
        found = REDRAWN.match(text, begin) if isinstance(row, Row) and row.chars else None
        if found is None or not isinstance(row, Row):
            return ""
        states = found[0].split("\r")[1:]
        longest = max(map(len, states))
        if longest > reach.most or allowance.work < TOKEN * len(states):
            return ""  # drawn one by one, the states stop exactly where they overspend
        if self._presents:
            states = self._unpresented(row, states, now)
            longest = max(map(len, states), default=0)
        if len(states) < 2:
            return ""
        taken = "\r" + "\r".join(states)
        size = size_of(taken) - 1
        allowance.work += EARNS * size - TOKEN * len(states)
        allowance.earned += size
        left = states[-1]
        for state in reversed(states):
            left += state[len(left) :]
            if len(left) == longest:
                break
        row.put(0, left, self._style, reach.most)
        self._column, self._returned = len(states[-1]), False
        self._marked = self._rough = True
        return taken

    def _unpresented(self, row: Row, states: list[str], now: float) -> list[str]:
        """The first *states* that ``_presented`` would not output, and the one behind them, which the caller presents.
        The costs of all but the last are charged.
        """
        chars, allowance = row.chars, self._allowance
        shown = "".join(chars)
        most = max(len(shown), *map(len, states))
        if (
            (self._steps and not row.rewritten)
            or self._style
            or row.cut
            or most > min(WIDEST, self._limit)
            or len(shown) != len(chars)
            or "" in chars
            or any(row.styles)
            or allowance.work < (TOKEN + 2 + most) * len(states)  # an upper bound of their costs
        ):
            return []
        for number, state in enumerate(states):
            shown = state + shown[len(state) :]
            text = shown.rstrip(" ")
            if self._wanted is not None and self._wanted(text):
                return states[: number + 1]
            if self._steps and self._step(row, text, now) is not None:
                return states[: number + 1]
            if number < len(states) - 1:
                if self._wanted is not None:
                    allowance.touch(len(shown))
                if self._steps:
                    allowance.touch(4 * len(shown))
        return states

    def _control(self, chars: str, size: int, out: list[Line]) -> None:
        """Apply a control character, or a run of one kind, of *size* bytes."""
        char, allowance = chars[0], self._allowance
        if char == "\n":
            marked, self._returned = self._marked, False
            self._line_feed(out, marked=marked)
            allowance.line(LINE if marked else 0)
            return
        self._marked = self._rough = True
        if char in PARTING:
            allowance.work -= TOKEN
            row = self._at_cursor()
            if self._column >= len(row.chars):
                self._append(row, " ", out)
            else:
                self._over(row, " ")
            return
        run = "\b" if char == "\b" else "\0"
        allowance.work -= EARNS * size  # otherwise the result would depend on where the pieces cut a run
        if (run, allowance.earned - size) != self._run:
            allowance.work -= TOKEN
        self._run = run, allowance.earned
        if char == "\b":
            self._column = max(0, self._column - len(chars))

    def _write(self, text: str, out: list[Line]) -> None:
        reach = self._reach
        row = reach.rows[reach.row] if reach.row < len(reach.rows) else None
        if not isinstance(row, Row):
            row = self._at_cursor()
        allowance, column, chars = self._allowance, self._column, row.chars
        size = len(text) if text.isascii() else size_of(text)
        allowance.work += EARNS * size
        allowance.earned += size
        if column >= len(chars):
            if column == len(chars) and row.size + size <= reach.room and "\t" not in text and text.isascii():
                chars += text  # the common case, in half the time
                row.styles += [self._style] * size
                row.size, row.changed, self._column = row.size + size, True, column + size
            else:
                self._append(row, text, out)
            return
        if "\t" not in text:
            if text.isascii():
                row.put(column, text, self._style, reach.most)
                self._column = min(column + size, reach.most)
            else:
                self._over(row, text)
            return
        for part in re.split("(\t)", text):  # a tab over existing cells only moves the cursor
            if part and self._column >= len(row.chars):
                row = self._append(row, part, out)
            elif part == "\t":
                self._column = min((self._column // TAB + 1) * TAB, reach.most)
                self._allowance.work -= TABBED
            elif part:
                self._over(row, part)

    def _over(self, row: Row, text: str) -> None:
        """Write *text* at the cursor over existing cells, and on behind them."""
        cells = text if text.isascii() else row.cells(text, self._column, self._limit)
        row.put(self._column, cells, self._style, self._reach.most)
        self._column = min(self._column + len(cells), self._reach.most)

    def _append(self, row: Row, text: str, out: list[Line], *, as_it_is: bool = False) -> Row:
        """Write *text* behind the end of *row*, as far as it has room. Returns the row where the text ends."""
        column, length, over = self._column, len(text), 0
        if row.size + length > self._reach.room:
            if self._overlong == "split" and self._reach.row == len(self._reach.rows) - 1:
                return self._parted(row, text, out, as_it_is=as_it_is)
            row.cut, over = True, max(0, row.size + length - self._reach.room - 1)
            if self._overlong == "ends":
                row.tail = (row.tail + text[max(0, length - over) :])[-TAIL:]
            text, length = text[: max(0, length - over)], max(0, length - over)
        if length:
            if column > len(row.chars):
                self._allowance.touch(column - len(row.chars))
            cells = text if as_it_is or (text.isascii() and "\t" not in text) else row.cells(text, column, self._limit)
            row.size += length
            row.put(column, cells, self._style, self._reach.most)
            column += len(cells)
        self._column = min(column + over, self._reach.most)
        return row

    def _parted(self, row: Row, text: str, out: list[Line], *, as_it_is: bool) -> Row:
        """Write *text* in parts: a full row is final, and the line continues in the row below. Returns the last row."""
        while row.size + len(text) > self._reach.room:
            room = max(0, self._reach.room - row.size)
            self._append(row, text[:room], out, as_it_is=as_it_is)
            text = text[room:]
            begin = self.position if self._begin is None else self._begin
            row.end = max(begin + self._allowance.earned - self._allowance.begun - size_of(text), row.offset + 1)
            texts = row.texts(self._limit, self._overlong)
            self._reach.part(row, self._reach.said(texts) if self._marked else texts, out)
            self._column, row = 0, self._at_cursor()
        return self._append(row, text, out, as_it_is=as_it_is)

    def _sequence(self, parameters: str, final: str, now: float, out: list[Line]) -> None:
        """Apply a control sequence. Unknown and private ones are ignored."""
        if parameters.strip("0123456789;:"):
            return
        numbers = [int(one[:6] or 0) for one in parameters.replace(":", ";").split(";")]
        count = max(1, numbers[0])
        if final in "AF":
            self._move(self._reach.row - count, now, out)
        elif final in "BE":
            self._move(min(self._reach.row + count, self._lowest()), now, out)
        elif final in "Hf":
            self._move(min(self._reach.page + count - 1, self._lowest()), now, out)
            self._to_column(numbers[1] - 1 if len(numbers) > 1 else 0)
        elif final == "C":
            self._to_column(self._column + count)
        elif final == "D":
            self._column = max(0, self._column - count)
        elif final in "G`":
            self._presented(now, out)
            self._to_column(count - 1)
        elif final == "K" or (final == "J" and numbers[0] == 0):
            self._erase(numbers[0], final == "J", now, out)
        elif final in "@PX":
            self._shift(final, count, now, out)
        elif final in "su" and not parameters:
            self._keep_or_return(final == "s", now, out)
        elif final == "J" and numbers[0] in (2, 3):
            self._reach.left(out)
            self._reach.new_page(len(self._reach.rows) - WINDOW, out)
        if final in "EF":
            self._column = 0

    def _keep_or_return(self, keep: bool, now: float, out: list[Line]) -> None:
        """Save the cursor and its style, or restore them; without a saved cursor restoring does nothing."""
        if keep:
            self._kept = self._reach.number, self._column, self._style
        elif self._kept is not None:
            number, column, style = self._kept
            self._move(min(self._reach.row + number - self._reach.number, self._lowest()), now, out)
            self._to_column(column)
            self._style = style

    def _shift(self, final: str, count: int, now: float, out: list[Line]) -> None:
        """At the cursor insert *count* blanks (``@``), delete *count* characters (``P``), or blank them (``X``)."""
        self._presented(now, out)
        row, count = self._reach.at_cursor(), min(count, WIDEST)
        if row is None or self._column >= len(row.chars):
            return
        self._allowance.touch(len(row.chars) + count)
        if final == "X":
            row.erase(self._column, self._column + count)
        elif final == "P":
            row.take_out(self._column, count)
        elif row.size + count <= self._reach.room and len(row.chars) + count <= self._reach.most:
            row.put_in(self._column, count)

    def _lowest(self) -> int:
        """The index of the lowest row that the cursor can go to."""
        return max(self._reach.row, self._reach.low, len(self._reach.rows) - 1)

    def _move(self, row: int, now: float, out: list[Line]) -> None:
        if self._presents:
            self._presented(now, out)
        self._allowance.work -= MOVE
        self._reach.low = max(self._reach.low, self._reach.row)
        if self._reach.left(out):
            return
        self._reach.row = max(self._reach.page, row)
        if self._reach.row < len(self._reach.rows):
            self._reach.come(self._reach.row, out, back=True)

    def _to_column(self, column: int) -> None:
        row = self._reach.at_cursor()
        length = 0 if row is None else len(row.chars)
        self._column = max(0, min(column, max(WIDEST, length)))

    def _erase(self, which: int, below: bool, now: float, out: list[Line]) -> None:
        self._presented(now, out)
        if self._reach.row < len(self._reach.rows):
            row = self._reach.thawed(self._reach.row)
            self._allowance.touch(len(row.chars))
            if which in (0, 2):
                row.erase(self._column if which == 0 else 0, None)
            elif which == 1:
                row.erase(0, min(self._column + 1, WIDEST))
        for index in range(self._reach.row + 1, len(self._reach.rows) if below else 0):
            self._reach.wipe(index)

    # --- rows

    def _at_cursor(self) -> Row:
        while self._reach.row >= len(self._reach.rows):
            self._reach.rows.append(Row(self.position if self._begin is None else self._begin, self.stream, self.time))
        return self._reach.thawed(self._reach.row)

    def _line_feed(self, out: list[Line], *, marked: bool = False) -> None:
        reach, row = self._reach, self._at_cursor()
        row.end = row.end or self.position
        wide = False
        new = row.shown is None and row.was is None and not row.rewritten
        if new and reach.row == len(reach.rows) - 1:
            texts = row.texts(self._limit, self._overlong)
            texts = reach.said(texts) if marked else texts
            reach.held -= row.held
            reach.rows[-1:] = [Line(row.offset, row.end, text, row.stream, row.time) for text in texts]
            reach.row = len(reach.rows) - 1
            wide = any(len(text) > REACH for text in texts)
        else:
            wide = len(row.chars) > REACH
            reach.row -= reach.left(out)
        reach.row, self._column, self._begin = reach.row + 1, 0, None
        self._rough = reach.row < len(reach.rows)
        self._marked = self._rough or bool(self._style)
        if self._rough:
            reach.come(reach.row, out, back=False)
        if wide:
            reach.page = reach.row
        reach.drop(reach.row if wide else len(reach.rows) - WINDOW, out)

    def _presented(self, now: float, out: list[Line]) -> None:
        """Output the state of the row that the cursor leaves, if it is wanted or a step of a bar."""
        row = self._reach.at_cursor()
        if row is None or not row.changed:
            return
        row.changed = False
        if not self._presents or len(row.chars) > WIDEST:
            return
        if self._wanted is not None:
            self._allowance.touch(len(row.chars))
            text = "".join(row.chars).rstrip(" ")[: self._limit]
            if self._wanted(text):
                out.append(Line(row.offset, row.offset, text, row.stream, row.time, BAR))
        if not self._steps or not row.rewritten:
            return
        self._allowance.touch(4 * len(row.chars))
        texts = row.texts(self._limit, self._overlong)
        text = texts[0] if texts else ""
        decile = self._step(row, text, now)
        if decile is None:
            return
        if decile >= 0:
            end = self._record or row.offset
            self._reach.present(Line(row.offset, end, self._reach.said([text])[0], row.stream, self.time, BAR), out)
            row.shown = text
        row.decile, row.at = max(0, decile), now
        if (progress := _progress(text)) is not None:
            row.label = progress[0]
            for label in (row.label, _letters(row.label)):
                self._bars.pop(label, None)
                self._bars[label] = row.decile, now
            while len(self._bars) > BARS:
                del self._bars[next(iter(self._bars))]

    def _step(self, row: Row, text: str, now: float) -> int | None:
        """The tenth that the bar's state *text* is the first to reach; -1: the first state without a percentage, which
        is not output; None: not a new step.
        """
        progress = _progress(text)
        decile = progress[1] // 10 if progress is not None else row.decile
        if decile < 0:
            return -1
        before, at = row.decile, row.at
        # Text that a program writes over a bar moves the bar to another row, often to the row of another bar.
        if progress is not None and (label := progress[0]) != row.label:
            known = self._bars.get(label)
            if known is None and (row.label is None or _letters(row.label) != _letters(label)):
                known = self._bars.get(_letters(label))
            before, at = known or (before, at)
        further = decile != before or now - at >= STEP_SECONDS
        return decile if further and text != row.shown and text.strip() else None


def _progress(text: str) -> tuple[str, int] | None:
    """The label of the bar in the state *text*, and its percentage: the one before tqdm's ``|``, otherwise the last."""
    found = _OF_TQDM.search(text) or next(reversed([*_PERCENT.finditer(text)]), None)
    return None if found is None else (text[: found.start()].rstrip(), int(found[1]))


def _letters(label: str) -> str:
    """The letters of *label*, whose figures and bar may change with each state."""
    return _NO_LETTERS.sub("", label)
