"""The sending process: one loop watches the files, one loop a log sends them, and all go over one link.

The receiver's record says where each log goes on. One log that fails does not hold the others, and none fails the run.
Where flarelog itself is wrong, that is said once, with a traceback, and the exit code tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from dataclasses import replace

import grpc

from flarelog.bus import Bus
from flarelog.errors import CannotConnect, FlarelogError, NoConsent, NotFound, StreamFenced, TimedOut
from flarelog.lifecycle import Event, RunState
from flarelog.model import StreamId
from flarelog.sender.consents import Consents
from flarelog.sender.link import Link
from flarelog.sender.log import Log
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Mistake, Outcome, StreamOutcome, traced
from flarelog.sender.progress import Progress
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.openers import sees_all, written
from flarelog.sources.files.sizes import sizes
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.watch import Change, best_watch
from flarelog.sources.files.writers import Writers
from flarelog.sources.zone import system_zone
from flarelog.wire import calls, codec
from flarelog.wire.packing import Compressing

log = logging.getLogger(__name__)

FENCED_DRAIN = 5.0  # seconds to send what only this sidecar may still have open, once a newer one has taken over
HEED_EVERY = 5.0  # seconds
ROOT_POLL = 0.05  # seconds, while there is no root: its first log may be rotated before the next look
LOOK_SHARE = 0.01  # of one core that looking at all files may take; what changes is reported without it

_OVER = (RunState.ENDING.value, RunState.ENDED.value)


class Sidecar:
    """Sends every log under a root to one receiver. ``run`` ends after ``drain``, when all receipts are there."""

    def __init__(self, options: SidecarOptions, bus: Bus | None = None) -> None:
        self.options = options
        self.bus = bus or Bus()
        self.link = Link(options)
        source = replace(options.source, zone=options.source.zone or system_zone())
        self.discovery = Discovery(source, best_watch(), openers=written if sees_all() else None)
        self.discovery.await_record(True)
        self.compressing = Compressing(
            options.compression, options.receiver, options.tls.server_name if options.tls is not None else ""
        )
        self.consents = Consents(options.source.sites)
        self.early: dict[str, tuple[int, int, int]] | None = None  # what the files were when it was told to drain
        self._checkpoint: Checkpoint | None = None
        if options.state:
            self._checkpoint = Checkpoint(options.state, options.run, options.site, options.receiver)
        self._progress = Progress(options.drain_timeout)
        self._logs: dict[str, Log] = {}
        self._sending: list[asyncio.Task[None]] = []
        self._group: asyncio.TaskGroup | None = None
        self._sealed: set[str] = set()  # logs that the receiver's record shows as sealed
        self._draining = asyncio.Event()
        self._mistakes: set[str] = set()  # flarelog's own, which are no log's

    def drain(self) -> None:
        """Send what is there and end; harmless when repeated."""
        self._draining.set()

    def drain_early(self) -> None:
        """Somebody says that the run is ending, whose writers may go on: ``early`` is then what the files were."""
        if not self._draining.is_set():
            self.early = {}
            self.drain()

    def reread(self) -> bool:
        """Read the certificates again though they seem unchanged, and say what came of it; False: there are none."""
        return self.link.channels.reread()

    async def run(self) -> Outcome:
        """Send until drained. Raises nothing for what the other end or the files do: the outcome tells."""
        error: FlarelogError | None = None
        try:
            for site in self.options.source.sites:
                site.demand()
        except NoConsent as refused:
            log.warning("%s", refused)
            self.discovery.close()
            await self.link.close()
            return Outcome((), (), refused)
        if self._checkpoint is not None:
            self.discovery.remembered.update(self._checkpoint.load())
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(work) for work in (self.watch(), self._heed(), self.consents.mind())]
                if self.options.ranks:
                    beside.append(group.create_task(self._ranks()))
                learning = group.create_task(self._learn(group))
                if self.options.once:
                    self.drain()
                await self._draining.wait()
                if self.early is not None:
                    self.early = sizes(self.options.source)  # before the last look: what comes between counts as more
                self.consents.demand()
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
        except* Exception as bugs:  # other sidecars of this process go on
            error = Mistake(f"flarelog failed, and nothing more is sent to {self.options.receiver}", bugs)
        finally:
            unsent = {name: self._unsent_of(tail) for name, tail in self.discovery.tails.items()}
            self.discovery.close()
            self.compressing.close()
            await self.link.close()
        if error is not None:
            level = logging.WARNING if isinstance(error, NoConsent) else logging.ERROR
            log.log(level, "%s", error, exc_info=traced(error))
        return Outcome(self._outcomes(unsent), (*self.discovery.troubles.values(), *self._mistakes), error)

    def _outcomes(self, unsent: dict[str, int]) -> tuple[StreamOutcome, ...]:
        streams = [one.outcome(unsent.get(name, 0)) for name, one in self._logs.items() if not one.untouched]
        if not self.link.connected:  # and so nothing was sent of any
            names = {name: StreamId(self.options.run, self.options.site, name) for name in unsent}
            streams += [StreamOutcome(names[name], None, None, 0, 0, 0, 0, None, size) for name, size in unsent.items()]
        return tuple(sorted(streams, key=lambda one: one.stream.log))

    def unsent(self) -> tuple[int, int]:
        """(bytes, logs) that are not acknowledged."""
        tails = [t for t in self.discovery.tails.values() if t.log not in self._logs or not self._logs[t.log].ended]
        return sum(map(self._unsent_of, tails)), len(tails)

    def _unsent_of(self, tail: Tail) -> int:
        known = self._logs.get(tail.log)
        return tail.unread() + (0 if known is None else max(0, tail.end - known.acked))

    async def _drain(self) -> None:
        never = self.discovery.root_missing and not self.discovery.tails
        if never and not self.options.once:
            raise NotFound(f"the root {self.options.source.root} never appeared; nothing was sent")
        while self.discovery.root_missing and not self.discovery.tails:
            await asyncio.sleep(0.1)  # the watching loop looks for it, at its own pace
        self._wake(self.discovery.drain(time.monotonic()))
        self.brought()  # however long that look took
        group, self._group = self._group, None  # what appears from now on is not owed
        while self.discovery.waiting:
            # The descriptors of logs that are sent to their end serve those that had none.
            for one in self._logs.values():
                one.let_go()
            self._wake(self.discovery.meet_waiting(time.monotonic()), group)
            await asyncio.sleep(0.1)
        await asyncio.gather(*self._sending)

    def _not_in_time(self) -> FlarelogError:
        too_long = self._progress.too_long
        seconds = f"{(self.options.drain_limit if too_long else None) or self.options.drain_timeout:g} s"
        if self.discovery.root_missing:
            return NotFound(f"the root {self.options.source.root} did not appear within {seconds}")
        if not self.link.connected:
            return CannotConnect(f"no receiver answered at {self.options.receiver} within {seconds}")
        waiting = len(self.discovery.waiting)
        left = sum(not one.ended for one in self._logs.values()) + waiting
        why = f"they may take {seconds} (--drain-limit)" if too_long else f"nothing was acknowledged for {seconds}"
        return TimedOut(
            f"{left} of {len(self._logs) + waiting} logs were not sent to their end: {why}; a sidecar that is"
            " started again goes on from there"
        )

    # --- files

    async def watch(self) -> None:
        """Look for changes, and wake the logs in which there are some."""
        discovery, watch = self.discovery, self.discovery.watch
        found: list[Change] | None = None
        looked, every = -math.inf, watch.slow_poll
        while True:
            now = time.monotonic()
            try:
                touched = discovery.apply(found, now) if found else set()
                if found is None or now - looked >= every:
                    used = time.thread_time()
                    touched |= discovery.look(now)
                    looked, every = now, max(watch.slow_poll, (time.thread_time() - used) / LOOK_SHARE)
                    if discovery.root_missing:
                        every = ROOT_POLL
                    elif discovery.held_up:
                        every = watch.slow_poll
                    if self._checkpoint is not None:
                        self._checkpoint.save(discovery.starts())
            except FlarelogError:
                raise
            except Exception as bug:  # what is being sent goes on, and the next look may do better
                self._mistaken("the files could not be looked at", bug)
                touched, looked = set(), now
            self._wake(touched)
            found = await watch.changes(max(0.0, looked + every - time.monotonic()))

    def _wake(self, logs: set[str], group: asyncio.TaskGroup | None = None) -> None:
        """Let *logs* look at their files; one that is new begins to be sent."""
        group = group or self._group
        for name in sorted(logs):
            known = self._logs.get(name)
            if known is None:
                if group is None or name not in self.discovery.tails:
                    continue
                sealed = self.options.again and name in self._sealed
                known = self._logs[name] = Log(self, self.discovery.tails[name], sealed=sealed)
                self._sending.append(group.create_task(known.run()))
            known.wake.set()

    def _mistaken(self, what: str, bug: Exception) -> None:
        """Say once what flarelog is wrong about, if it is no single log; the exit code tells."""
        sentence = str(Mistake(what, bug))
        if sentence not in self._mistakes:
            self._mistakes.add(sentence)
            log.error("%s; what is being sent goes on", sentence, exc_info=bug)

    async def _ranks(self) -> None:
        try:
            await Writers(self.discovery, self._wake).run()
        except Exception as bug:
            self._mistaken("nobody looks any more which ranks write the logs", bug)

    # --- the receiver

    async def _learn(self, group: asyncio.TaskGroup) -> None:
        """Read the receiver's record, and begin to send."""
        streams = await self.link.record(lambda: self.discovery.await_record(False))
        self._sealed = {info.stream.log for info in streams if info.sealed}
        self.discovery.learn(streams, time.monotonic())
        self._group = group
        self._wake(set(self.discovery.tails))

    async def _heed(self) -> None:
        """While no stream is open whose replies would tell, ask now and then whether the run is ending."""
        while self.options.heed:
            await asyncio.sleep(HEED_EVERY)
            if self._group is None or not all(one.ended for one in self._logs.values()):
                continue
            with contextlib.suppress(grpc.RpcError, codec.Malformed):
                ask = calls.run_call(self.link.channels.current(), "GetRun")
                if (await ask(self.options.run, timeout=HEED_EVERY)).state in _OVER:
                    self.drain_early()

    # --- what logs tell

    def brought(self) -> None:
        """Something was acknowledged, or found out: whoever waits for the end is to wait on."""
        self._progress.made()

    @property
    def _fenced(self) -> bool:
        """Whether a newer sidecar has the site's logs."""
        return any(isinstance(one.error, StreamFenced) for one in self._logs.values())

    def ended(self, ended: Log) -> None:
        """Say how *ended* came to its end; a newer sidecar is said once, and is the end of all others as well."""
        error, stream = ended.error, ended.stream
        fenced = sum(isinstance(one.error, StreamFenced) for one in self._logs.values())
        if error is None:
            log.info("%s: sealed at offset %d", stream, ended.acked)
        elif not isinstance(error, StreamFenced) or fenced == 1:
            log.error("%s: %s", stream, error, exc_info=traced(error))
        self.brought()
        text = str(error) if error else f"sealed at offset {ended.acked}"
        self.bus.publish(Event.STREAM_ENDED, stream.run, stream=stream, text=text, ok=error is None)
        if fenced or all(one.error for one in self._logs.values()):
            self.drain()  # nothing is left that this sidecar could be wanted for
