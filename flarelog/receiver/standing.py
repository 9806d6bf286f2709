"""Whether those who were let in would be let in now: asked once a second for all that goes on.

What is not allowed any longer ends within a few seconds, running calls and their connections too: by a policy that
changed, a certificate that expired or was revoked, a CA that is believed no more. A peer that may come again under a
newer certificate is told to; nothing that was taken is lost by it. A connection that has come of age is left in the
same way, for a new one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from flarelog.errors import FlarelogError, NotAllowed
from flarelog.model import Action, Code
from flarelog.names import parse_address
from flarelog.security.connections import among, shut

if TYPE_CHECKING:
    from flarelog.receiver.server import Server
    from flarelog.security.tls import ServerCertificates

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks
SHUT_AFTER = 2.0  # seconds that those who are to go get to hear it
DUE_EVERY = 3600.0  # seconds between two words about a revocation list that has expired
OLD = "this connection is old: connect again"


class Standing:
    """Of the peers of *server*."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._asked = server.policy
        self._trust = server.guard.certificates.trust if server.guard.certificates is not None else None
        self._due_at = 0.0

    async def run(self) -> None:
        """Look, for ever."""
        self._server.guard.begins()
        while True:
            await asyncio.sleep(EVERY)
            certificates = self._server.guard.certificates
            self._server.guard.look(certificates.connections if certificates is not None else 0)
            self.look(time.monotonic(), time.time())

    def look(self, now: float, wall: float) -> None:
        """End what goes on and would not be let in at *now*, which is *wall* in seconds since 1970."""
        if self._server.policy is not self._asked:
            self._asked = self._server.policy
            self._ask_policy()
        certificates = self._server.guard.certificates
        if certificates is not None:
            self._ask_trust(certificates, wall)
        self._move(now)

    def _ask_policy(self) -> None:
        for session in self._server.sessions():
            stream = session.stream
            try:
                self._server.guard.still(session.identity, Action.PUSH, session.address, stream.run, stream.site)
            except NotAllowed as error:
                session.leave(Code.REJECTED, str(error))

    def _ask_trust(self, certificates: ServerCertificates, now: float) -> None:
        guard, trust = self._server.guard, certificates.trust
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
        for call in list(self._server.calls):
            if call.connection is None or call.ended:
                continue
            try:
                trust.check(call.connection.presented, now)
            except FlarelogError as error:
                call.leave_all(str(error), Code.REJECTED if isinstance(error, NotAllowed) else Code.GOING_AWAY)
        if changed or gone:
            self._server.spawn(self._shut(gone, changed))
        if now >= self._due_at and (due := trust.due(now)):
            self._due_at = now + DUE_EVERY
            log.error("%s", due)

    async def _shut(self, gone: set[str], changed: bool) -> None:
        """Shut the connections from *gone*; where the files have *changed* those as well that came to no call yet: what
        was said before let them in.
        """
        await asyncio.sleep(SHUT_AFTER)
        known = among(self._server.guard.connections.addresses())
        wanted = (lambda place: not known(place)) if changed else among(gone)
        count = await asyncio.to_thread(shut, parse_address(self._server.address)[1], wanted)
        log.info("%d connections were ended, whose peers would not be let in now or came to no call", count)

    def _move(self, now: float) -> None:
        """Let the calls over old connections go on over new ones."""
        age = self._server.options.max_connection_age
        for call in self._server.calls:
            connection = call.connection
            if connection is not None and call.has_streams and not call.ended and now > connection.moves_at(age):
                call.leave_all(OLD)
        self._server.guard.connections.forget_older(age, now)
