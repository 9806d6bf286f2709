"""The masking of a site's secrets: each match of a pattern is shown as asterisks, as many as it had bytes.

The laws: the shown form of a byte is a function of the file's bytes alone, however they are read; every offset and
every line end stays; an undecided byte is not shown. This module reads and keeps nothing: *fetch*(begin, end) gives the
file's bytes.

A line ends with LF or CR, because a progress bar may go on for hours without an LF. Each line is matched by itself. A
line longer than WINDOW is cut at each multiple of WINDOW in the file that has no line end in the WINDOW bytes before
it, and each piece is matched with OVERLAP bytes of the line on both sides. The look back is at most twice WINDOW. Two
kinds of secrets depend on lines before theirs: the lines of a private key are masked up to its last one, or for
KEY_BLOCK bytes, and a value whose name is at most ABOVE bytes before its line is masked as if both were in one line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from flarelog.checksum import extend
from flarelog.errors import InvalidOption
from flarelog.model import REDACTED
from flarelog.sources.redaction.patterns import OwnPattern
from flarelog.values import frozen

NAMES = ("tokens", "passwords", "keys", "email")

Fetch = Callable[[int, int], bytes]

WINDOW = 64 << 10  # bytes of a line that are matched at once
OVERLAP = 4 << 10  # bytes matched on both sides of a window: the longest secret that a window's end cuts
KEY_BLOCK = 16 << 10  # bytes masked after the first line of a private key without a last line
RULES = 5  # the version of the rules: another version masks differently

_LOOK = 4 << 10  # bytes around a request that are read first: most lines are shorter
MARGIN = 128  # bytes of the longest first line of a private key
ABOVE = 4 << 10  # bytes before a line that may announce its value

# A lookahead, because the hyphens after one header may be those before the next.
_KEY_BEGIN = re.compile(rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?(?=( ?-{4,5}))")
_KEY_END = re.compile(rb"-{4,5} ?END [A-Z0-9 ]{0,32}PRIVATE KEY")
# A line of a key: base64 (the last line may be short), a header word before the first of them, or nothing.
_KEY_BODY = re.compile(
    rb"[A-Za-z0-9+/=]{24}|\A[ \t]*[A-Za-z0-9+/=]*[ \t]*[\r\n]*\Z|Proc-Type:|DEK-Info:|Version:|Comment:"
)
_SHOWN = re.compile(rb"[^\r\n]")


@frozen
class Rules:
    """The rules: *names* of NAMES, and a site's *own* regular expressions, of bytes. Raises InvalidOption."""

    names: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    _own: tuple[OwnPattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in (*NAMES, "all"):
                raise InvalidOption(f"the redaction {name[:80]!r} is unknown; known are {', '.join(NAMES)} and all")
        set_ = object.__setattr__
        set_(self, "names", NAMES if "all" in self.names else tuple(name for name in NAMES if name in self.names))
        set_(self, "own", tuple(sorted(set(self.own))))
        set_(self, "_own", tuple(OwnPattern(text) for text in self.own))

    def __bool__(self) -> bool:
        return bool(self.names or self.own)

    def __or__(self, other: Rules) -> Rules:
        return Rules((*self.names, *other.names), (*self.own, *other.own))

    @property
    def note(self) -> str:
        """The word for these rules in a generation's notes, which tells later how its bytes were masked."""
        own = [f"own-{extend(0, chr(10).join(self.own).encode()):08x}"] if self.own else []
        return f"{REDACTED}:{RULES}:{'+'.join((*self.names, *own))}"

    def once(self, notes: str) -> Rules | None:
        """The rules that masked a generation with these *notes*; None if they are unknown."""
        said = next((word for word in notes.split(",") if word.partition(":")[0] == REDACTED), "")
        if not said:
            return Rules()
        if said == self.note:
            return self
        version, _, names = said.removeprefix(f"{REDACTED}:").partition(":")
        known = tuple(names.split("+"))
        return Rules(known) if version == str(RULES) and set(known) <= set(NAMES) else None

    # --- what is shown

    def decided(self, fetch: Fetch, position: int, size: int) -> int:
        """The offset up to which a file of *size* bytes, shown up to *position*, can be shown: later bytes do not
        change the masking before it.
        """
        window = max(0, size - OVERLAP) // WINDOW * WINDOW
        begin = max(0, window - WINDOW) if window > position else position
        raw = fetch(begin, size)
        end = begin + _line_end(raw, 0, len(raw)) if raw else 0
        if window > position and not _line_end(raw, 0, window - begin):
            end = max(end, window)
        return max(position, end)

    def show(self, fetch: Fetch, offset: int, length: int, end: int, torn: int = -1) -> tuple[bytes, int, int]:
        """(the shown form of the *length* bytes at *offset*, how many matches begin there, how many bytes are masked).

        *end*: where the file ends, or counts as ended. A line unfinished there is shown as if it ended, except for its
        last word, which may be the beginning of a secret; with own patterns, nothing of it is shown. Empty when the
        file has become shorter meanwhile. *torn*: where the text continues after unknown bytes; a possible rest of a
        secret is masked there.
        """
        last = min(offset + length, end)
        if last <= offset:
            return b"", 0, 0
        rest = self._rest(fetch(torn, min(end, torn + KEY_BLOCK))) if torn >= 0 and offset < torn + KEY_BLOCK else 0
        begin = _piece_begin(fetch, offset)
        left = max(0, begin - max(OVERLAP, KEY_BLOCK + MARGIN))
        for more in (_LOOK, 2 * WINDOW + OVERLAP):
            right = min(end, last + more)
            raw = fetch(left, right)
            if len(raw) < right - left:
                return b"", 0, 0
            text = _Text(raw, left, begin, right == end)
            if text.knows(last - 1):
                break
        spans = _merged([*self._spans(text, last), *self._keys(text), *([(torn, torn + rest)] if rest else [])])
        matches = masked = 0
        if not spans:
            return raw[offset - left : last - left], matches, masked
        out = bytearray(raw[offset - left : last - left])
        for first, behind in spans:
            matches += offset <= first < last
            first, behind = max(first, offset) - offset, min(behind, last) - offset
            if first < behind:
                piece = _SHOWN.sub(b"*", bytes(out[first:behind]))
                masked += len(piece) - piece.count(b"\n") - piece.count(b"\r")
                out[first:behind] = piece
        return bytes(out), matches, masked

    def _spans(self, text: _Text, last: int) -> Iterator[tuple[int, int]]:
        """The spans to mask in the pieces of *text* up to the one with the byte before *last*."""
        end = text.piece(last - 1)[1]
        unusual = sorted(set(text.unusual(end)))
        at = text.begin
        for begin in (*unusual, end):
            if at < begin:  # whole lines are independent, and are matched all at once
                whole = text.raw[at - text.left : begin - text.left]
                above = text.raw[max(0, at - text.left - ABOVE) : at - text.left]
                found = chain(_secrets(whole, self.names, above), *(own.find(whole) for own in self._own))
                yield from ((at + one, at + other) for one, other in found)
            at = text.piece(begin)[1] if begin < end else end
        for begin in unusual:
            first, behind = text.piece(begin)
            line_begin, line_end, unfinished = text.around(first, behind)
            line = text.raw[line_begin - text.left : line_end - text.left]
            is_begin = line_begin == first and text.ends_line(first)
            above = text.raw[max(0, first - text.left - ABOVE) : first - text.left] if is_begin else b""
            spans = [*_secrets(line, self.names, above), *(span for own in self._own for span in own.spans(line))]
            if unfinished:
                spans.append((0 if self._own else max(line.rfind(b" "), line.rfind(b"\t")) + 1, len(line)))
            for one, other in spans:
                one, other = max(first, line_begin + one), min(behind, line_begin + other)
                if one < other:
                    yield one, other

    def _keys(self, text: _Text) -> Iterator[tuple[int, int]]:
        """The spans between the first and the last line of a private key."""
        if "keys" not in self.names:
            return
        begins, ends = set[int](), set[int]()
        at = -1
        while (at := text.raw.find(b"VATE KEY", at + 1)) >= 0:
            around = max(0, at - MARGIN), at + MARGIN
            # Neighbours may be cut off by these bounds, and are matched on their own turn.
            begins.update(m.end(1) for m in _KEY_BEGIN.finditer(text.raw, *around) if m.start() <= at < m.end())
            ends.update(m.start() for m in _KEY_END.finditer(text.raw, *around) if m.start() <= at < m.end())
        stops = [*sorted(ends), len(text.raw)]
        for begin in begins:
            stop = min(stops[bisect_left(stops, begin)], begin + KEY_BLOCK)
            shown = _SHOWN.search(text.raw, begin, stop)  # nothing is masked while only line ends follow
            if shown is not None:
                yield text.left + shown.start(), text.left + stop

    def _rest(self, head: bytes) -> int:
        """How many bytes of *head*, which follows unknown bytes, may be the rest of a secret: of a line's, and of a key
        after it.
        """
        at = min(_line_behind(head, 0, len(head)) or len(head), OVERLAP)
        while "keys" in self.names and at < len(head):
            line = head[at : (behind := _line_behind(head, at, len(head)) or len(head))]
            if _KEY_END.search(line) or not _KEY_BODY.search(line):
                break
            at = behind
        return at


UNREDACTED = Rules()


@dataclass(slots=True)
class _Text:
    """Some bytes of a file: *raw*, from *left* on. Pieces are known from *begin* on, where one begins."""

    raw: bytes
    left: int
    begin: int
    ended: bool  # the file ends where *raw* does

    @property
    def right(self) -> int:
        return self.left + len(self.raw)

    def piece(self, at: int) -> tuple[int, int]:
        """The bounds of the piece with the byte at *at*."""
        window = at // WINDOW * WINDOW
        line = _line_end(self.raw, max(self.begin, window - WINDOW) - self.left, at - self.left)
        begin = self.left + line if line else self.begin if self.begin > window - WINDOW else window
        end = window + WINDOW if window >= begin else window + 2 * WINDOW
        return begin, self._next_line(at, min(end, self.right)) or min(end, self.right)

    def _next_line(self, at: int, high: int) -> int:
        """The beginning of the first line after a line end between *at* and *high*; 0 if there is none."""
        found = _line_behind(self.raw, at - self.left, high - self.left)
        return self.left + found if found else 0

    def knows(self, at: int) -> bool:
        """Whether all bytes are here that the masking of the piece with the byte at *at* depends on."""
        _, end = self.piece(at)
        return (
            self.ended or self.ends_line(end) or bool(self._next_line(end, self.right)) or end + OVERLAP <= self.right
        )

    def ends_line(self, at: int) -> bool:
        """Whether the byte before *at* ends a line, or *at* is 0."""
        return at == 0 or self.raw[at - 1 - self.left] in b"\r\n"

    def unusual(self, end: int) -> Iterator[int]:
        """The beginnings, up to *end*, of the pieces that are not a whole line."""
        windows = range(-(-self.begin // WINDOW) * WINDOW, end, WINDOW)
        for at in {self.begin, *windows, *(window - 1 for window in windows if window > self.begin), end - 1}:
            begin, behind = self.piece(at)
            if not (self.ends_line(begin) and self.ends_line(behind)):
                yield begin

    def around(self, begin: int, end: int) -> tuple[int, int, bool]:
        """(bounds within which a piece is matched, two values; whether its line is unfinished there)."""
        first = begin if self.ends_line(begin) else begin - OVERLAP
        if self.ends_line(end):
            return first, end - 1, False
        high = min(end + OVERLAP, self.right)
        line = self._next_line(end, high)
        return first, line - 1 if line else high, not line and self.ended and high == self.right < end + OVERLAP


def _line_end(raw: bytes, begin: int, end: int) -> int:
    """The offset after the last line end in that range; 0 if there is none."""
    found = raw.rfind(b"\n", begin, end)
    return max(found, raw.rfind(b"\r", max(found, begin), end)) + 1


def _line_behind(raw: bytes, begin: int, end: int) -> int:
    """The offset after the first line end in that range; 0 if there is none."""
    found = raw.find(b"\n", begin, end)
    carriage = raw.find(b"\r", begin, end if found < 0 else found)
    return (carriage if carriage >= 0 else found) + 1


def _piece_begin(fetch: Fetch, offset: int) -> int:
    """The beginning of the piece with the byte at *offset*."""
    window = offset // WINDOW * WINDOW
    for begin in (max(0, offset - _LOOK), max(0, window - WINDOW)):
        end = _line_end(raw := fetch(begin, offset), 0, len(raw))
        if end:
            return begin + end
    return window


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, overlapping ones merged. Touching spans stay apart: a window's end makes such spans."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if out and begin < out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((begin, end))
    return out


def _secrets(text: bytes, names: tuple[str, ...], above: bytes = b"") -> Iterator[tuple[int, int]]:
    """The spans of the secrets of *names* in *text*, which follows the lines *above*."""
    # The import compiles expressions for 70 ms, which a sidecar without masking must not pay.
    from flarelog.sources.redaction.secret import find

    return find(text, names, above)
