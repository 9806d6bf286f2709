"""Search the new bytes of one log for findings, at any time.

Laws that hold here: a look finds the same as a search of the whole log. The next look needs only the state before
``at``, a line at which nothing was open. Lines behind ``at`` are searched again when more comes, so that a look which
was lost, or made twice, changes nothing and counts nothing twice. A search of the whole log sees more where a log moves
the cursor, has a line of more than ``PARTED`` bytes, or begins tracebacks for ``LINE`` bytes without a pause. A line of
more than ``LINE`` bytes is searched at both ends, and in the bar states in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from flarelog.detect.base import Finding
from flarelog.detect.before import BEFORE
from flarelog.detect.clean import SIEVE, is_clean
from flarelog.detect.detector import Detector
from flarelog.detect.found import Key, Settled
from flarelog.detect.progress import Progress, digest_of
from flarelog.detect.table import Table
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.lines.sgr import plain
from flarelog.lines.times import order_of
from flarelog.lines.zones import Stamps
from flarelog.model import Attributes, StreamInfo
from flarelog.render.bars import LIMIT
from flarelog.render.container import UNDECIDED, Renderer, may_be_records
from flarelog.render.edges import is_packed, tears
from flarelog.render.sieving import Sieving

LINE = 1 << 20  # bytes of a line, or of lines that belong together, that are searched together
PARTED = 16 << 20  # bytes of a line; a longer one is split
END = 4 * LIMIT  # bytes that are searched at each end of a longer line: as many as a search's characters may take
FRAMES, FRAME = 64, 4 << 10  # bar states within a long line that are searched; bytes of one
BLOCK = 64 << 10  # bytes of one read
STEP, LINES = 2 << 10, 20  # bytes, and lines, between two yields
SHORT = 16 << 10  # bytes of a short line
UNFINISHED = 64 << 10  # bytes of an unfinished line; a longer one is searched when it ends
NEAR = 16 << 10  # bytes that mostly hold the ``BEFORE`` lines before an offset
FAR, FAR_END = 24 << 20, 16 << 10  # bytes that are searched for long lines before an offset; bytes of each end of one
PLACES, PLACE = 33, 4 << 10  # places where the order of days and months is looked for; bytes of each
_TABLE = Table()


_Pieces = Sequence[tuple[int, bytes]]


class _Log(NamedTuple):
    """A log and how far it was searched. *read* returns a number of bytes from an offset, *stamps* a reader of the
    log's times.
    """

    progress: Progress
    info: StreamInfo
    read: Callable[[int, int], bytes]
    stamps: Callable[[], Stamps]


class _Around(NamedTuple):
    """The bytes of a log that a look searches."""

    data: bytes  # from Progress.at on
    cut: int  # bytes of whole lines in *data*; the rest is of a line that may go on
    before: _Pieces  # whole lines before them, each with its offset
    length: int = 0  # bytes of the log for which *data* stands, if it is only a part of them; else 0


def examine(
    progress: Progress, info: StreamInfo, read: Callable[[int, int], bytes], stamps: Callable[[], Stamps]
) -> Iterator[None]:
    """Search the new bytes of the log of *info*, and update *progress*; each yield lets other tasks run.

    *read* returns a number of bytes from an offset, *stamps* the reader of the log's times. The next look repeats one
    that is abandoned.
    """
    log = _Log(progress, info, read, stamps)
    size, progress.begun = BLOCK, info.begun
    while progress.at < info.committed:
        start, left = progress.at, info.committed - progress.at
        if left > UNFINISHED and not info.sealed:
            yield from _line_ends(progress, info.committed, read)
            if progress.barren >= info.committed:
                break
        data = read(min(size, left), start)
        if len(data) < min(size, left):
            return  # the log was truncated or removed
        cut, at_end = data.rfind(b"\n") + 1, len(data) == left
        if not cut and not at_end and (size < LINE or progress.plain is not False):
            if size < LINE:
                size *= 4
            elif (yield from _long_line(log)):
                size = BLOCK
            else:
                return
            continue
        if not at_end:
            cut = cut or len(data)
        if not at_end or (len(data) - cut > UNFINISHED and not info.sealed):
            data = data[:cut]
        if not _passes(progress, data, cut, long=size >= LINE):
            before = (yield from _before(start, read)) if progress.plain is not None else ()
            yield from _look(log, _Around(data, cut, before), force=size >= LINE)
        if at_end:
            break
        size = BLOCK if progress.at > start else size * 4
        yield
    progress.has_seen(info)


def glance(progress: Progress, info: StreamInfo, read: Callable[[int, int], bytes]) -> bool:
    """Do as ``examine``, at once, where little came. False: a finding is possible, and *progress* has not moved."""
    left = info.committed - progress.at
    data = read(left, progress.at)
    if len(data) < left or (left and not _passes(progress, data, data.rfind(b"\n") + 1)):
        return False
    progress.begun = info.begun
    progress.has_seen(info)
    return True


def _passes(progress: Progress, data: bytes, cut: int, *, long: bool = False) -> bool:
    """Whether nothing can be found in *data*, whose whole lines end at *cut*, or which is part of a *long* line. If so,
    move *progress*.
    """
    if progress.plain is False or progress.settled.left or not is_clean(data):
        return False
    if progress.plain is None:
        if may_be_records(data):
            return False
        progress.plain = True if data.count(b"\n", 0, cut) >= UNDECIDED or long else None
    if not progress.plain and progress.at:
        return False
    progress.passed(progress.at + cut if progress.plain else 0)
    return True


def _line_ends(progress: Progress, end: int, read: Callable[[int, int], bytes]) -> Iterator[None]:
    """Move ``progress.barren`` up to the next line end or *end*, so that a line drawn for hours is read only once."""
    at = max(progress.at, progress.barren)
    while at < end and (piece := read(min(BLOCK, end - at), at)) and b"\n" not in piece:
        at += len(piece)
        yield
    progress.barren = at


def _before(start: int, read: Callable[[int, int], bytes]) -> Generator[None, None, _Pieces]:
    """The last ``BEFORE`` lines before *start*; of long ones both ends."""
    begins: list[int] = []  # starts of lines, the last line's first
    at, size = start, NEAR
    while at > max(0, start - FAR) and len(begins) <= BEFORE:
        begin = max(0, at - size)
        data = read(at - begin, begin)
        end = len(data)
        while len(begins) <= BEFORE and (end := data.rfind(b"\n", 0, end)) >= 0:
            begins.append(begin + end + 1)
        at, size = begin, BLOCK
        yield
    begins += [0] if not at and len(begins) <= BEFORE else []
    pieces: list[tuple[int, bytes]] = []
    short = start
    for begin, end in pairwise([*reversed(begins), start]):
        if end - begin > 2 * FAR_END:
            pieces += [(short, read(begin - short, short))] if short < begin else []
            pieces.append((begin, read(FAR_END, begin) + read(FAR_END, end - FAR_END)))
            short = end
        else:
            short = min(short, begin)
    return [*pieces, (short, read(start - short, short))] if short < start else pieces


def _long_line(log: _Log) -> Generator[None, None, bool]:
    """Search the line at ``progress.at``, which has more than LINE bytes. False: the log was truncated or removed."""
    progress, info, read, _ = log
    start = at = progress.at
    torn = (mark.offset for mark in info.marks if mark.offset > start and tears(mark))
    stop = min(info.committed, start + PARTED, *torn)
    frames: dict[bytes, None] = {}
    clean, ended, rest, head, tail = True, False, b"", b"", b""
    while at < stop and not ended:
        data = read(min(BLOCK, stop - at), at)
        if not data:
            return False
        end = data.find(b"\n") + 1
        ended, data = end > 0, data[:end] if end else data
        at += len(data)
        block = rest + data
        *whole, rest = block.split(b"\r")
        if not is_clean(block):
            clean = False
            for each in whole:
                if len(frames) < FRAMES and len(each) <= FRAME and not is_clean(each):
                    frames[each] = None
        rest = rest[-FRAME:]
        head = head if len(head) >= END else head + data
        tail = (tail + data)[-END:]
        yield
    if progress.plain is None and is_packed(info.stream.log, 0, head):
        clean = True
    else:
        progress.plain = True
    if clean:
        progress.passed(at)
        return True
    middle = b"".join(b"\r%s" % each for each in frames)
    tail = tail[max(0, len(tail) - max(0, at - start - END)) :]  # a torn line may be short
    reduced = head[:END] + (middle + b"\r" if middle else b"") + tail
    before = yield from _before(start, read)
    yield from _look(log, _Around(reduced, len(reduced), before, at - start), force=True)
    return True


def _look(log: _Log, around: _Around, *, force: bool) -> Iterator[None]:
    """Search *around*. *force*: take lines and tracebacks that are open at the end for complete."""
    progress, info, read, _ = log
    start, end = progress.at, progress.at + (around.length or around.cut)
    if progress.plain is None and (start > 0 or is_packed(info.stream.log, 0, around.data)):
        progress.passed(end)
        return
    stamps = log.stamps()
    stamps.learn(info.marks)
    stamps.came(info)
    stamps.ask(partial(_day_first, info, read))
    seen = yield from _seen(log, around, stamps, force=force, timed=False)
    if stamps.doubted:  # a time depends on those of other lines: search again with the times of all lines
        seen = yield from _seen(log, around, stamps.beginning(), force=force, timed=True)
    found = _arrived(seen.found.found, progress, info.grown)
    if seen.form is not None and (force or seen.open_from is None or seen.settled.at <= seen.open_from):
        progress.settled = seen.settled._replace(found=_arrived(seen.settled.found, progress, info.grown))
        progress.plain = seen.form
    progress.late = {key: each for key, each in found.items() if progress.settled.found.get(key) != each}
    progress.more = seen.found.more
    progress.told = digest_of(info, progress.findings)


def _day_first(info: StreamInfo, read: Callable[[int, int], bytes]) -> bool | None:
    """Whether days come before months in the dates of a log; None: PLACES lines all over it do not tell."""
    for number in range(PLACES):
        at = max(0, info.committed - PLACE) * number // (PLACES - 1)
        data = read(min(PLACE, info.committed - at), at)
        if (order := order_of(data[data.find(b"\n") + 1 :] if at else data)) is not None:
            return order
    return None


def _arrived(found: Mapping[Key, Finding], progress: Progress, now: int) -> dict[Key, Finding]:
    """*found*, with an arrival for each finding without a time: that of an earlier look, else *now*. A finding
    keeps its arrival, because the log's last growth changes as soon as more comes.
    """
    known = {
        (key, each.offset): each.came for one in (progress.settled.found, progress.late) for key, each in one.items()
    }
    return {
        key: each if each.time is not None or each.came else replace(each, came=known.get((key, each.offset)) or now)
        for key, each in found.items()
    }


class _Seen(NamedTuple):
    """The result of a search of a look's bytes."""

    form: bool | None  # as Progress.plain
    open_from: int | None  # the offset of the first incomplete line
    settled: Settled
    found: Settled  # including open tracebacks


def _seen(log: _Log, around: _Around, stamps: Stamps, *, force: bool, timed: bool) -> Generator[None, None, _Seen]:
    """Search the bytes of *around*. *timed*: read the times of all lines, not only of those with findings."""
    progress, info = log.progress, log.info
    stream, end = info.stream, progress.at + (around.length or around.cut)
    ranks = RankChooser(RankChoice())
    ranks.learn([info])
    detector = Detector(
        stream,
        _TABLE,
        rank=lambda line: ranks.rank(stream.key, line.offset, plain(line.text)),
        stamped=stamps.time,
        now=stamps.now,
        known=progress.settled,
        ends=info.exits,
    )
    lines = _Lines(log, around, detector, _Times(log, stamps) if timed else None)
    yield from lines.feed(around.data[: around.cut])
    form = lines.renderer.plain
    if force:
        form = form is not False
        yield from lines.close()
        detector.close()
    open_from = yield from lines.settle()
    settled = detector.settled(end)
    yield from lines.feed(around.data[around.cut :])
    yield from lines.close()
    detector.close()
    return _Seen(form, open_from, settled, detector.settled(end))


def _is_short(data: bytes) -> bool:
    """Whether each line of *data* is short: a sieve draws the states of a bar, which takes long in a long line."""
    at = 0
    while len(data) - at > SHORT:
        end = data.rfind(b"\n", at, at + SHORT) + 1
        if not end:
            return False
        at = end
    return True


class _Times:
    """The times of all lines that a look reads with *read*, where some are skipped before and between them."""

    def __init__(self, log: _Log, stamps: Stamps) -> None:
        self.stamps, self._progress, self._read, self._start = stamps, log.progress, log.read, log.progress.at
        stamps.known = log.progress.spoken

    def recall(self, offset: int, data: bytes) -> Iterator[None]:
        """Restore the last time before *data*, where lines before it are skipped and that time matters."""
        looking = self.stamps.restore(offset, data)
        with suppress(StopIteration):
            begin, end = next(looking)
            while True:
                begin, end = looking.send(self._read(end - begin, begin))
                yield
        if offset <= self._start:  # the next look begins behind *offset*
            self._progress.spoken = self.stamps.known


class _Lines:
    """Feeds the bytes of a log to *detector*."""

    def __init__(self, log: _Log, around: _Around, detector: Detector, times: _Times | None) -> None:
        at, self._plain, marks = log.progress.at, log.progress.plain, () if around.length else log.info.marks
        self.renderer = _renderer(self._plain, at)
        self._detector, self._before, self._times = detector, around.before, times
        self._position = self._fed = self._start = at
        self._marks = deque(mark for mark in marks if mark.offset > at and not isinstance(mark, Attributes))
        sieved = self._plain and times is None and not around.length and not log.progress.settled.left
        self._sieving = Sieving(SIEVE, at, fresh=True) if sieved and _is_short(around.data) else None
        self._end = at + around.length if around.length else None  # the end of the line of which a part is fed

    def settle(self) -> Generator[None, None, int | None]:
        """Search the complete lines, and return the offset of the first incomplete one; None: all are complete."""
        yield from self._look(self.renderer.settle())
        at = self.renderer.first_open
        return at if at < self.renderer.position else None

    def feed(self, data: bytes) -> Iterator[None]:
        at = 0
        while at < len(data):
            end = min(len(data), at + STEP)
            if self._sieving is not None:  # whole lines, because the sieve would search a growing line again
                end = data.rfind(b"\n", at, end) + 1 or data.find(b"\n", end) + 1 or len(data)
            piece = data[at:end]
            kept = [(self._fed, piece)] if self._sieving is None else self._sieving.feed(self._fed, piece)
            self._fed += len(piece)
            at = end
            yield from self._take_all(kept)
            yield

    def close(self) -> Iterator[None]:
        """Search the rest: no more bytes come."""
        yield from self._take_all(self._sieving.close() if self._sieving is not None else ())
        yield from self._noted(self._position)
        yield from self._look(self.renderer.close())

    def _look(self, lines: Sequence[Line]) -> Iterator[None]:
        if self._end is not None:
            lines = [line if line.bar else line._replace(end=self._end) for line in lines]
        for at in range(0, len(lines), LINES):
            self._detector.feed(self._timed(lines[at : at + LINES]))
            yield

    def _take_all(self, pieces: _Pieces) -> Iterator[None]:
        for offset, data in pieces:
            for begin in range(0, len(data), STEP):
                yield from self._take(offset + begin, data[begin : begin + STEP])

    def _take(self, offset: int, data: bytes) -> Iterator[None]:
        if offset == self._start and self._before:
            before, self._before = self._before, ()
            for begin, piece in before:
                if self._times is not None:
                    yield from self._times.recall(begin, piece)
                renderer = _renderer(self._plain, begin)
                for at in range(0, len(piece), STEP):
                    self._detector.recall(self._timed(renderer.feed(piece[at : at + STEP])))
                    yield
                self._detector.recall(self._timed(renderer.close()))
        if offset > self._position:
            yield from self._look(self.renderer.close())  # no cursor moves back over skipped bytes
            yield from self._noted(offset)
            self._position = offset
            self.renderer.jump(offset)
        if self._times is not None:
            yield from self._times.recall(offset, data)
        while data:
            mark = self._marks[0].offset if self._marks else self._position + len(data)
            piece = data[: max(0, mark - self._position)]
            yield from self._look(self.renderer.feed(piece))
            self._position += len(piece)
            data = data[len(piece) :]
            yield from self._noted(self._position)

    def _timed(self, lines: Sequence[Line]) -> Sequence[Line]:
        return lines if self._times is None else self._times.stamps.timed(lines)

    def _noted(self, position: int) -> Iterator[None]:
        while self._marks and self._marks[0].offset <= position:
            torn = tears(self._marks.popleft())
            yield from self._look(self.renderer.close() if torn else self.renderer.settle())


def _renderer(form: bool | None, at: int) -> Renderer:
    renderer = Renderer(overlong="ends", wanted=_TABLE.has)
    renderer.plain = form
    renderer.jump(at)
    return renderer
