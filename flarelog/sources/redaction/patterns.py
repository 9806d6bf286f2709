"""A site's own patterns run in google-re2, whose time is linear in the text's length for every pattern: a running
search cannot be cancelled, and blocks the program that flarelog is embedded in.

A search that restarts after each match could still scan the same text many times. So a line is matched in pieces, and a
piece with very many matches of a pattern is masked from there on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from flarelog.linear import compiled
from flarelog.values import frozen

WINDOW = 4 << 10  # bytes of a line that are matched at once
OVERLAP = 1 << 10  # bytes on both sides of them: the longest match there
MOST = 1024  # matches of a pattern in one such piece


@frozen
class OwnPattern:
    """*text* is a regular expression of bytes. Raises InvalidOption."""

    text: str
    _compiled: Any = field(init=False, repr=False, compare=False)
    _anchored: bool = field(init=False, repr=False, compare=False)  # matches may depend on a line's bounds

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", compiled(self.text, "a site's own patterns", of_bytes=True))
        object.__setattr__(self, "_anchored", any(sign in self.text for sign in ("^", "$", "\\A", "\\z", "\\Z")))

    def find(self, text: bytes) -> Iterator[tuple[int, int]]:
        """The spans of the pattern's matches in *text*, whole lines, each by itself; spans may overlap."""
        at = 0
        while at < len(text):
            end = min(at + WINDOW, len(text))
            end = max(text.rfind(b"\n", at, end), text.rfind(b"\r", at, end)) + 1 or _line(text, end)[1] + 1
            block = text[at:end]
            first = 0
            while first < len(block):
                if not self._anchored:  # a line with a match also has one in the joined lines
                    match = self._compiled.search(block, first)
                    if match is None:
                        break
                    first = match.start()
                first, behind = _line(block, first)
                for one, other in self.spans(block[first:behind]):
                    yield at + first + one, at + first + other
                first = behind + 1
            at = end

    def spans(self, line: bytes) -> Iterator[tuple[int, int]]:
        """The spans of the pattern's matches in *line*, in order; spans may overlap."""
        for begin in range(0, len(line), WINDOW):
            low = max(0, begin - OVERLAP)
            piece = line[low : begin + WINDOW + OVERLAP]
            for n, found in enumerate(self._compiled.finditer(piece)):
                one, other = found.span()
                if n == MOST:
                    other = len(piece)
                yield low + one, low + other
                if n == MOST:
                    break


def _line(text: bytes, at: int) -> tuple[int, int]:
    """The bounds of the line with the byte at *at*."""
    begin = max(text.rfind(b"\n", 0, at), text.rfind(b"\r", 0, at)) + 1
    end = _END.search(text, at)
    return begin, len(text) if end is None else end.start()


_END = re.compile(rb"[\r\n]")
