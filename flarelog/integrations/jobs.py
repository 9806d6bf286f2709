"""A receiver for frameworks that keep a directory for each job: stored bytes are copied there, live, as plain files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flarelog.bus import Notice
from flarelog.delivery.quota import Limits
from flarelog.errors import FlarelogError, InvalidOption, NotAllowed
from flarelog.integrations.embedded import JOIN_TIMEOUT
from flarelog.integrations.receiver import Receiver
from flarelog.lifecycle import Event, RunState
from flarelog.model import Action, StreamInfo
from flarelog.policy import READS, Identity, Policy, is_nvflare_admin
from flarelog.receiver.retention import Keep as Kept
from flarelog.receiver.retention import Retention
from flarelog.receiver.server import Server
from flarelog.security.tls import Tls
from flarelog.sinks.base import Feed
from flarelog.sinks.mirror import Mirror
from flarelog.stores.base import Durability
from flarelog.wire.heartbeat import IDLE_TIMEOUT

log = logging.getLogger(__name__)

KEPT_RUNS = 1000  # ended runs whose late streams are still delivered
SERVER = "server"  # the site name of the server's own logs, which are neither copied nor delivered
_MARGIN = 5.0  # seconds

Keep = Callable[[str, Sequence[tuple[StreamInfo, Path]]], None]
"""Called in a thread of its own when a run has ended, with each of its streams and the file that has its bytes."""


@dataclass(frozen=True)
class Consent(Policy):
    """The default policy, which also refuses pushes of a site without allow_log_streaming. *own*: the common name of
    the server's certificate, which may send the server's own logs as the site SERVER. *shows*: whether the framework
    now shows an admin, by the common name of his kit, a run; for a run that does not exist the answer is no, so that a
    refusal does not reveal which runs there are.
    """

    allowed: Callable[[str], bool] = field(default=lambda site: True)
    own: str = ""
    shows: Callable[[str, str], bool] = field(default=lambda admin, run: False)

    def allows(self, identity: Identity, action: Action, *, run: str | None = None, site: str | None = None) -> None:
        if site == SERVER and action in (Action.PUSH, Action.LIST) and self.own == identity.common_name != "":
            return
        if action in READS and is_nvflare_admin(identity):
            if not run and action in (Action.LIST, Action.LIST_RUNS):  # the list has only runs that are shown
                return
            if run and self.shows(identity.common_name, run):
                return
        super().allows(identity, action, run=run, site=site)
        if action is Action.PUSH and not self.allowed(site or ""):
            raise NotAllowed(f"site {site} does not allow log streaming (allow_log_streaming): its logs are dropped")


class JobReceiver(Receiver):
    """A Receiver whose streams are copied to ``JOBS/RUN/SITE/LOG`` while ``JOBS/RUN`` exists.

    *jobs*: the directory of the jobs' directories. *allowed*: whether a site may stream. *own*: the common name of the
    server's own certificate. *shows*: whether an admin may read a run, as for Consent. *keep*: called when a run has
    ended (``finish``), and again for each of its streams that ends later. *keep_days*: days without any change after
    which a run is removed from the store; None keeps all. Other arguments: see Receiver. The methods with an underscore
    run in the loop.
    """

    def __init__(
        self,
        store: str,
        jobs: str | os.PathLike[str],
        *,
        listen: str,
        tls: Tls | None,
        allowed: Callable[[str], bool] = lambda site: True,
        own: str = "",
        shows: Callable[[str, str], bool] = lambda admin, run: False,
        keep: Keep = lambda run, streams: None,
        keep_days: float | None = None,
        durability: Durability = "disk",
        limits: Limits | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        join_timeout: float = JOIN_TIMEOUT,
    ) -> None:
        try:
            self._kept = Kept(keep_days)
        except InvalidOption:
            raise InvalidOption("keep_days must be a positive number of days; leave it out to keep all runs") from None
        super().__init__(
            store,
            listen=listen,
            tls=tls,
            policy=Consent(allowed=allowed, own=own, shows=shows) if tls is not None else None,
            durability=durability,
            limits=limits,
            idle_timeout=idle_timeout,
            join_timeout=join_timeout,
        )
        self._keep = keep
        self._mirror = Feed(self._store, Mirror(jobs))
        self._finished: dict[str, bool] = {}  # by run: whether its streams were delivered
        self._tasks: set[asyncio.Task[None]] = set()

    def finish(self, run: str) -> Future[None] | None:
        """End *run*: its producers drain, and its streams go to *keep*. Harmless when repeated; None without a running
        receiver.
        """
        return self.submit(lambda server: self._finish(server, run))

    def finish_left(self) -> None:
        """End the runs that an earlier process left unended."""

        async def finish(server: Server) -> None:
            for run in server.runs.unended():
                log.info("run %s was still running when the receiver ended; it ends now", run)
                self._spawn(self._finish(server, run))

        self.submit(finish)

    def sending(self, run: str) -> bool:
        """Whether a producer of *run* is connected."""

        async def sends(server: Server) -> bool:
            return server.runs.sends(run)

        answer = self.submit(sends)
        with contextlib.suppress(TimeoutError, CancelledError):
            return answer is not None and answer.result(_MARGIN)
        return False

    def _serve(self, server: Server) -> None:
        server.bus.subscribe(self._opened, Event.STREAM_OPENED)
        server.bus.subscribe(partial(self._ended, server), Event.STREAM_ENDED)
        if self._kept:  # once the server has its port: until then another receiver may own this store
            retention = Retention(self._store, self._kept, server.expire)
            server.bus.subscribe(lambda _: server.spawn(retention.run()), Event.SYSTEM_START)

    async def _cease(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_MARGIN)
        await self._mirror.leave()

    async def _finish(self, server: Server, run: str) -> None:
        """Let the producers of *run* drain, then deliver its streams; harmless when repeated."""
        if run in self._finished:
            return
        self._finished[run] = False
        for oldest in list(self._finished)[:-KEPT_RUNS]:
            del self._finished[oldest]
        try:
            await server.runs.register(run, Event.ABOUT_TO_END_RUN)  # asks connected producers to drain
            if not await server.runs.join(run, server.options.end_timeout):
                log.warning("run %s has ended, but some of its logs are still arriving", run)
            await server.runs.register(run, Event.END_RUN)
        except FlarelogError as error:  # for example too many runs: this one was never begun here
            log.warning("run %s could not be ended: %s", run, error)
            del self._finished[run]
            return
        await self._mirror.settled(run, _MARGIN)
        await self._mirror.leave(run)
        self._finished[run] = True
        await self._deliver(run, f"{run}/")

    async def _deliver(self, run: str, which: str) -> None:
        """Pass *keep* the streams of *run* whose names begin with *which*."""
        try:
            streams = [
                (info, self._store.path(info.stream))
                async for info in self._store.list(which)
                if info.stream.site != SERVER
            ]
            await asyncio.to_thread(self._keep, run, streams)
        except Exception as error:  # any exception of the framework
            sentence = f"{type(error).__name__}: {error}"
            log.warning("some logs of run %s were not delivered (%s); they remain in the store", run, sentence)

    def _opened(self, notice: Notice) -> None:
        if notice.stream is not None and notice.stream.site != SERVER:
            self._mirror.follow(notice.stream)

    def _ended(self, server: Server, notice: Notice) -> None:
        if notice.stream is None or notice.stream.site == SERVER:
            return
        # An earlier process may have delivered the run.
        if self._finished.get(notice.run, server.runs.state(notice.run) is RunState.ENDED):
            self._spawn(self._deliver(notice.run, notice.stream.key))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
