"""The order of a log's generations, and the log that a rotated name speaks of.

Generations stand in the order of their births. Two of them may be born in the same tick of the file system's clock, and
some file systems keep no births. Names decide then: the file under the log's own name is the newest; of counted names
(log.txt.2) the higher number is older, of dated ones (log.txt-20261122) the earlier date; of two observed renames the
earlier one is of the older file. Names tell an order only within one listing.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from flarelog.model import BORN
from flarelog.values import changed, frozen

# With a separator before it: rank-10.log is no rotation of rank-1.log.
_ADDED = re.compile(r"[._-](?:\d[\d._:TZ-]*|old|bak|backup|orig|prev|previous|last)", re.IGNORECASE)
_LONGEST, _SIGNS = 40, 12  # the most characters added, and the most separators after which an addition is looked for
_DATE = 6  # digits
_BIRTH = re.compile(rf"(?<![^,]){BORN}:([0-9]{{1,19}})(?![^,])")
_COUNTER = re.compile(r"[._-](\d{1,5})[._-]?")


@frozen
class Age:
    """The known age of one generation of a log, and its present name."""

    born: int | None = None  # ns since the epoch
    path: str = ""  # at present; empty: unknown
    renamed: float = math.inf  # the sequence number of its observed rename
    modified: int = 0  # ns since the epoch


def compare(log: str, one: Age, other: Age) -> int:
    """Below 0 if *one* is the older of two generations of *log*, above 0 if it is the newer, 0 if unknown."""
    if one.born is not None and other.born is not None and one.born != other.born:
        return -1 if one.born < other.born else 1
    if (one.path == log) != (other.path == log):
        return 1 if one.path == log else -1
    by_name = _by_name(log, one.path, other.path)
    if by_name:
        return by_name
    if _place(log, one) != _place(log, other):
        return -1 if _place(log, one) < _place(log, other) else 1
    if one.born is None and other.born is None and one.path and other.path:
        return (one.modified > other.modified) - (one.modified < other.modified)
    return 0


def by_age(log: str, files: Iterable[Age]) -> list[Age]:
    """*files* of *log*, found by one look at a directory, the oldest first.

    Their births decide, as for a sidecar, unless they are those of copies: a file is younger than its last change, or
    another file than the log's own is the youngest. Then the last changes decide that copies have kept, or else names.
    """
    found = list(files)
    youngest = max((age for age in found if age.born is not None), key=lambda age: age.born or 0, default=None)
    kept = any(age.born is not None and age.modified < age.born for age in found)
    own = any(age.path == log for age in found)
    if kept and len({age.modified for age in found}) == len(found):
        return sorted(found, key=lambda age: (age.path == log, age.modified))
    if kept or any(age.born is None for age in found) or (own and youngest is not None and youngest.path != log):
        found = [changed(age, born=None) for age in found]
    return sorted(found, key=order(log))


def order(log: str) -> Callable[[Age], Any]:
    """The key that sorts generations of *log*, the oldest first."""
    return functools.cmp_to_key(functools.partial(compare, log))


def _place(log: str, age: Age) -> float:
    """The sequence number of the file's rename; a rename that only its name tells counts as the first."""
    return age.renamed if age.renamed < math.inf or age.path == log else -math.inf


def born_of(notes: str) -> int | None:
    """The birth time in a generation's *notes*."""
    said = _BIRTH.search(notes)
    return int(said[1]) if said is not None else None


def birth_note(born: int) -> str:
    """The word of a generation's notes for a birth, in ns since the epoch."""
    return f"{BORN}:{born}"


def _by_name(log: str, one: str, other: str) -> int:
    mine, its = _turn(log, one), _turn(log, other)
    if mine is None or its is None or type(mine) is not type(its) or mine == its:
        return 0
    if isinstance(mine, int):
        return -1 if mine > int(its) else 1
    return -1 if mine < str(its) else 1


def _turn(log: str, path: str) -> int | str | None:
    """The counter or the date that a rotation has added to the name of *log*."""
    added = added_to(os.path.basename(log), os.path.basename(path)) if path else None
    if added is None:
        return None
    counted = _COUNTER.fullmatch(added)
    if counted is not None:
        return int(counted[1])
    return added[1:] if added[1:2].isdigit() else None


def added_to(name: str, rotated: str) -> str | None:
    """The text that a rotation has added to *name* to get *rotated*: a number, a time or a word like ``old``."""
    more = len(rotated) - len(name)
    if more <= 0:
        return None
    # The common beginning may reach into the addition: in app.1.log that is ".1" or "1.".
    found = (
        rotated[at : at + more]
        for at in range(1, len(name) + 1)
        if rotated.startswith(name[:at]) and rotated.endswith(name[at:])
    )
    return next((added for added in found if _ADDED.fullmatch(added)), None)


def pattern_of(log: str, path: str) -> str:
    """The pattern that matches the log's name and the names of its rotations like *path*: ``log.txt*``."""
    name, rotated = os.path.basename(log), os.path.basename(path)
    at = next((at for at, (one, other) in enumerate(zip(name, rotated, strict=False)) if one != other), len(name))
    literal = re.sub(r"[*?\[\]]", "?", name)
    return f"{literal[:at]}*{literal[at:]}"


def is_rotation(log: str, path: str) -> bool:
    """Whether *path* is a rotated name of *log*: in the same directory, with a rotation's addition only."""
    return os.path.dirname(log) == os.path.dirname(path) and names_of(log, path)


def names_of(log: str, path: str) -> bool:
    """Whether *path* is a rotated name of *log*, in any directory."""
    return added_to(os.path.basename(log), os.path.basename(path)) is not None


def is_numbered(log: str, path: str) -> bool:
    """Whether a rotation has added a number or a time to the name of *log*, and not a word such as ``bak``."""
    return any(map(str.isdigit, added_to(os.path.basename(log), os.path.basename(path)) or ""))


@functools.lru_cache(maxsize=1 << 14)
def is_surely_rotation(log: str, path: str) -> bool:
    """Whether the name *path* can only be a rotation of *log*: train-1.log may well be another log than train.log, but
    train.log.1 cannot.
    """
    name, rotated = os.path.basename(log), os.path.basename(path)
    added = added_to(name, rotated)
    return added is not None and (rotated == name + added or sum(map(str.isdigit, added)) >= _DATE)


@functools.lru_cache(maxsize=1 << 14)
def originals(path: str) -> tuple[str, ...]:
    """The paths that a file may have had before a rotation gave it *path*, the longest first."""
    directory, slash, name = path.rpartition("/")
    return tuple(f"{directory}{slash}{original}" for original in _originals(name))


@functools.lru_cache(maxsize=1 << 14)
def _originals(name: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    # A writer chooses the names: one of only separators and digits must not take long.
    for at in [at for at, sign in enumerate(name) if at and sign in "._-"][-_SIGNS:]:
        longest = _ADDED.match(name, at, at + _LONGEST)
        for end in range(longest.end(), at + 1, -1) if longest is not None else ():
            whole = end == len(name) or not name[end - 1 : end + 1].isdigit()  # a number is added as a whole
            if whole and _ADDED.fullmatch(name, at, end):
                found[name[:at] + name[end:]] = None
    return tuple(sorted(found, key=len, reverse=True))
