"""Which names are those of logs, and which of them are names that a rotation gives."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flarelog.errors import InvalidOption
from flarelog.sources.redact import Rules

if TYPE_CHECKING:
    from flarelog.sources.consent import Consent

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
    redact: tuple[str, ...] = ()  # names of what is masked, beside what the site wants
    sites: tuple[Consent, ...] = ()  # what the site's administrators let go: all of them must

    def __post_init__(self) -> None:
        check_globs((*self.include, *self.exclude))
        Rules(self.redact)
        if self.start_at not in ("beginning", "end"):
            raise InvalidOption(f"start_at is 'beginning' or 'end', not {self.start_at!r}")
        if self.ignore_older is not None and not 0 < self.ignore_older < math.inf:
            raise InvalidOption("ignore_older must be a positive number of seconds")

    def matches(self, path: str) -> bool:
        if self.include:
            asked = any_of(self.include, path) and not any_of(self.exclude, path)
        else:
            asked = not any_of(NOT_LOGS, path) and not any_of(self.exclude, path)
        return asked and self.permits(path)

    def permits(self, path: str) -> bool:
        """Whether the site lets go of the file at *path*, whoever asks for it."""
        return all(site.permits(path) for site in self.sites)

    def excludes(self, path: str) -> bool:
        """Whether the file at *path* is never sent, whatever it was called before."""
        return any_of(self.exclude, path) or any(any_of(site.exclude, path) for site in self.sites)

    def rules(self) -> Rules:
        """What is masked: what anybody wants to be."""
        rules = Rules(self.redact)
        for site in self.sites:
            rules |= site.rules
        return rules

    def continues(self, path: str, log: str, met: bool, was: str = "") -> bool:
        """Whether the file at *path*, which a receiver says was *log*, may be sent as such. It may say so of any file:
        outside the patterns it is to be one that this sidecar itself has *met*, or one whose name says that it is
        *log*, rotated. Under a name that the site does not let go it is to be one that this sidecar itself has met as
        that log: *was* is the log as which this process, or its checkpoint, knows the file.
        """
        if self.excludes(path) or not self.matches(log) or not (self.permits(path) or was == log):
            return False
        return self.matches(path) or met or is_rotation(log, path)

    def follows(self, path: str, origin: str) -> bool:
        """Whether a file that was *origin*, a log, is sent as such when it was renamed to *path* before anyone looked:
        rotated out of the include patterns it is, under a name that is left out it is not.
        """
        limited = self.include or any(site.include for site in self.sites)
        return bool(limited) and self.matches(origin) and not self.excludes(path)


def check_globs(patterns: Iterable[str]) -> None:
    """Raises InvalidOption for the first of *patterns* that makes no sense."""
    for pattern in patterns:
        if not pattern or pattern.startswith("/"):
            raise InvalidOption(f"the pattern {pattern!r} can match nothing; write it relative to the root")
        try:
            _compiled(pattern)
        except re.error as error:
            raise InvalidOption(f"the pattern {pattern!r} cannot be read: {error.msg}; correct its [...]") from error


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


# With a sign before it: rank-10.log is not what became of rank-1.log.
_ADDED = re.compile(r"[._-](?:\d[\d._:TZ-]*|old|bak|backup|orig|prev|previous|last)", re.IGNORECASE)


def is_rotation(log: str, path: str) -> bool:
    """Whether the name *path* says that it was *log*: in the same directory, with a number, a time or a word like
    ``old`` added, and nothing else.
    """
    name, rotated = os.path.basename(log), os.path.basename(path)
    more = len(rotated) - len(name)
    if more <= 0 or os.path.dirname(log) != os.path.dirname(path):
        return False
    # What the two begin with may reach into what was added: of app.1.log it is ".1" or "1.".
    return any(
        rotated.startswith(name[:at]) and rotated.endswith(name[at:]) and _ADDED.fullmatch(rotated[at : at + more])
        for at in range(1, len(name) + 1)
    )


def shape_of(name: str) -> str:
    """*name* with each number in it as one sign."""
    return re.sub(r"\d+", "0", name)
