"""The ASGI app: its routes, the role that each wants, and the answers to errors.

A route is a row of one table, with its role: there is no other way in. No route but login and logout changes anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from html import escape
from typing import Literal, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from flarelog.errors import (
    CannotConnect,
    FlarelogError,
    InvalidName,
    InvalidOption,
    NotAllowed,
    NotAuthenticated,
    NotFound,
)
from flarelog.viewers.web import files
from flarelog.viewers.web.answers import Answers
from flarelog.viewers.web.archive import Archives
from flarelog.viewers.web.asking import Anew, NoRun, Refused, sentence
from flarelog.viewers.web.curves import Curves
from flarelog.viewers.web.flows import Flows
from flarelog.viewers.web.guarding import Guarded
from flarelog.viewers.web.index import Indexes
from flarelog.viewers.web.logins import Logins
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.origins import Sources
from flarelog.viewers.web.reads import Reads
from flarelog.viewers.web.reports import Reports
from flarelog.viewers.web.safety import hosts_of

log = logging.getLogger(__name__)

NO_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>flarelog</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/page.css">
<main><p class="trouble">{}.</p><p class="trouble"><a href="/">All runs</a></p></main>
"""

Role = Literal["anyone", "session"]
Endpoint = Callable[[Request], Awaitable[Response]]


class Row(NamedTuple):
    """A route. *role*: who may ask for it; the receiver decides what a session may see."""

    method: Literal["GET", "POST"]
    path: str
    role: Role
    endpoint: Endpoint


def table(
    logins: Logins,
    answers: Answers,
    reads: Reads,
    flows: Flows,
    archives: Archives,
    reports: Reports,
    curves: Curves,
) -> list[Row]:
    return [
        Row("POST", "/api/login", "anyone", logins.login),
        Row("POST", "/api/logout", "session", logins.logout),
        Row("GET", "/api/me", "session", logins.me),
        Row("GET", "/api/runs", "session", answers.runs),
        Row("GET", "/api/run", "session", answers.run),
        Row("GET", "/api/first-error", "session", answers.first_error),
        Row("GET", "/api/findings", "session", answers.findings),
        Row("GET", "/api/lanes", "session", answers.lanes),
        Row("GET", "/api/machines", "session", answers.machines),
        Row("GET", "/api/curves", "session", curves.curves),
        Row("GET", "/api/command", "session", answers.command),
        Row("POST", "/api/window", "session", reads.window),
        Row("POST", "/api/merged", "session", reads.merged),
        Row("POST", "/api/tail", "session", flows.tail),
        Row("POST", "/api/search", "session", flows.search),
        Row("GET", "/api/raw", "session", flows.raw),
        Row("GET", "/api/archive", "session", archives.archive),
        Row("GET", "/report/{rest:path}", "session", reports.report),
        Row("GET", "/static/{name:path}", "anyone", files.file),
        Row("GET", "/", "anyone", files.index),
        Row("GET", "/run/{rest:path}", "anyone", answers.page),
    ]


def app(sources: Sources, options: WebOptions, key: bytes = b"") -> Guarded:
    """The page as an ASGI app, over *sources*. *key*: that of login secrets, which another process signs; without it
    people log in by token alone.
    """
    logins, indexes = Logins(sources, options, key), Indexes(sources.name, options.cache)
    answers = Answers(logins, sources.how)
    reads = Reads(logins, answers.lists, indexes)
    flows = Flows(logins, answers.lists, reads.windows, reads.view(), indexes.line_known)
    curves = Curves(answers.lists)
    rows = table(logins, answers, reads, flows, Archives(logins, answers.lists), Reports(logins, sources.how), curves)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with logins:
            yield
            await indexes.close()
            await curves.close()
            await answers.close()

    def guarded(row: Row) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            session = None
            try:
                if row.role == "session":
                    session = request.state.session = logins.session_of(request)
                    request.state.held.enter_context(logins.share(session))
                return await row.endpoint(request)
            except (Exception, asyncio.CancelledError) as error:
                if session is not None and isinstance(error, NotAuthenticated):
                    await logins.revoked(session)
                task = asyncio.current_task()
                if session is not None and session.over and not (task and task.cancelling()):
                    # The session's origin is closed, which cancels its calls.
                    return refused(request, Refused(401, logins.over(session)))
                if not isinstance(error, Exception):
                    raise
                return refused(request, error)

        return endpoint

    routes = [Route(row.path, guarded(row), methods=[row.method]) for row in rows]
    inner = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http})
    return Guarded(inner, hosts_of(options), proxied=options.trust_proxy, end=logins.end)


def refused(request: Request, error: Exception) -> Response:
    """The answer to *error*. An error that no request can cause is logged."""
    status = 500
    match error:
        case Refused():
            status = error.status
        case NoRun():
            return sentence(404, str(error), run=False)
        case Anew():
            status = 410
        case NotFound():
            status = 404
        case NotAllowed():
            status = 403
        case InvalidName() | InvalidOption():
            status = 400
        case CannotConnect():
            status = 503
        case FlarelogError():
            status = 503 if error.retry_safe else 500
        case ClientDisconnect():
            return sentence(400, "the request was longer than it may be, or was given up")
        case _:
            log.exception("a request of the page failed")
            return sentence(500, "the page's server failed: its log says why")
    return _said(request, status, str(error))


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = {
        404: "there is no such address on this page, which begins at /; flarelog web login prints a login",
        405: "this address takes another method",
    }
    return _said(request, status, said.get(status, "this request cannot be answered"))


def _said(request: Request, status: int, text: str) -> Response:
    if "text/html" in request.headers.get("accept", ""):  # a person opened the address
        return Response(NO_PAGE.format(escape(f"{text[:1].upper()}{text[1:]}")), status, media_type="text/html")
    return sentence(status, text)
