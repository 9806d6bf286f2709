"""The routes of tails, searches and raw bytes, whose answers are sent while they are made.

The length of such an answer is unknown: a browser that does not read holds up its own sender.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from flarelog.errors import FlarelogError, NotFound
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.repeats import without_copies
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Origin
from flarelog.viewers.web import ranges
from flarelog.viewers.web.answers import Lists
from flarelog.viewers.web.asking import Refused, level_of, offset, said, same, stream, text, whole
from flarelog.viewers.web.hub import Hub, LineOf
from flarelog.viewers.web.logins import Logins
from flarelog.viewers.web.search import LIMIT, MOST, Query, Search
from flarelog.viewers.web.tails import Permits, Tail
from flarelog.viewers.web.trouble import stamps_here
from flarelog.viewers.web.windows import Windows, info_of

log = logging.getLogger(__name__)

NDJSON = "application/x-ndjson"
MOST_TAILED = 2000  # streams of one tail
MOST_NAMED = 20_000  # streams that a search names
FEW = 20  # sites that are asked for one by one
UNBUFFERED = {"x-accel-buffering": "no"}


class Flowing(StreamingResponse):
    """An answer that closes its generator, and then *stack*, however it ends."""

    def __init__(self, content: AsyncGenerator[bytes, None], stack: contextlib.AsyncExitStack, **how: Any) -> None:
        super().__init__(content, **how)
        self._content, self._stack = content, stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except FlarelogError as error:  # the connection ends before the promised length
            log.warning("an answer of the page was cut short: %s", error)
        finally:
            async with self._stack:
                await self._content.aclose()


class Flows:
    """*view*: how streams become rows; *line_of* numbers the lines."""

    def __init__(self, logins: Logins, lists: Lists, windows: Windows, view: View, line_of: LineOf) -> None:
        self._logins, self._lists, self._windows = logins, lists, windows
        self._hub = Hub(lambda origin, info, at: windows.flow_at(origin, info, at, view), line_of)
        self._permits, self._stamps = Permits(), stamps_here()

    async def tail(self, request: Request) -> Response:
        """The rows of streams: each from an offset on, or from its end."""
        asked = await said(request)
        given = asked.get("streams")
        if not isinstance(given, list) or not 0 < len(given) <= MOST_TAILED:
            raise Refused(400, f"streams is a list of 1 to {MOST_TAILED} streams")
        wanted = [stream(one) for one in given]
        session, starts = request.state.session, [whole(one, "from") for one in given]
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._logins.place(session, "tail"))
            try:
                infos = await self._infos(session.of.origin, wanted)
                infos = [same(info, whole(one, "begun")) for info, one in zip(infos, given, strict=True)]
            except NotFound:
                for run in {one.run for one in wanted}:
                    self._lists.forget(session.of, run)  # otherwise a page that is loaded anew would show it
                raise
            for site in {info.stream.site: info.stream for info in infos}.values():
                await self._permits.demand(session.of.origin, site)
            begins = [info.committed if start is None else start for info, start in zip(infos, starts, strict=True)]
            tail = Tail(self._hub, self._permits, session.of.origin, infos, begins, partial(self._logins.over, session))
            return Flowing(tail.said(), stack.pop_all(), media_type=NDJSON, headers=UNBUFFERED)

    async def _infos(self, origin: Origin, wanted: Sequence[StreamId]) -> list[StreamInfo]:
        """The infos of the *wanted* streams. Raises NotFound."""
        found: dict[StreamId, StreamInfo] = {}
        for run in dict.fromkeys(one.run for one in wanted):
            sites = tuple(dict.fromkeys(one.site for one in wanted if one.run == run))
            found |= {info.stream: info for info in await origin.streams(run, sites if len(sites) < FEW else ())}
        missing = next((one for one in wanted if one not in found), None)
        if missing is not None:
            raise NotFound(f"there is no log {missing}")
        return [found[one] for one in wanted]

    async def search(self, request: Request) -> Response:
        session, asked = request.state.session, await said(request)
        run, literals, level = run_name(text(asked, "run")), asked.get("literals") or [], level_of(asked)
        if not isinstance(literals, list) or not all(isinstance(one, str) for one in literals):
            raise Refused(400, "literals is a list of texts")
        if field := text(asked, "field"):
            query = Query.of_field(field, level=level)
        else:
            query = Query.of(literals, text(asked, "regex"), ignore=bool(asked.get("ignore")), level=level)
        if asked.get("counts") and not query.exact:
            raise Refused(400, "the hits of this pattern can only be counted by the browser")
        given, others = asked.get("streams") or [], bool(asked.get("others"))
        if not isinstance(given, list) or len(given) > MOST_NAMED:
            raise Refused(400, "streams is a list of site and log")
        wanted = {stream(one, run): whole(one, "from") for one in given}
        sites = {one.site for one in wanted}
        if others or not 0 < len(sites) < FEW:
            listed = (await self._lists.of(session.of, run)).infos
        else:
            listed = await session.of.origin.streams(run, tuple(sorted(sites)))  # a kept list may lack the latest bytes
        if wanted and not others:
            infos = [info for info in listed if info.stream in wanted]
        else:
            infos = [info for info in without_copies(listed) if info.stream not in wanted]
        limit = min(MOST, whole(asked, "limit") or LIMIT)
        search = Search(
            session.of.origin,
            infos,
            query,
            plain_of=self._windows.plain,
            stamps=self._stamps,
            starts={one: start for one, start in wanted.items() if start is not None},
            start=whole(asked, "from") or 0,
            stop=whole(asked, "to"),
            limit=limit,
            each=max(1, limit // max(1, len(infos))),  # hits of all logs are shown by their times
            last=bool(asked.get("last")),
            within=bool(asked.get("within")),
            counts=bool(asked.get("counts")),
        )

        async def lines() -> AsyncGenerator[bytes, None]:
            async with contextlib.aclosing(search.said()) as found:
                async for line in found:
                    if self._logins.over(session):
                        return
                    yield line

        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._logins.place(session, "search"))
            return Flowing(lines(), stack.pop_all(), media_type=NDJSON, headers=UNBUFFERED)

    async def raw(self, request: Request) -> Response:
        """The bytes of a log from an offset to another one, or a range of them."""
        session, query = request.state.session, request.query_params
        info = same(await info_of(session.of.origin, stream(query)), offset(query, "begun"))
        begin = min(info.committed, offset(query, "from") or 0)
        to = offset(query, "to")
        end = info.committed if to is None else max(begin, min(info.committed, to))

        wanted, etag = request.headers.get("range", ""), request.headers.get("if-range")
        if wanted and etag is not None:  # the bytes of an earlier answer, though the log has grown since
            until = ranges.end_of(etag, info.begun, begin, end)
            wanted, end = ("", end) if until is None else (wanted, until)
        found = ranges.part(wanted, end - begin)
        status, headers = ranges.headers(found, end - begin)
        etag = ranges.tag(info.begun, begin, end)
        begin, end = (begin, end) if found is None else (begin + found[0], begin + found[1])

        async def pieces() -> AsyncGenerator[bytes, None]:
            find = session.of.origin.find(info.stream, begin, sys.maxsize, follow=False, stop=end)
            async with contextlib.aclosing(find) as found:
                async for at, what in found:
                    if self._logins.over(session) or end <= begin:
                        return
                    if isinstance(what, Buffer):
                        yield bytes(what[: end - at])

        name = quote("-".join((info.stream.site, info.stream.name.replace("/", "-"))), safe="")
        headers |= {
            "content-disposition": f"attachment; filename*=UTF-8''{name}",
            "accept-ranges": "bytes",
            "etag": etag,
        }
        if status == 416:
            return Response(status_code=416, headers=headers)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._logins.place(session, "raw"))
            return Flowing(
                pieces(), stack.pop_all(), status_code=status, media_type="application/octet-stream", headers=headers
            )
