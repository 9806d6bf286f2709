"""Where an answer of the API goes on after the stored bytes: pure, over lines with the runtime's times.

The API cuts sinceTime to whole seconds, so that an answer begins with lines that are stored. The end of the stored
bytes is found by their last line, bytes and time; a line that a runtime wrote several times within one moment by its
number there. Times only tell that the search is over: once a later line came, the file no longer has that line.
(cri-client: pkg/logs/logs.go)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_BEGINS = 11  # bytes of a line that show whether it has a time
_FOREIGN = re.compile(rb"\n(?!\d{4}-\d\d-\d\dT)(?=.{11})", re.DOTALL)
SHOWN = 300  # bytes of such a sentence
SAME_MOMENT = 1 << 20  # bytes before the last line in which lines of the same moment are counted


class Missed(Exception):
    """The answer does not have the end of the stored bytes."""


def moment(line: bytes) -> int | None:
    """The time of *line* in ns since 1970; None if it has none."""
    found = _STAMP.match(line)
    if found is None:
        return None
    second, fraction, zone = found.groups()
    try:
        whole = datetime.fromisoformat((second + (b"+00:00" if zone == b"Z" else zone)).decode())
    except ValueError:
        return None
    return int(whole.timestamp()) * 1_000_000_000 + int((fraction or b"").ljust(9, b"0"))


def since(ns: int) -> str:
    """The sinceTime that gives all lines of the moment *ns*: the API drops fractions of a second."""
    return datetime.fromtimestamp(ns // 1_000_000_000 - 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class OwnLines:
    """Passes on the lines of the log. The kubelet ends an answer with a sentence of its own when it fails, with the
    status 200; it has no time.
    """

    def __init__(self) -> None:
        self.said = b""  # by the kubelet
        self._begin = b"\n"  # of a line, as long as it is too short to tell

    def feed(self, data: bytes) -> bytes:
        if self.said:
            self.said += data[:SHOWN]
            return b""
        text, own = self._begin + data, len(self._begin) > 0
        found = _FOREIGN.search(text)
        if found is not None:
            text, self.said = text[: found.start() + 1], text[found.start() + 1 :][:SHOWN]
        end = text.rfind(b"\n")
        self._begin = text[end:] if end >= 0 and len(text) - end <= _BEGINS and not self.said else b""
        text = text[: len(text) - max(0, len(self._begin) - 1)]
        return text[1:] if own else text

    def end(self) -> bytes:
        """What is left at the answer's end."""
        return self._begin[1:] if self._begin[1:2].isdigit() else b""


class Anchor:
    """The end of the stored bytes of an attempt; *tail*: the last of them, from the beginning of a line on."""

    def __init__(self, tail: bytes) -> None:
        whole, self.part = tail[: tail.rfind(b"\n") + 1], tail[tail.rfind(b"\n") + 1 :]
        begin = whole.rfind(b"\n", 0, -1) + 1
        self.line = whole[begin:]
        self.at = moment(self.line) if self.line else moment(self.part)
        self.count = sum(line == self.line for line in lines(whole[max(0, begin - SAME_MOMENT) :]))

    def __bool__(self) -> bool:
        return bool(self.line or self.part)

    @property
    def since(self) -> str:
        """The sinceTime for an answer that has the anchor; empty: any answer from the beginning on."""
        return since(self.at) if self.at is not None and self.line else ""


class Join:
    """Passes on what follows *anchor* in an answer."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor, self._held = anchor, b""
        self._found = 0  # lines equal to the anchor's
        self._behind: int | None = None if anchor.line else 0  # where in the held bytes the stored lines end
        self._at = 0  # of the next line in the held bytes
        self.joined = not anchor

    def feed(self, data: bytes) -> bytes:
        """The bytes after the anchor. Raises Missed."""
        if self.joined:
            return data
        self._held += data
        self._search()
        if self._behind is None or (self._found < self._anchor.count and self._anchor.line):
            return b""
        rest, part = self._held[self._behind :], self._anchor.part
        if not rest.startswith(part):
            if part.startswith(rest):
                return b""
            raise Missed
        self.joined, self._held = True, b""
        return rest[len(part) :]

    def end(self) -> bytes:
        """What is left at the answer's end. Raises Missed if the anchor is not in it."""
        if self.joined:
            return b""
        rest, part = self._held[self._behind or 0 :], self._anchor.part
        if self._behind is not None and (rest.startswith(part) or part.startswith(rest)):
            self.joined = True
            return rest[len(part) :]
        raise Missed

    def _search(self) -> None:
        line, at = self._anchor.line, self._anchor.at
        while line and self._found < self._anchor.count:
            end = self._held.find(b"\n", self._at) + 1
            if not end:
                if self._behind is None:  # what came before the anchor is stored
                    self._held, self._at = self._held[self._at :], 0
                return
            one = self._held[self._at : end]
            self._at = end
            if one == line:
                self._found, self._behind = self._found + 1, end
                continue
            when = moment(one)
            if when is not None and at is not None and when > at:
                if self._behind is None:
                    raise Missed
                self._found = self._anchor.count  # the runtime's file begins within that moment
                return


class Expected:
    """Lines that the API showed at the end of a file, and that a follow of this file must bring.

    A follow that jumps to the next file without the end of this one leaves them out: the only sign of that.
    """

    def __init__(self, latest: int = 0) -> None:
        self._lines: list[tuple[int, bytes]] = []
        self._open = b""  # the bytes of a line that has not ended
        self._latest = latest  # the time of the latest line that came, in ns

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: bytes) -> None:
        """Expect *line*, if it is later than all that came."""
        when = moment(line)
        if when is not None and when > self._latest and line.endswith(b"\n"):
            self._lines.append((when, line))

    def cut(self, data: bytes) -> tuple[bytes, bytes]:
        """(*data*, nothing), or *data* in two, where expected lines are missing between the two."""
        text = self._open + data
        end = text.rfind(b"\n") + 1
        last = moment(text[text.rfind(b"\n", 0, end - 1) + 1 : end]) if end > 1 else None
        at = None
        for when, line in list(self._lines):
            if line in text:
                self._lines.remove((when, line))
            elif last is not None and last > when:
                self._lines.remove((when, line))
                at = at if at is not None else self._first_after(text[:end], when)
        self._latest = max(self._latest, last or 0)
        before, self._open = len(self._open), text[end:] if len(text) - end < SAME_MOMENT else b""
        if at is None or at < before:
            return data, b""
        return data[: at - before], data[at - before :]

    @staticmethod
    def _first_after(text: bytes, when: int) -> int:
        at = 0
        for line in lines(text):
            if (moment(line) or 0) > when:
                return at
            at += len(line)
        return at


def lines(data: bytes) -> Iterator[bytes]:
    """The lines of *data*, with their LF; only LF ends a line."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        yield data[at:end]
        at = end
