"""A receiver's end of a store on JetStream: it opens streams for writing, and removes runs.

A stream is opened by a claim: a message without bytes that names this appender, published after the message that was
read as the last one. A writer at full speed always beats a claim, so a refused claimant asks it to yield. Stores of one
engine tell each other three things, by messages that are kept nowhere: yield, who has a run open, and what was removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Mapping
from typing import Any, Self
from weakref import WeakValueDictionary

from nats.aio.msg import Msg

from flarelog.errors import Fenced, Full, InUse, Unavailable
from flarelog.model import Removed, Started, StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.stores.base import Extent, Space, absent, in_use
from flarelog.stores.lines import now
from flarelog.stores.nats.appender import NatsAppender
from flarelog.stores.nats.engine import Away, Pauses, WrongLast
from flarelog.stores.nats.head import Head
from flarelog.stores.nats.pages import marks_of
from flarelog.stores.nats.producers import Producers
from flarelog.stores.nats.reader import NatsReader
from flarelog.stores.nats.reading import page
from flarelog.stores.nats.shared import NatsShared
from flarelog.stores.notes import Kind

log = logging.getLogger(__name__)

AT_HAND = 32 << 20  # bytes of latest commits that all appenders keep together
YIELD, OPEN, GONE = "yield", "open", "gone"
YIELDS = 1.0  # seconds in which a holder yields, or says that it has a run open
OPENS = 0.3  # seconds in which other receivers say that they have a stream of a run open


class NatsStore(NatsReader):
    """The store at *url* for writing: one of any number."""

    space: Space | None = None
    shared: NatsShared

    async def __aenter__(self) -> Self:
        await self._connected()
        self._open: dict[StreamId, NatsAppender] = {}
        self._opening: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()
        self._leaving = set[tuple[str, str]]()
        self._producers = Producers(self.engine, self.layout)
        self._hands: dict[NatsAppender, int] = {}  # bytes that are kept, the oldest first
        self._at_hand = 0
        self._own = os.urandom(4).hex()
        self._tasks = set[asyncio.Task[None]]()
        self.shared = NatsShared(self.engine, self.layout, self._own, self._look)
        await self.engine.hear(self.layout.word("*"), self._heard)
        return self

    async def __aexit__(self, *_: object) -> None:
        for appender in list(self._open.values()):
            try:
                await appender.close()
            except (Full, Unavailable, Fenced) as error:
                log.error("%s: some bytes could not be committed: %s", appender.stream, error)
        for task in self._tasks:
            task.cancel()
        self.shared.close()
        await super().__aexit__()

    # --- opening

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> NatsAppender:
        async with self._opening.setdefault(stream, asyncio.Lock()):
            if not self._leaving.isdisjoint(((stream.run, ""), (stream.run, stream.site))):
                raise Unavailable(f"{stream} cannot be opened now: its run is being removed")
            before = self._open.get(stream)
            if before is not None:
                await self._holder(stream, before.head, producer, epoch, started)  # a fenced one must not close it
                with contextlib.suppress(Fenced):
                    await before.close()
            appender = await self._claimed(stream, producer, epoch, started)
            self._open[stream] = appender
            return appender

    async def _holder(self, stream: StreamId, head: Head, producer: bytes, epoch: int, started: Started | None) -> Any:
        try:
            return await self._producers.claim(
                stream, head.holder, producer, epoch, started, sealed=head.sealed, new=not head.ordinal
            )
        except Fenced as error:
            raise Fenced(str(error), committed=head.end) from error

    async def _claimed(self, stream: StreamId, producer: bytes, epoch: int, started: Started | None) -> NatsAppender:
        where, subject = self.layout.stream_of(stream), self.layout.subject("fl", stream)
        writer, pauses, by_leader = os.urandom(8).hex(), Pauses(), False
        while True:
            try:
                if by_leader:
                    last = await self.engine.last(where, subject)
                else:
                    last = await self.engine.get(where, last_by_subj=subject)
            except Away as error:
                await pauses.rest(error, self.engine.where)
                continue
            head, sequence = (Head.decoded(last.head), last.sequence) if last is not None else (Head(), 0)
            if head.writer == writer:  # the acknowledgement of the claim was lost
                break
            try:
                holder = await self._holder(stream, head, producer, epoch, started)
            except Fenced:
                if by_leader:
                    raise
                by_leader = True  # a replica's answer may be old: it decides nothing
                continue
            head = head._replace(
                raw=0,
                codec=0,
                writer=writer,
                number=0,
                ordinal=head.ordinal + 1,
                holder=holder,
                begun=head.begun or now(),
            )
            try:
                sequence = await self.engine.publish(subject, b"", head.encoded(), sequence)
                break
            except WrongLast as error:
                if by_leader:
                    await self._ask_to_yield(stream)
                    await pauses.rest(error, self.engine.where)
            except Away as error:
                await pauses.rest(error, self.engine.where)
            by_leader = True
        marks, pages = await marks_of(head, lambda sequence: page(self.engine, where, sequence))
        return NatsAppender(self, stream, head, sequence, marks, pages)

    async def _ask_to_yield(self, stream: StreamId) -> None:
        said = json.dumps([self._own, stream.run, stream.site, stream.log]).encode()
        with contextlib.suppress(Away):
            await self.engine.ask(self.layout.word(YIELD), said, within=YIELDS)

    def keeps(self, appender: NatsAppender, size: int) -> None:
        self._at_hand += size - self._hands.pop(appender, 0)
        if size:
            self._hands[appender] = size
        while self._at_hand > AT_HAND:
            oldest = next(iter(self._hands))
            self._at_hand -= self._hands.pop(oldest)
            oldest.let_go()

    def closed(self, appender: NatsAppender) -> None:
        if self._open.get(appender.stream) is appender:
            del self._open[appender.stream]

    # --- what other stores say

    async def _heard(self, message: Msg) -> None:
        try:
            own, *names = json.loads(message.data)
        except ValueError:
            return
        if own == self._own:
            return
        task = asyncio.create_task(self._do(message.subject.rpartition(".")[2], names, message.reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, word: str, names: list[str], reply: str) -> None:
        if word == YIELD and (appender := self._open.get(StreamId(*names))) is not None:
            await appender.yields()
            await self.engine.say(reply)
        elif word == OPEN and self._opened(*names):
            await self.engine.say(reply)
        elif word == GONE:
            self._forget(*names)

    def _opened(self, run: str, site: str = "") -> list[StreamId]:
        """The streams of *run*, or of *site* in it, that this process has open or is opening."""
        opening = [one for one, lock in self._opening.items() if lock.locked()]
        return [one for one in {*self._open, *opening} if one.run == run and site in ("", one.site)]

    def _forget(self, run: str, site: str = "") -> None:
        for cache in (self._producers, self._catalogue, self._notes):
            cache.forget(run, site)

    # --- the latest state, also of what this process writes

    async def info(self, stream: StreamId) -> StreamInfo | None:
        head, own = await self._head(stream), self._open.get(stream)
        if head is None:
            return None
        if own is not None and own.head.ordinal >= head.ordinal:
            return own.info
        return await self._told(stream, head)

    # --- notes

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        run_name(run), site and site_name(site)
        if not (kind.durable or await self._notes.exists(run)):
            return False
        await self._notes.append(kind, said, run, site)
        return True

    async def set_note(self, kind: Kind, said: bytes, run: str = "", site: str = "") -> None:
        if run and not await self._notes.exists(run_name(run), site and site_name(site)):
            return
        await self._notes.replace(kind, said, run, site)

    async def exchange_note(self, kind: Kind, before: bytes, said: bytes) -> bool:
        """Replace the store's own note *before* by *said*; False: another process has changed it. Raises Unavailable:
        the outcome is unknown.
        """
        return await self._notes.exchange(kind, before, said)

    # --- removal

    async def extents(self) -> Mapping[str, Extent]:
        return {run: await self._extent(run) for run in await self.names()}

    async def _extent(self, run: str, site: str = "") -> Extent:
        files = size = 0
        changed = await self._notes.changed(run, site)
        async for info in self.list(f"{run}/{site}/" if site else f"{run}/"):
            files, size = files + 1, size + info.committed
            changed = max(changed, info.begun, info.grown, info.ended, *(mark.at for mark in info.marks))
        return Extent(files, size, size, changed / 1000)

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        run_name(run), site and site_name(site)
        held = run, site
        if held in self._leaving:
            raise InUse(f"run {run} is being removed")
        self._leaving.add(held)
        try:
            if opened := self._opened(run, site):
                raise InUse(in_use(run, site, len(opened)))
            if await self._is_open_elsewhere(run, site):
                raise InUse(in_use(run, site, 1))
            found = await self._extent(run, site)
            if was is not None and found != was:
                raise InUse(f"run {run} has changed, so it was not removed")
            known = await self.names(run) if site else await self.names()
            if (site or run) not in known and not found.files:
                raise absent(run, site)
            await self._purge(run, site)
        finally:
            self._leaving.discard(held)
        return Removed(found.files, found.log_bytes)

    async def _is_open_elsewhere(self, run: str, site: str) -> bool:
        try:
            await self.engine.ask(self.layout.word(OPEN), json.dumps([self._own, run, site]).encode(), within=OPENS)
        except Away:
            return False
        return True

    async def _purge(self, run: str, site: str) -> None:
        """Remove the bytes first: until the notes are gone as well, a removal that a crash ended can be repeated."""
        layout, engine = self.layout, self.engine
        for shard in [layout.shard(run, site)] if site else range(layout.shards):
            for kind in ("fl", "fm"):
                where, subjects = layout.shard_stream(shard), layout.subjects(kind, shard, run, site)
                await engine.patiently(lambda where=where, subjects=subjects: engine.purge(where, subjects))  # type: ignore[misc]
        await engine.patiently(lambda: engine.purge(layout.notes_stream, layout.notes(run, site)))
        self._forget(run, site)
        await engine.say(layout.word(GONE), json.dumps([self._own, run, site]).encode())
