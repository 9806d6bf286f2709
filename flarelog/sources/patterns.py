"""Which names are those of logs, and which of them are names that a rotation gives."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from flarelog.errors import InvalidOption

NOT_LOGS = (
    *("*.gz", "*.bz2", "*.xz", "*.zst", "*.zip", "*.tar", "*.tgz"),
    *("*.pt", "*.pth", "*.ckpt", "*.safetensors", "*.onnx", "*.h5", "*.bin", "*.pkl", "*.pickle"),
    *("*.npy", "*.npz", "*.parquet", "*.arrow", "events.out.tfevents.*", "*.py", "*.pyc", "*.so"),
    *("*.swp", "*~", "*.tmp", ".*", ".*/**", "**/.*/**", "*.crt", "*.key", "*.pem"),
)
"""What is left out when no include pattern says otherwise: names that say that a file is something else than a log."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Which files are sent. Raises InvalidOption.

    A pattern without ``/`` is compared with a file's name, one with ``/`` with its path under *root*; ``**`` stands
    for any number of directories. Without *include* everything is sent but NOT_LOGS.
    """

    root: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    # Of files that are there at the start and unknown to the receiver:
    start_at: Literal["beginning", "end"] = "beginning"
    ignore_older: float | None = None  # seconds; of those not modified for so long send only what is added

    def __post_init__(self) -> None:
        for pattern in (*self.include, *self.exclude):
            if not pattern or pattern.startswith("/"):
                raise InvalidOption(f"the pattern {pattern!r} can match nothing; write it relative to the root")
            try:
                _compiled(pattern)
            except re.error as error:
                raise InvalidOption(
                    f"the pattern {pattern!r} cannot be read: {error.msg}; correct its [...]"
                ) from error
        if self.start_at not in ("beginning", "end"):
            raise InvalidOption(f"start_at is 'beginning' or 'end', not {self.start_at!r}")
        if self.ignore_older is not None and not 0 < self.ignore_older < math.inf:
            raise InvalidOption("ignore_older must be a positive number of seconds")

    def matches(self, path: str) -> bool:
        if self.include:
            return any_of(self.include, path) and not any_of(self.exclude, path)
        return not any_of(NOT_LOGS, path) and not any_of(self.exclude, path)

    def follows(self, path: str, origin: str) -> bool:
        """Whether a file that was *origin*, a log, is sent as such when it was renamed to *path* before anyone looked:
        rotated out of the include patterns it is, under a name that is left out it is not.
        """
        return bool(self.include) and self.matches(origin) and not any_of(self.exclude, path)


def any_of(patterns: Iterable[str], path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return any(_compiled(pattern)(path if "/" in pattern else name) for pattern in patterns)


_patterns: dict[str, Callable[[str], object]] = {}


def _compiled(pattern: str) -> Callable[[str], object]:
    """What says whether a name matches *pattern*: ``*``, ``?`` and ``[...]`` stay within a part, ``**`` is any number
    of parts. Raises re.error.
    """
    if pattern not in _patterns:
        # The same stars in a row are one: they would only be tried in each other's place.
        pieces = [piece for piece, before in _tokens(pattern) if piece != before or piece not in _STARS]
        # A regular expression tries each star at each place, times each place of every other: names are a writer's
        # choice, and a long one must not hold up the logs beside it.
        many = sum(piece in _STARS for piece in pieces) > 2 and pattern not in NOT_LOGS
        _patterns[pattern] = _walk(pieces) if many else re.compile("".join(map(_text, pieces)) + r"\Z", re.DOTALL).match
    return _patterns[pattern]


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


def rotated_shape(log: str, path: str) -> str | None:
    """The shape of the file names that *log* is rotated to, *path* being one; None if it is no such name.

    A rotation adds something to the name: app.log becomes app.log.1, app.log-20261120 or app-1.log.
    """
    name, rotated = os.path.basename(log), os.path.basename(path)
    begin = next((n for n, (old, new) in enumerate(zip(name, rotated, strict=False)) if old != new), len(name))
    grown = len(rotated) > len(name) and rotated.endswith(name[begin:])
    return shape_of(rotated) if grown else None


def shape_of(name: str) -> str:
    """*name* with each number in it as one sign."""
    return re.sub(r"\d+", "0", name)
