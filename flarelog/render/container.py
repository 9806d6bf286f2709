"""Strip the framing that container runtimes put around log lines: CRI (containerd, CRI-O) and Docker's json-file.

Runtimes cut long lines, even inside a glyph: the parts of a line are joined as bytes, per stream and across rotated
files, before they are decoded. A line that is not a record is shown as it is. Exactly one blank separates the tag of a
CRI record from its text, and the text is never trimmed.
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
from flarelog.lines.line import Line
from flarelog.lines.times import rfc3339
from flarelog.render.bars import LIMIT
from flarelog.render.rows import WINDOW, Overlong
from flarelog.render.screen import Screen

Form = Literal["auto", "plain", "cri", "docker", "cri-notags", "docker-logonly"]

FORMS: tuple[Form, ...] = ("auto", "plain", "cri", "docker", "cri-notags", "docker-logonly")
RECORD_LIMIT = 5 << 18  # bytes; a longer line is not parsed as a record
UNDECIDED = 16  # lines after which a log without a record counts as plain

_TIME = rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.]\d{1,12})?(?:Z|[+-]\d\d:\d\d)?)"
_CRI = late(_TIME + rb" (?P<stream>stdout|stderr) (?P<tags>[^ ]+)(?: (?P<log>.*))?", re.DOTALL)
_WITHOUT_TAGS = late(_TIME + rb" (?P<stream>stdout|stderr) (?P<log>.*)", re.DOTALL)
_MAY_BE_ONE = late(rb"\{|\d{4}-\d\d-\d\dT")
# A cheap test before the full parse, so that millions of lookalike lines do not cost a full parse each.
_WORTH = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ \n]{0,19} std|\{[^\n]*?\"log\""
_TRIED = late(_WORTH)
_NEXT = late(rb"\n(?=%b)" % _WORTH)
_DOCKER_LIMIT = 1 << 18  # bytes; Docker cuts lines at 16 KiB, and a parsed object takes thirty times its size
# Old versions of Docker did not cut lines: a longer record must be one text and little else.
_ONE_TEXT = late(rb'\{"log":"[^"\\]*+(?:\\.[^"\\]*+)*+".{0,4096}\}', re.DOTALL)
_TAGS = 16
# Bytes. A runtime cut a longer part, and a CR behind it belongs to a file with CRLF line ends. A CR behind a shorter
# part belongs to a terminal that redraws a bar.
_CUT = 1024


class Record(NamedTuple):
    """One parsed line of a runtime's file."""

    time: str | None
    stream: str | None
    tags: tuple[str, ...] | None  # of CRI; None for Docker, which has none
    partial: bool  # the line continues in the stream's next record
    log: bytes  # without the LF that ends the line
    attributes: dict[str, object]


def may_be_records(data: bytes) -> bool:
    """Whether a line of *data* looks like a record of a container runtime."""
    return _TRIED.match(data) is not None or _NEXT.search(data) is not None


def parse(line: bytes, form: Form = "auto") -> Record | None:
    """Parse *line*, with or without its LF; None when it is not a record of that *form*."""
    line = line.removesuffix(b"\n")
    for parser in _PARSERS[form]:
        record = parser(line)
        if record is not None:
            return record
    return None


def _cri(line: bytes) -> Record | None:
    found = _CRI.fullmatch(line) if line[10:11] == b"T" else None  # spares plain logs the long pattern
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
    import json  # readers of plain logs never import it

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
    """Render one log of any form, fed piece by piece, with a ``Screen`` for each of the runtime's streams.

    *form*: the framing of the lines; ``auto`` detects it from the first records and treats a log without them as plain.
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
        # Whether the log has no framing; None: not known yet. A caller that has read the log's first lines may set it.
        self.plain: bool | None = form == "plain" if form != "auto" else None
        self._seen = 0  # lines before the form is decided
        self._rest = bytearray()  # possibly the beginning of a record
        self._within = False  # inside a line that is not a record
        self._new = partial(Screen, steps=steps, limit=limit, overlong=overlong, wanted=wanted)
        self._screens = {"": self._new()}
        self._runtime = ""  # the runtime of the last record

    def jump(self, position: int, style: str = "") -> None:
        """Continue at *position*, in the colours *style*. Only a plain log can jump after its first byte."""
        self.position = position
        self._screens[""].jump(position, style)

    @property
    def replaced(self) -> int:
        """The number of U+FFFD that replaced invalid UTF-8."""
        return sum(screen.replaced for screen in self._screens.values())

    @property
    def spent(self) -> int:
        """As ``Screen.spent``."""
        return sum(screen.spent for screen in self._screens.values())

    def feed(self, data: bytes, now: float = 0.0) -> list[Line]:
        """Strip the framing of *data* and feed the rest to the screens; otherwise as ``Screen.feed``."""
        if self.plain:
            self.position += len(data)
            return self._screens[""].feed(data, now)
        out: list[Line] = []
        if self._rest and b"\n" not in data and len(self._rest) <= RECORD_LIMIT:
            self._rest += data
            return out
        data, self._rest = bytes(self._rest + data), bytearray()
        at, whole = 0, data.rfind(b"\n") + 1
        while at < len(data):
            if self.plain is False and at < whole:
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
            end = data.find(b"\n", at) + 1 if not self.plain else len(data)
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
        """The offset of the first line that was not fully output; without one ``position``."""
        return min(
            (at for screen in self._screens.values() if (at := screen.first_open) is not None), default=self.position
        )

    def next_file(self, now: float = 0.0) -> list[Line]:
        """The log continues in another file: open lines continue there, a half-read record does not."""
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
        """(begin, record) of the first record in the whole lines from *at* on; (*whole*, None) without one."""
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
        """Whether the line at *at*, which has no LF yet, may become a record."""
        if len(data) - at > RECORD_LIMIT:
            return False
        return len(data) - at < 11 or self.plain is not None or _MAY_BE_ONE.match(data, at) is not None

    def _line(self, line: bytes, whole: bool, now: float, out: list[Line]) -> None:
        record = parse(line, self._form) if whole and not self._within and not self.plain else None
        if record is None:
            self._raw(line, now, out)
            self._seen += line.endswith(b"\n")
            if self.plain is None and self._seen >= UNDECIDED:
                self.plain = True
            return
        self.plain = False
        self._record(record, len(line), now, out)

    def _record(self, record: Record, size: int, now: float, out: list[Line]) -> None:
        begin, self.position = self.position, self.position + size
        runtime = "docker" if record.tags is None else "cri"
        if runtime != self._runtime:  # a line never continues in another runtime's record
            if self._runtime:
                out += _together([screen.close(now) for screen in self._screens.values()])
            self._runtime = runtime
        name = record.stream or ""
        screen = self._screens.get(name) or self._screens.setdefault(name, self._new())
        screen.stream, screen.time = name, rfc3339(record.time) if record.time else None
        log = record.log if record.partial else record.log + b"\n"
        self._give(screen, screen.record(log, begin, self.position, now), out)

    def _raw(self, block: bytes, now: float, out: list[Line]) -> None:
        """Draw *block*: lines that are not records."""
        screen = self._screens[""]
        screen.position, screen.stream, screen.time = self.position, "", None
        self.position += len(block)
        lines = screen.feed(block, now)
        if not lines or len(self._screens) == 1:
            out += lines
            return
        before = None if any(line.bar for line in lines) else max(line.end for line in lines)
        others = deque(self._others(screen, before))
        for line in lines:  # one call settled the others for all lines; a call for each would give the same
            while others and (line.bar or others[0].end < line.end):
                out.append(others.popleft())
            out.append(line)
        out += others

    def _give(self, screen: Screen, lines: list[Line], out: list[Line]) -> None:
        """Add *lines* of *screen* to *out*, each behind the lines that ended earlier in other streams."""
        if len(self._screens) == 1 or not lines:
            out += lines
            return
        for line in lines:
            out += self._others(screen, line.end)
            out.append(line)

    def _others(self, screen: Screen, before: int | None) -> list[Line]:
        """Settle the other streams' lines that ended before *before*."""
        found = [lines for other in self._screens.values() if other is not screen and (lines := other.settle(before))]
        return _together(found) if found else []


def _together(streams: list[list[Line]]) -> list[Line]:
    """Merge the lines of several streams by where they end; each stream keeps its order."""
    found = [lines for lines in streams if lines]
    if len(found) < 2:
        return found[0] if found else []
    keyed = (zip(accumulate((line.end for line in lines), max), repeat(at), lines) for at, lines in enumerate(found))
    return [line for _, _, line in merge(*keyed, key=itemgetter(0))]
