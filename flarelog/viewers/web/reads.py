"""The routes of windows and of merged pages: rows of logs at a place."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from flarelog.errors import NotFound
from flarelog.lines.choose import Choice
from flarelog.lines.levels import Level
from flarelog.lines.ranks import RankChoice, RankChooser, RankedLines
from flarelog.model import StreamInfo
from flarelog.names import run_name
from flarelog.render.container import Renderer
from flarelog.stores.moments import arrivals
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.flow import View
from flarelog.viewers.web import merged
from flarelog.viewers.web.answers import Lists
from flarelog.viewers.web.asking import Refused, level_of, said, same, share, stream, text, told, whole
from flarelog.viewers.web.drawing import Wanted
from flarelog.viewers.web.index import Indexes
from flarelog.viewers.web.logins import Logins
from flarelog.viewers.web.merged import Grown
from flarelog.viewers.web.rows import bar, encoded, numbered
from flarelog.viewers.web.trouble import stamps_here
from flarelog.viewers.web.when import arrived_by, written_by
from flarelog.viewers.web.windows import ANSWER, MOST_ROWS, Windows, info_of

_MILLISECOND = 1_000_000  # nanoseconds
LOOKING = 0.5  # seconds after which a merged page answers with the rows of a level found so far


class Reads:
    def __init__(self, logins: Logins, lists: Lists, indexes: Indexes) -> None:
        self._logins, self._lists, self._indexes = logins, lists, indexes
        self.windows = Windows(indexes.of)
        self._stamps = stamps_here()

    def view(self, level: Level | None = None) -> View:
        return View(Choice(level=level), Renderer, self._stamps, levels=True)

    async def _view_of(self, request: Request, asked: Mapping[str, Any], info: StreamInfo) -> View:
        """The view that the request asks for. Raises Refused, InvalidOption."""
        ranks = asked.get("ranks")
        view = self.view(level_of(asked))
        if not ranks:
            return view
        if not isinstance(ranks, list) or not all(isinstance(one, str | int) for one in ranks):
            raise Refused(400, "ranks is a list of numbers, or of globs of numbers")
        chooser = RankChooser(RankChoice.of([str(one) for one in ranks], "", ()))
        chooser.learn((await self._lists.of(request.state.session.of, info.stream.run)).infos, over=True)
        return replace(view, ranks=lambda of: RankedLines(chooser, str(of)))

    # --- windows

    async def window(self, request: Request) -> Response:
        session = request.state.session
        async with self._logins.place(session, "window"):
            asked = await said(request)
            # A request for one row wants its line number, and a jump wants the place of a line: both need the counting.
            counts = asked.get("line") is not None or (whole(asked, "rows") == 1 and not asked.get("before"))
            with contextlib.nullcontext() if counts else self._indexes.still():
                return await self._window(request, asked)

    async def _window(self, request: Request, asked: Mapping[str, Any]) -> Response:
        session = request.state.session
        origin = session.of.origin
        wanted = stream(asked.get("stream"))
        info = same(await self._lists.one(session.of, wanted), whole(asked["stream"], "begun"))
        line, time = whole(asked, "line"), whole(asked, "time")
        about, shared = False, bool(asked.get("shared"))  # shared: times are those of the receiver's clock
        clocks = Clocks((info,) if shared else ())
        if line is not None:
            at, about = await self._indexes.offset_of(origin, info, max(1, line))
        elif time is not None:
            (at,) = await written_by(self.windows, origin, (info,), self._stamps, time, clocks.ahead)
        else:
            part, place = share(asked, "share"), whole(asked, "at")
            behind = info.committed + 1 if part is None else int(part * info.committed)  # behind the note at the end
            at = behind if place is None else min(place, info.committed)
        rows, before = (min(MOST_ROWS, whole(asked, name) or 0) for name in ("rows", "before"))
        view = await self._view_of(request, asked, info)
        drawn = await self.windows.drawn(origin, info, Wanted(at, rows, min(before, MOST_ROWS - rows)), view)
        number = await self._indexes.line_of(origin, info, drawn.begin)
        return _page(
            {
                "stream": told(info),
                "first": info.first,
                "committed": info.committed,
                "sealed": info.sealed,
                "line": number,
                "about": about or number is None,
                "ahead": clocks.ahead(info.stream) // _MILLISECOND,
                "clocks": clocks.notes(info.stream, (), ordered=shared),
                **({"left": drawn.left} if drawn.left else {}),
            },
            list(map(encoded, drawn.rows)),
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
            given = asked.get("streams") if asked.get("rank") is None else None
            sites = {stream(one, run).site for one in given[: merged.MOST_STREAMS]} if isinstance(given, list) else ()
            try:
                infos = self._chosen((await self._lists.of(rights, run, sites)).infos, run, asked)
            except NotFound:
                self._lists.forget(rights, run)  # the client may have named it from a stale list
                raise
            back = asked.get("before") is not None or bool(asked.get("end"))
            cursor = asked.get("before") or asked.get("after")
            if isinstance(cursor, list) and len(cursor) == len(infos):
                infos = [  # the list may be older than the cursor
                    same(await info_of(rights.origin, info.stream), info.begun)
                    if isinstance(at, int) and at > 2 * info.committed + 1
                    else info
                    for info, at in zip(infos, cursor, strict=True)
                ]
            grown = arrivals(await self._lists.timeline(rights, run)) if text(asked, "order") == "arrival" else None
            places = await self._places(rights.origin, infos, asked, grown)
            count, level = min(MOST_ROWS, whole(asked, "rows") or 200), level_of(asked)
            turn = partial(merged.page, self.windows, rights.origin, infos, view=self.view(), back=back, grown=grown)
            if level is None:
                found = await turn(places, count)
            else:
                end = monotonic() + LOOKING
                found = await merged.of_level(turn, places, count, level, back=back, late=lambda: monotonic() >= end)
            rows = [f"[{k},{encoded(line)}" for k, line, _ in found.rows]
            clocks = Clocks(infos)
            ordered = text(asked, "order") != "arrival"
            head = {
                "streams": [told(info) for info in infos],
                "clocks": [note for info in infos for note in clocks.notes(info.stream, (), ordered=ordered)],
                "keys": [key // 1_000_000 for _, _, key in found.rows] if ordered else [],  # milliseconds
                "arrivals": [] if ordered else [key for _, _, key in found.rows],
                "before": found.before,
                "after": found.after,
                "over": found.over,
                "first": found.first,
                "ended": [info.sealed and at > 2 * info.committed for info, at in zip(infos, found.after, strict=True)],
            }
            return _json(f'{json.dumps(head, ensure_ascii=False)[:-1]},"rows":[{",".join(rows)}]}}')

    def _chosen(self, infos: Sequence[StreamInfo], run: str, asked: Mapping[str, Any]) -> list[StreamInfo]:
        """The streams that a merged page names, or those of its rank. Raises Refused, NotFound."""
        rank = whole(asked, "rank")
        if rank is not None:
            found = merged.of_rank(infos, run, rank)
        else:
            given = asked.get("streams")
            if not isinstance(given, list) or not given:
                raise Refused(400, "streams is a list of site and log, or rank a number")
            by_name = {info.stream: info for info in infos}
            wanted = [stream(one, run) for one in given[: merged.MOST_STREAMS + 1]]
            missing = next((one for one in wanted if one not in by_name), None)
            if missing is not None:
                raise NotFound(f"there is no log {missing}")
            found = [same(by_name[one], whole(of, "begun")) for one, of in zip(wanted, given, strict=False)]
        if len(found) > merged.MOST_STREAMS:
            raise Refused(400, f"at most {merged.MOST_STREAMS} logs are merged: choose fewer")
        return found

    async def _places(
        self, origin: Any, infos: Sequence[StreamInfo], asked: Mapping[str, Any], grown: Grown | None
    ) -> list[int]:
        """Where a merged page begins in each log; *grown*: of a page by arrival."""
        cursor = asked.get("before") if asked.get("before") is not None else asked.get("after")
        if cursor is not None:
            if not isinstance(cursor, list) or len(cursor) != len(infos):
                raise Refused(400, "before and after are what an earlier answer gave for the same streams")
            places = [whole({"offset": one}, "offset") or 0 for one in cursor]
            return [min(place, 2 * info.committed + 1) for place, info in zip(places, infos, strict=True)]
        at = whole(asked, "time")
        row = asked.get("row")
        if row is not None:
            k, offset = _row(row, infos)
            if grown is not None:
                return merged.beside_arrival(infos, k, offset, grown)
            at = await merged.time_of(self.windows, origin, infos, k, offset, self.view()) or at or 0
        if at is None:
            return [2 * info.committed + 1 if asked.get("end") else 0 for info in infos]
        if grown is not None:
            found = await arrived_by(origin, infos, at)
        else:
            found = await written_by(self.windows, origin, infos, self._stamps, at, Clocks(infos).ahead)
        # The note at the end of a log that has no line of that time belongs to its last line, above the place.
        ended = [info.sealed and place >= info.committed for info, place in zip(infos, found, strict=True)]
        places = [2 * place + over for place, over in zip(found, ended, strict=True)]
        return places if row is None else [2 * offset if n == k else place for n, place in enumerate(places)]


def _row(of: Any, infos: Sequence[StreamInfo]) -> tuple[int, int]:
    """The number of the stream, and the offset in it, that *of* names. Raises Refused."""
    if not isinstance(of, list) or len(of) != 2:
        raise Refused(400, "row is the number of a stream, and an offset in it")
    k, offset = (whole({"row": one}, "row") or 0 for one in of)
    if k >= len(infos):
        raise Refused(400, f"row names one of {len(infos)} streams, from 0 on")
    return k, min(offset, infos[k].committed)


def _page(
    head: dict[str, Any], rows: Sequence[str], *, begin: int, end: int, at: int, opened: Sequence[str]
) -> Response:
    """A window; of rows that are too long together the last ones are left out."""
    size, count = 0, 0
    for row in rows:
        size += len(row.encode("utf-8", "replace")) + 8
        if size > ANSWER and count:
            break
        count += 1
    if count < len(rows):
        end, opened = int(rows[count][: rows[count].index(",")]), ()
        if "left" in head:
            head["left"] = head["left"][: count + 1]
    head |= {"at": at, "from": begin, "to": end}
    body = json.dumps(head, ensure_ascii=False)[:-1]
    every = numbered(0, "\n".join(rows[:count]))
    return _json(f'{body},"rows":[{every}],"open":[{numbered(0, chr(10).join(opened))}]}}')


def _json(body: str) -> Response:
    return Response(body.encode("utf-8", "replace"), media_type="application/json")
