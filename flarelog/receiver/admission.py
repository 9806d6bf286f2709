"""Admission of streams, before they open: the run and the site are admitted, limits are checked, opens are queued.

Laws that hold here: the limits and the opens of one site hold up no other site. A log that needs new directories waits
for the disk in a thread, and one peer never has all of these threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from weakref import WeakValueDictionary

from flarelog.delivery.quota import Quota
from flarelog.delivery.rates import Names
from flarelog.delivery.receiver import Refused
from flarelog.delivery.receiving import code_of
from flarelog.delivery.shares import Holdings
from flarelog.errors import FlarelogError, Full
from flarelog.lifecycle import Event, RunState
from flarelog.model import Code, Open, StreamId
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.others import Others
from flarelog.receiver.peers import Turns
from flarelog.receiver.runs import Runs
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.workers.cluster import Workers
from flarelog.stores.base import OPENING, Appender, Store

RECOUNT_EVERY = 5.0  # seconds between two recounts of a run that is over its limit
OF_ONE_PEER = OPENING - 16  # concurrent opens of one peer, so that other peers find a thread at once


class Admission:
    """The admission of one event loop. *check*: raises Refused for a producer whose run was removed."""

    def __init__(
        self,
        store: Store,
        options: ServerOptions,
        runs: Runs,
        sessions: Sessions,
        quota: Quota,
        workers: Workers | None,
        others: Others,
        check: Callable[[Open], None],
    ) -> None:
        self._store, self._runs, self._sessions, self._quota, self._check = store, runs, sessions, quota, check
        self._others = others
        self._home = workers if workers is not None and not workers.home else None
        self._announced_only = options.announced_runs_only
        self._sites = Names(
            options.max_sites,
            "site",
            "run {key} has {used}, and {limit:,} is the limit: start the receiver with a higher --max-sites",
        )
        self._holdings = Holdings(options)
        self._opening = Turns(OPENING, OF_ONE_PEER)
        self._at: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()
        self._counted: dict[str, float] = {}  # when the bytes of each run were counted
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def admit(self, opened: Open) -> None:
        """Admit *opened*. Raises Refused if its run is not registered at this receiver, and Full."""
        self._check(opened)
        if self._home is not None:
            await self._home.admit(opened.stream)
        else:
            await self._admit(opened.stream)

    async def admit_elsewhere(self, *names: str) -> list[str]:
        """Admit the stream *names* that another worker opens; returns the code and the sentence of a refusal."""
        try:
            await self._admit(StreamId(*names))
        except FlarelogError as error:
            return [code_of(error).name, str(error)]
        return []

    async def _admit(self, stream: StreamId) -> None:
        run = stream.run
        if self._runs.state(run) is RunState.UNKNOWN and await self._runs.recorded(run) is RunState.UNKNOWN:
            if self._announced_only:
                how = f"which takes announced runs only: flarelog run-start {run} announces it"
                raise Refused(Code.EXECUTION_EXCEPTION, f"run {run} is not registered at this receiver, {how}")
            # With TLS the policy has allowed the producer to push only as the site in its certificate.
            await self._runs.announce(run, Event.START_RUN, stream.site)
        await self._learn(run, stream.site)
        self._sites.admit(run, stream.site)

    async def _learn(self, run: str, site: str) -> None:
        if not self._sites.known(run) or (self._others.may_be and not self._sites.has(run, site)):
            self._sites.learn(run, *await self._store.names(run))

    def _is_admitted(self, stream: StreamId) -> bool:
        if self._home is not None:
            return self._home.is_admitted(stream)
        return self._runs.state(stream.run) is not RunState.UNKNOWN and self._sites.known(stream.run)

    def lets_in(self, stream: StreamId) -> bool:
        """Whether the site of *stream* is in its run, or has room there; it is then in the run."""
        if self._home is not None or not self._is_admitted(stream):
            return self._is_admitted(stream)
        with contextlib.suppress(Full):
            self._sites.admit(stream.run, stream.site)
        return self._sites.has(stream.run, stream.site)

    async def has(self, run: str, site: str) -> bool:
        """Whether *site* is, or was, in *run*."""
        if self._runs.state(run) is RunState.UNKNOWN:
            return False
        await self._learn(run, site)
        return self._sites.has(run, site)

    async def open(self, opened: Open, peer: str) -> Appender:
        """Open the stream and return its appender; only a few opens run at once, so that commits do not wait for all.

        Raises Full, Fenced, Unavailable.
        """
        stream, store = opened.stream, self._store
        async with self._opening.one(peer), self._at.setdefault(stream, asyncio.Lock()):
            while not self._is_admitted(stream):  # the run was removed since its admission
                await self.admit(opened)
            with contextlib.ExitStack() as counted:
                counted.enter_context(self._sessions.opening(stream))
                if (space := store.space) is not None:
                    held, new = await space.footprint(stream)
                    counted.enter_context(self._holdings.making(stream, held, new, space.inodes(stream.site)))
                return await store.appender(stream, opened.producer, opened.epoch, opened.started)

    def writes(self, stream: StreamId) -> None:
        """Allow an append to *stream*. Raises Full if the journals of its site have reached their limit."""
        if (space := self._store.space) is not None:
            self._holdings.journals(stream, space.held(stream.run, stream.site))

    async def count(self, stream: StreamId) -> None:
        """Count the stored bytes of a run at its first stream, and again now and then while it is over a limit."""
        quota = self._quota
        if not quota.counts_bytes:
            return
        run, clock = stream.run, asyncio.get_running_loop().time
        async with self._counting.setdefault(run, asyncio.Lock()):  # concurrent callers share one count
            counted = self._counted.get(run)
            if counted is not None and (clock() - counted < RECOUNT_EVERY or quota.has_room(stream)):
                return
            with quota.count(run) as found:
                async for info in self._store.list(f"{run}/"):
                    quota.found(info.stream, info.committed)
                    found.add(info.stream)
            self._counted[run] = clock()

    def forget(self, run: str) -> None:
        """Drop the cached sites and counts of *run*: it, or a site in it, is no longer in the store."""
        self._sites.forget(run)
        self._counted.pop(run, None)
