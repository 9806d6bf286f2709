"""What logs say: the routes of windows, merged pages, tails, searches and raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from flarelog.errors import NotFound
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.render.choose import Choice
from flarelog.render.container import Renderer
from flarelog.render.levels import NAMES, Level
from flarelog.render.ranks import RankChoice, RankChooser, RankedLines
from flarelog.viewers.display import ERROR
from flarelog.viewers.flow import View
from flarelog.viewers.web import merged
from flarelog.viewers.web.answers import Lists
from flarelog.viewers.web.asking import Refused, named, offset, said, share, stream, text, whole
from flarelog.viewers.web.drawing import Wanted
from flarelog.viewers.web.hub import Hub
from flarelog.viewers.web.index import Indexes
from flarelog.viewers.web.logins import Logins
from flarelog.viewers.web.rows import Encoder, bar, numbered
from flarelog.viewers.web.search import LIMIT, MOST, Query, Search
from flarelog.viewers.web.tails import Permits, Tail
from flarelog.viewers.web.trouble import stamps_here
from flarelog.viewers.web.windows import ANSWER, MOST_ROWS, Place, Windows, info_of, offset_at

NDJSON, EVENTS = "application/x-ndjson", "text/event-stream"
MOST_TAILED = 2000  # streams of one tail
MOST_NAMED = 20_000  # streams that a search names
UNBUFFERED = {"x-accel-buffering": "no"}


class Flowing(StreamingResponse):
    """An answer whose generator is closed when it ends, however that is, and then what *stack* holds for it."""

    def __init__(self, content: AsyncGenerator[bytes, None], stack: contextlib.AsyncExitStack, **how: Any) -> None:
        super().__init__(content, **how)
        self._content, self._stack = content, stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            async with self._stack:
                await self._content.aclose()


class Reads:
    def __init__(self, logins: Logins, lists: Lists, indexes: Indexes) -> None:
        self._logins, self._lists, self._indexes = logins, lists, indexes
        self._windows = Windows(indexes.style_of)
        self._stamps = stamps_here()
        self._hub = Hub(lambda origin, info, at: self._windows.flow_at(origin, info, at, self._view()))
        self._permits = Permits()

    def _view(self, level: Level | None = None) -> View:
        return View(Choice(level=level), Renderer, stamps=self._stamps)

    async def _view_of(self, request: Request, asked: Mapping[str, Any], info: StreamInfo) -> View:
        """As the request wants its rows. Raises Refused, InvalidOption."""
        level, ranks = text(asked, "level"), asked.get("ranks")
        if level and level not in NAMES:
            raise Refused(400, f"level is one of {', '.join(NAMES)}")
        view = self._view(Level[level.upper()] if level else None)
        if not ranks:
            return view
        if not isinstance(ranks, list) or not all(isinstance(one, str | int) for one in ranks):
            raise Refused(400, "ranks is a list of numbers, or of globs of numbers")
        chooser = RankChooser(RankChoice.of([str(one) for one in ranks], "", ()))
        chooser.learn((await self._lists.of(request.state.session.of, info.stream.run)).infos, over=True)
        return View(view.choice, view.new, stamps=view.stamps, ranks=lambda of: RankedLines(chooser, str(of), ERROR))

    # --- windows

    async def window(self, request: Request) -> Response:
        session = request.state.session
        async with self._logins.place(session, "window"):
            origin, asked = session.of.origin, await said(request)
            info = await info_of(origin, stream(asked.get("stream")))
            line = whole(asked, "line")
            about = False
            if line is not None:
                at, about = await self._indexes.offset_of(origin, info, max(1, line))
            else:
                place = Place(whole(asked, "at"), share(asked, "share"), whole(asked, "time"), bool(asked.get("end")))
                at = await offset_at(origin, info, place)
            rows, before = (min(MOST_ROWS, whole(asked, name) or 0) for name in ("rows", "before"))
            view = await self._view_of(request, asked, info)
            drawn = await self._windows.drawn(origin, info, Wanted(at, rows, min(before, MOST_ROWS - rows)), view)
            number = await self._indexes.line_of(origin, info, drawn.begin)
            return _page(
                {
                    "stream": named(info.stream),
                    "first": info.first,
                    "committed": info.committed,
                    "sealed": info.sealed,
                    "line": number,
                    "about": about or number is None,
                    "looked": [drawn.looked, drawn.end],
                },
                Encoder().rows(drawn.rows),
                begin=drawn.begin,
                end=drawn.end,
                at=at,
                opened=[bar(drawn.end, one) for one in drawn.open],
            )

    async def merged(self, request: Request) -> Response:
        session = request.state.session
        async with self._logins.place(session, "window"):
            rights, asked = session.of, await said(request)
            run = run_name(text(asked, "run"))
            infos = self._chosen((await self._lists.of(rights, run)).infos, run, asked)
            back = asked.get("before") is not None or bool(asked.get("end"))
            places = await self._places(rights.origin, infos, asked)
            view = self._view()
            found = await merged.page(
                *(self._windows, rights.origin, infos, places),
                min(MOST_ROWS, whole(asked, "rows") or 200),
                view=view,
                back=back,
                arrival=text(asked, "order") == "arrival",
            )
            encoders = [Encoder() for _ in infos]
            rows = [f"[{k},{encoders[k].row(line)}" for k, line in found.rows]
            head = {"streams": [named(info.stream) for info in infos], "before": found.before, "after": found.after}
            return _json(f'{json.dumps(head, ensure_ascii=False)[:-1]},"rows":[{",".join(rows)}]}}')

    def _chosen(self, infos: Sequence[StreamInfo], run: str, asked: Mapping[str, Any]) -> list[StreamInfo]:
        """The streams that a merged page names, or that say a rank. Raises Refused, NotFound."""
        rank = whole(asked, "rank")
        if rank is not None:
            chooser = RankChooser(RankChoice())
            chooser.learn(infos, over=True)
            found = [info for info in infos if chooser.stretch(str(info.stream), info.committed).rank == rank]
        else:
            given = asked.get("streams")
            if not isinstance(given, list) or not given:
                raise Refused(400, "streams is a list of site and log, or rank a number")
            by_name = {info.stream: info for info in infos}
            wanted = [stream(one, run) for one in given[: merged.MOST_STREAMS + 1]]
            missing = next((one for one in wanted if one not in by_name), None)
            if missing is not None:
                raise NotFound(f"there is no log {missing}")
            found = [by_name[one] for one in wanted]
        if len(found) > merged.MOST_STREAMS:
            raise Refused(400, f"at most {merged.MOST_STREAMS} logs are merged: choose fewer")
        return found

    async def _places(self, origin: Any, infos: Sequence[StreamInfo], asked: Mapping[str, Any]) -> list[int]:
        """Where a merged page begins in each log."""
        cursor = asked.get("before") if asked.get("before") is not None else asked.get("after")
        if cursor is not None:
            if not isinstance(cursor, list) or len(cursor) != len(infos):
                raise Refused(400, "before and after are what an earlier answer gave for the same streams")
            places = [whole({"offset": one}, "offset") or 0 for one in cursor]
            return [min(place, 2 * info.committed + 1) for place, info in zip(places, infos, strict=True)]
        at = whole(asked, "time")
        if at is None:
            return [2 * info.committed + 1 if asked.get("end") else 0 for info in infos]
        sites = tuple(dict.fromkeys(info.stream.site for info in infos))
        lengths = {one.stream: one.lengths for one in await origin.streams(infos[0].stream.run, sites, (at,))}
        return [2 * min((*lengths.get(info.stream, ()), info.committed)) for info in infos]

    # --- what comes

    async def tail(self, request: Request) -> Response:
        asked = await said(request)
        given = asked.get("streams")
        if not isinstance(given, list) or not 0 < len(given) <= MOST_TAILED:
            raise Refused(400, f"streams is a list of 1 to {MOST_TAILED} streams")
        wanted = [stream(one) for one in given]
        starts = [whole(one, "from") for one in given]
        return await self._tailed(request, wanted, starts)

    async def events(self, request: Request) -> Response:
        """The same of one log, for curl: an event a row, whose id is where to go on behind it."""
        names, last = request.path_params, request.headers.get("last-event-id")
        wanted = StreamId(names["run"], names["site"], names["log"])
        start = offset({"from": last} if last is not None else request.query_params, "from")
        return await self._tailed(request, [wanted], [start], events=True)

    async def _tailed(
        self, request: Request, wanted: Sequence[StreamId], starts: Sequence[int | None], *, events: bool = False
    ) -> Response:
        session = request.state.session
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._logins.place(session, "tail"))
            infos = await self._infos(session.of.origin, wanted)
            for site in {info.stream.site: info.stream for info in infos}.values():
                await self._permits.demand(session.of.origin, site)
            begins = [info.committed if start is None else start for info, start in zip(infos, starts, strict=True)]
            tail = Tail(self._hub, self._permits, session.of.origin, infos, begins, partial(self._logins.over, session))
            lines = _events(tail.said()) if events else tail.said()
            kind = EVENTS if events else NDJSON
            return Flowing(lines, stack.pop_all(), media_type=kind, headers=UNBUFFERED)

    async def _infos(self, origin: Any, wanted: Sequence[StreamId]) -> list[StreamInfo]:
        """What is known of the streams that are *wanted*. Raises NotFound."""
        found: dict[StreamId, StreamInfo] = {}
        for run in dict.fromkeys(one.run for one in wanted):
            sites = tuple(dict.fromkeys(one.site for one in wanted if one.run == run))
            found |= {info.stream: info for info in await origin.streams(run, sites if len(sites) < 20 else ())}
        missing = next((one for one in wanted if one not in found), None)
        if missing is not None:
            raise NotFound(f"there is no log {missing}")
        return [found[one] for one in wanted]

    # --- whole logs

    async def search(self, request: Request) -> Response:
        session, asked = request.state.session, await said(request)
        run, literals, level = run_name(text(asked, "run")), asked.get("literals") or [], text(asked, "level")
        if not isinstance(literals, list) or not all(isinstance(one, str) for one in literals):
            raise Refused(400, "literals is a list of texts")
        if level and level not in NAMES:
            raise Refused(400, f"level is one of {', '.join(NAMES)}")
        query = Query.of(
            literals,
            text(asked, "regex"),
            ignore=bool(asked.get("ignore")),
            level=Level[level.upper()] if level else None,
        )
        given = asked.get("streams") or []
        if not isinstance(given, list) or len(given) > MOST_NAMED:
            raise Refused(400, "streams is a list of site and log")
        wanted = {stream(one, run) for one in given}
        listed = await self._lists.of(session.of, run)
        infos = [info for info in listed.infos if not wanted or info.stream in wanted]
        limit = min(MOST, whole(asked, "limit") or LIMIT)
        search = Search(
            session.of.origin, infos, query, plain_of=self._windows.plain, start=whole(asked, "from") or 0, limit=limit
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
        session, query = request.state.session, request.query_params
        info = await info_of(session.of.origin, stream(query))
        begin = min(info.committed, offset(query, "from") or 0)
        to = offset(query, "to")
        end = info.committed if to is None else max(begin, min(info.committed, to))

        async def pieces() -> AsyncGenerator[bytes, None]:
            find = session.of.origin.find(info.stream, begin, sys.maxsize, follow=False, stop=end)
            async with contextlib.aclosing(find) as found:
                async for at, what in found:
                    if self._logins.over(session) or end <= begin:
                        return
                    if isinstance(what, Buffer):
                        yield bytes(what[: end - at])

        name = quote("-".join((info.stream.site, info.stream.log.replace("/", "-"))), safe="")
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{name}",
            "content-length": str(end - begin),
            "accept-ranges": "none",
        }
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._logins.place(session, "raw"))
            return Flowing(pieces(), stack.pop_all(), media_type="application/octet-stream", headers=headers)


async def _events(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The rows of a tail as server-sent events; what else it says are events with names."""
    async with contextlib.aclosing(lines):
        async for block in lines:
            out = []
            for line in block.decode().splitlines():
                found: dict[str, Any] = json.loads(line) if line else {"alive": True}
                if "rows" in found:
                    rows = (json.dumps(row, ensure_ascii=False) for row in found["rows"])
                    out += [f"id: {row[2]}\ndata: {one}\n\n" for row, one in zip(found["rows"], rows, strict=True)]
                elif "alive" in found:
                    out.append(": \n\n")
                elif any(name in found for name in ("lost", "back", "done", "error")):
                    out.append(f"event: {next(iter(found))}\ndata: {json.dumps(found)}\n\n")
            if out:
                yield "".join(out).encode("utf-8", "replace")
                await asyncio.sleep(0)


def _page(
    head: dict[str, Any], rows: Sequence[str], *, begin: int, end: int, at: int, opened: Sequence[str]
) -> Response:
    """A window; of rows that are too long together those that are farthest behind the place are left out."""
    size, count = 0, 0
    for row in rows:
        size += len(row.encode("utf-8", "replace")) + 8
        if size > ANSWER and count:
            break
        count += 1
    if count < len(rows):
        end, opened = int(rows[count][: rows[count].index(",")]), ()
    head |= {"from": begin, "to": end}
    body = json.dumps(head, ensure_ascii=False)[:-1]
    every = numbered(0, "\n".join(rows[:count]))
    return _json(f'{body},"rows":[{every}],"open":[{numbered(0, chr(10).join(opened))}]}}')


def _json(body: str) -> Response:
    return Response(body.encode("utf-8", "replace"), media_type="application/json")
