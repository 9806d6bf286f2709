"""The routes of runs, sites, findings and lanes."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from flarelog.delivery.fairness import FairMap
from flarelog.errors import InvalidName, NotFound
from flarelog.lifecycle import RunState
from flarelog.model import RunInfo, StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.placeholders import look_at
from flarelog.records import ordered
from flarelog.repeats import without_copies
from flarelog.stores.moments import Moment
from flarelog.viewers.lanes import BUCKETS as MOST_BUCKETS
from flarelog.viewers.lanes import lanes_of, lanes_record
from flarelog.viewers.web import files, overview
from flarelog.viewers.web.asking import NoRun, Refused, answer, as_json, offset, stream
from flarelog.viewers.web.counts import Counts, Tally, histogram
from flarelog.viewers.web.glances import Glances
from flarelog.viewers.web.lasts import Lasts
from flarelog.viewers.web.lately import Lately
from flarelog.viewers.web.logins import Logins
from flarelog.viewers.web.origins import Rights
from flarelog.viewers.web.runs import Chosen, Removed, Wanted, chosen, runs_record, wanted_of
from flarelog.viewers.web.trouble import Troubles
from flarelog.viewers.web.windows import info_of

NUMBERED = 1000  # runs whose sites keep their numbers
FRESH = 0.5  # seconds for which a list is reused
ONE = 0.3  # seconds for which the length of one log is reused
ASKED = 1.0  # seconds between two questions whether the receiver still answers
FEW = 20  # sites: fewer are listed by themselves
WAIT = 0.5  # seconds that a client waits at most: for the first logs of a run, then for all of them
HOLD = 0.5  # seconds that the rest of a list waits at most for a client that wants it
BUCKETS = 600  # of a lane, by default
SMALL = 16 << 20  # bytes of a run whose first search does not slow its page down
SOME = 300  # logs that are shown before all are listed: preparing more would take longer than they are seen


class Listed(NamedTuple):
    """A run, as of its last list."""

    infos: Sequence[StreamInfo]
    state: RunState
    whole: bool = True  # False: the listing goes on
    sites: int = 0  # sites that are listed so far; the first of them are in *infos*
    unstored: Sequence[StreamInfo] = ()  # logs of which nothing was ever stored: they are shown, but are no streams


class _Listing:
    """A listing under way. After the first logs it waits until a client wants the rest: meanwhile the browser has the
    machine to itself.
    """

    task: asyncio.Task[Listed]

    def __init__(self) -> None:
        self.state = RunState.UNKNOWN
        self.found: Sequence[StreamInfo] = ()
        self.some, self.wanted = asyncio.Event(), asyncio.Event()

    async def told(self, found: Sequence[StreamInfo]) -> None:
        self.found = found
        self.some.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(HOLD):
                await self.wanted.wait()


class Lists:
    """Recent lists, which tabs that ask for the same share."""

    def __init__(self) -> None:
        self._kept = Lately[Listed](FRESH)
        self._making: dict[tuple[bytes, str], _Listing] = {}
        self._ones = Lately[StreamInfo](ONE, share=0, waits=True)
        self._runs: dict[Rights, asyncio.Task[list[RunInfo]]] = {}
        self._numbers = FairMap[tuple[bytes, str], dict[str, int]](NUMBERED, lambda key: key[0])
        self._timelines = Lately[list[Moment]](1.0, share=10, waits=True, kept=20)

    async def timeline(self, rights: Rights, run: str) -> list[Moment]:
        """The moments of *run*. Raises NotAllowed, CannotConnect."""
        return await self._timelines.of((rights.key, run), (), partial(rights.origin.timeline, run))

    async def runs(self, rights: Rights) -> list[RunInfo]:
        """All runs; concurrent callers share one question, which goes on without those that leave. Raises NotAllowed,
        CannotConnect.
        """
        task = self._runs.get(rights)
        if task is None:
            task = self._runs[rights] = asyncio.create_task(rights.origin.infos())
            task.add_done_callback(lambda _: self._runs.pop(rights))
        return await asyncio.shield(task)

    async def one(self, rights: Rights, of: StreamId) -> StreamInfo:
        """A log, as it was ONE seconds ago at most: scrolling asks ten times a second. Raises as ``of``."""
        return await self._ones.of((rights.key, of.run, of), (), partial(info_of, rights.origin, of))

    async def of(self, rights: Rights, run: str, sites: Collection[str] = ()) -> Listed:
        """All of a run, or of *sites* in it at least. Raises NotFound, NotAllowed, CannotConnect."""
        if not 0 < len(sites) < FEW:
            listing = self._begun(rights, run)
            listing.wanted.set()
            return await asyncio.shield(listing.task)
        wanted = tuple(sorted(sites))
        made = partial(self._listed, rights, run, wanted, _Listing())
        return await self._kept.of((rights.key, run, wanted), (), made)

    def numbers(self, rights: Rights, run: str, sites: Iterable[str]) -> dict[str, int]:
        """A number for each of *sites* of *run*, in this order where they are new; it stays as long as this server
        runs, whichever sites an answer names, so that a site has one colour everywhere.
        """
        numbers = self._numbers.get((rights.key, run)) or {}
        self._numbers[rights.key, run] = numbers
        return {site: numbers.setdefault(site, len(numbers)) for site in dict.fromkeys(sites)}

    def forget(self, rights: Rights, run: str) -> None:
        """Drop the lists of *run*, of which a log was removed: the next client, for any site, gets a new list."""
        for kept in (self._kept, self._ones):
            kept.forget(lambda key: key[:2] == (rights.key, run))

    def begin(self, rights: Rights, run: str) -> asyncio.Task[Listed]:
        """Start to list *run*: its page was opened and will ask for the list."""
        return self._begun(rights, run).task

    async def soon(self, rights: Rights, run: str, *, rest: bool = False) -> Listed:
        """All of a run, or as much as is listed by now; *rest*: the client has that part. Raises as ``of``."""
        listing = self._begun(rights, run)
        if rest:
            listing.wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT):
                await (asyncio.wait((listing.task,)) if rest else listing.some.wait())
        if listing.task.done():
            return listing.task.result()
        found = [info for info in listing.found if not info.unstored]
        sites = len({info.stream.site for info in found})
        return Listed(ordered(found[:SOME]), listing.state, whole=False, sites=sites)

    def _begun(self, rights: Rights, run: str) -> _Listing:
        """The listing of *run*; concurrent callers share one."""
        key = (rights.key, run)
        if key not in self._making:
            listing = self._making[key] = _Listing()
            made = self._kept.of((*key, ()), (), partial(self._listed, rights, run, (), listing))
            listing.task = asyncio.create_task(made)
            listing.task.add_done_callback(partial(self._over, key))
        return self._making[key]

    def _over(self, key: tuple[bytes, str], task: asyncio.Task[Listed]) -> None:
        listing = self._making.pop(key)
        listing.some.set()
        listing.wanted.set()  # a fresh list may still be under way: it must not wait
        if not task.cancelled():
            task.exception()  # a waiting caller gets it, otherwise the next one

    async def _listed(self, rights: Rights, run: str, sites: Sequence[str], listing: _Listing) -> Listed:
        asked = asyncio.create_task(rights.origin.state(run))  # beside the list: a busy receiver answers both late

        async def told(found: Sequence[StreamInfo]) -> None:
            listing.state = await asked
            await listing.told(found)

        try:
            so_far = None if sites else told
            every = ordered(await rights.origin.streams(run, sites, unstored=True, so_far=so_far))
            state = await asked
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        if not every and state is RunState.UNKNOWN:
            raise NoRun(f"{rights.origin.name} has no run {run}{', or not these sites of it' if sites else ''}")
        stored = [info for info in every if not info.unstored]
        return Listed(stored, state, unstored=[info for info in every if info.unstored])

    async def close(self) -> None:
        for task in [*self._runs.values(), *(listing.task for listing in self._making.values())]:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._kept.close()


class Answers:
    def __init__(self, logins: Logins, how: Sequence[str]) -> None:
        self._logins, self._how = logins, how
        self.lists = Lists()
        self._troubles, self._lasts, self._counts = Troubles(), Lasts(), Counts()
        self._runs, self._lanes, self._machines = Lately[tuple[bytes, str]](), Lately[bytes](), Lately[bytes]()
        self._listed, self._removed, self._glances = Lately[list[RunInfo]](FRESH), Removed(), Glances()
        self._states = Lately[RunState](ASKED, share=0, waits=True)  # that no answer comes is the answer

    async def close(self) -> None:
        await self.lists.close()  # a list that ends may begin a search
        await self._troubles.close()
        await self._counts.close()
        await self._lasts.close()
        await self._glances.close()
        for kept in (self._listed, self._runs, self._lanes, self._machines, self._states):
            await kept.close()

    async def runs(self, request: Request) -> Response:
        """A page of the list of runs. Raises Refused, CannotConnect."""
        session, wanted = request.state.session, wanted_of(request.query_params)
        rights = session.of
        infos = await self._listed.of(rights.key, (), partial(self.lists.runs, rights))
        if infos:  # a list outlives its receiver
            await self._states.of((rights.key, infos[0].run), (), partial(rights.origin.state, infos[0].run))
        found = self._chosen(rights, infos, wanted)
        looking = await self._glances.look(rights, found.every, len(found.shown))
        record = runs_record(self._chosen(rights, infos, wanted), now=_now())
        more = {
            "gone": self._removed.of(rights.key, (info.run for info in infos), time.monotonic()),
            "looking": looking,
            # The receiver does not list the runs that a token may not see.
            "some": self._logins.some or session.who == "token",
        }
        return answer(record | more)

    def _chosen(self, rights: Rights, infos: Sequence[RunInfo], wanted: Wanted) -> Chosen:
        glances, all_known = self._glances.known(rights, infos)
        return chosen(infos, wanted, glances, live=rights.origin.live, all_known=all_known)

    async def page(self, request: Request) -> Response:
        """The page. For a run it starts the listing that its code will ask for, and the search of a small run."""
        with suppress(Refused, InvalidName):
            rights, run = self._logins.session_of(request).of, run_name(request.path_params["rest"])

            def listed(task: asyncio.Task[Listed]) -> None:
                if not task.cancelled() and task.exception() is None and not request.query_params:
                    infos = task.result().infos
                    if sum(info.committed for info in infos) <= SMALL:
                        self._troubles.of(rights.key, rights.origin, run, infos)

            self.lists.begin(rights, run).add_done_callback(listed)
        return await files.index(request)

    async def run(self, request: Request) -> Response:
        """The sites of a run, or those that the request names; with ``so_far`` only those that are listed by now.
        Raises NotFound.
        """
        rights, run, wanted = request.state.session.of, _run(request), set(request.query_params.getlist("site"))
        await self._states.of((rights.key, run), (), partial(rights.origin.state, run))  # a list outlives its receiver
        shown = None if wanted else offset(request.query_params, "so_far")
        if shown is None:
            listed = await self.lists.of(rights, run, wanted)
        else:
            listed = await self.lists.soon(rights, run, rest=shown > 0)
        infos = [info for info in listed.infos if not wanted or info.stream.site in wanted]
        unstored = [info for info in listed.unstored if not wanted or info.stream.site in wanted]
        if not (infos or unstored) and wanted:
            raise NotFound(f"there is no such site in run {run}")
        if not listed.whole:  # the client asks again soon
            more = {"listing": True, "listed": listed.sites, "now": _now()}
            body, _ = await self._encoded(rights, more, run, listed.state, infos, {}, whole=False)
            return Response(body, media_type="application/json")

        async def made() -> tuple[bytes, str]:
            lasts, reading = await self._lasts.of(rights, infos)
            return await self._encoded(rights, {"reading": reading}, run, listed.state, infos, lasts, unstored=unstored)

        body, etag = await self._runs.of((rights.key, run, frozenset(wanted)), (listed,), made)
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"etag": etag})
        body = body[:-1] + b',"now":%d}' % _now()
        return Response(body, media_type="application/json", headers={"etag": etag})

    async def _encoded(self, rights: Rights, more: dict[str, Any], *of: Any, **how: Any) -> tuple[bytes, str]:
        """The record of a run, as of ``run_record``, with *more*, and its ETag. A thread encodes it: 10,000 logs take a
        while.
        """

        run, _, infos, _ = of
        numbers = self.lists.numbers(rights, run, (info.stream.site for info in (*infos, *how.get("unstored", ()))))

        def encoded() -> tuple[bytes, str]:
            record = overview.run_record(*of, live=rights.origin.live, **how)
            for site in record["sites"]:
                site["number"] = numbers[site["site"]]
            body = as_json(record | {"receiver": self._logins.name} | more)
            return body, f'"{hashlib.sha256(body).hexdigest()[:20]}"'

        return await asyncio.to_thread(encoded)

    async def first_error(self, request: Request) -> Response:
        look, looking = await self._look(request)
        return answer({"found": look.first, "looking": looking, "looked": look.grown >= 0})

    async def findings(self, request: Request) -> Response:
        look, looking = await self._look(request)
        return answer({"findings": look.findings, "marks": look.marks, "looking": looking})

    async def _look(self, request: Request) -> tuple[Any, bool]:
        rights, run = request.state.session.of, _run(request)
        infos = (await self.lists.of(rights, run)).infos
        return await self._troubles.first_of(rights.key, rights.origin, run, infos)

    async def lanes(self, request: Request) -> Response:
        rights, run, query = request.state.session.of, _run(request), request.query_params
        moments = await self.lists.timeline(rights, run)
        look, _ = await self._look(request)
        infos = without_copies((await self.lists.of(rights, run)).infos)
        counts = await self._counts.of(rights.key, rights.origin, run, infos)
        begin, end, buckets = (offset(query, name) or 0 for name in ("from", "to", "buckets"))

        async def made() -> bytes:
            tallies = {key: replace(tally, cells=tally.cells[:]) for key, tally in counts.tallies.items()}
            return await asyncio.to_thread(encoded, tallies)

        def encoded(tallies: dict[tuple[StreamId, int], Tally]) -> bytes:
            count = min(MOST_BUCKETS, buckets or BUCKETS)
            lanes = lanes_of(moments, begin=begin, end=end, buckets=count, now=_now())
            levels = histogram(tallies, moments, lanes.begin, lanes.end, count)
            counted = sum(tally.position for tally in tallies.values()) / max(1, sum(info.committed for info in infos))
            return as_json(lanes_record(lanes, look.rounds, levels, look.late) | {"counted": round(counted, 3)})

        of = (moments, look.rounds, look.late, counts.version)
        record = await self._lanes.of((rights.key, run, begin, end, buckets), of, made)
        return Response(record, media_type="application/json")

    async def machines(self, request: Request) -> Response:
        """The health of the machines of a run's sites. Raises NotFound, NotAllowed."""
        rights, run = request.state.session.of, _run(request)
        listed = await self.lists.of(rights, run)
        infos = [*listed.infos, *listed.unstored]  # a site without a stored log has unstored infos alone
        moments = await self.lists.timeline(rights, run)
        made = partial(asyncio.to_thread, lambda: as_json(overview.machines_record(infos, moments)))
        record = await self._machines.of((rights.key, run), (listed, moments), made)
        return Response(record, media_type="application/json")

    async def command(self, request: Request) -> Response:
        """A command that shows the same bytes in a terminal."""
        asked = stream(request.query_params)
        begin, end = offset(request.query_params, "from") or 0, offset(request.query_params, "to")
        if end is None or end <= begin:
            return answer({"command": look_at({asked: begin}, self._how)})
        return answer({"command": f"{look_at({asked: begin}, (*self._how, '-o', 'raw'))} | head -c {end - begin}"})


def _run(request: Request) -> str:
    return run_name(request.query_params.get("run", ""))


def _now() -> int:
    return int(time.time() * 1000)
