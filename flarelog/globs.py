"""Globs: the one pattern language for names.

``*`` matches anything within a part of a name, ``?`` one character, ``[...]`` one of a set, ``[!...]`` one outside it;
``**`` matches any number of parts. A pattern without ``/`` is compared with the last part of a name, one with ``/``
with the whole name. Case matters. A name with brackets or stars in it also matches itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable

from flarelog.errors import InvalidGlob, InvalidOption
from flarelog.late import late
from flarelog.names import MAX_NAME

_NAME = late(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_patterns: dict[str, Callable[[str], object]] = {}
# The program's own patterns: one expression for names, and one for paths.
_expected: dict[tuple[str, ...], tuple[Callable[[str], object], Callable[[str], object]]] = {}


def check(patterns: Iterable[str]) -> None:
    """Raises InvalidGlob for an unparsable pattern of *patterns*, InvalidOption for one that can match no name."""
    for pattern in patterns:
        if not pattern:
            raise InvalidOption("an empty pattern matches nothing: give a name, or leave the option out")
        if pattern.startswith("/"):
            raise InvalidOption(f"the pattern {pattern!r} can match nothing: remove the '/' before it")
        pieces = [piece for piece, _ in _tokens(pattern)]
        for bracket, missing in (("[", "]"), ("]", "[")):
            if bracket in pieces:
                raise InvalidGlob(f"the pattern {pattern!r} has a {bracket!r} without its {missing!r}: write both")
        try:
            _compiled(pattern)
        except re.error as error:
            raise InvalidGlob(f"the pattern {pattern!r} cannot be read ({error.msg}): correct its brackets") from error


def any_of(patterns: tuple[str, ...], path: str) -> bool:
    """Whether one of *patterns* matches *path*; a pattern without ``/`` is compared with its last part."""
    name = path.rsplit("/", 1)[-1]
    if patterns in _expected:
        of_name, of_path = _expected[patterns]
        return of_name(name) is not None or of_path(path) is not None
    return any(
        _compiled(pattern)(named) or named == pattern
        for pattern in patterns
        for named in (path if "/" in pattern else name,)
    )


def plain(patterns: Iterable[str]) -> tuple[str, ...]:
    """*patterns*, if each is a literal name of a run or a site; empty otherwise."""
    found = tuple(dict.fromkeys(patterns))
    return found if all(len(each) <= MAX_NAME and _NAME.fullmatch(each) for each in found) else ()


def whole(patterns: Iterable[str], name: str) -> bool:
    """Whether one of *patterns* matches the whole *name*: permissions never depend on the last part alone.

    An invalid pattern matches nothing.
    """
    for pattern in patterns:
        with contextlib.suppress(re.error):
            if _compiled(pattern)(name):
                return True
    return False


def expect(patterns: tuple[str, ...]) -> None:
    """Compile *patterns*, the program's own, into one expression, which matches faster than one by one."""
    alike = [[each for each in patterns if ("/" in each) is whole] for whole in (False, True)]
    of_name, of_path = (_expression("|".join(map(_source, each)) or "(?!)") for each in alike)
    _expected[patterns] = of_name, of_path


def _compiled(pattern: str) -> Callable[[str], object]:
    """The matcher of *pattern*: ``*``, ``?`` and ``[...]`` stay within a part, ``**`` spans any number of parts.
    Raises re.error.
    """
    if pattern not in _patterns:
        # Repeated stars count as one: the second could only match what the first does.
        pieces = [piece for piece, before in _tokens(pattern) if piece != before or piece not in _STARS]
        # A regular expression tries each star at each place, times each place of every other star. The writer of a log
        # chooses its name, and a long one must not hold up other logs.
        many = sum(piece in _STARS for piece in pieces) > 2
        _patterns[pattern] = _walk(pieces) if many else _expression("".join(map(_text, pieces)))
    return _patterns[pattern]


def _expression(source: str) -> Callable[[str], object]:
    return re.compile(rf"(?:{source})\Z", re.DOTALL).match


def _source(pattern: str) -> str:
    return "".join(_text(piece) for piece, _ in _tokens(pattern))


_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_STARS = ("**/", "**", "*")


def _tokens(pattern: str) -> Iterable[tuple[str, str]]:
    """Each piece of *pattern*, with the piece before it."""
    found = re.findall(r"\*\*/|\*\*|\*|\?|\[[!^]?+(?:\][^]/]*|[^]/]+)\]|.", pattern, re.DOTALL)
    return zip(found, ["", *found], strict=False)


def _text(piece: str) -> str:
    if piece in _WILD:
        return _WILD[piece]
    if len(piece) == 1:
        return re.escape(piece)
    # Later versions of re give two hyphens and other signs in brackets a meaning.
    return "(?!/)[" + re.sub(r"([\\[&~|]|(?<=-)-)", r"\\\1", re.sub(r"^[!^]", "^", piece[1:-1])) + "]"


def _walk(pieces: list[str]) -> Callable[[str], bool]:
    """A matcher whose time grows with the number of *pieces* times the length of the name."""
    singles = {piece: re.compile(_text(piece), re.DOTALL).match for piece in pieces if piece not in _STARS}

    def match(path: str) -> bool:
        reached = [True] + [False] * len(path)  # whether the pieces so far match up to that character
        for piece in pieces:
            if piece in singles:
                one = singles[piece]
                reached = [
                    False,
                    *(at and one(character) is not None for at, character in zip(reached, path, strict=False)),
                ]
                continue
            open_ = False
            for n, at in enumerate(reached):
                if piece == "**/":
                    reached[n] = at or (open_ and path[n - 1] == "/")
                    open_ = open_ or at
                else:
                    open_ = at or (open_ and (piece == "**" or path[n - 1] != "/"))
                    reached[n] = open_
        return reached[-1]

    return match
