"""The callers: their identity, the peer that a call counts against, and the worker that a call belongs to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from flarelog.errors import FlarelogError
from flarelog.model import Action
from flarelog.policy import NOBODY, Identity, key_of
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.peers import Patience, Peers
from flarelog.receiver.workers.cluster import Workers
from flarelog.receiver.workers.relay import Passed, said_of
from flarelog.security.context import Context
from flarelog.security.guard import Guard, identity_of
from flarelog.wire import statuses

NO_SITE = "."  # invalid as a site's name


class Callers:
    """The callers of one event loop."""

    def __init__(self, options: ServerOptions, guard: Guard, peers: Peers, workers: Workers | None) -> None:
        self.guard, self.peers, self.workers = guard, peers, workers
        self._certified = options.tls is not None

    def _identity(self, context: Context) -> Identity:
        return identity_of(context) if self._certified else NOBODY

    def peer_of(self, context: Context) -> str:
        """The peer that a call counts against: a certificate or a token, otherwise the address."""
        identity = self._identity(context)
        return key_of(identity) if identity != NOBODY else context.peer().rpartition(":")[0]

    def may_see(self, identity: Identity, run: str, site: str = NO_SITE) -> bool:
        """Whether *identity* may list *run*, even one without a stream, or *site* in it."""
        return self.guard.policy.permits(identity, Action.LIST_RUNS, run=run, site=site)

    def counted(self, context: Context) -> contextlib.AbstractAsyncContextManager[None]:
        """Count a call of its peer inside the block; a call over the rate limit waits first. Raises Full."""
        return self.peers.call(context, self.peer_of(context))

    @contextlib.asynccontextmanager
    async def answering(self, context: Context) -> AsyncIterator[None]:
        """Count a call with one answer inside the block; a FlarelogError ends the call with its status."""
        try:
            async with self.counted(context):
                yield
        except FlarelogError as error:
            await context.abort(statuses.status_of(error), str(error))

    @contextlib.asynccontextmanager
    async def reading(self, context: Context) -> AsyncIterator[tuple[str, Patience]]:
        """Count a call that reads or lists; yields its peer, and the Patience with which to send each piece.

        A FlarelogError ends the call with its status.
        """
        try:
            peer = self.peer_of(context)
            async with self.peers.reading(context, peer) as patience:
                yield peer, patience
        except FlarelogError as error:
            await context.abort(statuses.status_of(error), str(error))

    # --- workers

    def elsewhere(self, context: Context, run: str, site: str) -> int | None:
        """The worker to relay a call about *site* of *run* to; None: this one."""
        if self.workers is None or isinstance(context, Passed) or self.workers.place.mine(run, site):
            return None
        return self.workers.place.owner(run, site)

    def who(self, context: Context) -> bytes:
        """The caller's identity, encoded for the worker that a call is relayed to."""
        return said_of(self._identity(context), context.peer(), self.guard.connection_of(context))
