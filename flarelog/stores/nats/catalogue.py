"""Lists of streams: the names and their counts of messages by one call, the last headers by one consumer.

Each change of a stream adds a message. So a stream whose count is the one before has not changed, unless messages were
removed: then all is read again. An old list so costs one call, and a new one a header for each log.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import NamedTuple

from flarelog.model import Mark, StreamId, StreamInfo
from flarelog.stores.base import Wanted
from flarelog.stores.nats.engine import Away, Engine, Message, Pauses
from flarelog.stores.nats.head import Head
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.pages import marks_of
from flarelog.stores.nats.reading import page

FEW = 16  # streams that are asked for one by one
KEPT = 20_000  # states of streams that are kept between two lists


class _State(NamedTuple):
    ordinal: int  # messages of the stream
    removed: int  # messages that were removed from its shard
    head: Head
    marks: tuple[Mark, ...]


class Catalogue:
    """The lists of one store."""

    def __init__(self, engine: Engine, layout: Layout) -> None:
        self._engine, self._layout = engine, layout
        self._known: dict[StreamId, _State] = {}

    async def infos(
        self,
        prefix: str,
        one_a_site: bool,
        after: tuple[str, str, str],
        wanted: Wanted,
    ) -> AsyncGenerator[StreamInfo, None]:
        """As ``Reader.list``."""
        parts = prefix.split("/", 2)
        run, site = (parts[0] if len(parts) > 1 else ""), (parts[1] if len(parts) > 2 else "")
        counts = await self._counts(run, site)
        chosen, sites, last = list[StreamId](), dict[tuple[str, str], bool](), ("", "")
        for stream in sorted(counts):
            if not str(stream).startswith(prefix):
                continue
            here = stream.run, stream.site
            if (*here, stream.log) <= after or (one_a_site and (here == last or (after[2] and here == after[:2]))):
                continue
            if here not in sites:
                sites[here] = wanted(*here)
            if sites[here]:
                chosen.append(stream)
                last = here
        for begin in range(0, len(chosen), KEPT // 2):
            several = chosen[begin : begin + KEPT // 2]
            states = await self._states(several, counts)
            for stream in several:
                if (state := states.get(stream)) is not None:  # else it was removed meanwhile
                    yield state.head.told(stream, state.marks)

    async def _counts(self, run: str, site: str) -> dict[StreamId, tuple[int, int]]:
        """How many messages each stream has, and how many of its shard were removed."""
        layout, found = self._layout, dict[StreamId, tuple[int, int]]()
        shards = [layout.shard(run, site)] if run and site else range(layout.shards)
        for shard in shards:
            where, subjects = layout.shard_stream(shard), layout.subjects("fl", shard, run, site)
            counts, removed = await self._engine.patiently(partial(self._engine.counts, where, subjects))
            found |= {layout.stream(subject): (count, removed) for subject, count in counts.items()}
        return found

    async def _states(
        self, streams: list[StreamId], counts: Mapping[StreamId, tuple[int, int]]
    ) -> Mapping[StreamId, _State]:
        known = self._known
        found = {one: known[one] for one in streams if one in known and known[one][:2] == counts[one]}
        new = [one for one in streams if one not in found]
        many = len(new) > FEW
        heads = await self._last_of("fl", new) if many else {}
        pages = await self._last_of("fm", new) if many else {}
        for stream in new:
            where, subject = self._layout.stream_of(stream), self._layout.subject("fl", stream)
            message = heads.get(subject)
            head = Head.decoded(message.head) if message is not None else None
            if head is None or head.ordinal < counts[stream][0]:  # a replica did not have the latest message yet
                message = await self._engine.patiently(partial(self._engine.last, where, subject))
                if message is None:
                    continue
                head = Head.decoded(message.head)
            marks = await self._marks(stream, head, pages.get(f"fm{subject[2:]}"))
            found[stream] = _State(head.ordinal, counts[stream][1], head, marks)
        if len(known) + len(new) > KEPT:
            known.clear()
        known.update((one, found[one]) for one in new if one in found)
        return found

    async def _last_of(self, kind: str, streams: list[StreamId]) -> dict[str, Message]:
        """The last headers of *streams* (fl), or their last pages of marks (fm), by subject, and those of other streams
        of the same sites.
        """
        layout, pauses = self._layout, Pauses()
        runs = {one.run for one in streams}
        sites = {(one.run, one.site) for one in streams}
        found: dict[str, Message] = {}
        for shard in range(layout.shards):
            here = sorted(one for one in sites if layout.shard(*one) == shard)
            if not here:
                continue
            if len(here) <= FEW:
                subjects = [layout.subjects(kind, shard, *one) for one in here]
            else:
                subjects = [layout.subjects(kind, shard, run) for run in sorted(runs)] if len(runs) <= FEW else []
            while True:
                try:
                    where = layout.shard_stream(shard)
                    wanted = subjects or [layout.subjects(kind, shard)]
                    async for message in self._engine.each(where, wanted, last=True, heads=kind == "fl"):
                        found[message.subject] = message
                    break
                except Away as error:
                    await pauses.rest(error, self._engine.where)
        return found

    async def _marks(self, stream: StreamId, head: Head, last: Message | None) -> tuple[Mark, ...]:
        """The marks that count by *head*; *last*: perhaps the page with the last of them."""
        known = self._known.get(stream)
        if known is not None and (known.head.page, known.head.marks) == (head.page, head.marks):
            return known.marks
        if not head.marks:
            return ()
        where = self._layout.stream_of(stream)

        async def read(sequence: int) -> tuple[str, bytes] | None:
            if last is not None and last.sequence == sequence:
                return last.head, last.data
            return await page(self._engine, where, sequence)

        return tuple((await marks_of(head, read))[0])

    def forget(self, run: str, site: str = "") -> None:
        """Drop what is known of *run*, or of *site* in it, which was removed."""
        for known in [known for known in self._known if known.run == run and site in ("", known.site)]:
            del self._known[known]
