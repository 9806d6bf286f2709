"""What comes before a stream is open: whether its run and its site are taken, whether there is room, whose turn it is.

Laws that hold here: what one site has used up, or makes, holds no other; a log that makes directories waits for the
disk in a thread, and of those threads one peer never has all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from flarelog.delivery.quota import Quota
from flarelog.delivery.rates import Names
from flarelog.delivery.receiver import Refused
from flarelog.delivery.receiving import code_of
from flarelog.delivery.shares import Holdings
from flarelog.errors import FlarelogError
from flarelog.lifecycle import Event, RunState
from flarelog.model import Code, Open, StreamId
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.peers import Turns
from flarelog.receiver.runs import Runs
from flarelog.receiver.workers.cluster import Workers
from flarelog.stores.base import OPENING, Appender, Store

RECOUNT_EVERY = 5.0  # seconds between two looks into the store at whether a run that is over its limit still is
OF_ONE_PEER = OPENING - 16  # streams of one peer that are opened side by side: others find a thread at once


class Admission:
    """For one event loop. *check*: raises Refused for a producer whose run was removed."""

    def __init__(
        self,
        store: Store,
        options: ServerOptions,
        runs: Runs,
        quota: Quota,
        workers: Workers | None,
        check: Callable[[Open], None],
    ) -> None:
        self._store, self._runs, self._quota, self._check = store, runs, quota, check
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
        self._counted: dict[str, float] = {}  # when the bytes of a run were counted
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def admit(self, opened: Open) -> None:
        """Let *opened* pass, or raise Refused: the receiver of its run is not registered. Raises Full as well."""
        self._check(opened)
        if self._home is not None:
            await self._home.admit(opened.stream)
        else:
            await self._admit(opened.stream)

    async def admit_elsewhere(self, stream: StreamId) -> None:
        """Let a stream of another worker's pass. Raises Refused."""
        try:
            await self._admit(stream)
        except FlarelogError as error:
            raise Refused(code_of(error), str(error)) from error

    async def _admit(self, stream: StreamId) -> None:
        run = stream.run
        if self._runs.state(run) is RunState.UNKNOWN:
            if self._announced_only:
                how = f"which takes announced runs only: flarelog run-start {run} announces it"
                raise Refused(Code.EXECUTION_EXCEPTION, f"run {run} is not registered at this receiver, {how}")
            # With TLS the policy let it push as the site of its certificate, and as no other.
            await self._runs.announce(run, Event.START_RUN, stream.site)
        await self._learn(run)
        self._sites.admit(run, stream.site)

    async def _learn(self, run: str) -> None:
        if not self._sites.known(run):
            self._sites.learn(run, *await self._store.sites(run))

    def _is_admitted(self, stream: StreamId) -> bool:
        if self._home is not None:
            return self._home.is_admitted(stream)
        return self._runs.state(stream.run) is not RunState.UNKNOWN and self._sites.known(stream.run)

    async def has(self, run: str, site: str) -> bool:
        """Whether *site* is, or was, in *run*."""
        await self._learn(run)
        return self._sites.has(run, site)

    async def open(self, opened: Open, peer: str) -> Appender:
        """The appender of a stream. Only a few are opened at a time: what is being committed must not wait for all.

        Raises Full, Fenced, Unavailable.
        """
        stream, store = opened.stream, self._store
        async with self._opening.one(peer), self._at.setdefault(stream, asyncio.Lock()):
            while not self._is_admitted(stream):  # its run was removed since it was let pass
                await self.admit(opened)
            held, new = await store.footprint(stream)
            with self._holdings.making(stream, held, new):
                return await store.appender(stream, opened.producer, opened.epoch)

    def writes(self, stream: StreamId, appender: Appender) -> None:
        """Let what is to be appended pass. Raises Full when the journals of its site take what they may."""
        self._holdings.journals(stream, appender.footprint)

    async def count(self, stream: StreamId) -> None:
        """Learn what the store holds of a run, at its first stream and, now and then, while it is over a limit."""
        quota = self._quota
        if not quota.counts_bytes:
            return
        run, clock = stream.run, asyncio.get_running_loop().time
        async with self._counting.setdefault(run, asyncio.Lock()):  # whoever comes meanwhile waits for the numbers
            counted = self._counted.get(run)
            if counted is not None and (clock() - counted < RECOUNT_EVERY or quota.has_room(stream)):
                return
            with quota.count(run) as found:
                async for info in self._store.list(f"{run}/"):
                    quota.found(info.stream, info.committed)
                    found.add(info.stream)
            self._counted[run] = clock()

    def forget(self, run: str) -> None:
        """*run*, or a site in it, is no longer in the store."""
        self._sites.forget(run)
        self._counted.pop(run, None)
