"""Copies of runs from one store to another, of any kinds: to move them, to archive them, to restore them.

- A copy continues at the target's end. Before it adds a byte it compares the digest of what the target has with that of
  the source's bytes, read again, so two different logs never become one.
- A mark is copied to its place among the bytes, and the receipt last.
- A run is verified when the target's records, read again, agree with the source's in length, digest, marks and receipt;
  it is removed at the source only after the target's bytes were read again as well.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import TypeVar

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import FlarelogError, InUse, NotFound, Unreadable
from flarelog.lifecycle import RunState
from flarelog.model import Receipt, StreamId, StreamInfo
from flarelog.stores import fares
from flarelog.stores.base import Appender, Dated, Extent, Reader, Store, pieces, read
from flarelog.stores.events import EVENTS
from flarelog.stores.notes import FINDINGS
from flarelog.stores.runs import STATES, record_of
from flarelog.stores.unopened import UNSTORED
from flarelog.text import several
from flarelog.values import changed, frozen

T = TypeVar("T")

NOTES = (STATES, EVENTS, fares.HEALTH, FINDINGS, UNSTORED)
_SYNC = 32 << 20  # bytes after which a long log is committed
_AT_ONCE, _LARGE_AT_ONCE = 32, 4  # logs; a large one takes more memory
_LARGE = 8 << 20  # bytes


class Differs(FlarelogError):
    """The target has other bytes of a log than the source."""


@frozen
class Copied:
    """The result for one run."""

    run: str
    logs: int = 0
    size: int = 0  # bytes of its logs
    new: int = 0  # bytes that were copied now
    unsealed: int = 0  # logs without a receipt
    ended: bool = False  # by its state, or because each log has a receipt
    removed: bool = False
    troubles: tuple[str, ...] = ()  # why it is not verified
    kept: str = ""  # why it was not removed

    @property
    def verified(self) -> bool:
        return not self.troubles


class Copy:
    """Copies runs from *source* to *target*. *removes*: the source, if verified runs are to be removed there."""

    def __init__(self, source: Reader, target: Store, removes: Store | None = None) -> None:
        self._source, self._target, self._removes = source, target, removes
        self._producer = secrets.token_bytes(16)
        self._turns, self._large_turns = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_LARGE_AT_ONCE)
        self._agreed: dict[StreamId, tuple[int, int]] = {}  # lengths and digests that were compared
        self._extents: dict[str, Extent] = {}
        self.logs = self.copied = 0  # so far, for whoever watches

    async def learn(self) -> None:
        """Learn the extents of the runs, so that a run that changes later is not removed."""
        if self._removes is not None:
            self._extents = dict(await self._removes.extents())

    async def run(self, run: str) -> Copied:
        """Copy *run*. Raises FlarelogError where no other run could be copied either."""
        infos, troubles = await self._listed(run)
        there = {info.stream: info async for info in self._target.list(f"{run}/")}
        results = await _together([self._log(info, there.get(info.stream)) for info in infos])
        troubles += [each for each in results if isinstance(each, str)]
        new = sum(each for each in results if isinstance(each, int))
        await self._notes(run)
        if not troubles:
            infos, troubles = await self._compared(run)
        unsealed = sum(not info.sealed for info in infos)
        state = record_of(await self._source.note(STATES, run)).state
        ended = state is RunState.ENDED or (bool(infos) and not unsealed)
        found = Copied(run, len(infos), sum(info.committed for info in infos), new, unsealed, ended)
        if troubles or self._removes is None:
            return _with(found, troubles)
        return await self._removed(self._removes, found, infos)

    async def _listed(self, run: str) -> tuple[list[StreamInfo], list[str]]:
        """The logs of *run* at the source, and a sentence for each that cannot be read."""
        found, troubles = list[StreamInfo](), list[str]()
        async with aclosing(self._source.list(f"{run}/", unreadable=True)) as infos:
            async for info in infos:
                if info.is_unreadable:
                    troubles.append(f"{info.stream} {info.unstored}")
                elif info.damage:
                    troubles.append(f"{info.stream}: {info.damage}")
                else:
                    found.append(info)
        return found, troubles

    # --- one log

    def _turn(self, info: StreamInfo) -> asyncio.Semaphore:
        return self._large_turns if info.committed > _LARGE else self._turns

    async def _log(self, info: StreamInfo, there: StreamInfo | None) -> int | str:
        """The bytes that were copied of the log, or why it is not copied."""
        if there is not None and not _difference(info, there):
            return 0
        async with self._turn(info):
            try:
                appender = await self._target.appender(info.stream, self._producer)
                try:
                    begin = appender.committed
                    await self._append(info, appender)
                    self.logs += 1
                    return appender.committed - begin
                finally:
                    await appender.close()
            except (Differs, NotFound, Unreadable) as error:
                return str(error)

    async def _append(self, listed: StreamInfo, appender: Appender) -> None:
        stream, have, expected = listed.stream, appender.committed, appender.digest
        if isinstance(appender, Dated):
            appender.date(listed, await self._source.history(stream))
        agreed = self._agreed.get(stream) == (have, expected)
        position, digest = (have, expected) if agreed else (0, EMPTY_DIGEST)
        marks, held, since = appender.marks, len(appender.marks), have
        info = listed

        async def add(data: memoryview, until: int) -> None:
            """Append *data*, and the marks in it and up to *until*."""
            nonlocal held
            while held < len(info.marks) and info.marks[held].offset <= until:
                cut = max(0, info.marks[held].offset - until + len(data))
                if cut:
                    await appender.append(until - len(data), data[:cut])
                    data = data[cut:]
                await appender.mark(info.marks[held])
                held += 1
            if data:
                await appender.append(until - len(data), data)

        async with aclosing(self._source.growth(stream, position)) as growth:
            async for window, info in growth:
                if info.marks[: len(marks)] != marks[: len(info.marks)]:
                    raise Differs(f"{stream} has other marks at {self._target.name}: {_ADVICE}")
                for offset, data in pieces(stream, window, position, info.committed):
                    old = max(0, min(len(data), have - offset))  # bytes that the target has
                    digest, position = extend(digest, data[:old]), offset + len(data)
                    if old and offset + old == have and digest != expected:
                        raise Differs(
                            f"{stream} has other bytes before offset {have} at {self._target.name}: {_ADVICE}"
                        )
                    if position <= have:
                        continue
                    new = memoryview(data)[old:]
                    digest = extend(digest, new)
                    await add(new, position)
                    self.copied += len(new)
                    if position - since >= _SYNC:
                        since = await appender.sync()
                if position >= have and digest != info.digest:
                    raise Differs(
                        f"{stream}: its bytes at {self._source.name} are not those of its records, before offset"
                        f" {position}: flarelog verify shows where, and no receipt was copied"
                    )
        if position < have:
            raise Differs(f"{stream} has {have - position:,} more bytes at {self._target.name} than at the source")
        await add(memoryview(b""), position)
        if info.sealed and not (appender.sealed and held == len(marks) and position == have):
            await appender.seal(Receipt(position, digest, len(info.marks), info.redacted))
        await appender.sync()
        self._agreed[stream] = position, digest

    # --- the rest of a run

    async def _notes(self, run: str) -> None:
        for kind in NOTES:
            there = await self._target.notes(kind, run)
            for (_, site), said in (await self._source.notes(kind, run)).items():
                if not there.get((run, site)):
                    await self._target.add_note(kind, said, run, site)
                elif there[run, site] != said:
                    await self._target.set_note(kind, said, run, site)

    async def _compared(self, run: str) -> tuple[list[StreamInfo], list[str]]:
        """The logs of *run* at the source now, and a sentence for each that differs at the target."""
        infos, troubles = await self._listed(run)
        there = {info.stream: info async for info in self._target.list(f"{run}/")}
        for info in infos:
            held = there.get(info.stream)
            # A log that is being written may have grown since it was copied.
            why = "is missing" if held is None else _difference(info, held, grows=not info.sealed)
            if why:
                troubles.append(f"{info.stream} {why} at {self._target.name}")
        return infos, troubles

    async def _removed(self, source: Store, found: Copied, infos: Sequence[StreamInfo]) -> Copied:
        """*found*, after the run was removed at the source, if the target has all of it."""
        run = found.run
        if not found.ended:
            count = several(found.unsealed, "log")
            return _with(found, (), f"{count} of it without a receipt may go on: flarelog run-end {run} ends it")
        troubles = [each for each in await _together([self._reread(info) for info in infos]) if each]
        if troubles:
            return _with(found, troubles)
        try:
            await source.remove(run, was=self._extents.get(run))
        except InUse as error:
            return _with(found, (), str(error))
        if source.space is not None:
            await source.space.clear()
        return changed(found, removed=True)

    async def _reread(self, info: StreamInfo) -> str:
        """Why the bytes of the log at the target, read again, are not those of the source; empty: they are."""
        digest = length = 0
        async with self._turn(info):
            try:
                async with aclosing(read(self._target, info.stream)) as found:
                    async for _, data in found:
                        digest, length = extend(digest, data), length + len(data)
            except (NotFound, Unreadable) as error:
                return str(error)
        same = (length, digest) == (info.committed, info.digest)
        return "" if same else f"{info.stream} differs at {self._target.name} when it is read again"


async def _together(works: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """The results of *works*; the first error ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


_ADVICE = "remove the run there, or copy to another place"


def _difference(info: StreamInfo, there: StreamInfo, *, grows: bool = False) -> str:
    """How *there*, the log at the target, differs from *info*; *grows*: it may be shorter."""
    if grows and there.committed <= info.committed and there.marks == info.marks[: len(there.marks)]:
        return ""
    if there.committed != info.committed:
        return f"has {there.committed:,} bytes, not {info.committed:,},"
    if there.digest != info.digest:
        return "has other bytes"
    if there.marks != info.marks:
        return "has other marks"
    return "has no receipt" if info.sealed and not there.sealed else ""


def _with(found: Copied, troubles: Sequence[str], kept: str = "") -> Copied:
    return changed(found, troubles=tuple(troubles), kept=kept)
