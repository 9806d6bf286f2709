"""Who calls: as whom calls are counted, what a caller may, and which worker his call is for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from flarelog.errors import FlarelogError
from flarelog.model import Action
from flarelog.policy import NOBODY, Identity
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.peers import Patience, Peers
from flarelog.receiver.workers.cluster import Workers
from flarelog.receiver.workers.relay import Passed, said_of
from flarelog.security.callers import key_of
from flarelog.security.context import Context
from flarelog.security.guard import Guard, identity_of
from flarelog.wire import statuses

NO_SITE = "."  # which no site is called


class Callers:
    """For one event loop."""

    def __init__(self, options: ServerOptions, guard: Guard, peers: Peers, workers: Workers | None) -> None:
        self.guard, self.peers, self.workers = guard, peers, workers
        self._certified = options.tls is not None

    def _identity(self, context: Context) -> Identity:
        return identity_of(context) if self._certified else NOBODY

    def peer_of(self, context: Context) -> str:
        """Whose calls are counted together: those of one certificate or token; of nobody, those of one address."""
        identity = self._identity(context)
        return key_of(identity) if identity != NOBODY else context.peer().rpartition(":")[0]

    def may_see(self, identity: Identity, run: str, site: str = NO_SITE) -> bool:
        """Whether *identity* may know of *run*, in which no site need have a stream, or of *site* in it."""
        return self.guard.policy.permits(identity, Action.LIST_RUNS, run=run, site=site)

    def counted(self, context: Context) -> contextlib.AbstractAsyncContextManager[None]:
        """Count a call of a peer, and let it wait if there are too many. Raises Full."""
        return self.peers.call(context, self.peer_of(context))

    @contextlib.asynccontextmanager
    async def answering(self, context: Context) -> AsyncIterator[None]:
        """A call that is answered once, and told why when it may not be."""
        try:
            async with self.counted(context):
                yield
        except FlarelogError as error:
            await context.abort(statuses.status_of(error), str(error))

    @contextlib.asynccontextmanager
    async def reading(self, context: Context) -> AsyncIterator[tuple[str, Patience]]:
        """A call that reads or lists: it is dropped when it takes nothing, and told why when it may not."""
        try:
            peer = self.peer_of(context)
            async with self.peers.reading(context, peer) as patience:
                yield peer, patience
        except FlarelogError as error:
            await context.abort(statuses.status_of(error), str(error))

    # --- workers

    @property
    def is_home(self) -> bool:
        """Whether the states of runs are decided here."""
        return self.workers is None or self.workers.home

    def elsewhere(self, context: Context, run: str, site: str) -> int | None:
        """The worker that a call about *site* of *run* is to be passed on to, if it is not this one."""
        if self.workers is None or isinstance(context, Passed) or self.workers.place.mine(run, site):
            return None
        return self.workers.place.owner(run, site)

    def who(self, context: Context) -> bytes:
        """Who calls, for the worker that a call is passed on to."""
        return said_of(self._identity(context), context.peer(), self.guard.connection_of(context))
