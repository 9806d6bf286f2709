"""Texts of which each match of a regular expression holds one: what a search of bytes can look for beforehand.

They are read from the expression as it is written. Whatever is not understood here promises nothing, so that too
little is told of an expression, never too much.
"""

from __future__ import annotations

import re
from collections import deque

from flarelog.late import late

_PIECE = late(
    r"""(?P<anchor>[\^$]|\\[AZbB])
    | (?P<some>\.|\\[dDsSwWnrtfva]|\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<repeat>(?:[*+?]|\{(?!\})\d*(?:,\d*)?\})[?+]?)
    | (?P<group>\((?:\?(?::|>|P<\w+>)|(?!\?)))
    | (?P<look>\(\?<?[=!])
    | (?P<or>\|)
    | (?P<end>\))
    | (?P<char>\\[^A-Za-z0-9]|[^\\(\[])""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS = late(r"\(\?[aiLmsu]+\)")  # of the whole expression: it stands at the beginning
_OPTIONAL = ("*", "?", "{0", "{,")


def needed(pattern: re.Pattern[str], any_case: bool) -> set[str] | None:
    """Texts of which each match of *pattern* holds one, the longer the better; None: nothing is known of it.

    *any_case*: they will be looked for in any case of letters.
    """
    source = _FLAGS.sub("", pattern.pattern, count=1)
    pieces = deque(_PIECE.finditer(source))
    if pattern.flags & re.VERBOSE or sum(len(piece[0]) for piece in pieces) != len(source):
        return None
    return _of_ways(pieces, any_case)


def _of_ways(pieces: deque[re.Match[str]], any_case: bool) -> set[str] | None:
    """Of what stands before the end of a group, or of all, with ``|`` in it."""
    ways = [_of_one(pieces, any_case)]
    while pieces and pieces.popleft().lastgroup == "or":
        ways.append(_of_one(pieces, any_case))
    return None if None in ways else {text for way in ways for text in way or ()}


def _of_one(pieces: deque[re.Match[str]], any_case: bool) -> set[str] | None:
    found: list[set[str]] = []
    run = ""
    while pieces and pieces[0].lastgroup not in ("or", "end"):
        piece = pieces.popleft()
        char, inner = "", None
        match piece.lastgroup:
            case "anchor":  # takes no character
                continue
            case "group":
                inner = _of_ways(pieces, any_case)
            case "look":
                _of_ways(pieces, any_case)
            case "char" if _sure(piece[0][-1], any_case):
                char = piece[0][-1]
        repeat = pieces.popleft()[0] if pieces and pieces[0].lastgroup == "repeat" else ""
        if char and not repeat:
            run += char
            continue
        found, run = [*found, {run}], ""
        inner = {char} if char else inner
        found += [inner] if inner and not repeat.startswith(_OPTIONAL) else []
    found.append({run})
    best = max(found, key=lambda texts: (min(map(len, texts)), -len(texts)))
    return best if min(map(len, best)) else None


def _sure(char: str, any_case: bool) -> bool:
    """Whether this character of an expression stands for its UTF-8 alone."""
    if char == "\ufffd" or "\ud800" <= char < "\ue000":
        return False
    return char == "\t" or " " <= char < "\x7f" or (not any_case and char >= "\xa0")
