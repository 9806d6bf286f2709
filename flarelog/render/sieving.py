"""Lines that cannot match are left out before anything is decoded: at the receiver, so that they do not travel, and
before the screen, so that they cost no more than a search of bytes.

A sieve keeps too much, never too little, and whoever reads looks for himself.
A line is kept if it holds one of the texts; if control characters could make one of its bytes in another way; if a
cursor may be moved to it from another line; if it is longer than ``LONGEST``; and with the lines around all of these.

A byte earns work, and a line that is looked at by itself costs some: where a log has too many of them, the rest of what
was fed is kept as it is, unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from flarelog.late import late
from flarelog.render.controls import CODED, RARE_HEADS, has_rare
from flarelog.render.rows import WINDOW, width
from flarelog.render.sieve import Sieve

LONGEST = 1 << 16  # bytes of a line that is judged
_HELD = 1 << 18  # bytes of left-out lines in hand, because a later line may want them before it
_LOOK, _LOOK_TEXT, _EARNED = 6, 1, 1 / 8  # microseconds or so: of a line that is looked at, for a text, a byte's
_AT_FIRST = 256  # of them, for each piece
TOGETHER = 128  # bytes of texts that are looked for together
_DRAWN = 1 << 18  # bytes of all states of a line that are compared

_CONTROLS = bytes({*range(32), 0x7F} - {0x09, 0x0A})
_SUSPECT = {  # what dirt begins with: where case is ignored, _OTHER_CASES too; where there is rare dirt, that too
    (any_case, rare): bytes(
        byte in _CONTROLS or byte in b"\xc2\xe2" + any_case * b"\xc4\xc5" + rare * RARE_HEADS for byte in range(256)
    )
    for any_case in (False, True)
    for rare in (False, True)
}
_DIRT = late(rb"[\x00-\x08\x0b-\x1f\x7f]|" + CODED)
_COLOUR = late(rb"\x1b\[[0-9;:]*m")
_MOVES = late(rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[ABEFHfJ]")  # the cursor to other rows, or wipes them out
_OTHER_CASES = {  # of these letters, where case is ignored
    letter: tuple(char.encode() for char in chars)
    for letter, chars in ((b"s", "\u017f"), (b"k", "\u212a"), (b"i", "\u0131\u0130"))
}


class Sieving:
    """The bytes of one stream, from *start* on, through *sieve*. What is fed follows each other without a hole.

    *fresh*: a line begins at *start*, and no line before it wants those behind it.
    """

    def __init__(self, sieve: Sieve, start: int = 0, *, fresh: bool = False) -> None:
        self._sieve = sieve
        # What comes most often last. A blank may come from a cursor's move.
        self._letters = [sorted(set(text) - set(b" "), key=_common) for text in sieve.any_of]
        self._others = _others(sieve)
        self._within = start > 0 and not fresh  # in a line that is kept; nobody knows how it began
        self._held = b""  # lines that were left out, and the beginning of one
        self._looked = 0  # how much of them are whole lines
        # Lines that are to be kept because of one before them; nobody knows what came before the first
        self._owed = max(sieve.after, WINDOW) if self._within else 0
        self._moved = False
        self._end = start

    def feed(self, offset: int, data: bytes) -> list[tuple[int, bytes]]:
        """What is kept, as far as that can be told, with its offsets."""
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
        """Before it everything was given out or left out, unless lines that are to come want it as context."""
        return self._end - len(self._held)

    def close(self) -> list[tuple[int, bytes]]:
        """Nothing more comes: the last line, if it is kept; it has no LF. And the end, behind what is left out."""
        held, rest = self._held, self._held[self._looked :]
        self._held, self._looked = b"", 0
        if not held:
            return []
        if not rest or not (self._owed or self._is_kept(rest)):
            return [(self._end, b"")]
        first = _back(held, len(held) - len(rest), max(self._sieve.before, WINDOW))
        return [(self._end - len(held) + first, held[first:])]

    def _spans(self, block: bytes, looked: int, cut: int) -> list[tuple[int, int]]:
        """What is kept of the whole lines between *looked* and *cut*, and before them."""
        hits = sorted(self._hits(block, looked, cut))
        self._moved = self._moved or any(moves for _, _, moves in hits)
        # Where a log has moved the cursor once, any line may be gone back to, and so may those before it.
        before, after = max(self._sieve.before, WINDOW if self._moved else 0), self._sieve.after
        spans: list[tuple[int, int]] = []
        at, owed, kept = looked, self._owed, 0
        for first, last, moves in hits:  # no line is stepped over again and again, however many are wanted around each
            end, owed = _forth(block, at, owed, first)
            kept = end if end > at else kept
            spans += [(at, end), (_back(block, first, before, kept), last)]
            at, owed, kept = last, max(owed - 1, max(after, WINDOW) if moves else after), last
        end, self._owed = _forth(block, at, owed, cut)
        return [*spans, (at, end)]

    def _hits(self, block: bytes, looked: int, cut: int) -> Iterable[tuple[int, int, bool]]:
        """(begin, end, whether it moves the cursor) of the lines that are kept for their own sake."""
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
                    cut = last  # what is behind it is kept
                hit = finds.search(heap, last, cut)
        region = block[looked:cut] if looked or cut < len(block) else block
        moves = b"\x1b" in region or b"\x9b" in region
        others = self._has_others(region)
        suspect = marks = b""
        if moves or others or self._has_letters(heap):
            suspect = _SUSPECT[others, has_rare(region)]
            marks = region.translate(suspect)  # ten times as fast as a search for the pattern
        at = marks.find(b"\x01")
        if at >= 0 and region[at : at + 2] == b"\r\n":  # and then most lines end so
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
        """Whether *text* has a letter of the texts in a case that no byte of theirs tells."""
        # A look for a byte takes a fraction of one for several.
        return any(char[0] in text and char in text for char in self._others)

    def _has_letters(self, text: bytes) -> bool:
        """Whether all letters of one of the texts are there: without them no terminal makes it of *text*."""
        for needed in self._letters:
            for letter in needed:
                if letter not in text:
                    break
            else:
                return True
        return False

    def _may_match(self, line: bytes) -> bool:
        """Whether a terminal could make one of the texts of *line*."""
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
    """What finds any of *texts*: those together that begin alike, in a third of the time that each by itself takes.

    At a byte at which a group may begin, all of it may be compared: a peer chooses the texts, so that each is small.
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
    """What *text*, parted by carriage returns, shows one after the other; None where that is not so simple."""
    decoded = text.decode(errors="replace")
    if text.count(b"\r") * max(map(len, text.split(b"\r"))) > _DRAWN:  # a peer could make it as long as it likes
        return None
    if _DIRT.search(text.replace(b"\r", b"")) or any(char == "\t" or width(char) != 1 for char in set(decoded)):
        return None
    row, rows = "", []
    for part in decoded.split("\r"):
        row = part + row[len(part) :]
        rows.append(row.encode())
    return rows


def _others(sieve: Sieve) -> tuple[bytes, ...]:
    """What *sieve*, where it ignores case, may find in the place of a letter."""
    if not sieve.ignore_case:
        return ()
    known = all(text.isascii() for text in sieve.any_of)  # of other letters nobody knows their cases here
    letters = (letter for letter in _OTHER_CASES if not known or any(letter in text for text in sieve.any_of))
    return tuple(char for letter in letters for char in _OTHER_CASES[letter])


def _common(letter: int) -> bool:
    return chr(letter).islower()


def _long(block: bytes, looked: int, cut: int) -> Iterable[tuple[int, int]]:
    """The lines of more than LONGEST bytes."""
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
    """Where the line begins that stands *lines* before the one that begins at *at*, but not before *least*."""
    while lines and at > least:
        at = block.rfind(b"\n", least, at - 1) + 1 or least
        lines -= 1
    return at


def _forth(block: bytes, at: int, lines: int, cut: int) -> tuple[int, int]:
    """Where the line ends that stands *lines* behind what ends at *at*, and how many there are not yet."""
    while lines and at < cut:
        at = block.find(b"\n", at, cut) + 1
        lines -= 1
    return at, lines


def _together(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """*spans*, by their beginnings or nearly so, without what is in two of them; those that touch are one."""
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
