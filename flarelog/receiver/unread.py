"""What a site says that it cannot read, of its files and directories.

Pure. A file has the name that it has there, which need not be what a log can be called; a directory has "/" behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from flarelog.errors import InvalidName
from flarelog.model import (
    CANNOT_BE_LISTED,
    CANNOT_BE_READ,
    LONGEST_REASON,
    OTHERS,
    UNREAD,
    Health,
    News,
    is_unread,
    unnamed,
)
from flarelog.names import log_name


def told(news: News, health: Health) -> tuple[Health, dict[str, str]]:
    """*health*, of *news*, with sentences that are those of the store; and what cannot be read, each with why."""
    found = {name: why for name, why in news.unread if name and is_unread(why)} or dict(_of_older(health))
    others = [one for one in health.unread if CANNOT_BE_READ not in one and CANNOT_BE_LISTED not in one]
    sentences = (f"{name.rstrip('/')} {why}" for name, why in found.items())
    said = [*(one for one in sentences if len(one) <= LONGEST_REASON), *others][:UNREAD]  # those that are told whole
    if news.more:
        found[OTHERS] = unnamed(news.more)
    return replace(health, unread=tuple(said)), found


def _of_older(health: Health) -> Iterator[tuple[str, str]]:
    """What an older producer says, whose sentences have a name that a log can have."""
    for sentence in health.unread:
        for kind, behind in ((CANNOT_BE_READ, ""), (CANNOT_BE_LISTED, "/")):
            path, known, why = sentence.partition(kind)
            if known:
                with suppress(InvalidName):  # it is none of a log
                    yield f"{log_name(path)}{behind}", f"{known.lstrip()}{why}"
                break
