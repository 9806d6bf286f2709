"""Derive from a regular expression texts of which every match holds one, so that a byte search can go first.

The texts are parsed from the expression's source. An unknown piece contributes no text, so the result is sometimes
weaker than possible, and never wrong.
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
_FLAGS = late(r"\(\?[aiLmsu]+\)")  # flags of the whole expression, at its beginning
_OPTIONAL = ("*", "?", "{0", "{,")


def needed(pattern: re.Pattern[str], any_case: bool) -> set[str] | None:
    """Texts of which each match of *pattern* holds one, as long as possible; None: no such texts are known.

    *any_case*: the caller searches for the texts regardless of case.
    """
    source = _FLAGS.sub("", pattern.pattern, count=1)
    pieces = deque(_PIECE.finditer(source))
    if pattern.flags & re.VERBOSE or sum(len(piece[0]) for piece in pieces) != len(source):
        return None
    return _of_ways(pieces, any_case)


def _of_ways(pieces: deque[re.Match[str]], any_case: bool) -> set[str] | None:
    """The texts for alternatives separated by ``|``, up to the end of the group or of the expression."""
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
            case "anchor":  # matches no character
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
    """Whether *char* in an expression matches only its own UTF-8."""
    if char == "\ufffd" or "\ud800" <= char < "\ue000":
        return False
    return char == "\t" or " " <= char < "\x7f" or (not any_case and char >= "\xa0")
