"""A text as a person sees it: without colours and zero-width characters, and with escapes decoded.

An escaped quote is read with an odd number of backslashes before it, so that it never closes a quote without them. An
escaped line end is neither a blank nor the line's end: a quoted value continues over it, an unquoted one ends there.
The view of a line depends on that line alone.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator

Span = tuple[int, int]

BACK = 96  # bytes of a line before a name or a token that are matched
WORD = string.ascii_letters.encode() + string.digits.encode() + b"_-"
TO_END = re.compile(rb"[^\r\n]*+")
BLANKS = re.compile(rb"[ \t]*+")

_COLOUR = rb"\[[\d;:?]{0,32}[A-Za-z]|\([0-9A-Z]"  # after ESC
_COLOURS = re.compile(rb"\x1b(?:%b)" % _COLOUR)
_SIGNS = {
    **dict.fromkeys("\xa0\u202f\u2007\u2009\u3000", b" "),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\xad\ufeff", b""),
    **dict.fromkeys("=\uff1d", b"="),
    **dict.fromkeys(":\uff1a", b":"),
    **dict.fromkeys("\u2502\u2503\u2551\uff5c", b"|"),
    **dict.fromkeys("\u2192\u279c\u2794", b"->"),
    "&": b"&",
    "<": b"<",
    ">": b">",
    "/": b"/",
    "\u21d2": b"=>",
}
_CURLY = dict.fromkeys("\u201c\u201d\u201e\xab\xbb", b'"') | dict.fromkeys("\u2018\u2019\u201a\u2039\u203a", b"'")
_QUOTES = {'"': b'"', "'": b"'"}
_ENTITIES = {
    name: sign
    for sign, names in (
        *(('"', "quot #34 #x22"), ("'", "apos #39 #x27"), ("=", "#61 #x3d"), (":", "#58 #x3a")),
        *(("&", "amp"), ("<", "lt"), (">", "gt"), ("\xa0", "nbsp")),
    )
    for name in names.split()
}
# A quote within quotes in shell syntax, in a text that may itself be escaped; and the text that only these have.
_SHELLS = re.compile(rb"(\\{0,15}+)'(?:(\\{0,15}+)\"\1'\2\"|\\{1,15}+'(?='))\1'")
_SHELL = (b"'\"'", b"'\\\"", b"'\"\\", b"'\\''")


def _any(signs: Iterable[str]) -> bytes:
    return b"|".join(re.escape(sign.encode()) for sign in signs if sign > "\x7f")


def _escapes() -> bytes:
    """The signs as JSON and Python escape them, after a backslash."""
    odd = sorted({*_SIGNS, *_CURLY, *_QUOTES})
    codes = [f"u{ord(sign):04x}".encode() for sign in odd]
    # Non-ASCII signs are two or three bytes, each escaped by itself.
    codes += [b"x%02x" % ord(sign) for sign in odd if "\x7f" < sign < "\xc2"]
    codes += [rb"\\{1,15}".join(b"x%02x" % byte for byte in sign.encode()) for sign in odd if sign > "\x7f"]
    return b"|".join(codes)


# Each alternative begins with another byte, so that the search skips to the next such byte.
_ODD = re.compile(
    rb"\\(?<!\\\\)\\{0,14}+(?:(?:(?i:x1b|u001b)|033|e)(?:%b)|[nrt/]|(?i:u0026(?:%b);)|(?i:%b))"
    % (_COLOUR, "|".join(_ENTITIES).encode(), _escapes())
    + rb"|&(?i:%b);" % "|".join(_ENTITIES).encode()
    + rb"|%b" % _any((*_SIGNS, *_CURLY))
)
_WORDS = frozenset(WORD)
_READ: dict[bytes, bytes] = {}  # cached meanings that do not depend on the context: logs repeat a few
_MOST_READ = 1 << 10
_FAR = 4 << 10  # bytes before an escaped line end in which a quote makes it one

# First bytes of an odd sign, except 0xe2, which is common in progress bars and frames; and the bytes of those bars.
_LEADS = sorted({sign.encode()[:1] for sign in (*_SIGNS, *_CURLY) if sign > "\x7f"} - {b"\xe2"})
_BARS = (b"\xe2\x96", b"\xe2\x94\x81", b"\xe2\x94\x80")


def _has_print(text: bytes) -> bool:
    if text.isascii():
        return False
    if any(lead in text for lead in _LEADS):
        return True
    left = text.count(b"\xe2")
    for bar in _BARS:
        left -= text.count(bar) if left else 0
    return left != 0


Meaning = Callable[[re.Match[bytes]], bytes]


class View:
    """The view of *text*, and the mapping of spans in the view back to the text."""

    def __init__(self, text: bytes) -> None:
        self.read = text
        self._steps: list[tuple[bytes, re.Pattern[bytes], Meaning]] = []
        if b"\x1b" in text:
            self._step(_COLOURS, lambda _: b"")
        escaped = b"\\" in text
        if b"'" in text and (escaped or b'"' in text) and any(sign in text for sign in _SHELL):
            self._step(_SHELLS, lambda found: b"\\" * (2 * len(found[1]) + 1) + b"'")
        if escaped or b"&" in text or _has_print(text):
            self._step(_ODD, _meant)

    def _step(self, pattern: re.Pattern[bytes], meaning: Meaning) -> None:
        read = pattern.sub(b"" if pattern is _COLOURS else meaning, self.read)
        if read != self.read:
            self._steps.append((self.read, pattern, meaning))
            self.read = read

    @property
    def same(self) -> bool:
        return not self._steps

    def places(self, spans: list[Span]) -> list[Span]:
        """The spans in the text for *spans* of the view. A sign is in a span as a whole, or not at all."""
        for text, pattern, meaning in reversed(self._steps) if spans else ():
            begins, ends, behinds, befores = list[int](), list[int](), list[int](), list[int]()
            shift = 0
            for found in pattern.finditer(text):
                before, behind = found.span()
                meant = meaning(found)
                if meant == found[0]:  # the sign stands for itself, and may be split
                    continue
                begins.append(before - shift)
                shift += behind - before - len(meant)
                ends.append(behind - shift)
                befores.append(before)
                behinds.append(behind)
            out = []
            for begin, end in spans:
                at = bisect_right(begins, begin) - 1
                if at >= 0:
                    begin = befores[at] if begin < ends[at] else behinds[at] + begin - ends[at]
                at = bisect_left(begins, end) - 1
                if at >= 0:
                    end = behinds[at] if end <= ends[at] else behinds[at] + end - ends[at]
                out.append((begin, end))
            spans = out
        return spans


def _meant(found: re.Match[bytes]) -> bytes:
    odd = found[0]
    known = _READ.get(odd)
    if known is not None:
        return known
    if odd[:1] == b"\\" and (b"[" in odd or b"(" in odd):
        meant = b""
    elif odd[:1] == b"\\" and odd[-1:] in (b"n", b"r", b"t"):
        # In a quoted text it is the end of a line, or a tab; elsewhere a backslash is literal.
        line = line_before(found.string, found.start(), _FAR)
        return odd if b'"' not in line and b"'" not in line else b"\t" if odd[-1:] == b"t" else b"\v"
    else:
        sign, slashes = _sign(odd)
        if sign == "\u2019":
            # Within a word it is an apostrophe.
            text, begin, end = found.string, found.start(), found.end()
            within = begin > 0 and text[begin - 1] in _WORDS and end < len(text) and text[end] in _WORDS
            return odd if within else b"'"
        meant = b"\\" * slashes + _QUOTES[sign] if sign in _QUOTES else _CURLY.get(sign) or _SIGNS[sign]
    if len(_READ) < _MOST_READ:
        _READ[odd] = meant
    return meant


def _sign(odd: bytes) -> tuple[str, int]:
    """(the sign that *odd* encodes, how many backslashes a quote of the same meaning has)."""
    if odd[-1:] == b";":
        return _ENTITIES[odd.lower().removeprefix(b"&").rpartition(b"u0026")[2][:-1].decode()], 1
    if odd[:1] != b"\\":
        return odd.decode(), 0
    code = odd.lstrip(b"\\")
    slashes = 2 * (len(odd) - len(code)) - 1
    if code[:1] in b"uU":
        return chr(int(code[1:], 16)), slashes
    if code[:1] in b"xX":
        return bytes.fromhex(code.translate(None, b"\\xX").decode()).decode("latin-1" if len(code) == 3 else "utf-8"), 1
    return code.decode(), slashes


def end_of(pattern: re.Pattern[bytes], view: bytes, at: int) -> int:
    """The end of the match at *at* of a pattern that may be empty."""
    found = pattern.match(view, at)
    return at if found is None else found.end()


def places(text: bytes, word: bytes) -> Iterator[int]:
    """The offsets of *word* in *text*."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def line_before(view: bytes, at: int, length: int = BACK) -> bytes:
    """The bytes of the line before *at*, at most *length*."""
    piece = view[max(0, at - length) : at]
    return piece[max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1 :]


def ending(text: bytes, of: bytes) -> bytes:
    """The longest suffix of *text* that is all in *of*."""
    return text[len(text.rstrip(of)) :]
