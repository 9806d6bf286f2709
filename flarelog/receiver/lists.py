"""The calls List, ListRuns, Timeline and Findings: answers about the store, in pieces, filtered by the policy.

Laws that hold here: a list reads only streams that the caller asked for and may see. Concurrent callers take turns, and
the reception of logs goes on between two turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import grpc

from flarelog.model import Action, RunInfo, State, StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.policy import Identity, site_of
from flarelog.receiver.callers import Callers
from flarelog.receiver.elsewhere import Elsewhere, Seen
from flarelog.receiver.findings import Findings
from flarelog.receiver.peers import Turns
from flarelog.receiver.runs import Runs
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.states import States
from flarelog.receiver.unopened import Unopened
from flarelog.receiver.workers.relay import Passed, Relay
from flarelog.security.context import Context
from flarelog.security.guard import identity_of
from flarelog.stores.base import Store, names_of
from flarelog.stores.events import EVENTS, happenings
from flarelog.stores.moments import POINTS, Moment, closed, lengths_at
from flarelog.stores.runs import timeline
from flarelog.stores.totals import totals
from flarelog.stores.unopened import among
from flarelog.wire import calls
from flarelog.wire.codec.findings import Asked, FoundIn, found_in_messages
from flarelog.wire.codec.lists import Listing, encode_info, encode_infos, parts_of
from flarelog.wire.codec.timeline import Times, moments_in_messages

TURN, TURN_MOST = 0.002, 100  # seconds and streams of one turn
SEEN_TOGETHER = 50  # runs that the policy decides on before other work has a turn
TOLD_WITHIN, TOLD_MOST, TOLD_BYTES = 0.01, 100, 32 << 10  # seconds, streams and bytes of one message


class Lists:
    """The lists of one event loop."""

    def __init__(
        self,
        store: Store,
        callers: Callers,
        runs: Runs,
        sessions: Sessions,
        states: States,
        found: Findings | None,
        unopened: Unopened,
        elsewhere: Elsewhere,
    ) -> None:
        self._store, self._callers, self._runs = store, callers, runs
        self._sessions, self._states, self._found = sessions, states, found
        self._unopened, self._elsewhere = unopened, elsewhere
        self._turns = Turns()
        self._records = Turns(2, 1)  # reads of the notes of unopened logs, which take a thread each

    async def _answered(
        self,
        asked: Listing | Times | Asked,
        context: Context,
        action: Action,
        own: Callable[[Any, Context, str, Identity], AsyncGenerator[Any, None]],
        relayed: Callable[[Relay], Callable[..., AsyncGenerator[Any, None]]],
        *,
        together: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """The answer of *own*, which gets the peer and its identity too; with several workers, *relayed* adds their
        answers. *together*: several streams a message.
        """
        callers, workers = self._callers, self._callers.workers
        async with callers.reading(context) as (peer, patience):
            if asked.run or action is not Action.LIST:
                run_name(asked.run)
            if asked.site:
                site_name(asked.site)
            # The worker that relayed a call has checked the policy and written the audit line.
            passed = isinstance(context, Passed)
            identity = identity_of(context) if passed else callers.guard.asks(context, action, asked.run, asked.site)
            found = own(asked, context, peer, identity)
            if workers is not None and not passed:
                found = relayed(workers.relay)(asked, found, context, callers.who(context))
            async with contextlib.aclosing(_together(found) if together else found) as parts:
                async for part in parts:
                    with patience:
                        yield part

    def streams(self, asked: Listing, context: Context) -> AsyncIterator[tuple[StreamInfo, int] | bytes]:
        """The answer to List."""
        return self._answered(asked, context, Action.LIST, self._held, lambda relay: relay.list, together=asked.several)

    async def _held(
        self, asked: Listing, context: Context, peer: str, identity: Identity
    ) -> AsyncGenerator[tuple[StreamInfo, int], None]:
        """The stored streams that *asked* names and *identity* may list, in messages."""
        guard, streams = self._callers.guard, 0
        seen = await self._elsewhere.of(asked.run, asked.site)
        asks, shared = calls.takes_some(context.invocation_metadata()), self._store.shared
        if asks and shared is not None and self._callers.may_see(identity, asked.run):
            context.set_trailing_metadata(calls.about_shared(seen.silent, await shared.standing()))
        gone: dict[tuple[str, str], dict[str, int]] = {}  # by run and site: the logs that timed out before the start

        def wanted(run: str, site: str) -> bool:
            permitted = asked.site in ("", site) and guard.policy.permits(identity, Action.LIST, run=run, site=site)
            return permitted and self._is_mine(run, site)

        prefix = f"{asked.run}/" if asked.run else ""
        prefix += f"{asked.site}/" if asked.run and asked.site else ""
        whole = asked.unstored and not (asked.within or asked.one_a_site)
        if asked.within:
            held = self._grown(asked, wanted, seen)
        else:
            held = self._store.list(
                prefix, one_a_site=asked.one_a_site, after=asked.after, wanted=wanted, unreadable=whole
            )
        if whole:
            async with self._records.one(peer):
                others = await self._unopened.infos(asked.run, wanted)
            held = among(held, [one for one in others if names_of(one) > asked.after])
        async with contextlib.aclosing(held) as found:
            while True:
                infos = await self._some(found, peer, asked.limit - streams if asked.limit else TURN_MOST)
                streams += len(infos)
                for info in infos:
                    lengths = lengths_at(await self._store.history(info.stream), asked.times) if asked.times else ()
                    state = await self._state(info, gone, seen)
                    marks = () if asked.one_a_site or asked.within else info.marks
                    told = replace(self._told(info), state=state, marks=marks, lengths=lengths)
                    for part in parts_of(told):
                        if part[1]:
                            async with self._turns.one(peer):
                                pass  # callers with shorter lists have a turn in between
                        yield part
                if not infos or streams == asked.limit:
                    return

    async def _state(self, info: StreamInfo, gone: dict[tuple[str, str], dict[str, int]], seen: Seen) -> State:
        """The state of the stream of *info*. If it was not opened since the start, here or at another receiver, the
        store knows whether it had timed out before; *gone* keeps what was read.
        """
        stream = info.stream
        state = seen.state(stream, self._states.of(stream, info.grown or info.begun))
        away, timeout = state.changed or 0.0, state.idle_timeout
        if info.sealed or state.linked or state.heard is not None or away >= timeout:
            return state
        site = stream.run, stream.site
        if site not in gone:
            gone[site] = closed(happenings(await self._store.note(EVENTS, *site)))
        at = gone[site].get(stream.log)
        return state if at is None else replace(state, changed=max(away, timeout + time.time() - at / 1000))

    def _told(self, info: StreamInfo) -> StreamInfo:
        """*info*, not sealed if its producer has more bytes since the seal, and was told to wait with them."""
        return replace(info, sealed=False) if info.sealed and self._states.keeps(info.stream, info.committed) else info

    async def _grown(
        self, asked: Listing, wanted: Callable[[str, str], bool], seen: Seen
    ) -> AsyncGenerator[StreamInfo, None]:
        """The open streams that have grown lately, from the memory of all receivers alone."""
        within = asked.within / 1000
        own = {
            one: appender.info
            for one in self._states.grown(asked.run, asked.site, within)
            if (appender := self._sessions.appender(one)) is not None
        }
        theirs = {
            one: info
            for one, info in seen.infos.items()
            if info.state is not None and info.state.linked and (info.state.grown or 0.0) <= within
        }
        for info in sorted({**theirs, **own}.values(), key=names_of):
            if names_of(info) > asked.after and wanted(info.stream.run, info.stream.site):
                yield info

    async def _some(self, found: AsyncGenerator[StreamInfo, None], peer: str, most: int) -> list[StreamInfo]:
        """The next streams of *found*, in one turn; empty at the end."""
        infos: list[StreamInfo] = []
        async with self._turns.one(peer):
            end = time.monotonic() + TURN
            while len(infos) < min(most, TURN_MOST) and (not infos or time.monotonic() < end):
                info = await anext(found, None)
                if info is None:
                    break
                infos.append(info)
        return infos

    async def runs(self, run: str, context: Context) -> AsyncIterator[RunInfo]:
        """The answer to ListRuns."""
        callers, workers = self._callers, self._callers.workers
        async with callers.reading(context) as (peer, patience):
            passed = isinstance(context, Passed)
            asked = run_name(run) if run else None
            identity = identity_of(context) if passed else callers.guard.asks(context, Action.LIST_RUNS, asked)
            known = {one: state.value for one, state in self._runs.states.items() if run in ("", one)}
            found: AsyncGenerator[RunInfo, None] = self._sums(run, peer, identity)
            if workers is not None and not passed:
                found = workers.relay.list_runs(run, found, context, callers.who(context))
            rest = [] if passed else await self._seen(identity, known)
            async with contextlib.aclosing(found) as infos:
                async for info in infos:
                    while rest and rest[-1] <= info.run:
                        if (name := rest.pop()) != info.run:
                            yield RunInfo(name, known[name])
                    with patience:
                        yield replace(info, state=known.get(info.run, ""))
            for name in reversed(rest):
                yield RunInfo(name, known[name])

    async def _seen(self, identity: Identity, runs: Iterable[str]) -> list[str]:
        """Those of *runs* that *identity* may see, in reverse order, even those without a stream."""
        seen = list[str]()
        for number, run in enumerate(sorted(runs, reverse=True), 1):
            if self._callers.may_see(identity, run):
                seen.append(run)
            if number % SEEN_TOGETHER == 0:
                await asyncio.sleep(0)  # a policy may have to look a run up
        return seen

    async def _sums(self, run: str, peer: str, identity: Identity) -> AsyncGenerator[RunInfo, None]:
        """The totals of the runs in this process, as far as *identity* may see them."""

        async def seen() -> AsyncGenerator[StreamInfo, None]:
            def wanted(run: str, site: str) -> bool:
                return self._callers.may_see(identity, run, site) and self._is_mine(run, site)

            held = self._store.list(f"{run}/" if run else "", wanted=wanted, unreadable=True)
            async with self._records.one(peer):
                others = await self._unopened.infos(run, wanted)
            every = among(held, others)
            async with contextlib.aclosing(every) as found:
                while infos := await self._some(found, peer, TURN_MOST):
                    for info in infos:
                        yield self._told(info)

        elsewhere = await self._elsewhere.of(run)

        def sent(stream: StreamId) -> bool:  # a producer that waits is connected, and has its stream open now and then
            there = elsewhere.infos.get(stream)
            theirs = there is not None and there.state is not None and there.state.sends
            return theirs or stream in self._sessions or self._states.sends(stream)

        async with (
            contextlib.aclosing(seen()) as streams,
            contextlib.aclosing(totals(streams, sent)) as found,
        ):
            async for info in found:
                yield info

    def _is_mine(self, run: str, site: str) -> bool:
        """Whether this process answers for *site* in *run*."""
        workers = self._callers.workers
        return workers is None or workers.place.mine(run, site)

    # --- times

    def timeline(self, asked: Times, context: Context) -> AsyncIterator[Sequence[Moment] | bytes]:
        """The answer to Timeline."""
        return self._answered(
            asked, context, Action.TIMELINE, self._moments, lambda relay: partial(relay.each, calls.timeline)
        )

    async def _moments(
        self, asked: Times, context: Context, peer: str, identity: Identity
    ) -> AsyncGenerator[Sequence[Moment], None]:
        """The moments that *identity* may see, in messages; those of the whole run only where no worker relays them."""

        def wanted(run: str, site: str) -> bool:
            permitted = self._callers.guard.policy.permits(identity, Action.TIMELINE, run=run, site=site)
            return permitted and self._is_mine(run, site)

        whole = not isinstance(context, Passed)
        if whole and not self._callers.may_see(identity, asked.run):  # a site must be in the run to see its state
            whole = site_of(identity) in await self._store.names(asked.run)
        told = timeline(self._store, asked.run, asked.site, asked.points or POINTS, wanted)
        async with contextlib.aclosing(told) as found:
            while True:
                async with self._turns.one(peer):
                    moments = await anext(found, None)
                if moments is None:
                    return
                for message in moments_in_messages(moments):
                    if whole or message[0].site:
                        yield message

    # --- findings

    def findings(self, asked: Asked, context: Context) -> AsyncIterator[FoundIn | bytes]:
        """The answer to Findings."""
        return self._answered(
            *(asked, context, Action.FINDINGS, self._troubles),
            lambda relay: partial(relay.each, calls.findings, some=True),
        )

    async def _troubles(
        self, asked: Asked, context: Context, peer: str, identity: Identity
    ) -> AsyncGenerator[FoundIn, None]:
        """The findings of this process in logs that *identity* may read, in messages."""
        known = self._found
        if known is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this receiver was told not to look for findings")
        for site in [asked.site] if asked.site else sorted(await self._store.names(asked.run)):
            if not self._callers.guard.policy.permits(identity, Action.READ, run=asked.run, site=site):
                continue
            async with self._turns.one(peer):
                logs = await known.of(asked.run, site)
            for stream, progress in logs:
                if not (asked.all or progress.size):
                    continue
                found = FoundIn(stream, progress.seen, progress.more, known.zone, progress.findings)
                for part in found_in_messages(found):
                    yield part


async def _together(parts: AsyncGenerator[tuple[StreamInfo, int] | bytes, None]) -> AsyncGenerator[bytes, None]:
    """*parts* in fewer messages: a message costs many times as much as a stream in it."""
    waiting, size, since = list[bytes](), 0, 0.0
    async with contextlib.aclosing(parts):
        async for part in parts:
            raw = part if isinstance(part, bytes) else encode_info(part)
            waiting.append(raw)
            size, now = size + len(raw), time.monotonic()
            since = since or now
            if len(waiting) >= TOLD_MOST or size >= TOLD_BYTES or now - since >= TOLD_WITHIN:
                yield encode_infos(waiting)
                waiting, size, since = [], 0, 0.0
        if waiting:
            yield encode_infos(waiting)
