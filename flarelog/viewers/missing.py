"""Why a reader finds nothing: the run, the site or the log is unknown, and which one may have been meant."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence

from flarelog import globs
from flarelog.errors import FlarelogError, NotFound
from flarelog.lifecycle import RunState
from flarelog.model import StreamInfo
from flarelog.names import DOCTORS_RUN, natural, nearest, shown
from flarelog.records import unstored_sentences
from flarelog.text import some
from flarelog.viewers.health import unread
from flarelog.viewers.origin import Origin
from flarelog.viewers.selection import Selection

NAMED = 3  # names that a sentence lists


async def missing(origin: Origin, wanted: Selection) -> tuple[str, str]:
    """Which part of *wanted* *origin* lacks, as a sentence, and the name that may have been meant, or an empty one.

    The sentence is empty where nothing is missing: the log came just now.

    Raises CannotConnect, NotAllowed.
    """
    held = [info.stream for info in await origin.streams(wanted.run)]
    if not held:
        return await without(origin, wanted.run)
    where = f"run {shown(wanted.run)} at {origin.name}"
    of_sites = wanted.sites or tuple(dict.fromkeys(site for site, _ in wanted.starts))
    sites = {stream.site for stream in held}
    if of_sites and not any(globs.any_of(of_sites, site) for site in sites):
        return _unknown("site", of_sites, sites, where)
    of_logs = wanted.logs or tuple(dict.fromkeys(log for _, log in wanted.starts))
    there = [stream for stream in held if not of_sites or globs.any_of(of_sites, stream.site)]
    if not of_logs or any(globs.any_of(of_logs, name) for stream in there for name in stream.names):
        return "", ""
    return _unknown("log", of_logs, {stream.name for stream in there}, where)


async def without(origin: Origin, run: str) -> tuple[str, str]:
    """As ``missing``, for *run*, of which *origin* holds no log; the sentence says why nothing of it was stored."""
    runs: list[str] = []
    with contextlib.suppress(FlarelogError):  # the caller may not list runs, or the receiver is older
        runs = await origin.runs()
    if run in runs or await origin.state(run) is not RunState.UNKNOWN:
        why = never_stored(await origin.streams(run, unstored=True))
        return why or f"{origin.name} has no log of run {shown(run)}", ""
    meant, others = nearest(run, runs), [each for each in runs if each != DOCTORS_RUN]
    listed = f" (it has {_listed(others)})" if others and not meant else ""
    return f"{origin.name} has no run {shown(run)}{listed}", meant


def never_stored(infos: Collection[StreamInfo]) -> str:
    """Why nothing is stored of *infos*, the wanted logs; empty where there is no reason."""
    return "; ".join((*unstored_sentences(infos), *unread(infos)))


async def absent(origin: Origin, wanted: Selection) -> NotFound:
    """The error that *wanted* was not found, with the name that may be meant. Raises CannotConnect, NotAllowed."""
    return said(*await missing(origin, wanted), f"{origin.name} had no such log")


def said(what: str, meant: str, otherwise: str = "") -> NotFound:
    """The error for the result of ``missing``; *otherwise*: its text where nothing is missing any more."""
    return NotFound(f"{what}: did you mean {meant}?" if meant else what or otherwise)


def _unknown(what: str, asked: Sequence[str], known: Iterable[str], where: str) -> tuple[str, str]:
    names = sorted(known, key=natural)
    return f"{where} has no {what} {' or '.join(asked)} (it has {_listed(names)})", nearest(asked[0], names)


def _listed(known: Iterable[str]) -> str:
    return some(sorted(known, key=natural), NAMED)
