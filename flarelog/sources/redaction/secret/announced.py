"""Values that another line announces: the line before has the name of a secret, as in YAML's and JSON's ``name`` and
``value``, in a block of YAML, and in a list.

A line depends on the lines before it alone, at most ABOVE bytes of them, so bytes that were shown stay as they are. The
name and the value are judged as if they stood in one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from flarelog.sources.redaction.secret.view import Span, places

ABOVE = 2 << 10  # bytes before a line that may announce its value
LONGEST = 4 << 10  # bytes of such a line
_ITEMS = 16  # of a list, at most
_LINES = 24  # of a key without a PEM header of its own, at most: PuTTY's has fourteen or so, OpenVPN's sixteen
_ALL = b""  # instead of a name: the whole line is the value
_KEY_SIGNS = (b"Private-Lines: ", b"BEGIN OpenVPN ", b"NKEY SEED-")
_KEY_LINE = re.compile(rb"[A-Za-z0-9+/]{16,80}={0,2}[ \t]{0,4}\r?(?:\n|\Z)")
_NAME = rb"[\"']?([A-Za-z_.][\w.-]{2,127})[\"']?"
# The ends of a line that announce the next one, and how that one begins up to its value.
_NAMED = re.compile(
    rb"(?:^|[\s{,])[\"']?(?:name|key|variable|[A-Za-z]{0,16}Name|Key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}"
    + _NAME
    + rb"[ \t]{0,4},?[ \t]*(?:[ \t]#[^\r\n]*)?\Z"
    rb"|<(?:[\w-]{0,24}name|key|Name|Key)>([\w.-]{3,128})</[\w-]{1,28}>[ \t]*\Z"
)
_VALUE = re.compile(
    rb"[ \t]{0,64}(?:[\"']?[Vv]alue[\"']?[ \t]{0,4}[:=][ \t]{0,4}|<(?:[\w-]{0,24}[Vv]alue|string|data)>)(?=\S)"
)
_BLOCK = re.compile(_NAME + rb"[ \t]{0,4}:[ \t]{1,4}(?:[&!][\w.!-]{1,64}[ \t]{1,4}){0,2}[|>][+-]?\d?[+-]?[ \t]*\Z")
_LIST = re.compile(_NAME + rb"[ \t]{0,4}[:=][ \t]{0,4}[\[(][ \t]*\Z")
_ITEM = re.compile(rb"[ \t]{0,64}(?:-[ \t]{1,4})?(?=[^\s\])}])")
_BLOCKS = tuple(b"%b%b\n" % (sign, more) for sign in (b"|", b">") for more in (b"", b"-", b"+"))
DIGITS = b"0123456789abcdef"
_SIGNS = (  # in a text, or in its bones
    *(b"value", b"vlu", b"<string", b"[\n", *_BLOCKS),
    *(sign.lower().translate(None, DIGITS) for sign in _KEY_SIGNS),
)

SHORT = 2 << 10  # bytes of a text that is searched as it is

Find = Callable[[bytes, tuple[str, ...]], Iterator[Span]]


def may_announce(text: bytes) -> bool:
    """Whether *text*, or the text with these bones, may have a line that announces another, or that one."""
    return any(sign in text for sign in _SIGNS)


def goes_on(above: bytes, text: bytes) -> bool:
    """Whether the lines *above* may announce the first line of *text*, if that has no name of its own."""
    line = text[: text.find(b"\n") + 1].strip() or text.strip()
    if above.endswith(_BLOCKS):
        return True
    if b" " not in line:  # as no line of a log, but those of keys and lists
        return b"[\n" in above or any(sign in above for sign in _KEY_SIGNS)
    return False


def announced(text: bytes, names: tuple[str, ...], find: Find) -> Iterator[Span]:
    """The spans in *text* of values whose names are in the lines before them. *find* finds the secrets of a line."""
    for begin, name in _candidates(text):
        end = text.find(b"\n", begin, begin + LONGEST)
        if end < 0 and len(text) > begin + LONGEST:
            continue
        line = text[begin : end if end >= 0 else len(text)].rstrip(b"\r")
        value = _VALUE.match(line) or _ITEM.match(line)
        if name == _ALL and line.strip():
            yield begin, begin + len(line)
        if value is None or name == _ALL:
            continue
        lead = name + b": "
        for first, last in find(lead + line[value.end() :], names):
            first, last = max(first - len(lead), 0), last - len(lead)
            if first < last:
                yield begin + value.end() + first, begin + value.end() + last


def _candidates(text: bytes) -> Iterator[tuple[int, bytes]]:
    """(where a line begins, the name that the lines before it announce)."""
    for word in (b"value", b"Value", b"<string"):
        for at in places(text, word):
            begin = text.rfind(b"\n", max(0, at - 66), at) + 1
            if begin and _VALUE.match(text, begin) is not None:
                found = _NAMED.search(_line_before(text, begin))
                if found is not None:
                    yield begin, found[1] or found[2]
    for word in _BLOCKS:
        for at in places(text, word):
            begin = at + len(word)
            found = _BLOCK.search(_line_before(text, begin))
            if found is not None and text[begin : begin + 1] in (b" ", b"\t"):
                yield begin, found[1]
    for sign in _KEY_SIGNS:
        for at in places(text, sign):
            begin = text.find(b"\n", at, at + 64) + 1
            for _ in range(_LINES):
                if not begin or not _KEY_LINE.match(text, begin):
                    break
                yield begin, _ALL
                begin = text.find(b"\n", begin) + 1
    for at in places(text, b"[\n"):
        begin = at + 2
        found = _LIST.search(_line_before(text, begin))
        for _ in range(_ITEMS if found is not None and b"key" in found[1].lower() else 0):
            if found is None or _ITEM.match(text, begin) is None or begin - at > ABOVE:
                break
            yield begin, found[1]
            begin = text.find(b"\n", begin) + 1
            if not begin:
                break


def _line_before(text: bytes, begin: int) -> bytes:
    """The line before the one that begins at *begin*, at most its last 256 bytes."""
    piece = text[max(0, begin - 257) : begin - 1].rstrip(b"\r\n")
    return piece[piece.rfind(b"\n") + 1 :].rstrip(b"\r")
