"""One stream on its way to a display: bytes and marks become lines and notes, and lines are chosen.

Pure: a flow has no clock, file or connection, and its caller tells it the time. Where bytes are split into pieces makes
no difference, and a piece that comes twice is shown once.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from flarelog.completeness import INCOMPLETE, SEEN, UNVERIFIED, Losses, gap_sentence, unseen_at, unverified_text
from flarelog.exit_marks import Exit
from flarelog.lines.choose import UNKNOWN, Arrived, Choice, Chooser
from flarelog.lines.line import Line, Note, Rest
from flarelog.lines.merge import Blocks, Places
from flarelog.lines.ranks import RankedLines
from flarelog.lines.reader import Reader
from flarelog.model import Attributes, Buffer, Ended, Gap, Generation, Mark, StreamId, StreamInfo, Unread
from flarelog.placeholders import look_at
from flarelog.records import exit_record
from flarelog.render.container import Renderer
from flarelog.render.edges import is_packed, is_rotated, tears
from flarelog.render.rows import WINDOW
from flarelog.render.sieve import Sieve, sieve
from flarelog.text import legible, several
from flarelog.values import frozen

if TYPE_CHECKING:  # a view without times needs none
    from flarelog.lines.zones import Stamps
    from flarelog.viewers.pipe import Pipe

QUIET = 0.05  # seconds without a byte after which complete lines are shown
SETTLE = 0.25  # seconds after which they are shown although bytes keep coming

Item = Line | None
"""A line or a note; None where lines between two shown ones are left out."""


Block = tuple[StreamId, Sequence[Item]]
"""Items of one stream that are shown together."""


class Consumer(ABC):
    """Takes the lines of streams."""

    def known(self, streams: Iterable[StreamId]) -> None:  # noqa: B027 - most consumers need not know
        """Learn *streams*, all that are known so far."""

    def wants(self, stream: StreamId) -> bool:
        """Whether more of *stream* is wanted."""
        return True

    @abstractmethod
    def show(self, blocks: Sequence[Block]) -> None:
        """Take *blocks*. Raises OSError."""

    async def drain(self) -> None:
        """Return when what was taken is shown. Raises OSError."""
        await asyncio.sleep(0)  # a store has all bytes at hand: without it other tasks would get no turn


class Display(Consumer):
    """Shows lines while they come. *pipe*: the output, whose closing ends the reading."""

    terminal = False
    pipe: Pipe | None = None

    def before(self, stream: StreamId) -> str:
        """The prefix of a row of *stream*, as of its lines."""
        return ""

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        """Draw *rows*, which may change, below the lines: the incomplete ones by stream, and the state of the sites."""
        if self.pipe is not None and self.pipe.closed:  # while no line comes, no write reports a closed pipe
            raise BrokenPipeError

    def enough(self, caught_up: bool, now: float) -> bool:
        """Whether the display is done; *caught_up*: everything that was there at the beginning was shown."""
        return False


@frozen
class View:
    """How a stream becomes lines."""

    choice: Choice = field(default_factory=Choice)
    new: Callable[[], Renderer] = Renderer
    stamps: Callable[[StreamId], Stamps] | None = None  # reads a stream's times; None: they are not needed
    levels: bool = False  # whoever takes the lines needs their levels
    notes: bool = True  # show notes about the stream between its lines
    blocks: bool = False  # keep the lines of a traceback together
    bars: bool = False  # show rows that may change, where the output can redraw them
    raw: bool = False  # show nothing but the bytes
    ranks: Callable[[StreamId], RankedLines] | None = None  # chooses a stream's lines by their ranks
    keep: Sieve | None = None  # a sieve for a caller that needs no other lines, whatever their levels
    merged: bool = False  # lines are merged with other streams' by their times
    place: Sequence[str] = ()  # the options that lead another command to the logs

    def reader(self, stream: StreamId) -> Reader:
        """A reader of *stream*."""
        leveled = self.levels or self.choice.level is not None or self.ranks is not None
        stamps = self.stamps(stream) if self.stamps is not None else None
        return Reader(stamps, leveled=leveled, parted=self.blocks)

    @property
    def sieve(self) -> Sieve | None:
        """The sieve for the origin; None where every line is needed. Times that choose or order lines need all lines:
        a line without a time has that of the line before it.
        """
        choice = self.choice
        if self.merged:
            return None
        if self.keep is not None and choice.since is None and choice.until is None:
            return self.keep
        if self.raw or not choice.include or choice.since is not None or choice.until is not None:
            return None
        if choice.level is not None:  # a line without a level has that of the line before it
            return None
        return sieve(choice.include, choice.before, choice.after)


class _Last:
    """The last *most* lines, and the items between and after them; without earlier lines also those before."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: deque[Item] = deque()
        self._lines = 0

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self._items.append(item)
            self._lines += _is_line(item)
            if self._lines > self._most:
                self._lines -= 1
                while not _is_line(self._items.popleft()):
                    pass
                while self._items and not _is_line(self._items[0]):
                    self._items.popleft()

    def take(self) -> list[Item]:
        return list(self._items)


def _is_line(item: Item) -> bool:
    return item is not None and not isinstance(item, Note)


class Flow:
    """*stream* from *start* on. *tail*: show that many of the lines before *until*, and all lines behind it.

    *style*: the colours that continue at *start*. *within*: *start* lies within a line. *over*: no bytes come behind
    *until*. The tail is then shown at the end, so that no row that may still change is shown before another one.
    *places*: gives the lines their places among those of other streams, if they are merged.
    """

    def __init__(
        self,
        stream: StreamId,
        view: View,
        start: int = 0,
        *,
        tail: int | None = None,
        until: int = 0,
        over: bool = False,
        plain: bool | None = None,
        arrived: Arrived = UNKNOWN,
        ahead: int = 0,
        style: str = "",
        within: bool = False,
        places: Places | None = None,
    ) -> None:
        self.stream = stream
        self.position = start  # offset of the next byte
        self.marks = 0  # number of known marks
        self._view, self._start, self._within = view, start, within
        self._renderer = view.new()
        self._renderer.jump(start, style)
        if plain is not None:
            self._renderer.plain = plain
        self._chooser = Chooser(view.choice, arrived, ahead)
        self._blocks = Blocks() if view.blocks else None
        self._pending: deque[Mark] = deque()
        self._losses = Losses()  # all of them, shown or not
        self._last: Mark | None = None
        self._identities: set[str] = set()
        self._file = Generation(0, 0, stream.path, 0, "")  # the current one
        self._ranked = view.ranks(stream) if view.ranks is not None else None
        self._tail = None if tail is None or until <= start else _Last(tail)
        self._until, self._over = until, over
        self._reader = view.reader(stream)
        self.stamps, self._places = self._reader.stamps, places
        self._packed: bool | None = None  # whether the log is compressed; None: no byte has come
        self._spent = 0  # units of work
        self._fed = self._settled = float("-inf")
        self._dirty = False  # complete lines may wait in the renderer

    @property
    def plain(self) -> bool:
        """Whether the log is known not to come from a container runtime."""
        return self._renderer.plain is True

    @property
    def replaced(self) -> int:
        return self._renderer.replaced

    @property
    def cut(self) -> int:
        """The number of lines that did not match and were longer than the part that was read."""
        return self._chooser.cut

    @property
    def spent(self) -> int:
        """Units of work spent on drawing, less a quarter of a unit for each byte, which bars may take."""
        return self._spent

    @property
    def unsettled(self) -> bool:
        """Whether ``settle`` may give out something."""
        return self._dirty or bool(self._pending)

    @property
    def place(self) -> int:
        """The offset to resume at: each line before it was shown, and no part of the line behind it."""
        if self._tail is not None:
            return self._start
        held = [None if self._blocks is None else self._blocks.first]
        held += [] if self._places is None else self._places.held[:1]
        return min([self._renderer.first_open, *(line.offset for line in held if line is not None)])

    def open(self, most: int = WINDOW) -> list[str]:
        """The last *most* rows that may change, as they are now."""
        return self._renderer.open(most)

    def know(self, info: StreamInfo) -> None:
        """Learn the stream's marks and times of arrival."""
        self.learn(0, info.marks)
        if self.stamps is not None:
            self.stamps.came(info)

    def learn(self, first: int, marks: Sequence[Mark]) -> None:
        """Add marks of the stream, from number *first* on; known ones are skipped."""
        if first <= self.marks:
            self._pending.extend(marks[self.marks - first :])
            self._place_ends(marks[self.marks - first :])
            self._losses.add(marks[self.marks - first :])
            if self.stamps is not None:
                self.stamps.learn(marks[self.marks - first :])
            self.marks = max(self.marks, first + len(marks))

    def _place_ends(self, marks: Sequence[Mark]) -> None:
        """Move the ends in *marks* that became known late to where they belong, unless that was passed."""
        if any(isinstance(mark, Exit) and mark.until >= self.position for mark in marks):
            placed = [
                mark.placed if isinstance(mark, Exit) and mark.until >= self.position else mark
                for mark in self._pending
            ]
            self._pending = deque(sorted(placed, key=lambda mark: (mark.offset, not isinstance(mark, Exit))))

    def arrive(self, at: int, now: int) -> None:
        """Learn that bytes from *at* on arrive at *now*, in nanoseconds since 1970."""
        self._chooser.arrive(at, now)

    def feed(self, offset: int, data: Buffer, now: float) -> list[Item]:
        """The items to show when *data*, at *offset*, comes at *now*, in seconds of any clock."""
        data = bytes(data)[max(0, self.position - offset) :]
        offset = max(offset, self.position)
        out: list[Item] = []
        if self._packed is None and data:
            self._packed = is_packed(self.stream.log, offset, data)
            out += self._packed_note() if self._packed else []
        if self._packed:
            self.position = offset + len(data)
            return out + self._noted(self.position)
        if self._tail is not None and self._over and data and offset >= self._until:
            self._over = False  # the log was continued: its last lines so far come before these
            there = self._chosen(self._renderer.settle(), over=True) + self._whole()
            return self._given(there) + self.feed(offset, data, now)
        if self._tail is not None and offset < self._until < offset + len(data):
            cut = self._until - offset
            return self.feed(offset, data[:cut], now) + self.feed(self._until, data[cut:], now)
        if offset > self.position:
            out += self._chosen(self._renderer.close(now))  # no cursor goes back over skipped bytes
            out += self._noted(offset)
            self.position = offset
            self._skip(offset)
        while data:
            mark = self._pending[0].offset if self._pending else self.position + len(data)
            piece = data[: max(0, mark - self.position)]
            if piece:
                self.position += len(piece)
                before = self._renderer.spent
                out += self._chosen(self._renderer.feed(piece, now))
                self._spent += max(0, self._renderer.spent - before - len(piece) // 4)
                data = data[len(piece) :]
                self._fed, self._dirty = now, True
            if self._pending and self._pending[0].offset <= self.position:
                out += self._noted(self.position)
        return self._given(out)

    def _packed_note(self) -> list[Item]:
        command = look_at({self.stream: 0}, (*self._view.place, "-o", "raw"))
        text = f"compressed by gzip: {command} | zcat shows its lines"
        return self._note(text, "compressed", {})

    def settle(self, now: float) -> list[Item]:
        """The complete items, once no byte came for QUIET, or after SETTLE at the latest; and the notes due by now."""
        out = self._noted(self.position) if self._pending else []
        if self._dirty and (now - self._fed >= QUIET or now - self._settled >= SETTLE):
            out += self._chosen(self._renderer.settle()) if self._tail is None else []
            self._settled = now
            if now - self._fed >= QUIET:
                out += self._whole()
                self._dirty = False
        return self._given(out)

    def close(self, now: float) -> list[Item]:
        """The remaining items, because nothing more comes for now."""
        out = self._noted(self.position)
        out += self._chosen(self._renderer.close(now), over=True) + self._whole()
        self._dirty, self._until, self._over = False, 0, False
        return self._given(out)

    def skip(self, offset: int, text: str, now: float) -> list[Item]:
        """Skip the bytes before *offset*, where a line begins; *text* says why."""
        out = self._chosen(self._renderer.close(now)) + self._whole()
        out += self._note(text, "skipped", {"length": offset - self.position})
        while self._pending and self._pending[0].offset < offset:
            self._pending.popleft()
        self.position = offset
        self._skip(offset)
        return self._given(out)

    def _skip(self, offset: int) -> None:
        """Go on at *offset*."""
        self._renderer.jump(offset)
        self._reader.skip()
        self._chooser.skip()

    def later(self) -> list[Item]:
        """The note that the other logs come before the rest of this one."""
        return self._note("this log is slow to draw: its rest is shown after the other logs", "later", {})

    def end(self, sealed: bool, length: int | None = None) -> list[Item]:
        """The note that the log has ended, and what it lacks. *length*: bytes of the whole stream, whatever was asked
        for.
        """
        at = self.position if length is None else min(self.position, length)
        found = self._losses.with_receipt(sealed)
        how = found.sentence or "its receipt is complete"
        event: dict[str, object] = {"sealed": sealed, "incomplete": found.sentence or None}
        return self._note(f"ended at {several(at, 'byte')}, {how}", "ended", event, at)

    # --- items

    def _chosen(self, lines: list[Line], *, over: bool = False) -> list[Item]:
        """The items to show of *lines*. *over*: no more lines are expected."""
        if not self._view.notes:
            lines = [line for line in lines if not isinstance(line, Note)]
        lines = self._reader.read(lines)
        if self._within and lines:
            lines = [
                Rest(*line) if line.offset == self._start and not isinstance(line, Note) else line for line in lines
            ]
            self._within = lines[-1].offset == self._start
        if self._places is not None:
            lines = self._places.feed(lines, over=over)
        return self._left(lines)

    def _left(self, lines: list[Line]) -> list[Item]:
        """The items of *lines* that are not left out."""
        if self._ranked is not None:
            lines = self._ranked.feed(lines)
        items: Iterable[Item] = lines if self._view.choice.everything else self._chooser.feed(lines)
        if self._blocks is None:
            return list(items)
        items = list(items)
        if self._blocks.first is None and not any(item is not None and item.kind.begins for item in items):
            return items
        return [item for block in self._blocks.feed(items) for item in block]

    def _whole(self) -> list[Item]:
        return [line for block in self._blocks.settle() for line in block] if self._blocks is not None else []

    def _given(self, items: list[Item]) -> list[Item]:
        if self._tail is None:
            return items
        self._tail.add(items)
        if self._over or self.position < self._until:
            return []
        if self._until:  # the flow is not closed: more bytes come
            self._tail.add(self._chosen(self._renderer.settle()) + self._whole())
        tail, self._tail = self._tail, None
        return tail.take()

    # --- notes

    def _noted(self, position: int) -> list[Item]:
        """The notes of the marks up to *position*."""
        out: list[Item] = []
        while self._pending and self._pending[0].offset <= position:
            mark = self._pending.popleft()
            if isinstance(mark, Attributes):
                continue  # attributes say nothing about bytes
            if mark.offset >= self._start:
                # A mark that tears the bytes of a line tears its text too.
                lines = self._renderer.close() if tears(mark) else []
                out += (self._chosen(lines) + self._whole() if lines else []) + self._of(mark)
            if isinstance(mark, Generation):
                self._identities.add(mark.identity)
                self._file = mark
            if not isinstance(mark, Exit | Unread):
                self._last = mark
        return out

    def _of(self, mark: Generation | Ended | Gap | Unread | Exit) -> list[Item]:
        event: dict[str, object]
        match mark:
            case Gap():
                text, name = f"gap: {gap_sentence(mark)}", "gap"
                event = {"length": mark.length, "reason": legible(mark.reason)}
            case Unread():
                event = {"reason": legible(mark.reason)}
                what = f"the rest of the log {legible(mark.reason)}" if mark.reason else "it is no longer unreadable"
                text, name = what, "unread"
            case Exit():
                which = "" if mark.until < 0 else f" that wrote the bytes before offset {mark.until}"
                text, name = f"the command{which} ended: {legible(mark.sentence)}", "exit"
                event = exit_record(mark)
            case Ended():
                over = mark.reason == "rotated" and not is_rotated(self._file, self._pending)
                name, event = "file-ended", {"reason": "ended" if over else legible(mark.reason)}
                anew = "; it was written anew, and its times may go back" if mark.reason == "truncated" else ""
                text = "the file ended here" if over else f"the file ended here: {legible(mark.reason)}{anew}"
                if self._losses.is_unseen(self._file.identity):
                    text = f"{INCOMPLETE}: {unseen_at(self._file.path, mark.offset)}"
                elif self._losses.is_unverified(self._file.identity):
                    text = f"{UNVERIFIED}: {unverified_text([self._file.path])}"
                elif mark.reason not in SEEN:
                    text = f"{legible(self._file.path)} was gone here, and was found again later"
            case Generation():
                hole = next((word[5:] for word in mark.notes.split(",") if word.startswith("hole:")), "")
                event = {"path": legible(mark.path)}
                if hole.isdecimal():
                    text, name = f"a hole of {several(int(hole), 'byte')}, stored as NULs", "hole"
                elif not self._identities or isinstance(self._last, Ended) or mark.identity == self._file.identity:
                    return []
                elif mark.identity in self._identities:
                    text, name = f"late bytes of an earlier file, {legible(mark.path)}", "file-continued"
                else:
                    text, name = f"a new file begins, {legible(mark.path)}", "file-began"
        return self._chosen(self._renderer.settle()) + self._whole() + self._note(text, name, event, mark.offset)

    def _note(self, text: str, name: str, event: dict[str, object], offset: int | None = None) -> list[Item]:
        at = self.position if offset is None else offset
        if not self._view.notes or (self._ranked is not None and not self._ranked.concerns(at)):
            return []
        note = Note.at(at, text, {"event": name, **event})
        return [note] if self._places is None else self._left(self._places.feed([note]))


class Bytes(Flow):
    """A stream that is shown as its bytes."""

    @property
    def place(self) -> int:
        return self.position

    def learn(self, first: int, marks: Sequence[Mark]) -> None:
        pass

    def feed(self, offset: int, data: Buffer, now: float) -> list[Any]:
        data = data[max(0, self.position - offset) :]
        self.position += len(data)
        return [data] if data else []

    def end(self, sealed: bool, length: int | None = None) -> list[Any]:
        return []
