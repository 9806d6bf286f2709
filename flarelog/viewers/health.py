"""The health of sites' machines, for people: a table, and a sentence where something is about to run out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from typing import Any

from flarelog.completeness import INCOMPLETE, incomplete_lines
from flarelog.model import Health, StreamInfo
from flarelog.receiver.phases import spoken
from flarelog.records import unknown_ends, unstored_sentences
from flarelog.text import UNITS, legible, power_of, several, sized

_FULL = 0.95  # of the memory
_LITTLE = 0.02  # of the disk
_WAITING = 20.0  # percent of the time
FEW = 3  # unreadable files that a sentence about something else names

HEAD = (
    "RUN",
    "SITE",
    "MEMORY",
    "PEAK",
    "OOM KILLS",
    "CORES",
    "LOAD",
    "WAITING",
    "DISK FREE",
    "GPUS",
    "GPU USE",
    "GPU MEMORY",
    "UP",
)


def told(infos: Iterable[StreamInfo]) -> Iterator[tuple[str, str, Health]]:
    """(run, site, health) of each producer that reported its health."""
    for info in infos:
        if info.state is not None and info.state.health is not None and not info.sealed:
            yield info.stream.run, info.stream.site, info.state.health


def table(infos: Iterable[StreamInfo]) -> list[tuple[str, ...]]:
    """A row for each producer that reported its health, below the column names, without empty columns; empty where none
    reported.
    """
    return _filled([HEAD, *((run, site, *_figures(health)) for run, site, health in told(infos))])


def figures(health: Health | None) -> dict[str, Any] | None:
    """The known figures of *health*, by name, for programs; None without it."""
    if health is None:
        return None
    values = {one.name: getattr(health, one.name) for one in fields(health)}
    return {name: value for name, value in values.items() if value not in (None, ())}


def table_of(healths: Iterable[tuple[str, Health]]) -> list[tuple[str, ...]]:
    """As ``table``, for the sites of one run."""
    return _filled([HEAD[1:], *((site, *_figures(health)) for site, health in healths)])


def _filled(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """*rows* without the empty columns."""
    return list(zip(*(column for column in zip(*rows, strict=True) if set(column[1:]) - {"-"}), strict=True))


def warnings(infos: Collection[StreamInfo]) -> list[str]:
    """A line for each resource that is about to run out at a site, and for each file that is not sent from there."""
    return [
        *(f"health: {sentence}" for sentence in short(infos)),
        *(f"missing: {sentence}" for sentence in unread(infos)),
    ]


def short(infos: Iterable[StreamInfo]) -> list[str]:
    """A sentence for each resource that is about to run out at a site."""
    lines = (f"{run}/{site}: {what}" for run, site, health in told(infos) for what in _short_of(health))
    return list(dict.fromkeys(lines))


def unread(infos: Collection[StreamInfo]) -> list[str]:
    """A sentence for each log that its site, or the store, cannot read, and for each file that is not sent."""
    stored = (f"{info.stream.run}/{info.stream.site}: {why}" for info in infos if (why := _why(info)))
    told_ = (
        f"{info.stream.run}/{info.stream.site}: {legible(what)}"
        for info in infos
        if info.state is not None and info.state.health is not None
        for what in info.state.health.unread
    )
    return list(dict.fromkeys((*stored, *told_)))


def _why(info: StreamInfo) -> str:
    """Why the log of *info*, or the rest of it, cannot be read; empty: it can."""
    name = info.name.rstrip("/")
    if info.is_unread:
        return legible(f"{name} {info.unstored}")
    return legible(f"more of {name} {info.unread_rest}") if info.unread_rest else ""


def few_missing(infos: Collection[StreamInfo]) -> list[str]:
    """The first of ``incomplete_lines``, ``unstored_sentences``, ``unread`` and ``unknown_ends``, and how many more
    there are.
    """
    return [
        *few_incomplete(infos),
        *_few(unstored_sentences(infos), lambda _: "nothing is stored of more logs: flarelog status names them"),
        *few_unread(infos),
        *_few(unknown_ends(infos), _more_ends),
    ]


def few_unread(infos: Collection[StreamInfo]) -> list[str]:
    """The first of ``unread``, and how many more there are."""
    return _few(unread(infos), _more_unread)


def few_incomplete(infos: Iterable[StreamInfo]) -> list[str]:
    """The first of ``incomplete_lines``, and how many more there are."""
    return _few(incomplete_lines(infos), _more_logs)


def _few(sentences: list[str], rest: Callable[[int], str]) -> list[str]:
    """The first of *sentences*, and the *rest*, by their number."""
    more = len(sentences) - FEW
    return [*sentences[:FEW], rest(more)] if more > 0 else sentences


def _more_logs(more: int) -> str:
    return f"{INCOMPLETE}: {several(more, 'more log')}: flarelog streams names {'it' if more == 1 else 'them'}"


def _more_unread(more: int) -> str:
    return f"{several(more, 'more file')} cannot be read: flarelog status names {'it' if more == 1 else 'them'}"


def _more_ends(more: int) -> str:
    what = "the end of 1 more command is" if more == 1 else f"the ends of {more:,} more commands are"
    return f"{what} not known: flarelog status names them"


def _short_of(health: Health) -> Iterator[str]:
    used, most = health.memory, health.memory_max
    if used is not None and most and used >= _FULL * most:
        yield f"{used / most:.0%} of the memory is used ({_of(used, most)})"
    if health.memory_pressure is not None and health.memory_pressure >= _WAITING:
        yield f"processes waited for memory in {health.memory_pressure:.0f} % of the last 10 s"
    free, size = health.disk_free, health.disk_size
    if free is not None and size and free < _LITTLE * size:
        yield f"the disk of the logs is nearly full ({_of(free, size)} free)"
    if health.inodes_free is not None and health.inodes and health.inodes_free < _LITTLE * health.inodes:
        yield f"the disk of the logs has few inodes left ({health.inodes_free:,} of {health.inodes:,})"


def _figures(health: Health) -> Iterator[str]:
    yield _of(health.memory, health.memory_max)
    yield "-" if health.memory_peak is None else sized(health.memory_peak)
    yield "-" if health.oom_kills is None else str(health.oom_kills)
    yield "-" if health.cores is None else f"{health.cores:g}"
    yield "-" if health.load is None else f"{health.load:.1f}"
    waits = {"cpu": health.cpu_pressure, "memory": health.memory_pressure, "io": health.io_pressure}
    known = {what: percent for what, percent in waits.items() if percent is not None}
    waited = " ".join(f"{what} {percent:.0f}%" for what, percent in known.items() if percent >= 1)
    yield waited or ("0%" if known else "-")
    yield _of(health.disk_free, health.disk_size)
    yield "-" if health.gpus is None else str(health.gpus)
    yield _between(health.gpu_least, health.gpu_use)
    yield _of(health.gpu_memory, health.gpu_memory_max)
    yield "-" if health.uptime is None else spoken(health.uptime)


def _between(least: float | None, most: float | None) -> str:
    """``3-97%``: the idlest and the busiest GPU."""
    if least is None or most is None:
        return "-"
    return f"{most:.0f}%" if round(least) == round(most) else f"{least:.0f}-{most:.0f}%"


def _of(part: int | None, whole: int | None) -> str:
    """``3.1 of 8.0 GiB``."""
    if part is None or not whole:
        return "-" if part is None else sized(part)
    power = power_of(whole)
    return f"{part / 1024**power:.1f} of {whole / 1024**power:.1f} {UNITS[power]}"
