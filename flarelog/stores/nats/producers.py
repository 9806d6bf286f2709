"""The producers of a site in their order, which all receivers share: a note for each site, changed by compare-and-set.

The order decides who is fenced (``delivery.receiver.Epochs``). An old copy of it harms nobody: nobody is fenced by it
alone, and a producer that it does not know is written, which fails, so that the note is read again.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from weakref import WeakValueDictionary

from flarelog.delivery.receiver import Epochs, Holder
from flarelog.errors import Fenced, Unreadable
from flarelog.model import Started, StreamId
from flarelog.stores.nats.engine import Away, Engine, Message, Pauses, WrongLast
from flarelog.stores.nats.layout import PRODUCERS, Layout

MOST = 50_000  # sites whose notes are known
READ_AGAIN = 1.0  # seconds after which a new log reads the note of its site again: ten thousand may come at once


class Producers:
    """The producers of all sites, as far as this process has asked."""

    def __init__(self, engine: Engine, layout: Layout) -> None:
        self._engine, self._layout = engine, layout
        self._known: dict[tuple[str, str], tuple[int, bytes]] = {}  # the sequence and the content of each note
        self._read_at: dict[tuple[str, str], float] = {}
        self._one: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def claim(
        self,
        stream: StreamId,
        held: Holder,
        producer: bytes,
        epoch: int,
        started: Started | None,
        *,
        sealed: bool,
        new: bool,
    ) -> Holder:
        """The holder of *stream*, which *held* has, once *producer* has it; see ``Epochs.claim``. *new*: the stream
        does not exist yet, so its site may have been removed. Raises Fenced, Unavailable, Full.
        """
        if len(self._known) > MOST:
            self._known.clear()
            self._read_at.clear()
        site, pauses = (stream.run, stream.site), Pauses()
        async with self._one.setdefault(site, asyncio.Lock()):
            fresh, clock = False, asyncio.get_running_loop().time
            while True:
                if site not in self._known or (new and clock() - self._read_at.get(site, -READ_AGAIN) > READ_AGAIN):
                    self._known[site], self._read_at[site] = await self._read(site), clock()
                    fresh = True
                sequence, content = self._known[site]
                epochs = Epochs()
                epochs.recall(_producers(content))
                epochs.learn(held)
                try:
                    holder = epochs.claim(held, producer, epoch, started, sealed=sealed)
                except Fenced:
                    if fresh:
                        raise
                    del self._known[site]
                    continue
                after = _content(epochs)
                if after == content:
                    return holder
                try:
                    subject = self._layout.note(PRODUCERS, *site)
                    self._known[site] = await self._engine.publish(subject, after, after=sequence), after
                except (Away, WrongLast) as error:
                    del self._known[site]
                    await pauses.rest(error, self._engine.where)
                else:
                    return holder

    async def _read(self, site: tuple[str, str]) -> tuple[int, bytes]:
        async def last() -> Message | None:
            return await self._engine.last(self._layout.notes_stream, self._layout.note(PRODUCERS, *site))

        found = await self._engine.patiently(last)
        return (0, b"") if found is None else (found.sequence, found.data)

    def forget(self, run: str, site: str = "") -> None:
        """Drop the copies for *run*, or for *site* in it, which was removed."""
        for known in [known for known in self._known if known[0] == run and site in ("", known[1])]:
            del self._known[known]


def _content(epochs: Epochs) -> bytes:
    said: list[list[Any]] = []
    for epoch, producer, started in epochs.known:
        said.append([epoch, producer.hex(), *((started.boot_id, started.ns) if started is not None else ())])
    return json.dumps(said, separators=(",", ":")).encode()


def _producers(content: bytes) -> list[tuple[int, bytes, Started | None]]:
    try:
        said = json.loads(content) if content else []
        return [(int(epoch), bytes.fromhex(name), Started(*rest) if rest else None) for epoch, name, *rest in said]
    except (ValueError, TypeError) as error:
        raise Unreadable("the note with a site's producers is damaged") from error
