"""Notes: each a subject whose messages, one after the other, are the note.

To append is one publish, however long the note is; a key of a KV would be read and written anew. To replace is a
publish that rolls up what was before, as is the one that would exceed the limit of the note's kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from flarelog.errors import Unavailable
from flarelog.stores.nats.engine import Away, Engine, Message, Pauses, WrongLast
from flarelog.stores.nats.layout import PRODUCERS, Layout
from flarelog.stores.notes import FINDINGS, Kind

KNOWN = 10.0  # seconds for which a run is known to exist
MOST = 10_000  # notes and runs that are known
MANY = 200  # messages of a note that are merged into one


class _Note(NamedTuple):
    """A note after its message *sequence*."""

    sequence: int
    messages: int
    size: int  # bytes


class Notes:
    """The notes of one store."""

    def __init__(self, engine: Engine, layout: Layout) -> None:
        self._engine, self._layout = engine, layout
        self._runs: dict[tuple[str, str], float] = {}  # when a run, or a site in it, was last seen
        self._known: dict[str, _Note] = {}  # by subject; those of others are found when a publish is refused

    async def names(self, run: str = "") -> Collection[str]:
        """The runs of the store, or the sites of *run*."""
        found = set[str]()
        for subject in await self._subjects(self._layout.notes(run)):
            its_run, site, kind = self._layout.note_of(subject)
            if run and site and kind == PRODUCERS:
                found.add(site)
            elif not run and its_run and (kind == PRODUCERS or not site):
                found.add(its_run)
        return sorted(found)

    async def _subjects(self, filtered: str) -> Collection[str]:
        where = self._layout.notes_stream
        return (await self._engine.patiently(lambda: self._engine.counts(where, filtered)))[0]

    async def exists(self, run: str, site: str = "") -> bool:
        """Whether the store has *run*, or *site* in it."""
        now = asyncio.get_running_loop().time()
        if now - self._runs.get((run, site), -KNOWN) < KNOWN:
            return True
        filtered = self._layout.notes(run, site, PRODUCERS) if site else self._layout.notes(run)
        found = bool(await self._subjects(filtered))
        if len(self._runs) > MOST:
            self._runs.clear()
        if found:
            self._runs[run, site] = now
        return found

    async def changed(self, run: str, site: str = "") -> int:
        """When the latest note was written that makes *run* younger: milliseconds since 1970; 0: there is none."""
        return max(
            (
                message.at
                for message in await self._all(self._layout.notes(run, site), last=True, heads=True)
                if self._layout.note_of(message.subject)[2] != FINDINGS.name
            ),
            default=0,
        )

    async def read(self, kind: Kind, run: str = "", site: str = "") -> bytes:
        return b"".join(one.data for one in await self._messages(self._layout.note(kind.name, run, site)))

    async def every(self, kind: Kind, run: str = "") -> Mapping[tuple[str, str], bytes]:
        """All notes of *kind* about *run*, or about all runs, and their sites."""
        found: dict[tuple[str, str], bytes] = {}
        for message in await self._all(self._layout.notes(run, kind=kind.name), last=False, heads=False):
            its_run, site, _ = self._layout.note_of(message.subject)
            if its_run:
                found[its_run, site] = found.get((its_run, site), b"") + message.data
        return found

    async def _all(self, subjects: str, *, last: bool, heads: bool) -> list[Message]:
        async def asked() -> list[Message]:
            return [one async for one in self._engine.each(where, [subjects], last=last, heads=heads)]

        where = self._layout.notes_stream
        return await self._engine.patiently(asked)

    async def _messages(self, subject: str) -> list[Message]:
        """All messages of *subject*, up to the last one that the leader has."""
        engine, where, pauses = self._engine, self._layout.notes_stream, Pauses()
        last = await engine.patiently(lambda: engine.last(where, subject))
        found: list[Message] = []
        while last is not None and (not found or found[-1].sequence < last.sequence):
            try:
                several = await engine.batch(where, subject, found[-1].sequence + 1 if found else 1)
            except Away as error:
                await pauses.rest(error, engine.where)
                continue
            if not several:
                await pauses.rest(Away("a server does not have the latest note yet"), engine.where)
                last = await engine.patiently(lambda: engine.last(where, subject))
            found += several
        return found

    async def replace(self, kind: Kind, said: bytes, run: str = "", site: str = "") -> None:
        subject = self._layout.note(kind.name, run, site)
        self._known.pop(subject, None)
        await self._engine.patiently(lambda: self._engine.publish(subject, said, rollup=True))

    async def exchange(self, kind: Kind, before: bytes, said: bytes) -> bool:
        """Replace the store's note *before* by *said*; False: it has changed."""
        subject, engine = self._layout.note(kind.name), self._engine
        found = await self._messages(subject)
        if b"".join(one.data for one in found) != before:
            return False
        try:
            await engine.publish(subject, said, after=found[-1].sequence if found else 0, rollup=True)
        except WrongLast:
            return False
        except Away as error:
            raise Unavailable(f"the store at {engine.where} does not answer: {error}") from error
        return True

    async def append(self, kind: Kind, said: bytes, run: str, site: str = "") -> None:
        """Append the lines *said* to a note, bounded by *kind*. Another receiver may append meanwhile: then the note is
        read again.
        """
        subject, pauses, engine = self._layout.note(kind.name, run, site), Pauses(), self._engine
        lost = False  # an acknowledgement
        while True:
            known = self._known.pop(subject, None)
            try:
                if known is not None and known.messages < MANY and known.size + len(said) <= kind.limit:
                    sequence = await engine.publish(subject, said, after=known.sequence)
                    self._known[subject] = _Note(sequence, known.messages + 1, known.size + len(said))
                    return
                found = await self._messages(subject)
                if lost and found and found[-1].data.endswith(said):
                    return
                if len(self._known) > MOST:
                    self._known.clear()
                raw, sequence = b"".join(one.data for one in found), found[-1].sequence if found else 0
                if known is None and len(found) < MANY and len(raw) + len(said) <= kind.limit:
                    self._known[subject] = _Note(sequence, len(found), len(raw))
                    continue
                whole = kind.bounded(raw, said)
                sequence = await engine.publish(subject, whole, after=sequence, rollup=True)
                self._known[subject] = _Note(sequence, 1, len(whole))
            except (Away, WrongLast) as error:
                lost = lost or isinstance(error, Away)
                await pauses.rest(error, engine.where)
            else:
                return

    def forget(self, run: str, site: str = "") -> None:
        for known in [known for known in self._runs if known[0] == run and site in ("", known[1])]:
            del self._runs[known]
        self._known.clear()
