"""Counts the lines that match without drawing them, where drawing would change nothing.

Plain lines, lines with colours, and lines that a carriage return overwrites are counted by themselves; a block with any
other control character must be drawn. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from flarelog.lines.sgr import plain
from flarelog.render.container import Renderer

LONG = 60_000  # bytes of a line: a longer one is searched in part
_CONTROL = bytes({*range(32), 127} - {*b"\t\n\r\x1b"})  # what moves a cursor, or is shown otherwise
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_LOWER = ((b"\xaa", b"\x84\xaa"), (b"\xc4", b"\xc4\xb0"))  # a byte and the end of each of the two characters beyond
# ASCII that have a lower case within it: a byte is found ten times as fast as two
_LOWERED = bytes(range(256)).lower()
DENSE = 1 << 10  # bytes: where there are more carriage returns than one in so many, they end lines


class Tally:
    """Counts the matching lines of pieces of a log; what must be drawn is left to the caller, in whole lines."""

    def __init__(self, matches: Callable[[str], bool], text: str | None, *, ignore: bool) -> None:
        self.hits = 0
        self._matches, self._text, self._ignore = matches, text, ignore
        self._begin, self._part = 0, b""  # the incomplete line at the end, or all bytes that were left
        self._within = False  # the next bytes are in a line whose beginning was left to the caller

    def left(self, offset: int, data: bytes) -> list[tuple[int, bytes]]:
        """Take *data*, at *offset*. Returns the bytes to draw, with their offsets. No more than a piece and the LONG
        bytes before it are kept, however long a line is.
        """
        drawn = []
        if offset != self._begin + len(self._part):  # the receiver left out lines
            drawn, self._begin, self._part, self._within = [self.close()], offset, b"", False
        if self._within:
            end = data.find(b"\n") + 1
            drawn.append((offset, data[: end or len(data)]))
            self._begin, data, self._within = offset + len(drawn[-1][1]), data[end:] if end else b"", not end
        block = self._part + data
        end = block.rfind(b"\n") + 1
        begin, self._begin, self._part = self._begin, self._begin + end, block[end:]
        found = counted(block[:end], self._matches, self._text, ignore=self._ignore)
        if found is None:
            drawn.append((begin, block[:end]))
        self.hits += found or 0
        if len(self._part) > LONG:
            drawn.append(self.close())
            self._begin, self._part, self._within = self._begin + len(self._part), b"", True
        return [(at, part) for at, part in drawn if part]

    def close(self) -> tuple[int, bytes]:
        """The bytes that are left at the end, and their offset."""
        return self._begin, self._part


def counted(block: bytes, matches: Callable[[str], bool], text: str | None, *, ignore: bool) -> int | None:
    """The number of lines of *block* that match; None: it must be drawn. *block* ends with a line. *text*: what exactly
    the matching lines contain; *ignore*: in lower case.
    """
    calm = block.translate(_LOWERED if ignore else None, _CONTROL)
    if len(calm) < len(block) or (b"\xc2" in block and _C1.search(block)):
        return None
    coded = text.encode() if text is not None and text.isascii() else None
    if b"\x1b" in block:
        block = _COLOUR.sub(b"", block)  # in small letters other controls would be colours
        calm = block.lower() if ignore else block
    if b"\x1b" in block or (ignore and any(one in block and end in block for one, end in _LOWER)):
        return None
    block = block if coded is None else calm
    if any(block.find(b"\n", at, at + LONG) < 0 for at in range(0, len(block) - LONG, LONG)):
        return None  # a line may be that long
    block = _overwritten(block)
    if coded is None:
        return sum(matches(line.decode("utf-8", "replace")) for line in block.split(b"\n")[:-1])
    return len(re.findall(re.escape(coded) + rb"().*\n", block))


def _overwritten(block: bytes) -> bytes:
    """*block* with what a terminal shows of its lines with carriage returns."""
    if block.count(b"\r") * DENSE > len(block):
        block = block.replace(b"\r\n", b"\n")
    parts, done, at = [], 0, block.find(b"\r")
    while at >= 0:
        begin, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        parts += [block[done:begin], _shown(block[begin:end].removesuffix(b"\r"))]
        done, at = end, block.find(b"\r", end)
    return b"".join([*parts, block[done:]]) if parts else block


def _shown(line: bytes) -> bytes:
    *before, last = line.split(b"\r")
    if not any(before) or (line.isascii() and b"\t" not in line and len(last) >= len(max(before, key=len))):
        return last
    drawn = Renderer()
    drawn.plain = True
    return "".join(plain(one.text) for one in drawn.feed(line + b"\n", 0.0) + drawn.close(0.0)).encode(
        "utf-8", "replace"
    )
