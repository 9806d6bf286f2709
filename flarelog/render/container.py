"""What container runtimes put around a log's bytes, taken off: CRI (containerd, CRI-O) and Docker's json-file.

Runtimes cut long lines, also in the middle of a glyph: the parts of a line are joined as bytes, per stream, before
anything is decoded, and over rotated files. A line that is no record is shown as it is. Exactly one blank parts the tag
of a CRI record from its text, which is bytes: nothing of it is trimmed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import merge
from itertools import accumulate, repeat
from operator import itemgetter
from typing import Literal, NamedTuple

from flarelog.late import late
from flarelog.render.reach import LIMIT
from flarelog.render.rows import WINDOW, Line, Overlong
from flarelog.render.screen import Screen
from flarelog.render.times import rfc3339

Form = Literal["auto", "plain", "cri", "docker", "cri-notags", "docker-logonly"]

FORMS: tuple[Form, ...] = ("auto", "plain", "cri", "docker", "cri-notags", "docker-logonly")
RECORD_LIMIT = 5 << 18  # bytes: what is longer is no record
UNDECIDED = 16  # lines after which a log without a record is a plain one

_TIME = rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.]\d{1,12})?(?:Z|[+-]\d\d:\d\d)?)"
_CRI = late(_TIME + rb" (?P<stream>stdout|stderr) (?P<tags>[^ ]+)(?: (?P<log>.*))?", re.DOTALL)
_WITHOUT_TAGS = late(_TIME + rb" (?P<stream>stdout|stderr) (?P<log>.*)", re.DOTALL)
_MAY_BE_ONE = late(rb"\{|\d{4}-\d\d-\d\dT")
# A line that is worth a try: whoever writes others by the million makes nobody try each of them.
_WORTH = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ \n]{0,19} std|\{[^\n]*?\"log\""
_TRIED = late(_WORTH)
_NEXT = late(rb"\n(?=%b)" % _WORTH)
_DOCKER_LIMIT = 1 << 18  # bytes of a record of Docker's, whose lines are 16 KiB: an object takes thirty times as much
# A longer one, as Docker wrote before it cut lines, is one text and little besides.
_ONE_TEXT = late(rb'\{"log":"[^"\\]*+(?:\\.[^"\\]*+)*+".{0,4096}\}', re.DOTALL)
_TAGS = 16
# Bytes: a runtime cut a line that is so long, and a CR behind the part is the file's, whose lines end in CRLF. Behind a
# shorter part it is a terminal's: a bar is drawn again from there.
_CUT = 1024


class Record(NamedTuple):
    """What a runtime said with one line of its file."""

    time: str | None
    stream: str | None
    tags: tuple[str, ...] | None  # CRI's; None: Docker has none
    partial: bool  # the line goes on in the next record of the stream
    log: bytes  # without the LF that ends the line
    attributes: dict[str, object]


def may_be_records(data: bytes) -> bool:
    """Whether a line of *data* looks like a record of a container runtime."""
    return _TRIED.match(data) is not None or _NEXT.search(data) is not None


def parse(line: bytes, form: Form = "auto") -> Record | None:
    """The record that *line*, with or without its LF, is; None when it is none of that *form*."""
    line = line.removesuffix(b"\n")
    for parser in _PARSERS[form]:
        record = parser(line)
        if record is not None:
            return record
    return None


def _cri(line: bytes) -> Record | None:
    found = _CRI.fullmatch(line) if line[10:11] == b"T" else None  # a plain log does without the long expression
    if found is None:
        return None
    time, stream, tag, log = found.groups()
    tags = tuple(tag.decode(errors="replace").split(":", _TAGS))
    if tags[0] not in ("P", "F"):
        return None
    partial = tags[0] == "P"
    if partial and log and len(log) > _CUT and log.find(b"\r") == len(log) - 1:
        log = log[:-1]
    return Record(time.decode(), stream.decode(), tags, partial, log or b"", {})


def _cri_without_tags(line: bytes) -> Record | None:
    found = _WITHOUT_TAGS.fullmatch(line)
    return found and Record(found["time"].decode(), found["stream"].decode(), (), False, found["log"], {})


def _docker(line: bytes, log_only: bool = False) -> Record | None:
    if line[:1] != b"{" or b'"log"' not in line:
        return None
    if len(line) > _DOCKER_LIMIT and not _ONE_TEXT.fullmatch(line):
        return None
    if not log_only and not (b'"stream"' in line and b'"time"' in line):
        return None
    import json  # a reader of plain logs does not wait for it

    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    log, stream, time = (found.get(key) for key in ("log", "stream", "time"))
    attributes = found.get("attrs")
    if not isinstance(log, str) or not (
        log_only or (stream in ("stdout", "stderr") and isinstance(time, str) and time)
    ):
        return None
    return Record(
        time if isinstance(time, str) else None,
        stream if stream in ("stdout", "stderr") else None,
        None,
        not log.endswith("\n"),
        log.removesuffix("\n").encode(errors="surrogatepass"),
        attributes if isinstance(attributes, dict) else {},
    )


_PARSERS: dict[Form, tuple[Callable[[bytes], Record | None], ...]] = {
    "auto": (_cri, _docker),
    "plain": (),
    "cri": (_cri,),
    "docker": (_docker,),
    "cri-notags": (_cri_without_tags,),
    "docker-logonly": (partial(_docker, log_only=True),),
}


class Renderer:
    """One log of any form, fed as it is read; what else it does is a ``Screen``'s, of which it has one a stream.

    *form*: what the log's lines are; ``auto`` tells by the first records, and goes by lines where there are none.
    """

    def __init__(
        self,
        form: Form = "auto",
        *,
        steps: bool = False,
        limit: int = LIMIT,
        overlong: Overlong = "cut",
        wanted: Callable[[str], bool] | None = None,
    ) -> None:
        self.position = 0
        self._form = form
        self._decided = form != "auto"
        self._plain = form == "plain"
        self._seen = 0  # lines, while it is not decided
        self._rest = bytearray()  # what may be the beginning of a record
        self._within = False  # within a line that is no record
        self._new = partial(Screen, steps=steps, limit=limit, overlong=overlong, wanted=wanted)
        self._screens = {"": self._new()}
        self._runtime = ""  # whose records they were

    @property
    def decided(self) -> bool:
        """Whether it is known if a container runtime wrote this log."""
        return self._decided

    @property
    def plain(self) -> bool:
        """Whether it is known that no container runtime wrote this log."""
        return self._plain

    def decide(self, plain: bool) -> None:
        """It is known from the log's first lines whether a container runtime wrote it."""
        self._decided, self._plain = True, plain

    def jump(self, position: int, style: str = "") -> None:
        """What is fed next stands at *position*, where the colours *style* go on. Of a log that is not known to be
        plain only before the first byte.
        """
        self.position = position
        self._screens[""].jump(position, style)

    @property
    def replaced(self) -> int:
        """How many times a U+FFFD was put in the place of what is no UTF-8."""
        return sum(screen.replaced for screen in self._screens.values())

    @property
    def spent(self) -> int:
        """As ``Screen.spent``."""
        return sum(screen.spent for screen in self._screens.values())

    def feed(self, data: bytes, now: float = 0.0) -> list[Line]:
        """Take off what a container runtime put around the bytes, and hand them on; as ``Screen.feed``."""
        if self._plain:
            self.position += len(data)
            return self._screens[""].feed(data, now)
        out: list[Line] = []
        if self._rest and b"\n" not in data and len(self._rest) <= RECORD_LIMIT:
            self._rest += data
            return out
        data, self._rest = bytes(self._rest + data), bytearray()
        at, whole = 0, data.rfind(b"\n") + 1
        while at < len(data):
            if self._decided and not self._plain and at < whole:
                stop, record = self._next_record(data, at, whole)
                if stop > at:
                    self._raw(data[at:stop], now, out)
                    self._within = False
                if record is not None:
                    end = data.find(b"\n", stop) + 1
                    self._record(record, end - stop, now, out)
                    stop = end
                at = stop
                continue
            end = data.find(b"\n", at) + 1 if not self._plain else len(data)
            if not end and not self._within and self._waits(data, at):
                break
            line = data[at : end or len(data)]
            self._line(line, bool(end), now, out)
            self._within = not line.endswith(b"\n")
            at += len(line)
        self._rest += data[at:]
        return out

    def settle(self) -> list[Line]:
        """As ``Screen.settle``, in the order in which the lines ended."""
        return _together([screen.settle() for screen in self._screens.values()])

    def open(self, most: int = WINDOW) -> list[str]:
        """As ``Screen.open``."""
        found = [text for screen in self._screens.values() for text in screen.open(most)]
        return found[-most:]

    @property
    def first_open(self) -> int:
        """Where the first line begins of which not everything was given out; behind all that is, without one."""
        return min(
            (at for screen in self._screens.values() if (at := screen.first_open) is not None), default=self.position
        )

    def next_file(self, now: float = 0.0) -> list[Line]:
        """The rest of the log is in another file: what was begun goes on there, but no record does."""
        out: list[Line] = []
        if self._rest:
            self._line(bytes(self._rest), len(self._rest) <= RECORD_LIMIT, now, out)
            self._rest.clear()
        self._within = False
        return out

    def close(self, now: float = 0.0) -> list[Line]:
        """As ``Screen.close``."""
        out = self.next_file(now)
        return out + _together([screen.close(now) for screen in self._screens.values()])

    def _next_record(self, data: bytes, at: int, whole: int) -> tuple[int, Record | None]:
        """Where the first record of the whole lines behind *at* begins, and what it says; their end, and None."""
        if self._within:
            at = data.find(b"\n", at) + 1
        while at < whole:
            if _TRIED.match(data, at):
                end = data.find(b"\n", at) + 1
                record = parse(data[at:end], self._form)
                if record is not None:
                    return at, record
                at = end
            else:
                found = _NEXT.search(data, at, whole)
                at = found.end() if found else whole
        return whole, None

    def _waits(self, data: bytes, at: int) -> bool:
        """Whether what follows *at*, a line that has no LF yet, may become a record."""
        if len(data) - at > RECORD_LIMIT:
            return False
        return len(data) - at < 11 or self._decided or _MAY_BE_ONE.match(data, at) is not None

    def _line(self, line: bytes, whole: bool, now: float, out: list[Line]) -> None:
        record = parse(line, self._form) if whole and not self._within and not self._plain else None
        if record is None:
            self._raw(line, now, out)
            self._seen += line.endswith(b"\n")
            if not self._decided and self._seen >= UNDECIDED:
                self._plain = self._decided = True
            return
        self._decided = True
        self._record(record, len(line), now, out)

    def _record(self, record: Record, size: int, now: float, out: list[Line]) -> None:
        begin, self.position = self.position, self.position + size
        runtime = "docker" if record.tags is None else "cri"
        if runtime != self._runtime:  # no line goes on with another runtime
            if self._runtime:
                out += _together([screen.close(now) for screen in self._screens.values()])
            self._runtime = runtime
        name = record.stream or ""
        screen = self._screens.get(name) or self._screens.setdefault(name, self._new())
        screen.stream, screen.time = name, rfc3339(record.time) if record.time else None
        log = record.log if record.partial else record.log + b"\n"
        self._give(screen, screen.record(log, begin, self.position, now), out)

    def _raw(self, block: bytes, now: float, out: list[Line]) -> None:
        """Take *block*, lines that are no records."""
        screen = self._screens[""]
        screen.position, screen.stream, screen.time = self.position, "", None
        self.position += len(block)
        lines = screen.feed(block, now)
        if not lines or len(self._screens) == 1:
            out += lines
            return
        before = None if any(line.bar for line in lines) else max(line.end for line in lines)
        others = deque(self._others(screen, before))
        for line in lines:  # which of several came at once makes no difference
            while others and (line.bar or others[0].end < line.end):
                out.append(others.popleft())
            out.append(line)
        out += others

    def _give(self, screen: Screen, lines: list[Line], out: list[Line]) -> None:
        """Add *lines* of *screen* behind what the other streams ended before."""
        if len(self._screens) == 1 or not lines:
            out += lines
            return
        for line in lines:
            out += self._others(screen, line.end)
            out.append(line)

    def _others(self, screen: Screen, before: int | None) -> list[Line]:
        """What the streams but that of *screen* ended before *before*."""
        found = [lines for other in self._screens.values() if other is not screen and (lines := other.settle(before))]
        return _together(found) if found else []


def _together(streams: list[list[Line]]) -> list[Line]:
    """The lines of several streams in the order in which they ended; the order within a stream stays."""
    found = [lines for lines in streams if lines]
    if len(found) < 2:
        return found[0] if found else []
    keyed = (zip(accumulate((line.end for line in lines), max), repeat(at), lines) for at, lines in enumerate(found))
    return [line for _, _, line in merge(*keyed, key=itemgetter(0))]
