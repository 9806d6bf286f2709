"""What a person sees of a text, byte for byte: blanks where colours are, and an escaped sign for itself.

Every look back or ahead here is bounded by a line's ends.
"""

from __future__ import annotations

import re
import string

Span = tuple[int, int]

BACK = 96  # bytes of its line that are looked at before a name or a token
WORD = string.ascii_letters.encode() + string.digits.encode() + b"_-"
TO_END = re.compile(rb"[^\r\n]*+")
BLANKS = re.compile(rb"[ \t]*+")


# By what each begins with: a terminal's control; the same, blanks and signs, as they are escaped; the same in HTML.
ODD = (
    (b"\x1b", re.compile(rb"\x1b\[[\d;:?]{0,32}[A-Za-z]")),
    (b"\\", re.compile(rb"\\{1,8}(?:(?:x1b|u001[bB]|033|e)\[[\d;]{0,32}[A-Za-z]|[nrt/]|u00(?:26|3[dDaA]))")),
    (b"&", re.compile(rb"&(?:quot|#34|#39|apos|amp);")),
)
_MEANT = {
    b"/": b"/",
    b"u0026": b"&",
    b"u003d": b"=",
    b"u003a": b":",
    b"&quot;": b'"',
    b"&#34;": b'"',
    b"&#39;": b"'",
    b"&apos;": b"'",
    b"&amp;": b"&",
}


def legible(text: bytes) -> bytes:
    """*text* as a person reads it, byte for byte: colours are blanks, and so is what an escaped sign has before it."""
    view: bytearray | None = None
    for sign, pattern in ODD:
        at = text.find(sign)
        while at >= 0:
            found = pattern.match(text, at)
            end = at + 1 if found is None else found.end()
            if found is not None:
                view = bytearray(text) if view is None else view
                meant = _MEANT.get(found[0].lstrip(b"\\").lower(), b" ")
                # Where a value ends or begins with an entity, the whole of it is masked, or none.
                view[at:end] = meant.ljust(end - at) if sign == b"&" else meant.rjust(end - at)
            elif sign == b"\\":
                end = end_of(_BACKSLASHES, text, at)
            at = text.find(sign, end)
    return text if view is None else bytes(view)


_BACKSLASHES = re.compile(rb"\\*+")


def end_of(pattern: re.Pattern[bytes], view: bytes, at: int) -> int:
    """Where the match at *at* of a pattern ends that can be empty."""
    found = pattern.match(view, at)
    return at if found is None else found.end()


def line_before(view: bytes, at: int, length: int = BACK) -> bytes:
    """The bytes of its line before *at*, at most *length*."""
    piece = view[max(0, at - length) : at]
    return piece[max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1 :]


def ending(text: bytes, of: bytes) -> bytes:
    """The last bytes of *text* that are all in *of*."""
    return text[len(text.rstrip(of)) :]


def line_begin(text: bytes, at: int) -> int:
    """Where the line begins that the byte at *at* is in."""
    length = 256
    while True:
        low = max(0, at - length)
        found = max(text.rfind(b"\n", low, at), text.rfind(b"\r", low, at))
        if found >= 0 or low == 0:
            return found + 1
        length *= 4
