"""The sending process: one loop watches for logs and their changes, each log has a loop that sends it, and all share
one link.

The receiver's record says where each log continues. A log that fails holds up no other log, and never fails the run.
An error in flarelog itself is logged once with a traceback, and shows in the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Coroutine, Iterable
from typing import Any

import grpc

from flarelog.bus import Bus
from flarelog.completeness import Completeness, together
from flarelog.errors import (
    CannotConnect,
    FlarelogError,
    GoesOn,
    NoConsent,
    NotFound,
    NothingToSend,
    StreamFenced,
    TimedOut,
)
from flarelog.exit_marks import Exit
from flarelog.lifecycle import Event, RunState
from flarelog.model import News, StreamId
from flarelog.names import shown
from flarelog.sender.consents import Consents
from flarelog.sender.healths import Healths
from flarelog.sender.link import Channels, Link
from flarelog.sender.log import Log
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Mistake, Outcome, StreamOutcome, traced, trouble_of
from flarelog.sender.progress import Progress
from flarelog.sender.unmatched import Unmatched
from flarelog.sources.base import Source
from flarelog.sources.choose import finder
from flarelog.talk import info_each
from flarelog.text import legible, several
from flarelog.wire import calls
from flarelog.wire.codec.base import Malformed
from flarelog.wire.packing import Compressing

log = logging.getLogger(__name__)

LOOKED_WITHIN = 5.0  # seconds that a drain waits for the first look at the machine's health
NAMED = 3  # unsent logs that an error names
FENCED_DRAIN = 5.0  # seconds to drain after a newer sidecar has taken over, for files that only this one has open
HEED_EVERY = 5.0  # seconds
TAKEN_WITHIN, TAKEN_LOOK = 5.0, 0.01  # seconds that logs wait for those of another sidecar, and between two checks

_OVER = (RunState.ENDING.value, RunState.ENDED.value)


class Sidecar:
    """Sends every log that is found to one receiver. ``run`` ends after ``drain``, when all receipts are there."""

    def __init__(self, options: SidecarOptions, bus: Bus | None = None, channels: Channels | None = None) -> None:
        self.options = options
        self.bus = bus or Bus()
        self.link = Link(options, channels, heard=self.brought)
        self.finder = finder(
            options.source,
            run=options.run,
            site=options.site,
            receiver=options.receiver,
            state=options.state,
            ranks=options.ranks,
        )
        self.compressing = Compressing(
            options.compression, options.receiver, options.tls.server_name if options.tls is not None else ""
        )
        self.consents = Consents(options.source.sites)
        self.unmatched = Unmatched(self.finder, once=options.once)
        self.healths = Healths(options.source.directory, lambda: self.finder.troubles)
        self.early: object = None  # the finder's state at an early drain, while processes may still write
        self._progress = Progress(options.drain_timeout)
        self._logs: dict[str, Log] = {}
        self._sending: list[asyncio.Task[None]] = []
        self._group: asyncio.TaskGroup | None = None
        self._failed = self._fenced = 0  # logs that ended in an error; those of them that a newer sidecar has
        self._beside: set[asyncio.Task[None]] = set()
        self._sealed: dict[str, int] = {}  # logs that the receiver's record shows as sealed, with how many marks
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Send all present bytes and end; idempotent."""
        self._draining.set()

    def leave(self) -> None:
        """Send all present bytes and end: the run may go on, and another process goes on with it."""
        self.finder.leave()
        self.drain()

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    def exited(self, how: Exit) -> None:
        """Record *how* the process that wrote the logs has ended; called before ``drain``."""
        self.finder.exited(how)

    def drain_early(self) -> None:
        """Drain because the run is ending, while its writers may go on; ``early`` then has the finder's state."""
        if not self._draining.is_set():
            self.early = ()
            self.drain()

    def reread(self) -> bool:
        """Read the certificates again, even if they seem unchanged, and log the result; returns False without any."""
        return self.link.channels.reread()

    async def run(self) -> Outcome:
        """Send until drained, and return the outcome. Errors of the receiver or the sources are in it, not raised."""
        error: FlarelogError | None = None
        try:
            for site in self.options.source.sites:
                site.demand()
        except NoConsent as refused:
            log.warning("%s", refused)
            self.finder.close()
            await self.link.close()
            return Outcome((), (), refused)
        try:
            async with asyncio.TaskGroup() as group:
                minding = (
                    *(self._watch(), self._heed(), self._consented(), self.unmatched.mind()),
                    self.healths.mind(self._telling),
                )
                beside = [group.create_task(work) for work in minding]
                learning = group.create_task(self._learn(group))
                if self.options.once:
                    self.drain()
                await self._draining.wait()
                if self.early is not None:
                    self.early = self.finder.state()  # before the last look: bytes in between count as later ones
                await self._consented(now=True)
                try:
                    limit = min(self.options.drain_limit or math.inf, FENCED_DRAIN if self._fenced else math.inf)
                    async with self._progress.awaited(limit):
                        await learning
                        self.brought()
                        await self._drain()
                except TimeoutError:
                    error = None if self._fenced else self._not_in_time()
                except NotFound as missing:
                    error = missing
                for task in (learning, *beside, *self._sending):
                    task.cancel()
        except* FlarelogError as ended:
            error = next(trouble for trouble in ended.exceptions if isinstance(trouble, FlarelogError))
        except* Exception as bugs:  # the other sidecars of this process must go on
            error = Mistake(f"flarelog failed, and sends nothing more to {self.options.receiver}", bugs)
        finally:
            unsent = {name: self._unsent_of(source) for name, source in self.finder.logs.items()}
            self.finder.close()
            self.compressing.close()
            await self.link.close()
        if error is not None:
            level = logging.WARNING if isinstance(error, NoConsent | NothingToSend) else logging.ERROR
            whose = f"run {shown(self.options.run)}: " if self.link.shared else ""
            log.log(level, "%s%s", whose, self.link.names(error), exc_info=traced(error))
            for stream in self._cut_short(unsent):
                self.bus.publish(Event.STREAM_ENDED, stream.run, stream=stream, text=str(error), ok=False)
        return Outcome(self._outcomes(unsent), tuple(self.finder.troubles), error, self._kept())

    def _cut_short(self, unsent: Iterable[str]) -> list[StreamId]:
        """The logs that did not end by themselves; *unsent*: the names of all found logs."""
        names = unsent if not self.link.connected else ()
        left = {name for name, one in self._logs.items() if not one.ended}.union(names)
        return [StreamId.of_file(self.options.run, self.options.site, name) for name in sorted(left)]

    def _kept(self) -> Completeness:
        """What the logs lack that have their receipts from an earlier sidecar, and were not opened."""
        return together(one.outcome().lacks for one in self._logs.values() if one.untouched)

    def _outcomes(self, unsent: dict[str, int]) -> tuple[StreamOutcome, ...]:
        streams = [one.outcome(unsent.get(name, 0)) for name, one in self._logs.items() if not one.untouched]
        if not self.link.connected:  # then no log was sent
            for name, size in unsent.items():
                stream = StreamId.of_file(self.options.run, self.options.site, name)
                lacks = Completeness(receipt=False)
                streams.append(StreamOutcome(stream, None, None, 0, 0, 0, lacks, None, size))
        return tuple(sorted(streams, key=lambda one: one.stream.log))

    def unsent(self) -> tuple[int, int]:
        """The numbers of bytes and of logs that are not acknowledged."""
        left = [one for one in self.finder.logs.values() if one.log not in self._logs or not self._logs[one.log].ended]
        return sum(map(self._unsent_of, left)), len(left)

    def why(self, log: str) -> str:
        """Why *log* is not complete at the receiver; empty: it is being sent, or was."""
        if (known := self._logs.get(log)) is not None:
            return known.why
        path = os.path.join(self.options.source.directory, log)
        if found := trouble_of(path, self.finder.troubles):
            return found
        if not self.link.connected:
            return self.link.trouble or f"{self.link.peer} has not answered yet"
        return "" if log in self.finder.logs else f"no log is at {legible(path)} yet"

    def _unsent_of(self, source: Source) -> int:
        known = self._logs.get(source.log)
        return source.unread() + (0 if known is None else max(0, source.end - known.acked))

    async def _drain(self) -> None:
        missing = self.finder.missing
        if missing and not self.options.once:
            what = "could never be read" if self._is_there() else "never appeared"
            raise NotFound(f"{missing} {what}; nothing was sent")
        while self.finder.missing:
            await asyncio.sleep(0.1)  # the watch loop polls for the directory
        await self.healths.looked(LOOKED_WITHIN)  # the last message of a log carries the report
        self._wake(self.finder.drain(time.monotonic()))
        self.brought()  # the look may have taken long
        group, self._group = self._group, None  # logs that appear from now on are not sent
        while self.finder.waiting:
            # The descriptors of ended logs are used for logs that could not be opened.
            for one in self._logs.values():
                one.let_go()
            self._wake(self.finder.drain(time.monotonic()), group)
            await asyncio.sleep(0.1)
        await asyncio.gather(*self._sending)
        if not (self._logs or self.options.again):
            await self.unmatched.end()

    def _not_in_time(self) -> FlarelogError:
        too_long = self._progress.too_long
        seconds = f"{(self.options.drain_limit if too_long else None) or self.options.drain_timeout:g} s"
        if missing := self.finder.missing:
            what = "could not be read" if self._is_there() else "did not appear"
            return NotFound(f"{missing} {what} within {seconds}")
        if not self.link.connected:
            return CannotConnect(f"no receiver answered at {self.link.peer} within {seconds}")
        waiting, left = self.finder.waiting, [one for one in self._logs.values() if not one.ended]
        count = len(left) + waiting
        parts = [f"the limit is {seconds}" if too_long else f"nothing was acknowledged for {seconds}"]
        parts += [one.standing for one in left[:NAMED]]
        if len(left) > NAMED:
            parts.append(f"and {len(left) - NAMED:,} more")
        if waiting:
            parts.append(f"{several(waiting, 'log')} could not be opened yet")
        what = f"{count} of {several(len(self._logs) + waiting, 'log')} {'was' if count == 1 else 'were'}"
        return TimedOut(f"{what} not sent completely: {'; '.join(parts)}; a restarted sidecar sends the rest")

    def _is_there(self) -> bool:
        """Whether the directory of the logs exists, readable or not."""
        return os.path.lexists(self.options.source.directory)

    # --- logs

    async def _watch(self) -> None:
        await self.finder.watch(self._wake)
        self.drain()  # the finder has ended: no more data will come

    def _wake(self, logs: set[str], group: asyncio.TaskGroup | None = None) -> float:
        """Wake *logs* to read their sources, and start to send new ones. Returns the seconds for which further bytes
        may be gathered.
        """
        group = group or self._group
        sources = self.finder.logs
        # Those that cannot be read come last: the receiver may not have room for all.
        for name in sorted(logs, key=lambda name: (name in sources and bool(sources[name].unreadable), name)):
            known, source = self._logs.get(name), sources.get(name)
            if known is None or known.untouched:  # a sealed log may have grown
                if group is None or source is None:
                    continue
                sealed = self._sealed.get(name) if self.options.again else None
                known = self._logs[name] = Log(self, source, sealed=sealed)
                self._sending.append(group.create_task(known.run()))
            known.changed()
        return self.link.gathers

    # --- the receiver

    async def _learn(self, group: asyncio.TaskGroup) -> None:
        """Read the receiver's record, and start to send."""
        streams = await self.link.first_record(self.finder.expect_no_record, self.finder.logs)
        self._sealed = {info.stream.path: len(info.marks) for info in streams if info.is_whole}
        self.finder.learn(streams, time.monotonic())
        # Another sidecar goes on until its logs are taken over. It may begin a file that has another log's name by now.
        taken = {info.stream.path for info in streams if info.state is not None and info.state.linked}
        self._wake(taken & self.finder.logs.keys(), group)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TAKEN_WITHIN):
                while not all(one.can_tell or one.ended for one in self._logs.values()):
                    await asyncio.sleep(TAKEN_LOOK)
        self._group = group
        self._wake(set(self.finder.logs))

    async def _heed(self) -> None:
        """While no stream is open, poll the receiver for the end of the run, which replies would report otherwise."""
        while self.options.heed:
            await asyncio.sleep(HEED_EVERY)
            if self._group is None or not all(one.ended for one in self._logs.values()):
                continue
            channel = self.link.channels.current()
            try:
                if (await calls.run_call(channel, "GetRun")(self.options.run, timeout=HEED_EVERY)).state in _OVER:
                    self.drain_early()
            except (grpc.RpcError, Malformed):
                self.link.channels.turn(channel, lost=True)

    async def _consented(self, *, now: bool = False) -> None:
        """Raise as ``Consents`` when a site withdraws its consent, after telling the receiver not to wait for logs.
        *now*: check once; otherwise wait for a withdrawal.
        """
        try:
            if now:
                self.consents.demand()
            else:
                await self.consents.mind()
        except FlarelogError:
            await self.link.leave()
            raise

    def _telling(self) -> Log | None:
        """A log that can carry a report now; None if there is none."""
        return next((one for one in self._logs.values() if one.can_tell), None)

    def health(self) -> News | None:
        """The report on the machine's health, if one is due."""
        return self.healths.take()

    # --- the interface for logs (see log.Site)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def brought(self) -> None:
        """Record progress, which extends the timeout of a drain."""
        self._progress.made()

    def ended(self, ended: Log) -> None:
        """Log and publish how *ended* has ended; if a newer sidecar has taken it over, drain all others."""
        error, stream, whose, loss = ended.error, ended.stream, self.link.whose, ended.outcome().lacks.loss
        text = "; ".join(filter(None, (f"sealed at offset {ended.acked}", loss))) if error is None else str(error)
        self._failed += error is not None
        self._fenced += isinstance(error, StreamFenced)
        if isinstance(error, GoesOn):
            info_each(log, "go on without this agent", stream, "%s%s %s", whose, stream, error, whose=whose)
        elif error is None:
            info_each(log, "are sealed", stream, "%s%s: %s", whose, stream, text, whose=whose)
        elif not isinstance(error, StreamFenced) or self._fenced == 1:
            log.error("%s%s: %s", whose, stream, error, exc_info=traced(error))
        self.brought()
        self.bus.publish(
            Event.STREAM_ENDED,
            stream.run,
            stream=stream,
            text=text,
            ok=(error is None or isinstance(error, GoesOn)) and not loss,
        )
        if self._fenced or self._failed == len(self._logs):
            self.drain()  # no log is left to send
