"""Repeated authorization: once a second, each session and call is checked again by the present policy and certificates.

A session or call that is no longer allowed ends within a few seconds, and its connection too: after a change of the
policy, an expired or revoked certificate, or a CA that is no longer trusted. A peer that may return with a newer
certificate is told to reconnect; no received byte is lost. A connection that reaches its maximum age ends the same way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from flarelog.delivery.receiver import Refused
from flarelog.errors import FlarelogError, NotAllowed
from flarelog.model import Action, Code
from flarelog.receiver.call import Call
from flarelog.receiver.runs import Spawn
from flarelog.receiver.sessions import Sessions
from flarelog.security.connections import among, shut
from flarelog.security.guard import Guard
from flarelog.security.tls import ServerCertificates

if TYPE_CHECKING:
    from flarelog.security.certificate import Trust

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks
SHUT_AFTER = 2.0  # seconds between the last reply and the close of the connection
DUE_EVERY = 3600.0  # seconds between two log lines about an expired revocation list
OLD = "this connection has reached its maximum age: reconnect"


class Standing:
    """The checks of running *sessions* and *calls*. *age*: seconds after which a connection is old; *port*: the port
    for peers with certificates.
    """

    def __init__(
        self, guard: Guard, sessions: Sessions, calls: Collection[Call], age: float, port: int, spawn: Spawn
    ) -> None:
        self._guard, self._sessions, self._calls = guard, sessions, calls
        self._age, self._port, self._spawn = age, port, spawn
        self._asked = guard.policy
        self._trust = guard.certificates.trust if guard.certificates is not None else None
        self._due_at = 0.0

    async def run(self) -> None:
        """Check once a second, for ever."""
        self._guard.begins()
        while True:
            await asyncio.sleep(EVERY)
            certificates = self._guard.certificates
            self._guard.look(certificates.connections if certificates is not None else 0)
            if certificates is not None:
                await self._search(certificates.trust)
            self.look(time.monotonic(), time.time())

    async def _search(self, trust: Trust) -> None:
        """Let *trust*, if it is new, search in a thread for the chains of all certificates that are shown."""
        if trust is self._trust:
            return
        for presented in list(self._guard.connections.shown()):
            if not trust.knows(presented):
                await asyncio.to_thread(trust.search, presented)

    def look(self, now: float, wall: float) -> None:
        """End the sessions and calls that are not allowed at *now*, which is *wall* in seconds since 1970."""
        if self._guard.policy is not self._asked:
            self._asked = self._guard.policy
            self._ask_policy()
        certificates = self._guard.certificates
        if certificates is not None:
            self._ask_trust(certificates, wall)
        self._move(now)

    def _ask_policy(self) -> None:
        for session in self._sessions:
            stream = session.stream
            try:
                self._guard.still(session.identity, Action.PUSH, session.line.address, stream.run, stream.site)
            except NotAllowed as error:
                session.refuse(Refused(Code.REJECTED, str(error)))

    def _ask_trust(self, certificates: ServerCertificates, now: float) -> None:
        guard, trust = self._guard, certificates.trust
        changed, self._trust = trust is not self._trust, trust
        gone, guard.unwelcome = guard.unwelcome, set()
        for presented in guard.connections.shown():
            try:
                trust.check(presented, now)
            except FlarelogError as error:
                for address in guard.connections.of(presented):
                    guard.ended(presented, address, error)
                    guard.connections.forget(address)
                    gone.add(address)
        for call in list(self._calls):
            if call.connection is None or call.ended:
                continue
            try:
                trust.check(call.connection.presented, now)
            except FlarelogError as error:
                call.leave_all(str(error), Code.REJECTED if isinstance(error, NotAllowed) else Code.GOING_AWAY)
        if changed or gone:
            self._spawn(self._shut(gone, changed))
        if now >= self._due_at and (due := trust.due(now)):
            self._due_at = now + DUE_EVERY
            log.error("%s", due)

    async def _shut(self, gone: set[str], changed: bool) -> None:
        """Close the connections from the addresses *gone*; if the files have *changed*, also those without a call yet,
        because the old files let them in.
        """
        await asyncio.sleep(SHUT_AFTER)
        known = among(self._guard.connections.addresses())
        wanted = (lambda place: not known(place)) if changed else among(gone)
        count = await asyncio.to_thread(shut, self._port, wanted)
        if count:
            closed = "a connection was" if count == 1 else f"{count:,} connections were"
            log.info(
                "%s closed: %s may no longer connect, or made no call", closed, "its peer" if count == 1 else "peers"
            )

    def _move(self, now: float) -> None:
        """End the calls over old connections, so that their peers reconnect."""
        for call in list(self._calls):
            connection = call.connection
            if connection is not None and call.has_streams and not call.ended and now > connection.moves_at(self._age):
                call.leave_all(OLD)
        self._guard.connections.forget_older(self._age, now)
