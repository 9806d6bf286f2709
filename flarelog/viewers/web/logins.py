"""Logins: the routes of login and logout, and the end of a session whose token was revoked.

Wrong logins are answered late and few at a time, so that guessing is slow. A session reads with the rights of its
login.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from flarelog.errors import FlarelogError, NotAllowed, NotAuthenticated
from flarelog.viewers.origin import Origin
from flarelog.viewers.web.asking import Refused, answer, said
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.origins import Origins, Rights, Sources
from flarelog.viewers.web.safety import cookie, cookie_name, cookies_of
from flarelog.viewers.web.sessions import Secrets, Session, Sessions

WRONG = 1.0  # seconds after which a wrong login is answered
WRONG_AT_ONCE = 16
LONGEST_TOKEN = 4096
ASK_EVERY = 2.0  # seconds between two checks whether a token is still valid
MOMENT = 0.001  # seconds: a check asks for the streams that grew within them
SOON = 2.0  # seconds within which a receiver tells whether it knows the page
PATIENCE = 10.0  # seconds that a request waits for a place among those of its session
AT_ONCE, CROWD, FEW = 40, 150, 10  # requests of a session under way; of all sessions, from which on each gets FEW
LOGINS = 32  # whose token is checked at once
MOST = {"tail": 2, "window": 4, "search": 1, "raw": 2, "report": 1}
"""How many requests of each kind a session may have under way at once."""
BUSY = {
    "tail": "tabs follow logs with this login already: close one",
    "window": "parts of logs are asked for with this login already: wait for one",
    "search": "search is under way with this login already: wait for its end",
    "raw": "downloads are under way with this login already: wait for one",
    "report": "report is being made with this login already: wait for it",
}
"""The sentences for a client over these limits."""

User = Session[Rights]


class Logins:
    """Use as an asynchronous context manager."""

    def __init__(self, sources: Sources, options: WebOptions, key: bytes) -> None:
        self.name = sources.name
        self._secure, self._cookie = options.trust_proxy, cookie_name(options)
        self._command = options.login
        self._lasting = options.session_hours * 3600
        self._secrets, self._sessions = Secrets(key), Sessions[Rights](self._lasting)
        self._origins, self.some = Origins(sources), sources.some
        self._wrong, self._ending = 0, False
        self._checks = self._under_way = 0

    async def __aenter__(self) -> Logins:
        self._asking = asyncio.create_task(self._ask_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._asking
        for session in self._sessions:
            self._sessions.end(session)
        await self._origins.close()

    # --- routes

    def session_of(self, request: Request) -> User:
        """The session of the cookie in the request. Raises Refused."""
        now, given = time.time(), dict.fromkeys(cookies_of(request.headers, self._cookie))
        found = [one for value in given if (one := self._sessions.of(value, now)) is not None]
        if len(found) != 1:  # of two, one is perhaps a login that another server of this host has slipped in
            raise Refused(401, f"no user is logged in: open the address that {self._command} prints, or give a token")
        return found[0]

    async def login(self, request: Request) -> Response:
        asked = await said(request)
        secret, token = asked.get("secret"), asked.get("token")
        if isinstance(secret, str) and self._secrets.takes(secret, time.time()):
            rights, who = await self._by_link(), "link"
        elif isinstance(token, str) and 0 < len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable():
            rights, who = await self._by_token(token), "token"
        else:
            raise await self._wrong_login(f"this login has expired or was used: {self._command} prints a new one")
        for one in self._sessions.surplus(rights, time.time()):
            await self._end(one)
        value, session = self._sessions.open(who, rights, time.time())
        return answer(self._about(session), {"set-cookie": self._set(value, int(self._lasting))})

    async def _by_link(self) -> Rights:
        rights = await self._origins.own()
        held = True
        with contextlib.suppress(TimeoutError):  # the page itself tells that its receiver does not answer
            async with asyncio.timeout(SOON):
                held = await holds(rights.origin)
        if not held:
            await self._origins.leave(rights)
            raise Refused(
                403, "the page itself may not read at its receiver: start it with --token-file, or give a token here"
            )
        return rights

    async def _by_token(self, token: str) -> Rights:
        if self._checks >= LOGINS:  # the receiver does not answer
            raise Refused(429, "too many logins at once: try again")
        self._checks += 1
        try:
            return await self._origins.checked(token)
        except NotAllowed as error:
            known = "the receiver does not know this token, or it has expired"
            if not isinstance(error, NotAuthenticated):
                known = f"{self.name} takes no token: open the address that {self._command} prints"
            raise await self._wrong_login(known) from error
        finally:
            self._checks -= 1

    async def _wrong_login(self, sentence: str) -> Refused:
        if self._wrong >= WRONG_AT_ONCE:
            return Refused(429, "too many wrong logins at once: try again")
        self._wrong += 1
        try:
            await asyncio.sleep(WRONG)
        finally:
            self._wrong -= 1
        return Refused(401, sentence)

    async def logout(self, request: Request) -> Response:
        await self._end(request.state.session)
        return answer({}, {"set-cookie": self._set("", 0)})

    def _set(self, value: str, seconds: int) -> str:
        return cookie(self._cookie, value, seconds, secure=self._secure)

    async def me(self, request: Request) -> Response:
        return answer(self._about(request.state.session))

    def _about(self, session: User) -> dict[str, Any]:
        return {
            "who": session.who,
            "whose": hashlib.sha256(session.of.key).hexdigest()[:16],  # sessions with the same rights share it
            "receiver": self.name,
        }

    # --- limits

    @contextlib.contextmanager
    def share(self, session: User) -> Iterator[None]:
        """Count a request of *session* as under way. Raises Refused where it has too many."""
        most = AT_ONCE if self._under_way < CROWD else FEW
        if session.under_way >= most:
            raise Refused(429, f"{most} requests are under way with this login already: wait for one")
        session.under_way += 1
        self._under_way += 1
        try:
            yield
        finally:
            session.under_way -= 1
            self._under_way -= 1

    def end(self) -> None:
        """End the answers under way, because the server shuts down."""
        self._ending = True

    def over(self, session: User) -> str:
        """Why *session* gets no more answers; empty as long as it gets some."""
        if session.over:
            return "the login has ended: log in again"
        return "the page's server has ended: start flarelog web again" if self._ending else ""

    async def revoked(self, session: User) -> None:
        """End all sessions of the token of *session*, if one opened it: the receiver no longer knows that token."""
        if session.who == "token":
            await self._end_those({session.of})

    async def _end(self, session: User) -> None:
        if not session.over:
            self._sessions.end(session)
            await self._origins.leave(session.of)

    async def _ask_again(self) -> None:
        """End sessions that have expired, and those whose token is no longer valid, again and again."""
        while True:
            await asyncio.sleep(ASK_EVERY)
            ended: set[Rights] = set()
            for rights in {session.of for session in self._sessions if session.who == "token"}:
                if not await holds(rights.origin):
                    ended.add(rights)
            await self._end_those(ended)

    async def _end_those(self, rights: set[Rights]) -> None:
        """End the sessions with *rights*, and those that have expired."""
        for session in self._sessions:
            if session.of in rights or session.until <= time.time():
                await self._end(session)

    @contextlib.asynccontextmanager
    async def place(self, session: User, kind: str) -> AsyncGenerator[None, None]:
        """Hold one of the places that *session* has for requests of *kind*. Raises Refused where none becomes free."""
        places = session.places.setdefault(kind, asyncio.Semaphore(MOST[kind]))
        try:
            async with asyncio.timeout(PATIENCE if kind != "tail" else 1.0):
                await places.acquire()
        except TimeoutError as error:
            raise Refused(429, f"{MOST[kind]} {BUSY[kind]}, or log in once more") from error
        try:
            yield
        finally:
            places.release()


async def holds(origin: Origin) -> bool:
    """Whether the receiver still knows the reader of *origin*; True where it does not answer.

    The check asks for the streams that grew a moment ago: this is cheap, and every reader may ask it, whatever its
    rights, so that the receiver's audit records no refusal.
    """
    try:
        await origin.grown("", (), MOMENT)
    except NotAuthenticated:
        return False
    except FlarelogError:
        return True  # no answer, or the reader may read nothing now
    return True
