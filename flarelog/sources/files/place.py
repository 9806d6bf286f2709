"""Where a file with a rotated name belongs: a pure decision over its age and what is known of the log of that name."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from flarelog.sources.files.lineage import Age, compare

OVERLAP = 1_000_000_000  # ns for which a file may plausibly be written to after its successor's birth


def is_generation(
    log: str, age: Age, since: Age | None, until: Age | None, births: Sequence[int] | None, *, opened: bool = False
) -> bool | None:
    """Whether an unknown file of that *age*, whose name is a rotation of *log*, is a generation of it: younger than
    *since*, the newest known one, and older than *until*, the file at the log's name; None: nothing tells yet.

    Until bytes of the log are sent, *births* are those of the listed files that its generations may be: an older file
    is one if its last write was at most OVERLAP after the next birth. If the receiver has *opened* the log, and no file
    has its name, each is one.
    """
    if until is not None and compare(log, age, until) >= 0:  # a copy of a log that stays in place
        return False
    if since is not None and compare(log, age, since) > 0:
        return True
    if births is not None and (opened if until is None else _came_before(age, births, until.born)):
        return True
    return None if since is None else False


def _came_before(age: Age, births: Sequence[int], latest: int | None) -> bool:
    if age.born is None:
        return True
    after = bisect.bisect_right(births, age.born)
    following = births[after] if after < len(births) else latest or age.born
    return age.born < following and age.modified <= following + OVERLAP
