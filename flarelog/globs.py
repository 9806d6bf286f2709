"""Globs: the one language of patterns for names, whatever they name.

``*`` is anything within a part of a name, ``?`` one character, ``[...]`` one of some, ``[!...]`` none of them; ``**``
is any number of parts. A pattern without ``/`` is compared with the last part of a name, wherever that is; one with
``/`` with the whole of it. Letters are compared as they are.
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
# Of the program's own patterns: one expression for a name, and one for a path.
_expected: dict[tuple[str, ...], tuple[Callable[[str], object], Callable[[str], object]]] = {}


def check(patterns: Iterable[str]) -> None:
    """Raises InvalidGlob for the first of *patterns* that cannot be read, InvalidOption for one that is no name's."""
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
    """Whether one of *patterns* matches *path*, or, where it has no ``/``, the last part of it."""
    name = path.rsplit("/", 1)[-1]
    if patterns in _expected:
        of_name, of_path = _expected[patterns]
        return of_name(name) is not None or of_path(path) is not None
    return any(_compiled(pattern)(path if "/" in pattern else name) for pattern in patterns)


def plain(patterns: Iterable[str]) -> tuple[str, ...]:
    """*patterns*, if each is the name of a run or a site and matches that alone; none otherwise."""
    found = tuple(dict.fromkeys(patterns))
    return found if all(len(each) <= MAX_NAME and _NAME.fullmatch(each) for each in found) else ()


def whole(patterns: Iterable[str], name: str) -> bool:
    """Whether one of *patterns* matches *name* as it is: who may do what does not hang on the last part of a name.

    One that makes no sense matches nothing.
    """
    for pattern in patterns:
        with contextlib.suppress(re.error):
            if _compiled(pattern)(name):
                return True
    return False


def expect(patterns: tuple[str, ...]) -> None:
    """Match *patterns*, the program's own, faster than those of which nothing is known: with one expression."""
    alike = [[each for each in patterns if ("/" in each) is whole] for whole in (False, True)]
    of_name, of_path = (_expression("|".join(map(_source, each)) or "(?!)") for each in alike)
    _expected[patterns] = of_name, of_path


def _compiled(pattern: str) -> Callable[[str], object]:
    """What says whether a name matches *pattern*: ``*``, ``?`` and ``[...]`` stay within a part, ``**`` is any number
    of parts. Raises re.error.
    """
    if pattern not in _patterns:
        # The same stars in a row are one: they would only be tried in each other's place.
        pieces = [piece for piece, before in _tokens(pattern) if piece != before or piece not in _STARS]
        # A regular expression tries each star at each place, times each place of every other: names are a writer's
        # choice, and a long one must not hold up the logs beside it.
        many = sum(piece in _STARS for piece in pieces) > 2
        _patterns[pattern] = _walk(pieces) if many else _expression("".join(map(_text, pieces)))
    return _patterns[pattern]


def _expression(source: str) -> Callable[[str], object]:
    return re.compile(rf"(?:{source})\Z", re.DOTALL).match


def _source(pattern: str) -> str:
    """The regular expression of *pattern*."""
    return "".join(_text(piece) for piece, _ in _tokens(pattern))


_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_STARS = ("**/", "**", "*")


def _tokens(pattern: str) -> Iterable[tuple[str, str]]:
    """Each piece, and the one before it."""
    found = re.findall(r"\*\*/|\*\*|\*|\?|\[[!^]?+(?:\][^]/]*|[^]/]+)\]|.", pattern, re.DOTALL)
    return zip(found, ["", *found], strict=False)


def _text(piece: str) -> str:
    """The regular expression of *piece*."""
    if piece in _WILD:
        return _WILD[piece]
    if len(piece) == 1:
        return re.escape(piece)
    # Two hyphens and other signs mean something between brackets to a later version of re.
    return "(?!/)[" + re.sub(r"([\\[&~|]|(?<=-)-)", r"\\\1", re.sub(r"^[!^]", "^", piece[1:-1])) + "]"


def _walk(pieces: list[str]) -> Callable[[str], bool]:
    """Matches in time that is the number of *pieces* times the length of the name."""
    singles = {piece: re.compile(_text(piece), re.DOTALL).match for piece in pieces if piece not in _STARS}

    def match(path: str) -> bool:
        reached = [True] + [False] * len(path)  # after which characters the pieces so far can end
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
