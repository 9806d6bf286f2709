"""A receiver for frameworks that keep a directory for each job: what is stored is also there, live, as plain files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from flarelog.bus import Notice
from flarelog.errors import NotAllowed
from flarelog.integrations import _background
from flarelog.integrations.embedded import JOIN_TIMEOUT, Receiver
from flarelog.lifecycle import Event
from flarelog.model import StreamInfo
from flarelog.policy import Action, Identity, Policy
from flarelog.server import Server
from flarelog.sinks.mirror import Mirror
from flarelog.tls import Tls

log = logging.getLogger(__name__)

KEPT_RUNS = 1000  # runs that have ended, and whose late streams are still handed on
_MARGIN = 5.0  # seconds

Keep = Callable[[str, Sequence[tuple[StreamInfo, Path]]], None]
"""Is told, in a thread of its own, of a run that has ended: each of its streams, and the file with its bytes."""


@dataclass(frozen=True)
class Consent(Policy):
    """The usual policy; a site that does not allow its logs to be streamed pushes nothing."""

    allowed: Callable[[str], bool] = field(default=lambda site: True)

    def allows(self, identity: Identity, action: Action, *, run: str | None = None, site: str | None = None) -> None:
        super().allows(identity, action, run=run, site=site)
        if action is Action.PUSH and not self.allowed(site or ""):
            raise NotAllowed(f"site {site} does not allow its logs to be streamed, and what it sends is dropped")


class JobReceiver(Receiver):
    """A Receiver whose streams are copied to ``JOBS/RUN/SITE/LOG`` while ``JOBS/RUN`` is there.

    *jobs*: the directory of the jobs' directories. *allowed*: whether a site may stream. *keep*: is called when a run
    has ended (``finish``), and again for each of its streams that ends later. The rest is as for Receiver.
    """

    def __init__(
        self,
        store: str,
        jobs: str | os.PathLike[str],
        *,
        listen: str,
        tls: Tls | None,
        allowed: Callable[[str], bool] = lambda site: True,
        keep: Keep = lambda run, streams: None,
        join_timeout: float = JOIN_TIMEOUT,
    ) -> None:
        super().__init__(store, listen=listen, tls=tls, join_timeout=join_timeout)
        if tls is not None:
            self._options = replace(self._options, policy=Consent(allowed=allowed))
        self._mirror = Mirror(self._store, jobs)
        self._keep = keep
        self._finished: dict[str, bool] = {}  # whether the run's streams were handed on
        self._tasks: set[asyncio.Task[None]] = set()
        self._inner.subscribe(self._opened, Event.STREAM_OPENED)
        self._inner.subscribe(self._ended, Event.STREAM_ENDED)

    def finish(self, run: str) -> Future[None] | None:
        """Let *run* end: its producers drain, and what came is handed to *keep*. Harmless when repeated; None when
        there is nothing to wait for.
        """
        background, server = self._background, self._server
        if background is None or server is None or run in self._finished:
            return None
        self._finished[run] = False
        for oldest in list(self._finished)[:-KEPT_RUNS]:
            del self._finished[oldest]
        try:
            return background.start(self._finish(server, run))
        except _background.Stopped:
            return None

    def sending(self, run: str) -> bool:
        """Whether a producer of *run* is connected."""
        background, server = self._background, self._server
        if background is None or server is None:
            return False

        async def joined() -> bool:
            return await server.join(run, 0.0)

        try:
            return not background.call(joined(), _MARGIN)
        except (TimeoutError, CancelledError, _background.Stopped):
            return False

    async def _finish(self, server: Server, run: str) -> None:
        await server.register(run, Event.ABOUT_TO_END_RUN)  # who still sends is asked to drain
        if not await server.join(run, self._options.end_timeout):
            log.warning("run %s has ended, but some of its logs are still coming in", run)
        await server.register(run, Event.END_RUN)
        await self._mirror.settled(run, _MARGIN)
        await self._mirror.leave(run)
        self._finished[run] = True
        await self._hand_on(run, f"{run}/")

    async def _hand_on(self, run: str, which: str) -> None:
        """Hand on the streams of *run* whose names begin with *which*."""
        try:
            streams = [(info, self._store.path(info.stream)) async for info in self._store.list(which)]
            await asyncio.to_thread(self._keep, run, streams)
        except Exception as error:  # whatever the framework raises
            sentence = f"{type(error).__name__}: {error}"
            log.warning("logs of run %s were not handed on (%s); they are in the store", run, sentence)

    def _opened(self, notice: Notice) -> None:
        if notice.stream is not None:
            self._mirror.follow(notice.stream)

    def _ended(self, notice: Notice) -> None:
        if notice.stream is not None and self._finished.get(notice.run):
            task = asyncio.create_task(self._hand_on(notice.run, str(notice.stream)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _end(self, background: _background.Background, timeout: float) -> bool:
        with contextlib.suppress(_background.Stopped):
            background.start(self._mirror.leave())
        return super()._end(background, timeout)
