"""The totals of runs, from lists of their streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import fields
from typing import Any

from flarelog.completeness import completeness
from flarelog.model import Attributes, RunInfo, StreamId, StreamInfo
from flarelog.records import commands_of


async def totals(
    streams: AsyncIterator[StreamInfo], is_open: Callable[[StreamId], bool] = lambda stream: False
) -> AsyncGenerator[RunInfo, None]:
    """Totals of *streams* for each run, without the run's state. *streams* are sorted by name, and may contain unstored
    logs.
    """
    run: _Total | None = None
    async for info in streams:
        if run is None or run.name != info.stream.run:
            if run is not None:
                yield run.told()
            run = _Total(info.stream.run)
        run.add(info, is_open=is_open(info.stream))
    if run is not None:
        yield run.told()


_COUNTED = [each.name for each in fields(RunInfo) if each.name not in ("run", "state", "job")]


class _Total:
    """The total of the run *name*, to which its streams are added one by one, sorted by name."""

    def __init__(self, name: str) -> None:
        self.name, self._site = name, ""
        self._counts: dict[str, Any] = dict.fromkeys(_COUNTED, 0)
        self._job = ""
        self._commands = _Commands()

    def add(self, info: StreamInfo, *, is_open: bool) -> None:
        counts = self._counts
        if info.stream.site != self._site:
            self._site = info.stream.site
            counts["sites"] += 1
            counts["unended"] += self._commands.unended
            self._commands = _Commands()
        counts["unstored" if info.unstored else "streams"] += 1
        counts["unstored"] += bool(info.unread_rest)
        counts["open"] += is_open
        counts["sealed"] += info.sealed and not info.unstored
        counts["size"] += info.committed
        found = completeness(info)
        counts["gaps"] += len(found.gaps)
        counts["lost"] += sum(found.gaps)
        counts["unseen"] += found.doubts
        counts["unverified"] += len(found.unverified)
        counts["failed"] += self._commands.add(info)
        if not self._job:  # the name stands before the first generation
            self._job = next((mark.job for mark in info.marks[:2] if isinstance(mark, Attributes) and mark.job), "")
        counts["begun"] = min(counts["begun"] or info.begun, info.begun or counts["begun"])
        counts["grown"] = max(counts["grown"], info.grown)

    def told(self) -> RunInfo:
        self._counts["unended"] += self._commands.unended
        return RunInfo(self.name, job=self._job, **self._counts)


class _Commands:
    """The commands of one site, which have several logs each."""

    def __init__(self) -> None:
        self._failed, self._ended, self._begun = set[str](), set[str](), set[str]()

    def add(self, info: StreamInfo) -> int:
        """Add those that the log of *info* names; returns how many failed that did not before."""
        exits = info.exits
        if info.sealed:
            self._begun.update(commands_of(info))
        if not exits:
            return 0
        self._ended.update(one.process for one in exits)
        failed = {one.process for one in info.failures} - self._failed
        self._failed |= failed
        return len(failed)

    @property
    def unended(self) -> int:
        """How many have a receipt, and no exit record."""
        return len(self._begun - self._ended)
