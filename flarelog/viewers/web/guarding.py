"""Stands before every route: it refuses bad requests, and adds the headers to each answer.

The access log has method, path without names, status, bytes and time: no name, no search, no content, no token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flarelog.viewers.web.asking import sentence
from flarelog.viewers.web.safety import HEADERS, LONGEST_BODY, Asked, refusal

log = logging.getLogger(__name__)

_COUNTED = ("host", "origin", "content-type", "content-length", "sec-fetch-site", "x-forwarded-proto")
BODY = 10.0  # seconds until the body of a request has come
_SHOWN = 2  # parts of a path in the access log: the parts behind them are names


class Guarded:
    """*app* behind the checks. *hosts*: the names of the page; *proxied*: a proxy that ends TLS passes requests on.
    *end*: ends the answers under way.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], *, proxied: bool, end: Callable[[], None]) -> None:
        self.end = end
        self._app, self._hosts, self._proxied = app, hosts, proxied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket: the page has none
            return
        began, status, size = time.monotonic(), 0, 0

        async def answered(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                del headers["server"]
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        refused = refusal(asked_of(scope), self._hosts, proxied=self._proxied)
        try:
            if refused is not None:
                await sentence(*refused)(scope, receive, answered)
                return
            with contextlib.ExitStack() as held:  # until the answer is sent
                scope.setdefault("state", {})["held"] = held
                await self._app(scope, _bounded(receive), answered)
        finally:
            taken = 1000 * (time.monotonic() - began)
            log.debug("%s %s %d %d bytes %.0f ms", scope["method"], _shown(scope["path"]), status, size, taken)


def asked_of(scope: MutableMapping[str, Any]) -> Asked:
    headers = Headers(scope=scope)
    twice = any(len(headers.getlist(name)) > 1 for name in _COUNTED)
    return Asked(scope["method"], scope["path"], headers, twice)


def _bounded(receive: Receive) -> Receive:
    """*receive*, cut at LONGEST_BODY bytes and after BODY seconds: a body without a declared length may be of any size,
    and the rest of one may never come.
    """
    left, more, until = LONGEST_BODY, True, asyncio.get_running_loop().time() + BODY

    async def bounded() -> Message:
        nonlocal left, more
        try:
            async with asyncio.timeout_at(until if more else None):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        if message["type"] == "http.request":
            left, more = left - len(message.get("body", b"")), message.get("more_body", False)
            if left < 0:
                return {"type": "http.disconnect"}
        return message

    return bounded


def _shown(path: str) -> str:
    parts = path.split("/")
    if parts[0] or len(parts) < 2:  # what a browser never asks for
        return "..."
    if parts[1] in ("api", "static"):
        return "/".join(parts[: _SHOWN + 1])
    return f"/{parts[1]}/..." if len(parts) > 2 else path[:40] if path == "/" else "/..."
