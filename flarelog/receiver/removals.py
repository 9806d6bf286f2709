"""Removal of runs from a serving receiver: the steps of each of its processes.

First all processes, and all receivers that share the store, refuse to open streams of the run; then, if no stream is
open, the store removes it; then all forget the run, so that its name can be used again. A producer that was sending the
run does not bring it back: the receivers refuse its bytes, and only a restarted producer begins again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from flarelog.delivery.fairness import FairMap
from flarelog.delivery.receiver import Refused
from flarelog.errors import FlarelogError, InUse, NotFound, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Code, Open, Removed, StreamId
from flarelog.names import run_name, site_name
from flarelog.receiver.others import Others
from flarelog.receiver.runs import Runs, Spawn
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.states import States
from flarelog.receiver.windows import Lately
from flarelog.receiver.workers.cluster import Workers
from flarelog.stores.base import Extent, Store, in_use
from flarelog.text import several

log = logging.getLogger(__name__)

END_WITHIN = 10.0  # seconds that refused streams may take to end
LOOK = 0.05  # seconds between two polls for their end
GRACE = 5.0  # seconds beyond END_WITHIN in which another process must answer
AGAIN = "to send it again, start the sidecar by hand, or restart the agent"
HELD = 60.0  # seconds after which this process lets go, if the receiver that removes a run says nothing more
REMEMBERED = 20_000  # barred producers


class Removals:
    """The removals of one event loop; only the home process calls ``remove``. *forget*: called with the run, or the
    site in it, that the store no longer has; *waits*: whether logs of it are remembered that the store has no room for;
    *asking*: its logs whose producers were told to wait, and are still there.
    """

    def __init__(
        self,
        store: Store,
        runs: Runs,
        sessions: Sessions,
        states: States,
        workers: Workers | None,
        others: Others,
        forget: Callable[[str, str], None],
        spawn: Spawn,
        lately: Lately,
        waits: Callable[[str, str], bool],
        asking: Callable[[str, str], Iterable[StreamId]],
    ) -> None:
        self._store, self._runs, self._sessions, self._states = store, runs, sessions, states
        self._workers, self._others, self._forget, self._spawn = workers, others, forget, spawn
        self._lately = lately
        self._waits, self._asking = waits, asking
        self._one = asyncio.Lock()
        self._barred = FairMap[tuple[str, str, bytes], str](REMEMBERED, lambda key: key[1])  # the removed run or site

    def check(self, opened: Open) -> None:
        """Raises Refused if the producer of *opened* was sending the run or the site when it was removed."""
        stream = opened.stream
        if (stream.run, stream.site, opened.producer) in self._barred:
            what = self._barred[stream.run, stream.site, opened.producer]
            sent = f"while site {stream.site} sent it" if what == _named(stream.run) else "while it sent"
            raise Refused(Code.REJECTED, f"{what} was removed at the receiver {sent}; {AGAIN}")

    async def remove(
        self, run: str, site: str = "", *, force: bool = False, barred: bool = True, was: Extent | None = None
    ) -> Removed:
        """Remove *run*, or *site* in it. *force*: end its open streams; *barred*: refuse its producers from now on;
        *was*: remove it only if its extent is still this one.

        Raises InvalidName, NotFound, InUse, Unavailable.
        """
        workers = self._workers
        run_name(run), site and site_name(site)
        async with self._one:
            removed = waits = False
            producers = list[str]()
            try:
                opened = await self.hold(run, site, force)
                told = await self._others.ask("Hold", run, site, force, within=END_WITHIN + GRACE)
                if told.silent and not force:
                    raise Unavailable(
                        f"the receiver at {told.silent[0]} does not answer, and may have logs of run {run} open: try"
                        " again in a minute, or give --force"
                    )
                for count, their_producers, remembers in told.answers:
                    opened, waits = opened + count, waits or remembers
                    producers += their_producers if barred else ()
                if workers is not None:
                    opened += await workers.hold(run, site, force, END_WITHIN + GRACE)
                if opened and force:
                    raise Unavailable(
                        f"{several(opened, 'log')} of run {run} did not end within {END_WITHIN:g} s, so the run"
                        " was not removed: try again"
                    )
                if opened and self._runs.state(run) is RunState.UNKNOWN:
                    why = f"a sidecar waits to send {_named(run, site)}, for which the receiver has no room"
                    raise InUse(f"{why}: stop it first, or give --force")
                if opened:
                    raise InUse(in_use(run, site, opened))
                found = await self._taken_away(run, site, was, waits)
                removed = True
            except Refused as error:  # another process did not answer
                raise Unavailable(str(error)) from error
            finally:
                producers += self._producers(run, site) if barred else ()
                await self.let_go(run, site, removed, barred, producers)
                await self._others.tell("LetGo", run, site, removed, barred, producers)
                if workers is not None:
                    await workers.let_go(run, site, removed, barred)
        self._spawn(self.clear())
        return found

    async def _taken_away(self, run: str, site: str, was: Extent | None, waits: bool) -> Removed:
        try:
            return await self._store.remove(run, site, was=was)
        except NotFound:
            announced = not site and self._runs.state(run) is not RunState.UNKNOWN
            if announced or waits or await self._remembered(run, site):
                return Removed(0, 0)  # nothing of it could be stored
            raise

    async def _remembered(self, run: str, site: str) -> bool:
        return await self.waits(run, site) or (self._workers is not None and await self._workers.waits(run, site))

    async def waits(self, run: str, site: str) -> bool:
        """Whether this process remembers logs of *run*, or of *site* in it, that the store does not have."""
        return self._waits(run, site)

    async def hold(self, run: str, site: str, force: bool) -> int:
        """Refuse to open streams of *run* here; *force*: end the open ones. Returns the number of those still open;
        without *force* a paused stream counts, which its producer opens again and again for a moment.
        """
        opened, clock = self._sessions, asyncio.get_running_loop().time
        opened.held.add((run, site))
        if force:
            why = f"{_named(run, site)} was removed at the receiver; {AGAIN}"
            sessions = opened.of(run, site)
            if sessions and not self._lately.said(why):  # once, not for each log
                log.warning("%s; %d of its logs were open", why, len(sessions))
            for session in sessions:
                session.refuse(Refused(Code.REJECTED, why))
            end = clock() + END_WITHIN
            while opened.streams(run, site) and clock() < end:
                await asyncio.sleep(LOOK)
        return len({*opened.streams(run, site), *(() if force else self._asking(run, site))})

    async def hold_elsewhere(self, run: str, site: str, force: bool) -> tuple[int, list[str], bool]:
        """``hold`` for another receiver that shares the store, with what it must know of this one: the producers of the
        run, and whether logs of it are remembered.
        """
        asyncio.get_running_loop().call_later(HELD, self._sessions.held.discard, (run, site))
        opened = await self.hold(run, site, force)
        return opened, self._producers(run, site), self._waits(run, site)

    def _producers(self, run: str, site: str) -> list[str]:
        """The producers of *run*, or of *site* in it: each with its site."""
        return [f"{at}/{producer.hex()}" for _, at, producer in self._states.producers(run, site)]

    async def let_go(self, run: str, site: str, removed: bool, barred: bool, producers: Iterable[str] = ()) -> None:
        """Allow opens of *run*, or of *site* in it, again; if it was *removed*, forget it first. *producers*: those at
        all receivers of the store, which are *barred* as well.
        """
        if removed:
            for one in {*self._producers(run, site), *producers} if barred else ():
                at, _, producer = one.partition("/")
                self._barred[run, at, bytes.fromhex(producer)] = _named(run, site)
            if (space := self._store.space) is not None:
                space.forget_run(run, site)
            self._forget(run, site)
        self._sessions.held.discard((run, site))

    async def clear(self) -> None:
        """Free the space of removed runs, also of those from before a crash."""
        try:
            if (space := self._store.space) is not None:
                await space.clear()
        except FlarelogError as error:
            log.warning("%s; the receiver retries when the next run is removed", error)


def _named(run: str, site: str = "") -> str:
    return f"site {site} of run {run}" if site else f"run {run}"
