"""A sidecar up to the end of the writers: a log ends when its writers have exited, even if the run ended before.

A receiver whose run is ending, or a program that is about to end one, drains the logs while processes may still write
them: the logs get their receipts, and the end of the run does not wait. After the writers have exited, a last look at
the files finds later bytes, and reopens their streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import grpc

from flarelog.bus import Bus
from flarelog.exit_marks import Exit
from flarelog.names import receiver_ends, shown
from flarelog.security.tls import Tls, why
from flarelog.sender.link import Channels
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome
from flarelog.sender.sidecar import Sidecar
from flarelog.values import changed
from flarelog.wire import calls, statuses
from flarelog.wire.codec.base import Malformed

log = logging.getLogger(__name__)

REACH_TIMEOUT = 4.0  # seconds
WRITERS_EVERY = 0.5  # seconds between two checks whether the logs of an ending run still have writers


async def reach(receiver: str, tls: Tls | None) -> str:
    """Why none of the *receiver*'s ends answers; empty if one does."""
    troubles = await asyncio.gather(*(_reach(end, tls) for end in receiver_ends(receiver)))
    return "" if not all(troubles) else "; ".join(troubles)


async def _reach(receiver: str, tls: Tls | None) -> str:
    async with calls.channel(receiver, tls) as channel:
        try:
            await calls.run_call(channel, "GetRun")("run", timeout=REACH_TIMEOUT)
        except (grpc.RpcError, Malformed) as error:
            sentence = str(statuses.error_of(error, receiver) if isinstance(error, grpc.RpcError) else error)
            return (await asyncio.to_thread(why, receiver, tls)) or sentence
    return ""


class Sending:
    """One sidecar, and a second one if logs grew after the first was told to drain.

    *owned*: the caller reports by ``drain`` that the writers have exited; otherwise the writers are looked for, and
    waited for up to the options' drain_timeout. *channels*: the connection, shared with other runs.
    """

    def __init__(
        self,
        options: SidecarOptions,
        bus: Bus | None = None,
        *,
        owned: bool = False,
        channels: Channels | None = None,
    ) -> None:
        self.options = options
        self.sidecar = Sidecar(options, bus, channels)
        self._bus, self._channels = bus, channels
        self._owned = owned
        self._over = asyncio.Event()
        self._exit: Exit | None = None
        self._late = False  # the exit came during a drain: some logs may be sealed without it

    def drain(self, how: Exit | None = None) -> None:
        """Send all present bytes and end, after the writers have exited; idempotent. *how*: how the process that wrote
        the logs has ended.
        """
        self._exited(how)
        self._over.set()
        self.sidecar.drain()

    def leave(self) -> None:
        """Send all present bytes and end, before the run does; idempotent."""
        self._over.set()
        self.sidecar.leave()

    def drain_early(self, how: Exit | None = None) -> None:
        """Drain because the run is ending, while the writers may go on. *how*: as for ``drain``."""
        self._exited(how)
        self.sidecar.drain_early()

    def _exited(self, how: Exit | None) -> None:
        if how is not None and how is not self._exit:
            self._exit, self._late = how, self.sidecar.draining
            self.sidecar.exited(how)

    def reread(self) -> bool:
        """As ``Sidecar.reread``."""
        return self.sidecar.reread()

    async def run(self) -> Outcome:
        """Send until drained, as ``Sidecar.run``; then send what was written after an early drain."""
        outcome = await self.sidecar.run()
        if self.sidecar.early is None or outcome.fenced or outcome.error is not None:
            return outcome
        await self._written()
        if self.sidecar.finder.state() != self.sidecar.early:
            log.info("run %s: logs grew after their receipts; the new bytes are sent", shown(self.options.run))
        elif not self._late:
            return outcome
        # After a late exit all logs are reopened, even complete ones, because their exit mark may be missing.
        options = changed(self.options, once=True, again=not self._late, heed=False)
        self.sidecar = Sidecar(options, self._bus, self._channels)
        if self._exit is not None:
            self.sidecar.exited(self._exit)
        return outcome.then(await self.sidecar.run())

    async def _written(self) -> None:
        """Wait until the writers have exited."""
        if self._owned:
            await self._over.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.drain_timeout):
                while not self._over.is_set() and self.sidecar.finder.written():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._over.wait(), WRITERS_EVERY)
                return
        log.warning(
            "run %s is ending, but a process has a log of it open for writing after %g s; later bytes are not sent",
            shown(self.options.run), self.options.drain_timeout,
        )  # fmt: skip
