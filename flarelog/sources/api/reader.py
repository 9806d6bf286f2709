"""The loop of one container: follow its log, join each answer to the stored bytes, and check each attempt at its end.

- An answer's end is never the log's: the pod's status decides, and then the whole log is read once more.
- The API gives the log of whatever runs when it is asked, by the pod's name. So the pod's status is read before and
  after the first bytes of an attempt, and around each whole log: bytes of another attempt, or pod, are dropped.
- The kubelet may be ahead of that status: a log that begins after its attempt's end is a later attempt's.
- What cannot be joined to the stored bytes follows a gap. An attempt is whole if its log, read after its end, begins
  with all stored bytes, and no file can have been rotated before the first of them was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from types import TracebackType
from typing import BinaryIO, Protocol

from flarelog.completeness import UNVERIFIED
from flarelog.errors import FlarelogError
from flarelog.kubernetes.attempts import Attempt
from flarelog.kubernetes.podlogs import Log, Unreadable
from flarelog.sources.api.join import Anchor, Expected, Join, Missed, OwnLines, moment
from flarelog.sources.api.kept import Kept
from flarelog.values import frozen

UNSEEN = "unseen"  # how an attempt's last file ends, if nobody saw that
IDLE = math.inf  # nothing is to be done before the pod's status changes
_SECOND = 1_000_000_000  # ns
_AT_START = 2 * _SECOND  # between an attempt's start and its first line: nobody rotates a file within that time
_ATTACHED = 3.0  # seconds: the same, between its start and the first read of its log
_WAITING = 4 << 20  # bytes that may wait to be written
_UNSURE = 1 << 20  # bytes of a new attempt that wait until its number is certain
_SILENT = 10.0  # seconds in which a follow must bring what the API shows otherwise
_TRIES, _TRIES_BEFORE = 5, 2  # reads of a log that give nothing before it counts as gone; of an earlier attempt's
_COMPARED = 64 << 20  # bytes of an answer whose lines are compared one by one
_LONG = 1 << 18  # bytes of a line that are not held back
_READ = 1 << 20


class Full(FlarelogError):
    """There is no room for more bytes until some are stored."""


class Server(Protocol):
    """The API. Each call raises FlarelogError while it does not answer."""

    async def attempt(self, of: Log) -> Attempt | None:
        """The present attempt of the container, None before the first one. Raises Gone."""

    def read(
        self, of: Log, *, follow: bool = False, previous: bool = False, since: str = "", tail: int = 0
    ) -> AsyncIterator[bytes]:
        """The log of the present attempt, or of the *previous* one, as in the API. Raises Gone and Unreadable."""


@frozen
class Pace:
    """How long a reader waits, in seconds."""

    certain: float = 1.0  # until the number of a new attempt is certain
    again: float = 1.0  # before another look at a log that has ended
    longest: float = 30.0  # between two answers that gave nothing
    probe: float = 1.0  # between two looks at the end of a busy log
    slow: float = 60.0  # the same of a quiet one
    tick: float = 0.5


class Found(enum.Enum):
    """What a whole log shows of the stored bytes."""

    WHOLE = "it begins with all of them"
    REST = "it begins with some of them"
    LOSS = "it has none of them"
    NOTHING = "it is empty, or cannot be read"
    ANOTHER = "it may be another attempt's"


class Reader:
    """Reads the log *of* a container into *kept*. *room*: whether there is room for more; *say* logs a sentence."""

    def __init__(
        self, server: Server, of: Log, kept: Kept, room: Callable[[], bool], say: Callable[[str], None],
        pace: Pace | None = None,
    ) -> None:  # fmt: skip
        self._server, self.of, self.kept, self._room, self._say = server, of, kept, room, say
        self._pace = pace or Pace()
        self.present: Attempt | None = None  # as a watch shows it
        self._agreed = self._nothing = self._empty = 0  # looks in a row
        self._doubted: tuple[int, Attempt] | None = None  # the attempt, and the status, of which a log lacked all lines
        self._finished: dict[int, str] = {}  # by attempt, of the latest two: when it ended, as far as the API told

    async def step(self, *, follow: bool = True) -> float:
        """Read what there is, and with *follow* what comes, until the answer ends; returns how many seconds later to
        come back. Raises Gone, and other FlarelogError and OSError: try again.
        """
        now, kept = await self._server.attempt(self.of), self.kept
        if now is None or now.number <= kept.ended or now.number < (kept.attempt or 0):
            return IDLE
        self._note_ends(now)
        if kept.attempt is not None and kept.attempt < now.number - 1:
            kept.end(UNSEEN)
        if kept.attempt is None and kept.ended < now.number - 2:
            first, last = kept.ended + 1, now.number - 2
            which = f"attempt {first}" if first == last else f"attempts {first} to {last}"
            kept.miss(f"the container was restarted before the log of {which} could be read")
            kept.pass_over(last)
        if kept.ended < now.number - 1:
            return await self._check(now, now.number - 1)
        if now.ended or not follow:
            return await self._check(now, now.number)
        try:
            new = await self._follow(now)
        except Missed:
            before = kept.length
            new = await self._compare(now, now.number) is Found.LOSS or kept.length > before
        self._empty = 0 if new else self._empty + 1
        return 0.0 if new else min(self._pace.longest, self._pace.again * 2.0 ** min(self._empty - 1, 10))

    def _note_ends(self, now: Attempt) -> None:
        """Note when the latest attempts ended: the status of one that waits for a restart tells its own end alone."""
        told = {now.number - 1: now.before_finished, now.number: now.finished}
        ends = self._finished | {number: end for number, end in told.items() if end}
        self._finished = {number: end for number, end in ends.items() if number >= now.number - 1}

    def begin_unread(self) -> None:
        """Give the present attempt a file, so that its log is not left out where nothing of it could be read."""
        if self.kept.attempt is None and self.present is not None and self.present.number > self.kept.ended:
            self.kept.begin(self.present.number)

    def leave(self) -> None:
        """The pod is gone, with whatever was not read."""
        self.begin_unread()
        self.kept.end(UNVERIFIED if self._agreed else UNSEEN)

    async def last(self) -> None:
        """Read what there is of the present attempt, if that goes without a doubt."""
        now = await self._server.attempt(self.of)
        if now is None or now.number != self.kept.attempt:
            return
        anchor = Anchor(self.kept.tail())
        join, own, part = Join(anchor), OwnLines(), b""
        with contextlib.suppress(Missed):
            async for data in self._server.read(self.of, since=anchor.since):
                text, part = _whole(part + join.feed(own.feed(data)))
                self.kept.append(text)

    # --- following

    async def _follow(self, now: Attempt) -> bool:
        """Append what comes of the attempt *now*; returns whether anything did. Raises Missed."""
        kept, pace = self.kept, self._pace
        anchor, own = Anchor(kept.tail() if kept.attempt is not None else b""), OwnLines()
        join, expected, new, held, part = Join(anchor), Expected(anchor.at or 0), False, b"", b""
        since = "" if await self._went_back(anchor) else anchor.since
        begun, clock, busy = time.time(), time.monotonic(), 0
        heard = looked = clock
        async with Answer(self._server.read(self.of, follow=True, since=since)) as answer:
            while True:
                if not self._room():
                    raise Full("what is not stored yet fills the room for it; reading goes on when some is stored")
                data = await answer.next(pace.tick)
                at = time.monotonic()
                text = own.end() if data is None else own.feed(data)
                text = part + join.feed(text)
                if data is None and not join.joined:
                    text += join.end()
                text, part = _whole(text)
                if kept.attempt is None:
                    held += text
                    if data is None or at - clock >= pace.certain or len(held) > _UNSURE:
                        if not now.is_same(await self._server.attempt(self.of)):
                            return new
                        kept.begin(now.number)
                        text, held = held, b""
                if text and kept.attempt is not None:
                    if not kept.length and self._is_early(now.started, text, begun):
                        kept.is_early()
                    self._append(expected, text)
                    new, heard, busy = True, at, busy + len(text)
                if data is None:
                    if own.said:
                        self._say(f"the log of {self.of}: {own.said.decode(errors='replace')}")
                    return new
                silent = at - heard
                if silent > _SILENT / 2 and (self._is_over(now) or (expected and silent > _SILENT)):
                    return new
                if at - looked >= (pace.probe if busy > _READ // 8 else pace.slow) and join.joined:
                    looked, busy = at, 0
                    with contextlib.suppress(FlarelogError):
                        expected.add(await self._last_line())

    def _append(self, expected: Expected, text: bytes) -> None:
        before, after = expected.cut(text)
        self.kept.append(before)
        if after:
            self.kept.cut("the API went on to the next file without the end of a rotated one")
            self.kept.append(after)

    def _is_over(self, now: Attempt) -> bool:
        return self.present is not None and (self.present.number != now.number or self.present.ended)

    def _is_early(self, started: str, data: bytes, begun: float) -> bool:
        """Whether no file can have been rotated before the first bytes, *data*, were read."""
        first, start = moment(data), _ns(started)
        if first is not None and start is not None and 0 <= first - start < _AT_START:
            return True
        return start is not None and 0 <= begun - start / _SECOND < _ATTACHED

    async def _last_line(self) -> bytes:
        return b"".join([data async for data in self._server.read(self.of, tail=1)])

    async def _went_back(self, anchor: Anchor) -> bool:
        """Whether the log's last line is older than the stored ones, so that its time selects nothing new."""
        if not anchor.since:
            return False
        last = moment(await self._last_line())
        return last is not None and anchor.at is not None and last < anchor.at

    # --- a whole log

    async def _check(self, now: Attempt, number: int) -> float:
        """Compare the log of the attempt *number* with the stored bytes; it has ended once nothing is added."""
        before = self.kept.length
        found = await self._compare(now, number)
        over = now.ended or number < now.number
        if found is Found.ANOTHER:
            return 0.0
        if not over:
            return IDLE
        if found is Found.NOTHING:
            self._nothing += 1
            if self._nothing < (_TRIES if number == now.number else _TRIES_BEFORE):
                return self._pace.again * 2.0 ** (self._nothing - 1)
        elif found is Found.LOSS or self.kept.length > before:
            self._agreed = 0
            if number == now.number:
                return self._pace.again
        self._agreed += 1
        if self._agreed < 2 and number == now.number and found is not Found.NOTHING:
            return self._pace.again
        if self.kept.attempt is None and number < now.number:
            self.kept.miss(f"the log of attempt {number} could not be read any more")
            self.kept.pass_over(number)
        elif self.kept.attempt is None:
            self.kept.begin(number)
            self.kept.end(UNSEEN)
        elif found is Found.WHOLE and self.kept.early and self.kept.whole:
            self.kept.end("")
        else:
            self.kept.end(UNSEEN if found is Found.NOTHING and self._agreed < 2 else UNVERIFIED)
        self._agreed = self._nothing = 0
        return 0.0

    async def _compare(self, now: Attempt, number: int) -> Found:
        """Append what the whole log of the attempt *number* has after the stored bytes."""
        kept, begun = self.kept, time.time()
        with tempfile.TemporaryFile(dir=kept.scratch) as file:
            own = OwnLines()
            try:
                async for data in self._server.read(self.of, previous=number < now.number):
                    file.write(own.feed(data))
            except Unreadable as error:
                self._say(f"the log of {self.of}: {error}")
                return Found.NOTHING
            file.write(own.end())
            if not now.is_same(await self._server.attempt(self.of)):
                return Found.ANOTHER
            if own.said:
                self._say(f"the log of {self.of}: {own.said.decode(errors='replace')}")
            size = file.tell()
            if self._is_later(number, file):
                return Found.NOTHING
            if kept.attempt is None:
                if own.said and not size:
                    return Found.NOTHING
                kept.begin(number)
            file.seek(0)
            started = now.started if number == now.number else now.before
            if not kept.length and self._is_early(started, file.read(_READ), begun):
                kept.is_early()
            over = now.ended or number < now.number
            return self._add(file, size, failed=bool(own.said), doubt=(number, now) if over else None)

    def _is_later(self, number: int, log: BinaryIO) -> bool:
        """Whether *log* is none of the attempt *number*, but of a later one: the kubelet gives it before it reports to
        the API that it has begun.
        """
        if self.kept.attempt is not None and self.kept.length and self.kept.begins(log):
            return False
        log.seek(0)
        first = moment(log.readline(_READ))
        end = _ns(self._finished.get(number, ""))
        return first is not None and end is not None and first >= end + _SECOND  # the API cuts seconds

    def _add(self, log: BinaryIO, size: int, *, failed: bool, doubt: tuple[int, Attempt] | None) -> Found:
        """Append what *log*, of *size* bytes, has after the stored bytes; *failed*: its end may be missing. *doubt*:
        the attempt and the status under which a log without any of them must come twice: it may be a later one's.
        """
        kept = self.kept
        if kept.begins(log):
            while data := log.read(_READ):
                kept.append(data)
            return Found.REST if failed else Found.WHOLE
        if not size:
            return Found.NOTHING
        join = Join(Anchor(kept.tail()))
        late = kept.lacks(log) if size <= _COMPARED else []
        log.seek(0)
        try:
            while data := log.read(_READ):
                kept.append(join.feed(data))
            kept.append(join.end())
        except Missed:
            missing = kept.lacks(log, anywhere=True)
            if missing and doubt not in (None, self._doubted):
                self._doubted = doubt
                return Found.NOTHING
            kept.cut("the API does not have the lines after this any more, or not in their place")
            kept.append(b"".join(missing))
            return Found.LOSS if missing else Found.REST
        if late:
            kept.append_late(b"".join(late))
        return Found.REST


def _whole(text: bytes) -> tuple[bytes, bytes]:
    """(the whole lines of *text*, the rest): a rest is asked for again if the connection is lost, unless it is long."""
    end = text.rfind(b"\n") + 1 if len(text) - text.rfind(b"\n") <= _LONG else len(text)
    return text[:end], text[end:]


class Answer:
    """What comes of *source*, in as few pieces as whoever takes them needs."""

    def __init__(self, source: AsyncIterator[bytes]) -> None:
        self._source = source
        self._data, self._came, self._taken = bytearray(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Answer:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async for data in self._source:
                self._data += data
                self._came.set()
                while len(self._data) > _WAITING:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            self._came.set()
            if (close := getattr(self._source, "aclose", None)) is not None:
                await close()

    async def next(self, seconds: float) -> bytes | None:
        """The bytes that have come; nothing if none came within *seconds*, and None at the end. Raises what the source
        raised.
        """
        if not self._data and self._task is not None and not self._task.done():
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), seconds)
        if self._data:
            data = bytes(self._data)
            self._data.clear()
            self._taken.set()
            return data
        if self._task is not None and self._task.done():
            self._task.result()
            return None
        return b""


def _ns(text: str) -> int | None:
    """A time of the API in ns since 1970; None: there is none."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) * _SECOND
    except ValueError:
        return None
