"""Runs and streams as the JSON of ``flarelog runs`` and ``flarelog streams`` shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import NamedTuple

from flarelog.completeness import completeness
from flarelog.exit_marks import Exit
from flarelog.extents import extents, spooled
from flarelog.model import Attributes, Generation, RunInfo, StreamInfo
from flarelog.names import natural
from flarelog.text import legible, several

UNKNOWN = "how the command ended is not known: flarelog run was killed, or its log was ended before the command"


def moment(milliseconds: int) -> str | None:
    """A time in milliseconds since 1970 as text, ``2026-11-22T16:08:39.123Z``; None for 0, and for a time outside the
    calendar.
    """
    try:
        when = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (OverflowError, ValueError, OSError):
        return None
    return None if when is None else f"{when:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def ordered(infos: Iterable[StreamInfo]) -> list[StreamInfo]:
    """*infos* in display order, by run, site and log: ``rank-2`` before ``rank-10``."""

    def key(info: StreamInfo) -> tuple[object, ...]:
        stream = info.stream
        return natural(stream.run), natural(stream.site), natural(stream.path)

    return sorted(infos, key=key)


def exit_record(mark: Exit) -> dict[str, object]:
    """The JSON of *mark*, wherever a command's end is shown; unknown values are null."""
    return {
        "process": mark.process,
        "sentence": mark.sentence,
        "code": None if mark.signal else mark.status,
        "signal": mark.signal or None,
        "core": mark.core if mark.maxrss else None,
        "started": moment(mark.started),
        "ended": moment(mark.ended),
        "boot_id": mark.boot_id or None,
        "maxrss": mark.maxrss or None,
        "user_cpu": mark.user_cpu / 1000 if mark.maxrss else None,
        "sys_cpu": mark.sys_cpu / 1000 if mark.maxrss else None,
        "oom_kill_before": mark.oom_before if mark.oom_before >= 0 else None,
        "oom_kill_after": mark.oom_after if mark.oom_after >= 0 else None,
        "cgroup": mark.cgroup or None,
        "oom": mark.oom or None,
        "cause": mark.cause or None,
    }


def exit_lines(found: Collection[StreamInfo]) -> list[str]:
    """A line for each command with a known end: its logs, and how it ended."""
    ends: dict[tuple[str, str, str], tuple[Exit, list[str]]] = {}
    for info in found:
        for mark in info.exits:
            key = info.stream.run, info.stream.site, mark.process
            ends.setdefault(key, (mark, []))[1].append(info.stream.name)
    said = [_end_of(key, legible(mark.sentence), logs) for key, (mark, logs) in ends.items()]
    return [f"exit: {sentence}" for sentence in (*said, *unknown_ends(found))]


def commands_of(info: StreamInfo) -> Iterable[str]:
    """The commands of ``flarelog run`` whose output the stream is."""
    notes = (mark.notes for mark in info.marks if isinstance(mark, Generation))
    return dict.fromkeys(said.token for said in map(spooled, notes) if said is not None)


def unknown_ends(found: Collection[StreamInfo]) -> list[str]:
    """A sentence for each command of ``flarelog run`` whose logs have ended without a record of the command's end."""
    ended = {(info.stream.run, info.stream.site, mark.process) for info in found for mark in info.exits}
    unknown: dict[tuple[str, str, str], list[str]] = {}
    for info in found:
        for token in commands_of(info) if info.sealed else ():
            key = info.stream.run, info.stream.site, token
            if key not in ended:
                unknown.setdefault(key, []).append(info.stream.name)
    return [_end_of(key, UNKNOWN, logs) for key, logs in unknown.items()]


def unstored_sentences(found: Iterable[StreamInfo]) -> list[str]:
    """A sentence per site and reason for logs that the receiver did not open."""
    logs: dict[tuple[str, str, Reason], list[StreamInfo]] = {}
    for info in found:
        if info.unstored and not info.is_unread:
            logs.setdefault((info.stream.run, info.stream.site, reason(info, info.unstored)), []).append(info)
    return [
        f"{run}/{site}: nothing is stored of {several(len(those), 'log')}: "
        + whose(why, those, _few([info.name for info in those]))
        for (run, site, why), those in logs.items()
    ]


class Reason(NamedTuple):
    why: str
    named: bool  # the log's name stands before it


def reason(info: StreamInfo, why: str) -> Reason:
    """The reason *why* of the log *info*, without the log's name at its beginning."""
    text = why.removeprefix(f"{info.stream} ")
    return Reason(text, text != why)


def whose(why: Reason, infos: Sequence[StreamInfo], names: str) -> str:
    """The reason *why* and the *names* of *infos*; if it begins with the name of the only one, as it is."""
    text = legible(why.why)
    return f"{infos[0].stream} {text}" if why.named and len(infos) == 1 else f"{text} ({names})"


def _end_of(key: tuple[str, str, str], how: str, logs: Sequence[str]) -> str:
    return f"{key[0]}/{key[1]}: {how} ({_few(logs)})"


def _few(logs: Sequence[str]) -> str:
    return f"{', '.join(logs[:3])}{' and others' if len(logs) > 3 else ''}"


def run_record(info: RunInfo, *, live: bool) -> dict[str, object]:
    """*info* as ``flarelog runs --json`` shows it; *live*: it comes from a receiver."""
    return {
        "run": info.run,
        "state": info.standing(live=live),
        "sites": info.sites,
        "streams": info.streams,
        "open": info.open,
        "sealed": info.sealed,
        "bytes": info.size,
        "gaps": info.gaps,
        "lost": info.lost,
        "unseen": info.unseen,
        "unverified": info.unverified,
        "failed": info.failed,
        "unended": info.unended,
        "unstored": info.unstored,
        "job": info.job or None,
        "first": moment(info.begun),
        "last": moment(info.grown),
    }


def stream_record(info: StreamInfo) -> dict[str, object]:
    """*info* as ``flarelog streams --json`` shows it."""
    said = [mark for mark in info.marks if isinstance(mark, Attributes)]
    return {
        **info.stream.fields,
        "committed": info.committed,
        "sealed": info.sealed,
        "incomplete": completeness(info).sentence or None,
        "digest": f"crc32:{info.digest:08x}",
        "generations": [
            {
                "offset": extent.offset,
                "length": extent.length,
                "path": extent.path,
                "source_offset": extent.source_offset,
                "ended": extent.ended,
                "identity": extent.identity,
                "notes": [word for word in extent.notes.split(",") if word],
                "time": moment(extent.begun),
                "site_time": moment(extent.begun_there),
            }
            for extent in extents(info.marks, info.committed)
        ],
        "attributes": [{**mark.values, "offset": mark.offset} for mark in said if not mark.zone],
        "zone": next((mark.zone for mark in reversed(said) if mark.zone), None),
        "gaps": [
            {
                "offset": gap.offset,
                "length": gap.length,
                "reason": gap.reason,
                "time": moment(gap.at),
                "site_time": moment(gap.clock),
            }
            for gap in info.gaps
        ],
        "exits": [{**exit_record(mark), "offset": mark.offset} for mark in info.exits],
        "notes": list(info.notes),
        "redacted": None if info.redacted is None else asdict(info.redacted),
        "begun": moment(info.begun),
        "last_byte": moment(info.grown),
        "ended": moment(info.ended) if info.sealed else None,
    }
