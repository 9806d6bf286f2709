"""What each route answers. A request's own words are checked here, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from flarelog.errors import FlarelogError, InvalidName, NotAllowed
from flarelog.model import MAX_OFFSET, Buffer, StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.render.container import Renderer
from flarelog.version import __version__
from flarelog.viewers.flow import View
from flarelog.viewers.reading import order
from flarelog.viewers.web import overview
from flarelog.viewers.web.drawing import Wanted
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.origins import Origins, Rights, Sources
from flarelog.viewers.web.rows import Encoder, bar, numbered
from flarelog.viewers.web.safety import cookie, cookie_of
from flarelog.viewers.web.sessions import Secrets, Session, Sessions
from flarelog.viewers.web.tails import Tail
from flarelog.viewers.web.windows import MOST_ROWS, Place, Windows, info_of, offset_at

WRONG = 1.0  # seconds after which a wrong login is answered
WRONG_AT_ONCE = 16
NDJSON = "application/x-ndjson"
LONGEST_TOKEN = 4096
MOST_TAILED = 2000  # streams of one tail


class Refused(Exception):
    """A request that is answered with *status* and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Answers:
    """Use as an asynchronous context manager."""

    def __init__(self, sources: Sources, options: WebOptions, key: bytes) -> None:
        self._options, self._name = options, sources.name
        self._secure = options.trust_proxy
        self._secrets = Secrets(key)
        self._sessions: Sessions[Rights] = Sessions(options.session_hours * 3600)
        self._origins = Origins(sources)
        self._windows = Windows(_view)
        self._wrong = 0

    async def __aenter__(self) -> Answers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._origins.close()

    # --- who asks

    def session_of(self, request: Request) -> Session[Rights]:
        """Whose session the request bears. Raises Refused."""
        found = self._sessions.of(cookie_of(request.headers, secure=self._secure), time.time())
        if found is None:
            raise Refused(401, "nobody is logged in: open the address that flarelog web login prints, or give a token")
        return found

    async def login(self, request: Request) -> Response:
        """Open a session for a secret that is good once, or for a token."""
        said = await _json(request)
        secret, token = said.get("secret"), said.get("token")
        if isinstance(secret, str) and self._secrets.takes(secret, time.time()):
            rights, who = await self._origins.own(), "link"
        elif isinstance(token, str) and 0 < len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable():
            rights, who = await self._by_token(token), "token"
        else:
            raise await self._wrong_login("this login has expired or was used: flarelog web login prints a new one")
        value, session = self._sessions.open(who, rights, time.time())
        body = self._about(session)
        lasting = int(self._options.session_hours * 3600)
        return _answer(body, {"set-cookie": cookie(value, lasting, secure=self._secure)})

    async def _by_token(self, token: str) -> Rights:
        rights = await self._origins.of_token(token)
        try:
            await rights.origin.runs()
        except FlarelogError as error:
            await self._origins.leave(rights)
            if isinstance(error, NotAllowed):
                raise await self._wrong_login("the receiver does not know this token, or it has expired") from error
            raise
        return rights

    async def _wrong_login(self, sentence: str) -> Refused:
        """Wrong ones are answered late, and not many at once: whoever guesses waits."""
        if self._wrong >= WRONG_AT_ONCE:
            return Refused(429, "too many wrong logins at once: try again")
        self._wrong += 1
        try:
            await asyncio.sleep(WRONG)
        finally:
            self._wrong -= 1
        return Refused(401, sentence)

    async def logout(self, request: Request) -> Response:
        session: Session[Rights] = request.state.session
        self._sessions.end(session)
        await self._origins.leave(session.of)
        return _answer({}, {"set-cookie": cookie("", 0, secure=self._secure)})

    async def me(self, request: Request) -> Response:
        return _answer(self._about(request.state.session))

    def _about(self, session: Session[Rights]) -> dict[str, Any]:
        return {
            "who": session.who,
            "receiver": self._name,
            "version": __version__,
            "until": int(session.until * 1000),
        }

    # --- what there is

    async def runs(self, request: Request) -> Response:
        origin = request.state.session.of.origin
        return _answer(overview.runs_record(await origin.infos(), live=origin.live, now=_now()))

    async def run(self, request: Request) -> Response:
        origin, run = request.state.session.of.origin, run_name(request.query_params.get("run", ""))
        infos = sorted(await origin.streams(run), key=lambda info: order(info.stream))
        state = (await origin.state(run)).value
        return _answer({**overview.run_record(run, state, infos, now=_now()), "receiver": self._name})

    async def lanes(self, request: Request) -> Response:
        raise Refused(404, "the lanes of a run are not there yet")

    # --- what it says

    async def window(self, request: Request) -> Response:
        origin, said = request.state.session.of.origin, await _json(request)
        info = await info_of(origin, _stream(said.get("stream")))
        place = Place(
            _whole(said, "at"),
            _number(said, "share"),
            _whole(said, "time"),
            bool(said.get("end")),
            _whole(said, "line"),
        )
        wanted = Wanted(
            await offset_at(origin, info, place),
            min(MOST_ROWS, _whole(said, "rows") or 0),
            min(MOST_ROWS, _whole(said, "before") or 0),
        )
        drawn = await self._windows.drawn(origin, info, wanted)
        encoder = Encoder()
        head = {
            "stream": _named(info.stream),
            "first": info.first,
            "committed": info.committed,
            "sealed": info.sealed,
            "from": drawn.begin,
            "to": drawn.end,
            "line": None,
            "about": True,
        }
        rows = numbered(0, "\n".join(encoder.rows(drawn.rows)))
        open_ = numbered(0, "\n".join(bar(drawn.end, text) for text in drawn.open))
        body = f'{json.dumps(head)[:-1]}, "rows": [{rows}], "open": [{open_}]}}'
        return Response(body.encode("utf-8", "replace"), media_type="application/json")

    async def tail(self, request: Request) -> Response:
        origin, said = request.state.session.of.origin, await _json(request)
        asked = said.get("streams")
        if not isinstance(asked, list) or not 0 < len(asked) <= MOST_TAILED:
            raise Refused(400, f"streams is a list of 1 to {MOST_TAILED} streams")
        wanted = [_stream(one) for one in asked]
        starts = [_whole(one, "from") or 0 for one in asked]
        infos = [await info_of(origin, stream) for stream in wanted]
        tail = Tail(origin, infos, starts, _view)
        return StreamingResponse(tail.said(), media_type=NDJSON, headers={"x-accel-buffering": "no"})

    async def raw(self, request: Request) -> Response:
        origin, query = request.state.session.of.origin, request.query_params
        info = await info_of(origin, _stream(query))
        begin = min(info.committed, max(0, _offset(query.get("from", "0"))))
        end = min(info.committed, _offset(query.get("to", str(info.committed))))
        name = "-".join((info.stream.site, info.stream.log.replace("/", "-")))

        async def pieces() -> AsyncGenerator[bytes, None]:
            if end <= begin:
                return
            async with contextlib.aclosing(
                origin.find(info.stream, begin, MAX_OFFSET, follow=False, stop=end)
            ) as found:
                async for offset, what in found:
                    if isinstance(what, Buffer):
                        yield bytes(what[max(0, begin - offset) : max(0, end - offset)])

        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "content-length": str(max(0, end - begin)),
        }
        return StreamingResponse(pieces(), media_type="application/octet-stream", headers=headers)


def _view(info: StreamInfo) -> View:
    return View(new=Renderer, bars=True)


def _now() -> int:
    return int(time.time() * 1000)


def _answer(what: Any, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(what, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, media_type="application/json", headers=headers)


async def _json(request: Request) -> dict[str, Any]:
    """The object that a request bears. Raises Refused."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the request is no JSON") from error
    if not isinstance(found, dict):
        raise Refused(400, "the request is no JSON object")
    return found


def _stream(said: Any) -> StreamId:
    """Raises InvalidName, Refused."""
    try:
        names = [said[name] for name in ("run", "site", "log")]
    except (KeyError, TypeError) as error:
        raise Refused(400, "a stream is named by run, site and log") from error
    if not all(isinstance(name, str) for name in names):
        raise InvalidName("the names of a stream are strings")
    return StreamId(*names)


def _named(stream: StreamId) -> dict[str, str]:
    return {"run": stream.run, "site": stream.site, "log": stream.log}


def _whole(said: Any, name: str) -> int | None:
    """A whole number, not below 0. Raises Refused."""
    found = said.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_OFFSET:
        raise Refused(400, f"{name} is a whole number, not below 0")
    return found


def _number(said: Any, name: str) -> float | None:
    found = said.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        raise Refused(400, f"{name} is a number from 0 to 1")
    return float(found)


def _offset(text: str) -> int:
    if not text.isdecimal() or len(text) > 19 or int(text) > MAX_OFFSET:
        raise Refused(400, "an offset is a whole number, not below 0")
    return int(text)
