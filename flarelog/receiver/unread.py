"""The files and directories that a site reports as unreadable.

Pure. A file has its name at the site, which may be invalid for a log; a directory has "/" behind its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from flarelog.errors import InvalidName
from flarelog.model import (
    CANNOT_BE_LISTED,
    CANNOT_BE_READ,
    CANNOT_BE_SENT,
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
    """*health*, from *news*, with its ``unread`` in the store's sentences; and the unreadable files with reasons."""
    known = {name: _of_its_name(name, why) for name, why in news.unread if name and is_unread(why)}
    found = known or dict(_of_older(health))
    others = [one for one in health.unread if CANNOT_BE_READ not in one and CANNOT_BE_LISTED not in one]
    sentences = (f"{name.rstrip('/')} {why}" for name, why in found.items())
    said = [*(one for one in sentences if len(one) <= LONGEST_REASON), *others][:UNREAD]  # only those that fit uncut
    if news.more:
        found[OTHERS] = unnamed(news.more)
    return replace(health, unread=tuple(said)), found


def _of_its_name(name: str, why: str) -> str:
    """*why*, which a sidecar words alike for files that it cannot read and for those that have no valid log name."""
    try:
        if not name.endswith("/"):
            log_name(name)
    except InvalidName:
        return f"{CANNOT_BE_SENT.lstrip()}{why.removeprefix(CANNOT_BE_READ.lstrip())}"
    return why


def _of_older(health: Health) -> Iterator[tuple[str, str]]:
    """The unreadable files that an older producer reports; the names in its sentences are valid for a log."""
    for sentence in health.unread:
        for kind, behind in ((CANNOT_BE_READ, ""), (CANNOT_BE_LISTED, "/")):
            path, known, why = sentence.partition(kind)
            if known:
                with suppress(InvalidName):  # the name is invalid for a log
                    yield f"{log_name(path)}{behind}", f"{known.lstrip()}{why}"
                break
