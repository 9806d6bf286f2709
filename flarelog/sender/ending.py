"""A sidecar to its very end: a log ends when its writer has gone, whoever says before that it has.

A receiver whose run is ending, or a program that is about to end one, has the logs drained while they may still be
written: they get their receipts, and the run's end waits for nobody. When the writers have gone the files are looked at
once more, and what was written meanwhile opens its stream again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace

import grpc

from flarelog.bus import Bus
from flarelog.exit_marks import Exit
from flarelog.security.tls import Tls, why
from flarelog.sender.link import Channels
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome
from flarelog.sender.sidecar import Sidecar
from flarelog.wire import calls, statuses
from flarelog.wire.codec.base import Malformed

log = logging.getLogger(__name__)

REACH_TIMEOUT = 4.0  # seconds
WRITERS_EVERY = 0.5  # seconds between two looks at whether the logs of a run that is ending still have writers


async def reach(receiver: str, tls: Tls | None) -> str:
    """Why the *receiver* does not answer, empty if it does."""
    async with calls.channel(receiver, tls) as channel:
        try:
            await calls.run_call(channel, "GetRun")("run", timeout=REACH_TIMEOUT)
        except (grpc.RpcError, Malformed) as error:
            sentence = str(statuses.error_of(error, receiver)) if isinstance(error, grpc.RpcError) else str(error)
            return (await asyncio.to_thread(why, receiver, tls)) or sentence
    return ""


class Sending:
    """One sidecar, and another one if logs were written to after the first was told to drain.

    *owned*: whoever began it says when the writers have gone, by ``drain``; else they are looked for, and waited for
    no longer than the options' drain_timeout. *channels*: the connection, shared with other runs.
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
        self._late = False  # its exit was said when logs were being drained: some may have been sealed without it

    def drain(self, how: Exit | None = None) -> None:
        """The writers have gone: send what is there and end; harmless when repeated. *how*: the process has ended like
        this whose logs these are.
        """
        self._exited(how)
        self._over.set()
        self.sidecar.drain()

    def drain_early(self, how: Exit | None = None) -> None:
        """The run is ending, and the writers may go on. *how*: as for ``drain``."""
        self._exited(how)
        self.sidecar.drain_early()

    def _exited(self, how: Exit | None) -> None:
        if how is not None and how is not self._exit:
            self._exit, self._late = how, self.sidecar.draining
            self.sidecar.exited(how)

    def reread(self) -> bool:
        """As the sidecar's."""
        return self.sidecar.reread()

    async def run(self) -> Outcome:
        """Send until drained, as the sidecar does."""
        outcome = await self.sidecar.run()
        if self.sidecar.early is None or outcome.fenced or outcome.error is not None:
            return outcome
        await self._written()
        if self.sidecar.finder.state() != self.sidecar.early:
            log.info("run %s: logs grew after their receipts; the new bytes are sent", self.options.run)
        elif not self._late:
            return outcome
        # A log that has all its bytes there is opened again if only how its process ended is missing.
        options = replace(self.options, once=True, again=not self._late, heed=False)
        self.sidecar = Sidecar(options, self._bus, self._channels)
        if self._exit is not None:
            self.sidecar.exited(self._exit)
        return outcome.then(await self.sidecar.run())

    async def _written(self) -> None:
        """Wait until the writers have gone."""
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
            self.options.run, self.options.drain_timeout,
        )  # fmt: skip
