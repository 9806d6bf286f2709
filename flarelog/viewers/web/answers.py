"""What there is, and how it fares: the routes of runs, sites, findings and lanes."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from flarelog.errors import NotFound
from flarelog.lifecycle import RunState
from flarelog.model import StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.records import ordered
from flarelog.viewers.web import overview
from flarelog.viewers.web.asking import answer, as_json, offset, stream
from flarelog.viewers.web.lasts import Lasts
from flarelog.viewers.web.lately import Lately
from flarelog.viewers.web.logins import Logins
from flarelog.viewers.web.origins import Rights
from flarelog.viewers.web.timelines import BUCKETS, Timelines, lanes
from flarelog.viewers.web.trouble import Troubles
from flarelog.viewers.web.windows import info_of

FRESH = 0.5  # seconds for which what was listed is shown again
ONE = 0.3  # seconds for which the length of one log is believed
KEPT = 100  # lengths of logs


class Listed(NamedTuple):
    """A run, as it was when it was listed."""

    infos: list[StreamInfo]
    state: RunState


class Lists:
    """What was listed lately: several tabs ask for the same."""

    def __init__(self) -> None:
        self._kept = Lately[Listed](FRESH)
        self._ones: dict[tuple[bytes, StreamId], tuple[float, StreamInfo]] = {}

    async def one(self, rights: Rights, of: StreamId) -> StreamInfo:
        """A log, as it was ONE seconds ago at most: who scrolls asks ten times a second. Raises as ``of``."""
        key, now = (rights.key, of), time.monotonic()
        at, info = self._ones.get(key, (0.0, None))
        if info is None or now - at > ONE:
            info = await info_of(rights.origin, of)
            self._ones.pop(key, None)
            self._ones[key] = time.monotonic(), info
            if len(self._ones) > KEPT:
                del self._ones[next(iter(self._ones))]
        return info

    async def of(self, rights: Rights, run: str) -> Listed:
        """Raises NotFound, NotAllowed, CannotConnect."""
        return await self._kept.of((rights.key, run), (), partial(self._listed, rights, run))

    async def _listed(self, rights: Rights, run: str) -> Listed:
        infos = ordered(await rights.origin.streams(run))
        state = await rights.origin.state(run)
        if not infos and state is RunState.UNKNOWN:
            raise NotFound(f"{rights.origin.name} has no run {run}")
        return Listed(infos, state)

    async def close(self) -> None:
        await self._kept.close()


class Answers:
    def __init__(self, logins: Logins, how: Sequence[str]) -> None:
        self._logins, self._how = logins, how
        self.lists, self.timelines = Lists(), Timelines()
        self._troubles, self._lasts = Troubles(), Lasts()
        self._runs, self._lanes = Lately[tuple[bytes, str]](), Lately[bytes]()

    async def close(self) -> None:
        await self._troubles.close()
        await self._lasts.close()
        for kept in (self.lists, self._runs, self._lanes):
            await kept.close()

    async def runs(self, request: Request) -> Response:
        origin = request.state.session.of.origin
        return answer(overview.runs_record(await origin.infos(), live=origin.live, now=_now()))

    async def run(self, request: Request) -> Response:
        """Its sites; where the request names some, these alone. Raises NotFound."""
        rights, run = request.state.session.of, _run(request)
        listed, wanted = await self.lists.of(rights, run), set(request.query_params.getlist("site"))
        infos = [info for info in listed.infos if not wanted or info.stream.site in wanted]
        if not infos and wanted:
            raise NotFound(f"there is no such site in run {run}")
        made = partial(self._sites, rights, run, listed.state, infos)
        body, etag = await self._runs.of((rights.key, run, frozenset(wanted)), (listed,), made)
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"etag": etag})
        body = body[:-1] + b',"now":%d}' % _now()
        return Response(body, media_type="application/json", headers={"etag": etag})

    async def _sites(self, rights: Rights, run: str, state: RunState, infos: Sequence[StreamInfo]) -> tuple[bytes, str]:
        """The record of a run but for the time, and its name; of 10,000 logs it takes a while, beside others."""
        lasts, reading = await self._lasts.of(rights, infos)

        def encoded() -> tuple[bytes, str]:
            record = overview.run_record(run, state, infos, lasts, now=_now())
            record |= {"receiver": self._logins.name, "reading": reading}
            body = as_json(record)
            return body, f'"{hashlib.sha256(body).hexdigest()[:20]}"'

        return await asyncio.to_thread(encoded)

    async def first_error(self, request: Request) -> Response:
        look, looking = await self._look(request)
        return answer({"found": look.first, "looking": looking})

    async def findings(self, request: Request) -> Response:
        look, looking = await self._look(request)
        return answer({"findings": look.findings, "more": look.more, "looking": looking})

    async def _look(self, request: Request) -> tuple[Any, bool]:
        rights, run = request.state.session.of, _run(request)
        infos = (await self.lists.of(rights, run)).infos
        return self._troubles.of(rights.key, rights.origin, run, infos)

    async def lanes(self, request: Request) -> Response:
        rights, run, query = request.state.session.of, _run(request), request.query_params
        moments = await self.timelines.of(rights, run)
        look, _ = await self._look(request)
        begin, end, buckets = (offset(query, name) or 0 for name in ("from", "to", "buckets"))
        made = partial(lanes, moments, look.rounds, begin=begin, end=end, buckets=buckets or BUCKETS, now=_now())
        record = await self._lanes.of((rights.key, run, begin, end, buckets), (moments, look.rounds), made)
        return Response(record, media_type="application/json")

    async def command(self, request: Request) -> Response:
        """A command that shows the same in a terminal."""
        asked = stream(request.query_params)
        begin, end = offset(request.query_params, "from") or 0, offset(request.query_params, "to")
        words = ["flarelog", "logs", asked.run, *self._how, "--from", f"{asked.site}/{asked.log}:{begin}"]
        if end is None or end <= begin:
            return answer({"command": shlex.join(words)})
        return answer({"command": f"{shlex.join([*words, '-o', 'raw'])} | head -c {end - begin}"})


def _run(request: Request) -> str:
    return run_name(request.query_params.get("run", ""))


def _now() -> int:
    return int(time.time() * 1000)
