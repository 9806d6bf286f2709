"""Why a reader finds nothing: the run, the site or the log is unknown, and which one may have been meant."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Sequence

from flarelog import globs
from flarelog.errors import FlarelogError, InvalidName, NotFound
from flarelog.late import late
from flarelog.lifecycle import RunState
from flarelog.model import StreamInfo
from flarelog.names import DOCTORS_RUN, given_run, natural, nearest, shown
from flarelog.records import unstored_sentences
from flarelog.text import legible, some
from flarelog.viewers.attributes import LABEL, Wanted, have, held
from flarelog.viewers.every_run import EveryRun
from flarelog.viewers.health import few_unread
from flarelog.viewers.origin import Origin
from flarelog.viewers.selection import Selection

NAMED = 3  # names that a sentence lists
_SEARCHED = 100  # runs whose logs are listed to see what may have been meant


async def missing(origin: Origin, wanted: Selection) -> tuple[str, str]:
    """Which part of *wanted* *origin* lacks, as a sentence, and the name that may have been meant, or an empty one.

    The sentence is empty where nothing is missing: the log came just now.

    Raises CannotConnect, NotAllowed.
    """
    infos = await (origin.everything() if isinstance(origin, EveryRun) else origin.streams(wanted.run))
    streams = [info.stream for info in infos]
    if not streams:
        return await without(origin, wanted.run) if wanted.run else (f"{origin.name} has no logs", "")
    where = f"run {shown(wanted.run)} at {origin.name}" if wanted.run else origin.name
    of_sites = wanted.sites or tuple(dict.fromkeys(site for site, _ in wanted.starts))
    sites = {stream.site for stream in streams}
    if of_sites and not any(globs.any_of(of_sites, site) for site in sites):
        return _unknown("site", of_sites, sites, where)
    of_logs = wanted.logs or tuple(dict.fromkeys(log for _, log in wanted.starts))
    there = [stream for stream in streams if not of_sites or globs.any_of(of_sites, stream.site)]
    if not of_logs or any(globs.any_of(of_logs, name) for stream in there for name in stream.names):
        return lacking(wanted.attributes, [info for info in infos if wanted.has(info.stream)], where)
    return _unknown("log", of_logs, {stream.name for stream in there}, where)


def unmatched_parts(wanted: Selection, infos: Iterable[StreamInfo]) -> list[Selection]:
    """For each site and each log of *wanted* that matches none of *infos*, a selection of it alone.

    *infos*: of all logs of the wanted sites, unstored ones as well.
    """
    known = list(infos)
    of_logs = [Selection(wanted.run, wanted.sites, (log,)) for log in dict.fromkeys(wanted.logs)]
    return [
        *(Selection(wanted.run, (site,)) for site in wanted.absent(known)),
        *(each for each in of_logs if not any(each.lacks(info) for info in known)),
        *(
            Selection(wanted.run, attributes=(one,))
            for one in wanted.attributes
            if not any(have(info.marks, (one,)) for info in known)
        ),
    ]


def lacking(wanted: Sequence[Wanted], infos: Sequence[StreamInfo], where: str) -> tuple[str, str]:
    """As ``missing``, for the *wanted* attributes of the logs *infos* at *where*."""
    if not wanted or any(have(info.marks, wanted) for info in infos):
        return "", ""
    absent = [one for one in wanted if not any(have(info.marks, (one,)) for info in infos)]
    if not absent:
        return f"{where} has no log with {' and '.join(one.said for one in wanted)} together", ""
    one, key = absent[0], absent[0].key.removeprefix(LABEL)
    known = {values[one.key] for info in infos for values in held(info.marks) if one.key in values}
    if known:
        return f"{where} has no {one.said} (it has {_listed(map(legible, known))})", legible(
            nearest(one.globs[0], known)
        )
    if one.key.startswith(LABEL):
        return f"{where} has no {one.said}: no log has the label {key}; agents pass on those of --pod-label", ""
    return f"{where} has no {one.said}: no log has the attribute {key}", ""


async def unmatched(origin: Origin, wanted: Selection, infos: Iterable[StreamInfo]) -> list[str]:
    """A sentence for each of the ``unmatched_parts``. Raises CannotConnect, NotAllowed."""
    found = [await missing(origin, part) for part in unmatched_parts(wanted, infos)]
    return [str(said(what, meant)) for what, meant in found if what]


def no_site(asked: Sequence[str], known: Iterable[str]) -> str:
    """The sentence that no run has one of the sites *asked*; *known*: the sites of all runs."""
    what, meant = f"there is no site {' or '.join(asked)}", suggested("site", asked, sorted(known, key=natural))
    return f"{what}: did you mean {meant}?" if meant else f"{what}: leave out --site to see all sites"


async def without(origin: Origin, run: str) -> tuple[str, str]:
    """As ``missing``, for *run*, of which *origin* holds no log; the sentence says why nothing of it was stored."""
    runs: list[str] = []
    with contextlib.suppress(FlarelogError):  # the caller may not list runs, or the receiver is older
        runs = await origin.runs()
    if run in runs or await origin.state(run) is not RunState.UNKNOWN:
        why = never_stored(await origin.streams(run, unstored=True))
        return why or f"{origin.name} has no log of run {shown(run)}", ""
    what = f"{origin.name} has no run {shown(run)}"
    others = [each for each in runs if each != DOCTORS_RUN]
    match [each for each in others if is_short_for(run, each)]:
        case [one]:
            return what, Certain(one)
        case [_, *_] as several:
            return f"{what}, but {len(several)} runs that begin so: {_listed(several)}", ""
    named: list[str] = []
    with contextlib.suppress(FlarelogError):
        named = [info.run for info in await origin.infos() if _is_of(info.job, run)]
    match named:
        case [one]:
            return what, Certain(one)
        case [_, *_]:
            return f"{what}, but {len(named)} runs of the job {shown(run)}: {_listed(named)}", ""
    if len(others) <= _SEARCHED and (found := await _object(origin, others, run)):
        return what, found
    meant = nearest(run, runs)
    listed = f" (it has {_listed(others)})" if others and not meant else ""
    return f"{what}{listed}", meant


async def _object(origin: Origin, runs: Iterable[str], name: str) -> str:
    """``pod/NAME`` or ``job/NAME`` if one of *runs* has a log of such an object: kubectl's users leave out the kind."""
    with contextlib.suppress(FlarelogError):
        for info in [info for run in runs for info in await origin.streams(run)]:
            for values in held(info.marks):
                for kind in ("pod", "job"):
                    if values.get(f"k8s.{kind}.name") == name:
                        return f"{kind}/{name}"
    return ""


class Certain(str):
    """The name of the only run that a shorter name can stand for."""


def _is_of(job: str, run: str) -> bool:
    """Whether *run*, as a command line gives it, is the name *job*: a name that no run can have is encoded."""
    with contextlib.suppress(InvalidName):
        return bool(job) and run in (job, given_run(job))
    return False


_UNIQUE = late(r"[0-9a-f]{8}-[0-9a-f]{4}-.*|[0-9a-f]{16,}")


def is_short_for(text: str, name: str) -> bool:
    """Whether *text* begins *name*, and does not end within a number of it, as job-1 in job-12: such a run may be yet
    to come. The digits of a random id are no number.
    """
    rest = name.removeprefix(text)
    number = text[-1:].isdigit() and rest[:1].isdigit() and _UNIQUE.fullmatch(name) is None
    return bool(text) and bool(rest) and name.startswith(text) and not number


def never_stored(infos: Collection[StreamInfo]) -> str:
    """Why nothing is stored of *infos*, the wanted logs; empty where there is no reason."""
    return "; ".join((*unstored_sentences(infos), *few_unread(infos)))


async def absent(origin: Origin, wanted: Selection) -> NotFound:
    """The error that *wanted* was not found, with the name that may be meant. Raises CannotConnect, NotAllowed."""
    return said(*await missing(origin, wanted), f"{origin.name} had no such log")


def said(what: str, meant: str, otherwise: str = "") -> NotFound:
    """The error for the result of ``missing``; *otherwise*: its text where nothing is missing any more."""
    error = NotFound(f"{what}: did you mean {meant}?" if meant else what or otherwise)
    error.instead = meant if isinstance(meant, Certain) else ""
    return error


def _unknown(what: str, asked: Sequence[str], known: Iterable[str], where: str) -> tuple[str, str]:
    names = sorted(known, key=natural)
    listed = f" (it has {_listed(names)})" if names else ""
    return f"{where} has no {what} {' or '.join(asked)}{listed}", suggested(what, asked, names)


def suggested(what: str, asked: Sequence[str], known: Collection[str]) -> str:
    """The name that a user may have meant instead of the first of *asked*, or the glob instead of a regular expression;
    empty: neither.
    """
    glob = re.sub(r"\.\*|\.\+", "*", asked[0].removeprefix("^").removesuffix("$"))
    if glob != asked[0] and any(globs.any_of((glob,), each) for each in known):
        return f"{glob} (--{what} takes globs)"
    return nearest(asked[0], known)


def _listed(known: Iterable[str]) -> str:
    return some(sorted(known, key=natural), NAMED)
