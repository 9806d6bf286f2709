"""Drop lines that cannot match before they are decoded: at the receiver, which then does not send them, and before
the screen, so that a dropped line costs only a search of bytes.

A sieve keeps too much, never too little; the reader matches its patterns again.
A line is kept if it holds one of the texts; if a terminal could make one of the texts from its control characters; if
a cursor may be moved to it from another line; if it is longer than ``LONGEST``; and if it is context of such a line.

Each byte earns work, and each line that is checked singly costs work. Once the work is spent, the rest of the piece is
kept unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from flarelog.late import late
from flarelog.render.controls import CODED, RARE_HEADS, has_rare
from flarelog.render.rows import WINDOW, width
from flarelog.render.sieve import Sieve

LONGEST = 1 << 16  # bytes of a line that is checked
_HELD = 1 << 18  # bytes of dropped lines in memory, as possible context of a later line
_LOOK, _LOOK_TEXT, _EARNED = 6, 1, 1 / 8  # work, about microseconds: a line's cost, plus a text's; a byte's earnings
_AT_FIRST = 256  # work granted to each piece
TOGETHER = 128  # bytes of texts in one pattern
_DRAWN = 1 << 18  # bytes of all states of a redrawn line that are compared

_CONTROLS = bytes({*range(32), 0x7F} - {0x09, 0x0A})
_SUSPECT = {  # first bytes of control characters; of _OTHER_CASES where case is ignored; of rare ones where one occurs
    (any_case, rare): bytes(
        byte in _CONTROLS or byte in b"\xc2\xe2" + any_case * b"\xc4\xc5" + rare * RARE_HEADS for byte in range(256)
    )
    for any_case in (False, True)
    for rare in (False, True)
}
_DIRT = late(rb"[\x00-\x08\x0b-\x1f\x7f]|" + CODED)
_COLOUR = late(rb"\x1b\[[0-9;:]*m")
_MOVES = late(rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[ABEFHfJ]")  # moves of the cursor to other rows, and erasures of them
_OTHER_CASES = {  # non-ASCII characters that equal an ASCII letter where case is ignored
    letter: tuple(char.encode() for char in chars)
    for letter, chars in ((b"s", "\u017f"), (b"k", "\u212a"), (b"i", "\u0131\u0130"))
}


class Sieving:
    """Pass the bytes of one stream, from *start* on, through *sieve*. The fed pieces are contiguous.

    *fresh*: a line begins at *start*, and it is no context of an earlier line.
    """

    def __init__(self, sieve: Sieve, start: int = 0, *, fresh: bool = False) -> None:
        self._sieve = sieve
        # Common letters last, so that a check fails early. Blanks are left out, because a cursor move can make them.
        self._letters = [
            sorted(set(text) - set(b" "), key=lambda letter: chr(letter).islower()) for text in sieve.any_of
        ]
        self._others = _others(sieve)
        self._within = start > 0 and not fresh  # inside a line that is kept; the beginning of the first line is unknown
        self._held = b""  # dropped lines that may become context, and the beginning of a line
        self._looked = 0  # bytes of whole lines in it, which were checked
        # Lines to keep as context of an earlier line, which may stand before *start*.
        self._owed = max(sieve.after, WINDOW) if self._within else 0
        self._moved = False  # the log has moved the cursor to another row
        self._end = start

    def feed(self, offset: int, data: bytes) -> list[tuple[int, bytes]]:
        """(offset, bytes) of each piece that is kept, as far as it is decided."""
        out: list[tuple[int, bytes]] = []
        self._end = offset + len(data)
        if self._within:
            end = data.find(b"\n") + 1
            if b"\x1b" in data[: end or len(data)] or b"\x9b" in data[: end or len(data)]:
                self._owed = max(self._owed, WINDOW)
            if not end:
                return [(offset, data)]
            out.append((offset, data[:end]))
            offset, data, self._within = offset + end, data[end:], False
        block, looked = self._held + data if self._held else data, self._looked
        begin, cut = offset - len(self._held), max(looked, block.rfind(b"\n") + 1)
        spans = self._spans(block, looked, cut)
        rest = len(block) - cut
        if rest and (rest > LONGEST or self._is_kept(block[cut:])):
            spans.append((_back(block, cut, max(self._sieve.before, WINDOW)), len(block)))
            moves = b"\x1b" in block[cut:] or b"\x9b" in block[cut:]
            self._within, self._owed = True, max(self._owed, self._sieve.after, WINDOW if moves else 0)
        kept = 0
        for first, last in _together(spans):
            out.append((begin + first, block[first:last]))
            kept = last
        held = max(kept, _back(block, cut, max(self._sieve.before, WINDOW)))
        if cut - held > _HELD:
            out.append((begin + held, block[held:cut]))
            held = cut
        self._held, self._looked = block[held:], max(0, cut - held)
        return _joined(out)

    @property
    def position(self) -> int:
        """The offset before which every byte was output or dropped; held lines may still be output as context."""
        return self._end - len(self._held)

    def close(self) -> list[tuple[int, bytes]]:
        """End the stream: the kept rest, a last line without LF; else an empty piece at the end."""
        held, rest = self._held, self._held[self._looked :]
        self._held, self._looked = b"", 0
        if not held:
            return []
        if not rest or not (self._owed or self._is_kept(rest)):
            return [(self._end, b"")]
        first = _back(held, len(held) - len(rest), max(self._sieve.before, WINDOW))
        return [(self._end - len(held) + first, held[first:])]

    def _spans(self, block: bytes, looked: int, cut: int) -> list[tuple[int, int]]:
        """(begin, end) of the kept parts: of the whole lines between *looked* and *cut*, and of held lines before."""
        hits = sorted(self._hits(block, looked, cut))
        self._moved = self._moved or any(moves for _, _, moves in hits)
        # A log that has moved the cursor once may move it again, from any line to those before it.
        before, after = max(self._sieve.before, WINDOW if self._moved else 0), self._sieve.after
        spans: list[tuple[int, int]] = []
        at, owed, kept = looked, self._owed, 0
        for first, last, moves in hits:  # each line is stepped over once, however much context overlaps
            end, owed = _forth(block, at, owed, first)
            kept = end if end > at else kept
            spans += [(at, end), (_back(block, first, before, kept), last)]
            at, owed, kept = last, max(owed - 1, max(after, WINDOW) if moves else after), last
        end, self._owed = _forth(block, at, owed, cut)
        return [*spans, (at, end)]

    def _hits(self, block: bytes, looked: int, cut: int) -> Iterable[tuple[int, int, bool]]:
        """(begin, end, whether it moves the cursor) of the lines that are kept, without their context."""
        found: dict[int, tuple[int, int, bool]] = {}

        def line(at: int) -> tuple[int, int]:
            return max(looked, block.rfind(b"\n", looked, at) + 1), block.find(b"\n", at, cut) + 1

        end, left = cut, _AT_FIRST + (cut - looked) * _EARNED
        look = _LOOK + _LOOK_TEXT * len(self._sieve.any_of)

        heap = block.lower() if self._sieve.ignore_case else block
        for finds in finders(self._sieve.any_of):
            hit = finds.search(heap, looked, cut)
            while hit is not None:
                first, last = line(hit.start())
                found[first] = first, last, False
                left -= _LOOK
                if left < 0:
                    cut = last  # the work is spent: the rest is kept unchecked
                hit = finds.search(heap, last, cut)
        region = block[looked:cut] if looked or cut < len(block) else block
        moves = b"\x1b" in region or b"\x9b" in region
        others = self._has_others(region)
        suspect = marks = b""
        if moves or others or self._has_letters(heap):
            suspect = _SUSPECT[others, has_rare(region)]
            marks = region.translate(suspect)  # ten times as fast as a search for the pattern
        at = marks.find(b"\x01")
        if at >= 0 and region[at : at + 2] == b"\r\n":  # then most lines end with CR LF
            marks = region.replace(b"\r\n", b"\n\n").translate(suspect)
            at = marks.find(b"\x01")
        while at >= 0:
            first, last = line(looked + at)
            raw = block[first:last]
            if moves and (b"\x1b" in raw or b"\x9b" in raw) and _MOVES.search(raw):
                found[first] = first, last, True
            elif first not in found and self._may_match(raw):
                found[first] = first, last, False
            left -= look + raw.count(b"\r") // 2
            if left < 0:
                cut = last
            at = marks.find(b"\x01", last - looked, cut - looked)
        for first, last in _long(block, looked, cut):
            found.setdefault(first, (first, last, False))
        if cut == end:
            return found.values()
        unseen = cut, end, b"\x1b" in block[cut:end] or b"\x9b" in block[cut:end]
        return [*(each for each in found.values() if each[0] < cut), unseen]

    def _is_kept(self, unfinished: bytes) -> bool:
        return self._may_match(unfinished) or _MOVES.search(unfinished) is not None

    def _has_others(self, text: bytes) -> bool:
        """Whether *text* holds one of the characters of ``_others``."""
        # A search for one byte takes a fraction of a search for several.
        return any(char[0] in text and char in text for char in self._others)

    def _has_letters(self, text: bytes) -> bool:
        """Whether *text* holds all letters of one of the sieve's texts; no terminal can make that text without them."""
        for needed in self._letters:
            for letter in needed:
                if letter not in text:
                    break
            else:
                return True
        return False

    def _may_match(self, line: bytes) -> bool:
        """Whether a terminal could make one of the sieve's texts from *line*."""
        any_case = self._sieve.ignore_case
        if self._has_others(line):
            return True
        text = _COLOUR.sub(b"", line) if b"\x1b" in line else line
        text = text.lower() if any_case else text
        if not self._has_letters(text):
            return False
        text = text.rstrip(b"\r\n")
        dirt = _DIRT.search(text)
        if dirt is None:
            return any(each in text for each in self._sieve.any_of)
        parts = [part for part in text.split(b"\r") if part] if dirt[0] == b"\r" else []
        rows = parts if len(parts) == 1 and not _DIRT.search(parts[0]) else _rows(text)
        return rows is None or any(each in row for row in rows for each in self._sieve.any_of)


@lru_cache(maxsize=64)
def finders(texts: tuple[bytes, ...]) -> tuple[re.Pattern[bytes], ...]:
    """Patterns that find any of *texts*, one for each first byte: a third of the time of a search for each text.

    A pattern may compare all its texts at one byte, and a peer chooses the texts: so each pattern is small.
    """
    groups: dict[bytes, list[list[bytes]]] = {}
    for text in texts:
        alike = groups.setdefault(text[:1], [[]])
        if sum(map(len, alike[-1])) + len(text) > TOGETHER:
            alike.append([])
        alike[-1].append(text)
    return tuple(
        late(re.escape(head) + b"(?:%s)" % b"|".join(re.escape(text[1:]) for text in group))
        for head, alike in groups.items()
        for group in alike
        if group
    )


def _rows(text: bytes) -> list[bytes] | None:
    """The states that *text*, split at carriage returns, shows in turn; None if it needs a whole terminal."""
    decoded = text.decode(errors="replace")
    if text.count(b"\r") * max(map(len, text.split(b"\r"))) > _DRAWN:  # a peer chooses the length
        return None
    if _DIRT.search(text.replace(b"\r", b"")) or any(char == "\t" or width(char) != 1 for char in set(decoded)):
        return None
    row, rows = "", []
    for part in decoded.split("\r"):
        row = part + row[len(part) :]
        rows.append(row.encode())
    return rows


def _others(sieve: Sieve) -> tuple[bytes, ...]:
    """The characters that *sieve*, if it ignores case, may match in the place of an ASCII letter."""
    if not sieve.ignore_case:
        return ()
    known = all(text.isascii() for text in sieve.any_of)  # the cases of other letters are not known here
    letters = (letter for letter in _OTHER_CASES if not known or any(letter in text for text in sieve.any_of))
    return tuple(char for letter in letters for char in _OTHER_CASES[letter])


def _long(block: bytes, looked: int, cut: int) -> Iterable[tuple[int, int]]:
    """(begin, end) of the lines of more than LONGEST bytes."""
    at = looked
    while cut - at > LONGEST:
        end = block.rfind(b"\n", at, at + LONGEST) + 1
        if end:
            at = end
        else:
            end = block.find(b"\n", at, cut) + 1
            yield at, end
            at = end


def _back(block: bytes, at: int, lines: int, least: int = 0) -> int:
    """The beginning of the line that is *lines* before the one at *at*, but not before *least*."""
    while lines and at > least:
        at = block.rfind(b"\n", least, at - 1) + 1 or least
        lines -= 1
    return at


def _forth(block: bytes, at: int, lines: int, cut: int) -> tuple[int, int]:
    """(end, missing): the end of the line that is *lines* behind *at*, and the number of lines beyond *cut*."""
    while lines and at < cut:
        at = block.find(b"\n", at, cut) + 1
        lines -= 1
    return at, lines


def _together(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge *spans* that touch or overlap; they come sorted, or nearly so, by their beginnings."""
    out: list[tuple[int, int]] = []
    for first, last in spans:
        kept = out[-1][1] if out else -1
        if last <= kept:
            continue
        if first <= kept:
            out[-1] = out[-1][0], last
        elif last > first:
            out.append((first, last))
    return out


def _joined(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    out: list[tuple[int, bytes]] = []
    for offset, data in pieces:
        if out and out[-1][0] + len(out[-1][1]) == offset:
            out[-1] = out[-1][0], out[-1][1] + data
        else:
            out.append((offset, data))
    return out
