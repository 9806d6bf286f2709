"""Runs that leave a receiver while it serves: what each of its processes does before and after one is removed.

First nobody can open a stream of it any more, anywhere; then, if none is open, it is gone from the store; then it is
forgotten, so that its name is as good as new. A producer that was at it does not bring it back unasked: what it still
has of a run that somebody removed is refused, and only whoever is started again begins anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from flarelog.delivery.receiver import Refused
from flarelog.errors import FlarelogError, InUse, NotFound, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Code, Open, Removed
from flarelog.names import run_name, site_name
from flarelog.stores.local.removal import Extent, in_use

if TYPE_CHECKING:
    from flarelog.receiver.server import Server

log = logging.getLogger(__name__)

END_WITHIN = 10.0  # seconds that streams which are told to end may take
LOOK = 0.05  # seconds between two looks at whether they have
GRACE = 5.0  # seconds, beyond that time, in which another process answers
AGAIN = "to send it anew, start the sidecar again by hand"
REMEMBERED = 20_000  # producers that do not come again


class Removals:
    """For one event loop; ``remove`` is the home process's, the rest is every one's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._one = asyncio.Lock()
        self._barred: OrderedDict[tuple[str, str, bytes], None] = OrderedDict()

    def check(self, opened: Open) -> None:
        """Let pass whoever does not send what was removed while he had it. Raises Refused."""
        stream = opened.stream
        if (stream.run, stream.site, opened.producer) in self._barred:
            raise Refused(
                Code.REJECTED,
                f"run {stream.run} was removed at the receiver while site {stream.site} sent it; {AGAIN}",
            )

    async def remove(
        self, run: str, site: str = "", *, force: bool = False, barred: bool = True, was: Extent | None = None
    ) -> Removed:
        """Remove *run*, or *site* in it. *force*: end the streams that are open; *barred*: keep those who sent it out;
        *was*: only if it is still as it was found before.

        Raises InvalidName, NotFound, InUse, Unavailable.
        """
        server, workers = self._server, self._server.workers
        run_name(run), site and site_name(site)
        async with self._one:
            removed = False
            try:
                opened = await self.hold(run, site, force)
                if workers is not None:
                    opened += await workers.hold(run, site, force, END_WITHIN + GRACE)
                if opened and force:
                    raise Unavailable(
                        f"{opened} logs of run {run} have not ended within {END_WITHIN:g} s, and it was not removed:"
                        " try again"
                    )
                if opened:
                    raise InUse(in_use(run, site, opened))
                found = await self._taken_away(run, site, was)
                removed = True
            except Refused as error:  # another process does not answer
                raise Unavailable(str(error)) from error
            finally:
                await self.let_go(run, site, removed, barred)
                if workers is not None:
                    await workers.let_go(run, site, removed, barred)
        server.spawn(self.clear())
        return found

    async def _taken_away(self, run: str, site: str, was: Extent | None) -> Removed:
        try:
            return await self._server.store.remove(run, site, was=was)
        except NotFound:
            if site or self._server.state(run) is RunState.UNKNOWN:
                raise
            return Removed(0, 0)  # it was announced, and nothing of it could be stored

    async def expire(self, run: str, was: Extent, why: str) -> None:
        """Remove *run*, if it *was* found so and still is, because of *why*: whoever sends to it later begins anew.

        Raises NotFound, InUse, Unavailable.
        """
        found = await self.remove(run, barred=False, was=was)
        log.info("run %s: removed, because %s", run, why)
        self._server.guard.removed("this receiver", self._server.address, run, "", found)

    async def hold(self, run: str, site: str, force: bool) -> int:
        """Let nobody open a stream of it here; with *force* those that are open end. How many are open then."""
        server, clock = self._server, asyncio.get_running_loop().time
        server.store.hold(run, site)
        if force:
            why = f"run {run} was removed at the receiver; {AGAIN}"
            for session in server.sessions_of(run, site):
                session.leave(Code.REJECTED, why)
            end = clock() + END_WITHIN
            while server.store.open_streams(run, site) and clock() < end:
                await asyncio.sleep(LOOK)
        return len(server.store.open_streams(run, site))

    async def let_go(self, run: str, site: str, removed: bool, barred: bool) -> None:
        """It may be opened again; if it was *removed*, as if it had never been."""
        server = self._server
        if removed:
            for producer in server.states.producers(run, site) if barred else ():
                self._barred[producer] = None
            while len(self._barred) > REMEMBERED:
                self._barred.popitem(last=False)
            server.store.forget_run(run, site)
            server.forget(run, site)
        server.store.release(run, site)

    async def clear(self) -> None:
        """Free what was removed, now or before a crash."""
        try:
            await self._server.store.clear()
        except FlarelogError as error:
            log.warning("%s; it is tried again when the next run is removed", error)
