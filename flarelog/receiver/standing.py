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
from collections.abc import Collection

from flarelog.delivery.receiver import Refused
from flarelog.errors import FlarelogError, NotAllowed
from flarelog.model import Action, Code
from flarelog.receiver.call import Call
from flarelog.receiver.runs import Spawn
from flarelog.receiver.sessions import Sessions
from flarelog.security.connections import among, shut
from flarelog.security.guard import Guard
from flarelog.security.tls import ServerCertificates

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks
SHUT_AFTER = 2.0  # seconds that those who are to go get to hear it
DUE_EVERY = 3600.0  # seconds between two words about a revocation list that has expired
OLD = "this connection has reached its maximum age: reconnect"


class Standing:
    """Of those whose *sessions* and *calls* go on. *age*: seconds after which a connection is old; *port*: where those
    with certificates come in.
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
        """Look, for ever."""
        self._guard.begins()
        while True:
            await asyncio.sleep(EVERY)
            certificates = self._guard.certificates
            self._guard.look(certificates.connections if certificates is not None else 0)
            self.look(time.monotonic(), time.time())

    def look(self, now: float, wall: float) -> None:
        """End what goes on and would not be let in at *now*, which is *wall* in seconds since 1970."""
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
        """Shut the connections from *gone*; where the files have *changed* those as well that came to no call yet: what
        was said before let them in.
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
        """Let the calls over old connections go on over new ones."""
        for call in list(self._calls):
            connection = call.connection
            if connection is not None and call.has_streams and not call.ended and now > connection.moves_at(self._age):
                call.leave_all(OLD)
        self._guard.connections.forget_older(self._age, now)
