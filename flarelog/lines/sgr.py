"""Colours and weights of text (SGR, ECMA-48 8.3.117): the only escape sequences that a view lets through.

A style is the text of its parameters, each attribute once and in a fixed order, ``""`` for none. Code 8 (conceal),
which hides text, is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from flarelog.late import late

SGR = late(r"\x1b\[[0-9;:]*m")
RESET = "\x1b[0m"
RESETS = (b"\x1b[0m", b"\x1b[m")  # behind one no colour is in force
_SGR_BYTES = late(rb"\x1b\[([0-9;:]*)m")
_UNFINISHED = late(rb"\x1b(\[[0-9;:]*)?\Z")
LONGEST = 64  # bytes of a sequence that is known where it is read in two parts

# The codes that set an attribute, and those that reset it.
_SET = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 5: "blink", 6: "blink", 7: "inverse", 9: "strike"}
_SET |= {21: "underline", 53: "over"}
_SET |= dict.fromkeys((*range(30, 38), *range(90, 98)), "foreground")
_SET |= dict.fromkeys((*range(40, 48), *range(100, 108)), "background")
_TAKE = {22: ("bold", "faint"), 23: ("italic",), 24: ("underline",), 25: ("blink",), 27: ("inverse",), 29: ("strike",)}
_TAKE |= {39: ("foreground",), 49: ("background",), 55: ("over",), 59: ("line",)}
_COLOUR = {38: "foreground", 48: "background", 58: "line"}  # followed by 5;N or 2;R;G;B
_SLOTS = tuple(dict.fromkeys((*_SET.values(), *_COLOUR.values())))


@lru_cache(maxsize=1024)
def changed(style: str, parameters: str) -> str:
    """The style after *style* and a sequence with *parameters*, the text between ``ESC [`` and ``m``."""
    held = dict(_attributes(style))
    for slot, value in _attributes(parameters):
        if not slot:
            held.clear()
        elif value:
            held[slot] = value
        else:
            held.pop(slot, None)
    return ";".join(held[slot] for slot in _SLOTS if slot in held)


def _attributes(parameters: str) -> list[tuple[str, str]]:
    """(attribute, text) pairs of *parameters*; an empty text resets the attribute, an empty attribute resets all."""
    if not parameters:
        return [("", "")]
    found, codes = [], parameters.split(";")
    while codes:
        code = codes.pop(0)
        number = int(code.partition(":")[0][:4] or "0")
        if number in _COLOUR and ":" in code:
            found.append((_COLOUR[number], code[:32]))
        elif number in _COLOUR:
            wanted = {"5": 2, "2": 4}.get(codes[0] if codes else "", 0)
            value, codes = codes[:wanted], codes[wanted:]
            if len(value) == wanted > 0 and all(len(one) <= 3 and ":" not in one for one in value):
                found.append((_COLOUR[number], ";".join((code, *value))))
        elif number == 0:
            found.append(("", ""))
        elif number in _SET:
            kind = code.partition(":")[2][:1] if number == 4 else ""  # 4:3 is curly, 4:4 dotted, 4:0 none
            found.append((_SET[number], "" if kind == "0" else f"4:{kind}" if kind else str(number)))
        else:
            found += [(slot, "") for slot in _TAKE.get(number, ())]
    return found


def style_behind(style: str, data: bytes) -> str:
    """The style in force behind *data*, bytes of a log that begin in *style*."""
    for found in _SGR_BYTES.finditer(sequences(data)):
        style = changed(style, found[1].decode())
    return style


def sequences(data: bytes) -> bytes:
    """The sequences in *data* that decide the style behind it: ``style_behind`` gives the same for both."""
    if b"\x1b" not in data or b"\x1b[" not in data:  # a search for one byte is many times as fast
        return b""
    last = max(data.rfind(reset) for reset in RESETS)
    return b"".join(found[0] for found in _SGR_BYTES.finditer(data, max(0, last)))


def unfinished(data: bytes) -> bytes:
    """The beginning of a sequence at the end of *data*, which bytes behind *data* may finish; empty without one."""
    at = data.rfind(b"\x1b", max(0, len(data) - LONGEST))
    return data[at:] if at >= 0 and _UNFINISHED.match(data, at) else b""


def painted(now: str, style: str) -> str:
    """The sequence that changes the style from *now* to *style*."""
    return (f"\x1b[0;{style}m" if now else f"\x1b[{style}m") if style else RESET


def plain(text: str) -> str:
    """*text* without its colours."""
    return SGR.sub("", text) if "\x1b" in text else text


def parts(text: str, most: int) -> Iterator[str]:
    """Split *text* into parts of *most* characters, each with its colours."""
    if "\x1b" not in text:
        yield from (text[at : at + most] for at in range(0, len(text), most))
        return
    out, room, style = list[str](), most, ""
    for piece in re.split(f"({SGR.pattern})", text):
        if SGR.fullmatch(piece):
            style = changed(style, piece[2:-1])
            out.append(piece)
            continue
        at = 0
        while len(piece) - at > room:
            out.append(piece[at : at + room])
            yield "".join(out) + (RESET if style else "")
            at, room = at + room, most
            out = [painted("", style)] if style else []
        out.append(piece[at:])
        room -= len(piece) - at
    yield "".join(out) + (RESET if style else "")


def highlighted(text: str, patterns: Iterable[re.Pattern[str]], style: str = "1;7") -> str:
    """*text* with the matches of *patterns* in *style*; its own colours hold outside them and are not matched."""
    bare = plain(text)
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(match.span() for pattern in patterns for match in pattern.finditer(bare)):
        if spans and begin <= spans[-1][1] and end > begin:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        elif end > begin:
            spans.append((begin, end))
    if not spans:
        return text
    out, at, own = [], 0, ""  # *at*: characters in the earlier pieces
    edges = iter([edge for span in spans for edge in span])
    edge, inside = next(edges), False
    for piece in re.split(f"({SGR.pattern})", text):
        if SGR.fullmatch(piece):
            own = changed(own, piece[2:-1])
            out += [] if inside else [piece]
            continue
        begin = 0  # of the rest of the piece; slicing off the rest for each match would be quadratic
        while begin <= edge - at <= len(piece):
            out.append(piece[begin : edge - at])
            begin, inside = edge - at, not inside
            out.append(f"\x1b[0;{style}m" if inside else f"\x1b[0;{own}m" if own else RESET)
            edge = next(edges, -1)
        out.append(piece[begin:])
        at += len(piece)
    return "".join(out)
