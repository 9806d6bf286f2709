"""The files and directories that a site reports as unreadable.

Pure. A site reports a path; a directory has "/" behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from flarelog.names import log_of_peer


def told(news: News, health: Health) -> tuple[Health, dict[str, str]]:
    """*health*, from *news*, with its ``unread`` in the store's sentences; and the unreadable files, by the names of
    their logs, with reasons.
    """
    known = _known(news)
    others = [one for one in health.unread if CANNOT_BE_READ not in one and CANNOT_BE_LISTED not in one]
    sentences = (f"{name.rstrip('/')} {why}" for name, why in known.items())
    said = [*(one for one in sentences if len(one) <= LONGEST_REASON), *others][:UNREAD]  # only those that fit uncut
    found = dict(_named(known))
    if news.more:
        found[OTHERS] = unnamed(news.more)
    return replace(health, unread=tuple(said)), found


def names_any(news: News) -> bool:
    """Whether *news* name an unreadable file. Nothing but the first name is encoded, because the producer may not be
    admitted yet.
    """
    return news.health is not None and (news.more > 0 or any(_named(_known(news))))


def _known(news: News) -> dict[str, str]:
    return {name: why for name, why in news.unread if is_unread(why)}


def _named(known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, why in known.items():
        with suppress(InvalidName):
            yield f"{log_of_peer(path.rstrip('/'))}{'/' if path.endswith('/') else ''}", why
