"""The route of a run's report: the file of ``flarelog report``, opened or saved.

A report reads much of its run: one is made at a time, within a bounded time, and it is cached for sessions with the
same rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from flarelog.lines.zones import Stamps, zone_of
from flarelog.model import StreamId
from flarelog.names import run_name, shown
from flarelog.sources.zone import system_zone
from flarelog.viewers.origin import Origin
from flarelog.viewers.report.gather import gather
from flarelog.viewers.report.page import page, policy
from flarelog.viewers.web.asking import Refused, as_file
from flarelog.viewers.web.lately import Lately
from flarelog.viewers.web.logins import Logins

LONGEST = 60.0  # seconds until a report is given up
FRESH = 2.0  # seconds
KEPT = 10  # reports, of at most 1 MiB each


class Reports:
    def __init__(self, logins: Logins, how: Sequence[str] = ()) -> None:
        self._logins, self._how = logins, how
        self._made = Lately[bytes](FRESH, waits=True, kept=KEPT)
        self._turn = asyncio.Semaphore(1)

    async def report(self, request: Request) -> Response:
        """The report of a run; with ``download`` as a file to save. Raises NotFound, NotAllowed, Refused."""
        session, run = request.state.session, run_name(request.path_params["rest"])
        async with self._logins.place(session, "report"):
            made = partial(self._make, session.of.origin, run)
            data = await self._made.of((session.of.key, run), (), made)
        headers = {"content-security-policy": f"{policy()}; frame-ancestors 'none'; sandbox"}
        if "download" in request.query_params:
            headers["content-disposition"] = as_file(f"{run}.html")
        return Response(data, media_type="text/html", headers=headers)

    async def _make(self, origin: Origin, run: str) -> bytes:
        local = zone_of(system_zone()) or UTC

        def stamps(stream: StreamId, now: int) -> Stamps:
            return Stamps(local, now)

        try:
            async with asyncio.timeout(LONGEST), self._turn:
                report = await gather(origin, run, stamps, zone=system_zone(), place=self._how)
        except TimeoutError as error:
            command = f"flarelog report {shown(run)} -o {run}.html"
            raise Refused(503, f"this report takes longer than {LONGEST:.0f} s: {command} makes it") from error
        return await asyncio.to_thread(lambda: page(report).encode())
