"""What a site does not want to leave it: each match of a pattern is shown as asterisks, as many as it had bytes.

Laws that hold here: what is shown of a byte is a function of the file's bytes alone, whatever is read at once, and
from wherever; every offset and every line end stays; what is not yet decided is not shown. Nothing is read or kept
here: *fetch*(begin, end) gives the file's bytes.

A line ends behind LF or CR: a progress bar may go on for hours without an LF. It is matched by itself. One that is
longer than WINDOW is cut at each multiple of WINDOW in the file that has no line end in the WINDOW bytes before it,
and each piece is matched with OVERLAP bytes of the line on both sides. So no more than twice WINDOW is ever looked
back at. A private key is the one secret of many lines: what follows its first one is masked up to its last one, or for
KEY_BLOCK bytes.
"""

from __future__ import annotations

import re
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from re import _constants as op  # type: ignore[attr-defined]  # the public functions do not show what a pattern says
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from flarelog.errors import InvalidOption
from flarelog.model import REDACTED, extend

Fetch = Callable[[int, int], bytes]

WINDOW = 64 << 10  # bytes of a line that are matched at once
OVERLAP = 4 << 10  # bytes beside a window that are looked at as well: the longest secret that a window's end cuts
KEY_BLOCK = 16 << 10  # bytes behind the first line of a private key that are masked when no last line comes
OWN_WINDOW, OWN_OVERLAP = 4 << 10, 1 << 10  # the same for a site's own patterns, whose time may grow faster
PROBE_SECONDS = 0.1  # of CPU that an own pattern may take for OWN_WINDOW bytes that were made to be hard
RULES = 1  # the version of the patterns below: another one shows other bytes

_LOOK = 4 << 10  # bytes around what is asked for that are read first: most lines are shorter
_MARGIN = 128  # bytes that the first line of a private key has at most
_MANY = 10  # repetitions that count as without end

# --- the named patterns. Each has one group that matches: what is to be masked. Every repetition is bounded, possessive
# or begun at a place of its own, so that the time grows with the length alone.

_GAP = rb"""(?:\\{0,3}["'])?[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}"""  # between a name and its value
_NOTHING = rb"""(?!(?:true|false|none|null|nil|undefined|empty|missing|unset|required|[*x.-]+)(?:[\s"',;)}\]\\]|$))"""
# One of them takes part: quoted, quoted within quotes, bare. A bare one goes on to the next blank: who knows of which
# signs a password is made.
_ANY = rb"""(?:"((?:[^"\\]|\\.)++)|'((?:[^'\\]|\\.)++)|\\{1,3}["']([^"'\\]++)|([^\s"',;&\\][^\s"']*+))"""
_NUMBER = rb"""(?!["']?[+-]?[\d.,:%]+(?:[eE][+-]?\d+)?(?:[\s"',;&)}\]/|]|$))"""
_LIKELY = rb"""(?=["'\\]{0,4}[\w.~+/=:-]{0,200}?\d)["'\\]{0,4}([\w.~+/=:-]{8,}+)"""  # a value with a digit in it

PATTERNS: dict[str, tuple[bytes, ...]] = {
    "tokens": (
        rb"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{30,}+|github_pat_\w{30,}+|hf_[A-Za-z0-9]{30,}+|wandb_v1_\w{20,}+)",
        rb"(?<![A-Za-z0-9])(glpat-[\w-]{16,}+|xox[a-z]-[\w-]{10,}+|AIza[\w-]{30,}+)",
        rb"(?<![A-Za-z0-9_-])(sk-(?=[\w-]{0,200}?\d)[\w-]{20,}+)",
        rb"(?<![A-Za-z0-9_-])(eyJ[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+){0,3})",  # JWT and its relatives
        rb"(?i:authorization)" + _GAP + rb"""["']?(?i:bearer|basic|token|digest|negotiate)[ \t]{1,8}([^\s"',;]++)""",
        rb"(?i:\bbearer)[ \t]{1,8}(?=[\w.~+/-]{0,200}?\d)([\w.~+/=-]{8,}+)",
        rb"(?i:token)" + _GAP + _NUMBER + _LIKELY,
        rb"(?i:--?(?:[a-z]{1,16}-){0,2}token)[ \t]{1,8}" + _NUMBER + _LIKELY,
        rb"(?i:api[_-]?key)" + _GAP + _NUMBER + rb"(?i:" + _NOTHING + rb")" + _ANY,
        rb"(?i:--?(?:[a-z]{1,16}-){0,2}api-?key)[ \t]{1,8}(?!-)" + _ANY,
        rb"(?i:wandb[ \t]{1,8}login)[ \t]{1,8}(?:--\w{1,20}[ \t]{1,8}){0,4}([\w-]{20,}+)",
    ),
    "passwords": (
        rb"(?i:passw(?:or)?d|passphrase)" + _GAP + rb"(?i:" + _NOTHING + rb")" + _ANY,
        rb"(?i:\bpwd)" + _GAP + rb"(?![/~])(?i:" + _NOTHING + rb")" + _ANY,
        rb"(?i:--?(?:[a-z]{1,16}-){0,2}(?:passw(?:or)?d|passphrase))[ \t]{1,8}(?!-)" + _ANY,
        rb"(?i:secret)" + _GAP + _NUMBER + rb"(?i:" + _NOTHING + rb")" + _ANY,
        rb"""://[^\s/:@"'<>]{0,256}:([^\s/@"'<>]{1,256})@""",  # in a URL
    ),
    "keys": (
        rb"(?<![A-Za-z0-9])((?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
        rb"(?i:(?:secret|access|private|account|signing|encryption)[_-]?key(?:[_-]?id)?)"
        + _GAP
        + _NUMBER
        + rb"(?![/~])(?i:"
        + _NOTHING
        + rb")"
        + _ANY,
    ),
    "email": (
        rb"(?<![\w.+%\x80-\xff-])(?!git@)([\w.+%\x80-\xff-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![A-Za-z0-9])",
    ),
}

# What stands in each line that matches, as a rare letter and what is around it: each is looked for in a fraction of the
# time that the patterns take. A test holds that a line in which none of these is found has no match.
_THEN = rb"""["'\\]{0,4}[ \t]{0,8}[:=]"""
_KEYS = rb"(?i:ey)(?i:[_-]?id)?" + _THEN
_TOKENS = rb"(?<=(?i:tok))(?i:en)" + _THEN + rb"|(?<=(?i:-tok))(?i:en)[ \t]|(?<=-(?i:k))(?i:ey)[ \t]|" + _KEYS
_HINTS: dict[str, tuple[tuple[bytes, bytes], ...]] = {
    "tokens": (
        *((b"gh", rb"[pousr]_"), (b"hub_", b""), (b"hf_", b""), (b"wa", rb"ndb"), (b"Wa", rb"ndb"), (b"WA", rb"NDB")),
        *((b"glpat-", b""), (b"xox", rb"[a-z]-"), (b"z", rb"(?<=AIz)a|(?<=(?i:uthoriz))"), (b"J", rb"(?<=eyJ)")),
        *((b"k", rb"(?<=sk)-|" + _TOKENS), (b"K", _TOKENS)),
        *((b"earer", b""), (b"EARER", b""), (b"Z", rb"(?<=(?i:uthoriz))")),
    ),
    "passwords": (
        *((b"w", rb"(?<=(?i:passw))|(?<=(?i:pw))(?i:d)"), (b"W", rb"(?<=(?i:passw))|(?<=(?i:pw))(?i:d)")),
        *((b"phr", rb"(?<=(?i:pass)phr)"), (b"PHR", rb"(?<=(?i:pass)PHR)"), (b"Phr", rb"(?<=(?i:pass)Phr)")),
        *((b"c", rb"(?<=(?i:sec))(?i:ret)" + _THEN), (b"C", rb"(?<=(?i:sec))(?i:ret)" + _THEN), (b"@", b"")),
    ),
    "keys": ((b"K", rb"(?<=AK)IA|" + _KEYS), (b"k", _KEYS), (b"SIA", rb"(?<=ASIA)")),
    "email": ((b"@", b""),),
}
_BLOCK = 32 << 10  # bytes in which all hints are looked for, one after the other: in most, most letters are missing
_HINT = 32  # bytes that a hint has at most

NAMES = tuple(PATTERNS)

# The hyphens behind the one may be those before the other, so that they are looked at and not consumed.
_KEY_BEGIN = re.compile(rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?(?=( ?-{4,5}))")
_KEY_END = re.compile(rb"-{4,5} ?END [A-Z0-9 ]{0,32}PRIVATE KEY")
_SHOWN = re.compile(rb"[^\r\n]")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is masked: *names* of PATTERNS, and a site's *own* regular expressions, of bytes. Raises InvalidOption."""

    names: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    _named: re.Pattern[bytes] | None = field(init=False, repr=False, compare=False)
    _hints: tuple[tuple[bytes, re.Pattern[bytes]], ...] = field(init=False, repr=False, compare=False)
    _own: tuple[re.Pattern[bytes], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in (*NAMES, "all"):
                raise InvalidOption(f"there is no redaction {name[:80]!r}; known are {', '.join(NAMES)} and all")
        names = NAMES if "all" in self.names else tuple(name for name in NAMES if name in self.names)
        patterns = [pattern for name in names for pattern in PATTERNS[name]]
        hints: dict[bytes, dict[bytes, None]] = {}
        for letter, rest in (hint for name in names for hint in _HINTS[name]):
            hints.setdefault(letter, {})[rest] = None
        set_ = object.__setattr__
        set_(self, "names", names)
        set_(self, "own", tuple(sorted(set(self.own))))
        set_(self, "_named", re.compile(b"|".join(patterns)) if patterns else None)
        compiled = ((at[:1], re.compile(b"%b(?:%b)" % (at, b"|".join(rest)))) for at, rest in hints.items())
        set_(self, "_hints", tuple(compiled))
        set_(self, "_own", tuple(own_pattern(text) for text in self.own))

    def __bool__(self) -> bool:
        return bool(self.names or self.own)

    def __or__(self, other: Rules) -> Rules:
        return Rules((*self.names, *other.names), (*self.own, *other.own))

    @property
    def note(self) -> str:
        """What a generation's notes say of these rules, so that later it can be told what its bytes were made by."""
        own = [f"own-{extend(0, chr(10).join(self.own).encode()):08x}"] if self.own else []
        return f"{REDACTED}:{RULES}:{'+'.join((*self.names, *own))}"

    def once(self, notes: str) -> Rules | None:
        """The rules that a generation with these *notes* was made by; None if they cannot be told any more."""
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
        """Up to where a file of *size* bytes, shown up to *position*, can be shown: whatever is added to it, those
        bytes will be the same.
        """
        window = max(0, size - OVERLAP) // WINDOW * WINDOW
        begin = max(0, window - WINDOW) if window > position else position
        raw = fetch(begin, size)
        end = begin + _line_end(raw, 0, len(raw)) if raw else 0
        if window > position and not _line_end(raw, 0, window - begin):
            end = max(end, window)
        return max(position, end)

    def show(self, fetch: Fetch, offset: int, length: int, end: int) -> tuple[bytes, int, int]:
        """(what is shown of the *length* bytes at *offset*, how many matches begin there, how many bytes are masked).

        *end*: where the file ends, or counts as ended. A line that is unfinished there is shown as if it ended, but
        for its last word, which may be the beginning of a secret; where there are own patterns, nothing is shown of it.
        Empty when the file has become shorter meanwhile.
        """
        last = min(offset + length, end)
        if last <= offset:
            return b"", 0, 0
        begin = _piece_begin(fetch, offset)
        left = max(0, begin - max(OVERLAP, KEY_BLOCK + _MARGIN))
        for more in (_LOOK, 2 * WINDOW + OVERLAP):
            right = min(end, last + more)
            raw = fetch(left, right)
            if len(raw) < right - left:
                return b"", 0, 0
            text = _Text(raw, left, begin, right == end)
            if text.knows(last - 1):
                break
        spans = _merged([*self._spans(text, last), *self._keys(text)])
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
        """What the patterns match in the pieces of *text* up to the one with the byte before *last*."""
        end = text.piece(last - 1)[1]
        named = set(self._suspects(text, end)) if self._named is not None else set()
        for begin in text.pieces(end) if self._own else sorted(named | set(text.unusual(end))):
            first, behind = text.piece(begin)
            line_begin, line_end, unfinished = text.around(first, behind)
            line = text.raw[line_begin - text.left : line_end - text.left]
            # What tells of a secret that a window's end cuts may stand on the other side of it.
            suspect = begin in named or (not text.is_line(first, behind) and self._hinted(line))
            found = list(self._matches(line, suspect))
            if unfinished:
                found.append((0 if self._own else max(line.rfind(b" "), line.rfind(b"\t")) + 1, len(line)))
            for one, other in found:
                one, other = max(first, line_begin + one), min(behind, line_begin + other)
                if one < other:
                    yield one, other

    def _suspects(self, text: _Text, end: int) -> Iterator[int]:
        """Where the pieces begin in which a named pattern may match."""
        for block in range(text.begin, end, _BLOCK):
            high = min(block + _BLOCK + _HINT, end) - text.left
            for letter, hint in self._hints:
                at = block - text.left
                # Looking for one letter is ten times faster than the beginning of a pattern is.
                while (at := text.raw.find(letter, at, high)) >= 0:
                    found = hint.search(text.raw, at, high)
                    if found is None:
                        break
                    begin, behind = text.piece(found.start() + text.left)
                    at = behind - text.left
                    yield begin

    def _hinted(self, line: bytes) -> bool:
        line += b"\n"  # some hints want to see what a name is followed by
        return any(hint.search(line) for _, hint in self._hints)

    def _matches(self, line: bytes, suspect: bool) -> Iterator[tuple[int, int]]:
        if suspect and self._named is not None:
            for found in self._named.finditer(line):
                yield found.span(found.lastindex or 0)
        for pattern in self._own:
            for begin in range(0, len(line), OWN_WINDOW):
                first = max(0, begin - OWN_OVERLAP)
                for found in pattern.finditer(line[first : begin + OWN_WINDOW + OWN_OVERLAP]):
                    yield first + found.start(), first + found.end()

    def _keys(self, text: _Text) -> Iterator[tuple[int, int]]:
        """What stands between the first and the last line of a private key."""
        if "keys" not in self.names:
            return
        begins, ends = set[int](), set[int]()
        at = -1
        while (at := text.raw.find(b"VATE KEY", at + 1)) >= 0:
            around = max(0, at - _MARGIN), at + _MARGIN
            # Of others that are near, this part of the text may show a part only.
            begins.update(m.end(1) for m in _KEY_BEGIN.finditer(text.raw, *around) if m.start() <= at < m.end())
            ends.update(m.start() for m in _KEY_END.finditer(text.raw, *around) if m.start() <= at < m.end())
        stops = [*sorted(ends), len(text.raw)]
        for begin in begins:
            stop = stops[bisect_left(stops, begin)]
            yield text.left + begin, text.left + min(stop, begin + KEY_BLOCK)


UNREDACTED = Rules()

# --- a site's own patterns


def own_pattern(text: str) -> re.Pattern[bytes]:
    """*text* as a regular expression of bytes. Raises InvalidOption, too, when it could take too long for some line: a
    search that has begun cannot be given up, and would hold up the program that flarelog is embedded in.
    """
    shown = repr(text[:80])
    try:
        raw = text.encode()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pattern, parsed = re.compile(raw), _parser.parse(raw)
    except (re.error, UnicodeError, OverflowError, RecursionError, Warning) as error:
        raise InvalidOption(f"the pattern {shown} is no regular expression: {error}; correct it") from error
    if pattern.match(b"") is not None:
        raise InvalidOption(f"the pattern {shown} matches nothing at all as well; write what it must have")
    advice = "make what it repeats possessive, as in [a-z]++, or bounded, as in [a-z]{1,40}"
    if _explodes(parsed, False):
        raise InvalidOption(
            f"the pattern {shown} repeats what has several ways to match, which may take for ever; {advice}"
        )
    letters = dict.fromkeys((*b"a0 .", *(raw[at] for at in range(min(len(raw), 40)))))
    for letter in letters:
        length = 128
        while length <= OWN_WINDOW:
            began = time.thread_time()
            pattern.search(bytes([letter]) * length)
            if time.thread_time() - began > max(PROBE_SECONDS / 5, PROBE_SECONDS * length / OWN_WINDOW):
                raise InvalidOption(
                    f"the pattern {shown} takes too long for a line of {length} {chr(letter)!r}; {advice}"
                )
            length *= 2
    return pattern


def _explodes(parsed: Any, repeated: bool) -> bool:
    """Whether something that may match in several ways is repeated: the ways multiply with each repetition."""
    for code, argument in parsed:
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, inner = argument
            if (repeated and least != most) or _explodes(inner, repeated or most >= _MANY):
                return True
        elif code in (op.POSSESSIVE_REPEAT, op.ATOMIC_GROUP):
            if _explodes(argument[2] if code is op.POSSESSIVE_REPEAT else argument, False):
                return True
        elif code in (op.BRANCH, op.GROUPREF, op.GROUPREF_EXISTS):
            inner = argument[1] if code is op.BRANCH else []
            if repeated or any(_explodes(way, False) for way in inner):
                return True
        elif code in (op.SUBPATTERN, op.ASSERT, op.ASSERT_NOT) and _explodes(argument[-1], repeated):
            return True
    return False


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
        """Where the piece with the byte at *at* begins and ends."""
        window = at // WINDOW * WINDOW
        line = _line_end(self.raw, max(self.begin, window - WINDOW) - self.left, at - self.left)
        begin = self.left + line if line else self.begin if self.begin > window - WINDOW else window
        end = window + WINDOW if window >= begin else window + 2 * WINDOW
        return begin, self._next_line(at, min(end, self.right)) or min(end, self.right)

    def _next_line(self, at: int, high: int) -> int:
        """Where the first line begins whose end before it lies between *at* and *high*; 0 if there is none."""
        first, end = at - self.left, high - self.left
        found = self.raw.find(b"\n", first, end)
        carriage = self.raw.find(b"\r", first, end if found < 0 else found)
        found = carriage if carriage >= 0 else found
        return self.left + found + 1 if found >= 0 else 0

    def knows(self, at: int) -> bool:
        """Whether everything is here that what is shown of the piece with the byte at *at* depends on."""
        _, end = self.piece(at)
        return (
            self.ended or self.ends_line(end) or bool(self._next_line(end, self.right)) or end + OVERLAP <= self.right
        )

    def ends_line(self, at: int) -> bool:
        """Whether the byte before *at* ends a line, or none is there."""
        return at == 0 or self.raw[at - 1 - self.left] in b"\r\n"

    def is_line(self, begin: int, end: int) -> bool:
        return self.ends_line(begin) and self.ends_line(end)

    def pieces(self, end: int) -> Iterator[int]:
        at = self.begin
        while at < end:
            yield at
            at = self.piece(at)[1]

    def unusual(self, end: int) -> Iterator[int]:
        """Where the pieces begin, up to *end*, that are not a whole line."""
        windows = range(-(-self.begin // WINDOW) * WINDOW, end, WINDOW)
        for at in {self.begin, *windows, *(window - 1 for window in windows if window > self.begin), end - 1}:
            begin, behind = self.piece(at)
            if not self.is_line(begin, behind):
                yield begin

    def around(self, begin: int, end: int) -> tuple[int, int, bool]:
        """(from where, up to where a piece is matched; whether its line is unfinished there)."""
        first = begin if self.ends_line(begin) else begin - OVERLAP
        if self.ends_line(end):
            return first, end - 1, False
        high = min(end + OVERLAP, self.right)
        line = self._next_line(end, high)
        return first, line - 1 if line else high, not line and self.ended and high == self.right < end + OVERLAP


def _line_end(raw: bytes, begin: int, end: int) -> int:
    """The place behind the last end of a line in that range; 0 if there is none."""
    found = raw.rfind(b"\n", begin, end)
    return max(found, raw.rfind(b"\r", max(found, begin), end)) + 1


def _piece_begin(fetch: Fetch, offset: int) -> int:
    """Where the piece begins in which the byte at *offset* lies."""
    window = offset // WINDOW * WINDOW
    for begin in (max(0, offset - _LOOK), max(0, window - WINDOW)):
        end = _line_end(raw := fetch(begin, offset), 0, len(raw))
        if end:
            return begin + end
    return window


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes, in order and each once. Those that only touch stay apart: at a window's end they always do."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if out and begin < out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((begin, end))
    return out
