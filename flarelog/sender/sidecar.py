"""The sending process: sources and delivery over Push.

One loop watches the files, one loop a log sends them, all over one call, and the receiver's record says where each goes
on. A lost connection is not an answer: it is tried again for as long as the sidecar is wanted. One log that fails does
not hold the others, and none fails the run. So it is where flarelog itself is wrong about one: that is said once, with
a traceback, and the exit code tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import random
import time
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import grpc

from flarelog import errors
from flarelog.bus import Bus
from flarelog.delivery.producer import DeliveryOptions, Producer, State
from flarelog.errors import CannotConnect, FlarelogError, InvalidOption, NoConsent, NotFound, StreamFenced
from flarelog.lifecycle import Event, RunState
from flarelog.model import Chunk, Code, Gap, Generation, News, Open, Receipt, Reply, StreamId, StreamInfo
from flarelog.names import parse_address, run_name, site_name
from flarelog.security.tls import Follower, Tls, why
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.openers import sees_all, written
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.sizes import sizes
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.watch import Change, best_watch
from flarelog.sources.files.writers import Writers
from flarelog.version import __version__
from flarelog.wire import codec as wire
from flarelog.wire import listing
from flarelog.wire.packing import Compressing, Compression, Packing, check
from flarelog.wire.uplink import ENDED, HEARTBEAT, REPLY_TIMEOUT, Gone, Stream, Uplink

log = logging.getLogger(__name__)

DRAIN_TIMEOUT = 25.0  # seconds; a little less than what Kubernetes grants after SIGTERM if nothing moves
LONGEST_PACE = 4.0  # seconds, whatever a receiver asks for
LOOK_UP = 0.2  # seconds of gathering after which to look whether there is a reason to send at once
GATHERED = 64 << 10  # bytes that wait for no more, whatever pace the receiver asks for
SAY_EVERY = 30.0  # seconds between two log lines about the same trouble
BUSY = 1.0  # seconds by which a busy loop may be late before more patience is due
FENCED_DRAIN = 5.0  # seconds to send what only this sidecar may still have open, once a newer one has taken over
HEED_EVERY = 5.0  # seconds
NEWS_EVERY = 2.0  # seconds between two words of a log on how far its source is ahead
ROOT_POLL = 0.05  # seconds, while there is no root: its first log may be rotated before the next look
URGENT_POLL = 0.2  # seconds, while a rotated file holds up its successor
LOOK_AGAIN = 15.0  # seconds, while time alone may bring a log on: nobody can tell whether a rotated file has a writer
MOST_MOVES = 16  # connections on the way to the process that has the site that are made without a pause
MOVES_FORGOTTEN = 60.0  # seconds
CONSENT_EVERY = 1.0  # seconds between two looks at the site's policy while nothing is sent
LOOK_SHARE = 0.01  # of one core that looking at all files may take; what changes is reported without it

_OVER = (RunState.ENDING.value, RunState.ENDED.value)


@dataclass(frozen=True, slots=True)
class SidecarOptions:
    """What is sent where. Raises InvalidName and InvalidOption."""

    receiver: str  # HOST:PORT
    run: str
    site: str
    source: SourceOptions
    delivery: DeliveryOptions = field(default_factory=DeliveryOptions)
    state: str | None = None  # directory of the checkpoint; None keeps none
    once: bool = False  # send what is there, wait for the receipts, end
    heed: bool = True  # drain when the receiver says that the run is ending
    again: bool = False  # open no stream that is sealed and whose files hold nothing more
    drain_timeout: float = DRAIN_TIMEOUT  # seconds for which a drain may go on though nothing is acknowledged
    drain_limit: float | None = None  # seconds that a drain may take whatever is acknowledged; None: any
    heartbeat: float = HEARTBEAT  # seconds
    tls: Tls | None = None  # what the receiver is believed by, and who this is
    ranks: bool = True  # look which ranks the processes have that write the logs
    compression: Compression = "auto"  # of what is sent; auto: not on loopback, nor where it is faster without

    def __post_init__(self) -> None:
        run_name(self.run)
        site_name(self.site)
        for name in ("drain_timeout", "drain_limit", "heartbeat"):
            bound = getattr(self, name)
            if bound is not None and not 0 < bound < math.inf:
                raise InvalidOption(f"{name} must be a positive number of seconds, not {bound:g}")
        if self.tls is not None:
            self.tls.whole()
        check(self.compression)
        if parse_address(self.receiver)[1] == 0:
            raise InvalidOption(f"{self.receiver!r} has no port to connect to; write the one that the receiver named")


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """How one log ended."""

    stream: StreamId
    committed: int | None  # None: no receiver has said how much it holds
    receipt: Receipt | None
    misses: int
    reconnects: int
    generations: int
    gaps: int
    error: FlarelogError | None
    unsent: int = 0  # bytes that its files hold, and that the receiver has not acknowledged


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a sidecar ended; ``exit_code`` is a command's."""

    streams: tuple[StreamOutcome, ...]
    troubles: tuple[str, ...]  # a sentence for each file that could not be sent
    error: FlarelogError | None = None  # why the whole ended early

    @property
    def fenced(self) -> StreamFenced | None:
        """Why this sidecar must not be started again."""
        return next((s.error for s in self.streams if isinstance(s.error, StreamFenced)), None)

    def then(self, later: Outcome) -> Outcome:
        """This outcome and that of a *later* look at the same logs."""
        streams = {one.stream: one for one in (*self.streams, *later.streams)}
        return Outcome(tuple(streams.values()), self.troubles or later.troubles, later.error)

    @property
    def exit_code(self) -> int:
        codes = [stream.error.exit_code for stream in self.streams if stream.error is not None]
        if self.error is not None:
            codes.append(self.error.exit_code)
        if errors.NOT_ALLOWED in codes:  # whatever else happened: it must not be started again
            return errors.NOT_ALLOWED
        if self.troubles:
            codes.append(errors.FAILED)
        if not codes and any(stream.gaps for stream in self.streams):
            codes.append(errors.GAPS)
        return codes[0] if codes else errors.OK


class Sidecar:
    """Sends every log under a root to one receiver. ``run`` ends after ``drain``, when all receipts are there."""

    def __init__(self, options: SidecarOptions, bus: Bus | None = None) -> None:
        self.options = options
        self.bus = bus or Bus()
        self.producer_id = os.urandom(16)
        self._files: tuple[bytes, ...] | None = None  # the certificates that the channel has
        self.channel = self._connect()
        self._channels = Follower(options.tls, self._connect) if options.tls is not None else None
        self._old_channels: list[grpc.aio.Channel] = []  # with the certificates of before: their calls go on
        self._closing: set[asyncio.Task[None]] = set()  # of them
        self._uplink: tuple[grpc.aio.Channel, Uplink] | None = None
        self.discovery = Discovery(options.source, best_watch(), openers=written if sees_all() else None)
        self.discovery.await_record(True)
        self._checkpoint: Checkpoint | None = None
        if options.state:
            self._checkpoint = Checkpoint(options.state, options.run, options.site, options.receiver)
        self._writers = Writers(self.discovery, self._wake)
        name = options.tls.server_name if options.tls is not None else ""
        self.compressing = Compressing(options.compression, options.receiver, name)
        self._deliveries: dict[str, _Delivery] = {}
        self._sending: list[asyncio.Task[None]] = []
        self._group: asyncio.TaskGroup | None = None
        self._connected = False  # has the receiver ever answered
        self.epoch = 0  # the latest that the receiver granted
        self._fenced = False
        self._moves, self._moved_at = 0, -math.inf
        self._brought_at = -math.inf  # when something was acknowledged last
        self._too_long = False  # a drain came to its limit
        self._answered = asyncio.Event()  # a new one each time the receiver answers
        self._draining = asyncio.Event()
        self.early: dict[str, tuple[int, int, int]] | None = None  # what the files were when it was told to drain
        self.sealed: set[str] = set()  # logs that the receiver's record shows as sealed
        self._said: dict[str, float] = {}
        self._mistakes: set[str] = set()  # flarelog's own, which are no log's
        self._sites = list(options.source.sites)
        self._refused = asyncio.Event()  # the site has taken its consent back

    def drain(self) -> None:
        """Send what is there and end; harmless when repeated."""
        self._draining.set()

    def drain_early(self) -> None:
        """Somebody says that the run is ending, whose writers may go on: ``early`` is then what the files were."""
        if not self._draining.is_set():
            self.early = {}
            self.drain()

    async def run(self) -> Outcome:
        """Send until drained. Raises nothing for what the other end or the files do: the outcome tells."""
        error: FlarelogError | None = None
        try:
            for site in self.options.source.sites:
                site.demand()
        except NoConsent as refused:
            log.warning("%s", refused)
            self.discovery.close()
            await self.channel.close()
            return Outcome((), (), refused)
        if self._checkpoint is not None:
            self.discovery.remembered.update(self._checkpoint.load())
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self.watch())
                learning = group.create_task(self._learn(group))
                heeding = group.create_task(self._heed())
                minding = group.create_task(self._mind())
                asking = group.create_task(self._ranks() if self.options.ranks else asyncio.sleep(0))
                if self.options.once:
                    self.drain()
                await self._draining.wait()
                if self.early is not None:
                    self.early = sizes(self.options.source)  # before the last look: what comes between counts as more
                self._demand()
                try:
                    async with self._while_it_moves():
                        await learning
                        self.brought()
                        await self._drain()
                except TimeoutError:
                    error = None if self._fenced else self._not_in_time()
                except NotFound as missing:
                    error = missing
                for task in (watching, learning, heeding, minding, asking, *self._sending):
                    task.cancel()
        except* FlarelogError as ended:
            error = next(trouble for trouble in ended.exceptions if isinstance(trouble, FlarelogError))
        except* Exception as bugs:  # other sidecars of this process go on
            error = _Mistake(f"flarelog failed, and nothing more is sent to {self.options.receiver}: {_in_words(bugs)}")
            error.__cause__ = _first(bugs)
        finally:
            unsent = {name: self._unsent_of(tail) for name, tail in self.discovery.tails.items()}
            self.discovery.close()
            self.compressing.close()
            if self._uplink is not None:
                self._uplink[1].close()
                self._uplink = None  # a call that something still knows keeps the connection
            for closing in self._closing:
                closing.cancel()
            for channel in (*self._old_channels, self.channel):
                await channel.close()
        if error is not None:
            level = logging.WARNING if isinstance(error, NoConsent) else logging.ERROR
            log.log(level, "%s", error, exc_info=_cause(error))
        streams = [one.outcome(unsent.get(name, 0)) for name, one in self._deliveries.items() if not one.untouched]
        if not self._connected:  # and so nothing was sent of any
            names = {name: StreamId(self.options.run, self.options.site, name) for name in unsent}
            streams += [StreamOutcome(names[name], None, None, 0, 0, 0, 0, None, size) for name, size in unsent.items()]
        streams.sort(key=lambda one: one.stream.log)
        return Outcome(tuple(streams), (*self.discovery.troubles.values(), *self._mistakes), error)

    def unsent(self) -> tuple[int, int]:
        """(bytes, logs) that are not acknowledged."""
        left = [
            self._unsent_of(tail)
            for tail in self.discovery.tails.values()
            if tail.log not in self._deliveries or not self._deliveries[tail.log].ended
        ]
        return sum(left), len(left)

    def _unsent_of(self, tail: Tail) -> int:
        delivery = self._deliveries.get(tail.log)
        return tail.unread() + (0 if delivery is None else max(0, tail.end - delivery.acked))

    @contextlib.asynccontextmanager
    async def _while_it_moves(self) -> AsyncIterator[None]:
        """Raises TimeoutError, within it, when nothing has moved for drain_timeout seconds, or drain_limit is over."""
        options, loop = self.options, asyncio.get_running_loop()
        limits = [options.drain_limit or math.inf, FENCED_DRAIN if self._fenced else math.inf]
        latest = loop.time() + min(limits)
        timer: asyncio.Handle
        self.brought()

        def look(due: float) -> None:
            nonlocal timer
            now = loop.time()
            # What was heard while the loop was busy is not taken in yet.
            next_ = max(min(self._brought_at + options.drain_timeout, latest), now + BUSY if now > due + BUSY else 0)
            if now < next_:
                timer = loop.call_at(next_, look, next_)
            else:
                self._too_long = now >= latest
                bound.reschedule(now)

        timer = loop.call_soon(look, loop.time())
        try:
            async with asyncio.timeout(None) as bound:
                yield
        finally:
            timer.cancel()

    def brought(self) -> None:
        """Something was acknowledged, or found out: whoever waits for the end is to wait on."""
        self._brought_at = asyncio.get_running_loop().time()

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
            for delivery in self._deliveries.values():
                delivery.let_go()
            self._wake(self.discovery.meet_waiting(time.monotonic()), group)
            await asyncio.sleep(0.1)
        await asyncio.gather(*self._sending)

    def _not_in_time(self) -> FlarelogError:
        seconds = f"{(self.options.drain_limit if self._too_long else None) or self.options.drain_timeout:g} s"
        if self.discovery.root_missing:
            return NotFound(f"the root {self.options.source.root} did not appear within {seconds}")
        if not self._connected:
            return CannotConnect(f"no receiver answered at {self.options.receiver} within {seconds}")
        waiting = len(self.discovery.waiting)
        left = sum(not delivery.ended for delivery in self._deliveries.values()) + waiting
        why = (
            f"they may take {seconds} (--drain-limit)" if self._too_long else f"nothing was acknowledged for {seconds}"
        )
        return errors.TimedOut(
            f"{left} of {len(self._deliveries) + waiting} logs were not sent to their end: {why}; a sidecar that is"
            " started again goes on from there"
        )

    # --- files

    async def watch(self) -> None:
        """Look for changes, and wake the logs in which there are some."""
        discovery, watch = self.discovery, self.discovery.watch
        found: list[Change] | None = None
        looked, every = float("-inf"), watch.slow_poll
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

    def _mistaken(self, what: str, bug: Exception) -> None:
        """Say once what flarelog is wrong about, if it is no single log; the exit code tells."""
        sentence = f"{what}: {_in_words(bug)}"
        if sentence not in self._mistakes:
            self._mistakes.add(sentence)
            log.error("%s; what is being sent goes on", sentence, exc_info=bug)

    async def _ranks(self) -> None:
        try:
            await self._writers.run()
        except Exception as bug:
            self._mistaken("nobody looks any more which ranks write the logs", bug)

    async def _learn(self, group: asyncio.TaskGroup) -> None:
        """Read the receiver's record, and begin to send."""
        streams = await self.record()
        self.sealed = {info.stream.log for info in streams if info.sealed}
        self.discovery.learn(streams, time.monotonic())
        self._group = group
        self._wake(set(self.discovery.tails))

    async def _heed(self) -> None:
        """While no stream is open whose replies would tell, ask now and then whether the run is ending."""
        while self.options.heed:
            await asyncio.sleep(HEED_EVERY)
            if self._group is None or not all(delivery.ended for delivery in self._deliveries.values()):
                continue
            with contextlib.suppress(grpc.RpcError, wire.Malformed):
                about = await wire.run_call(self.connection(), "GetRun")(self.options.run, timeout=HEED_EVERY)
                if about.state in _OVER:
                    self.drain_early()

    async def _mind(self) -> None:
        """End all of it, and drain nothing, when the site takes its consent back."""
        while self._sites:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONSENT_EVERY):
                    await self._refused.wait()
            self._demand()

    async def consents(self) -> None:
        """Return if the site's files say what they said; else never: this sidecar is about to be ended."""
        try:
            self._demand()
        except FlarelogError:
            self._refused.set()
            await asyncio.Event().wait()

    def _demand(self) -> None:
        """Raises NoConsent, InvalidOption, ConsentChanged."""
        self._sites = [site.demand_still() for site in self._sites]

    def _wake(self, logs: set[str], group: asyncio.TaskGroup | None = None) -> None:
        """Let the deliveries of *logs* look at their files; a log that is new gets its delivery."""
        group = group or self._group
        for name in sorted(logs):
            delivery = self._deliveries.get(name)
            if delivery is None:
                if group is None or name not in self.discovery.tails:
                    continue
                delivery = self._deliveries[name] = _Delivery(self, self.discovery.tails[name])
                self._sending.append(group.create_task(delivery.run()))
            delivery.wake.set()

    # --- what all deliveries share

    async def record(self) -> list[StreamInfo]:
        """What the receiver holds of this site in this run. Tries until there is an answer."""
        failures = 0
        while True:
            try:
                found = await listing.streams(
                    self.connection(), self.options.run, self.options.site, silence=REPLY_TIMEOUT
                )
            except grpc.RpcError as error:
                trouble = wire.error_of(error, self.options.receiver)
                if not trouble.retry_safe:
                    raise trouble from error
            except TimeoutError:
                trouble = CannotConnect(f"{self.options.receiver} did not answer for {REPLY_TIMEOUT:g} s")
            except ENDED:
                trouble = CannotConnect(f"{self.options.receiver} ended the call")
            else:
                if not self._connected:
                    self._connected = True
                    self.brought()
                return found
            self.discovery.await_record(False)
            await self.pause(trouble, failures)
            failures += 1

    async def pause(self, trouble: Exception, failures: int) -> None:
        """Wait before the next attempt: *trouble* ended this one, and there were so many *failures* before it.

        A receiver that answers one log again is there for the others as well: they need not wait any longer.
        """
        delivery = self.options.delivery
        answered = self._answered  # an answer that comes before it is waited for counts as well
        await self._say(trouble)
        # Chance keeps sidecars apart that lost one receiver together.
        apart = random.uniform(0, delivery.first_delay)  # noqa: S311  nobody gains by guessing it
        seconds = delivery.delay(failures) + apart
        if not isinstance(trouble, _Lost):
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(delivery.first_delay)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - delivery.first_delay):
                await answered.wait()

    def answers(self) -> None:
        """The receiver has answered an Open: let all those try again that had lost their connection."""
        self._answered.set()
        self._answered = asyncio.Event()

    async def _say(self, trouble: Exception) -> None:
        """One line now and then about what keeps being tried; a miss is none of anybody's business."""
        if isinstance(trouble, _Miss):
            log.debug("%s", trouble)
            return
        sentence = str(trouble)
        now = time.monotonic()
        if now - self._said.get(sentence, float("-inf")) >= SAY_EVERY:
            self._said = {said: when for said, when in self._said.items() if now - when < SAY_EVERY} | {sentence: now}
            if isinstance(trouble, _Lost | CannotConnect):
                receiver = self.options.receiver
                reason = ""
                with contextlib.suppress(RuntimeError):  # a program that is ending gives no thread any more
                    reason = await asyncio.to_thread(why, receiver, self.options.tls)
                sentence = f"no connection to {receiver}: {reason}" if reason else sentence
            log.warning("%s; trying again", sentence)

    def connection(self) -> grpc.aio.Channel:
        """The channel for a new call: with other certificates than before, if the files have changed."""
        if self._channels is not None:
            self._use(self._channels.look())
        return self.channel

    def uplink(self) -> Uplink:
        """The call that carries the logs: another one when it has ended, or the certificates have changed."""
        channel = self.connection()
        if self._uplink is None or self._uplink[0] is not channel or self._uplink[1].closing:
            self._uplink = channel, Uplink(wire.push(channel)(), self.options.heartbeat)
        return self._uplink[1]

    @property
    def moves(self) -> int:
        """Connections that led lately to another process of the receiver than to the one that has this site."""
        return self._moves if time.monotonic() - self._moved_at < MOVES_FORGOTTEN else 0

    def move(self, uplink: Uplink) -> None:
        """Another process of the receiver has the site than the one of *uplink*: let the next call go over another
        connection, whose number decides which process gets it.
        """
        if self._uplink is None or self._uplink[1] is not uplink:
            return  # another log has seen to it
        self._uplink = None
        self._moves, self._moved_at = self.moves + 1, time.monotonic()
        before, self._files = self.channel, None
        with contextlib.suppress(InvalidOption):  # the certificates are being changed
            self._use(self._connect())
            self._channels = Follower(self.options.tls, self._connect) if self.options.tls is not None else None
            closing = asyncio.create_task(self._close(before))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close(self, channel: grpc.aio.Channel) -> None:
        """Close one of the old channels when its calls have ended."""
        await channel.close(REPLY_TIMEOUT)
        self._old_channels.remove(channel)

    def reread(self) -> bool:
        """Read the certificates again though they seem unchanged, and say what came of it; False: there are none."""
        if self._channels is not None:
            self._use(self._channels.look(anyway=True))
        return self._channels is not None

    def _connect(self) -> grpc.aio.Channel:
        """A channel with what the files hold; the present one, if that is what it has. Raises InvalidOption."""
        tls = self.options.tls
        if tls is not None:
            tls.check("client")
        files = tls.contents() if tls is not None else ()
        if files == self._files:
            return self.channel
        channel = wire.channel(self.options.receiver, tls)
        self._files = files
        return channel

    def _use(self, channel: grpc.aio.Channel) -> None:
        if channel is not self.channel:
            self._old_channels.append(self.channel)
            self.channel = channel

    def failed(self, delivery: _Delivery, error: FlarelogError) -> None:
        """Say why *delivery* ended; a newer sidecar is said once, and is the end of all others as well."""
        if not isinstance(error, StreamFenced):
            log.error("%s: %s", delivery.stream, error, exc_info=_cause(error))
        elif not self._fenced:
            self._fenced = True
            log.error("%s: %s", delivery.stream, error)

    def ended(self) -> None:
        if self._fenced or all(other.error for other in self._deliveries.values()):
            self.drain()  # nothing is left that this sidecar could be wanted for


class _Mistake(FlarelogError):
    """Flarelog itself was wrong about one log; the cause says how."""


def _cause(error: FlarelogError) -> BaseException | None:
    """What a traceback is to be shown of."""
    return error.__cause__ if isinstance(error, _Mistake) else None


def _first(bug: BaseException) -> BaseException:
    """The first of several, which led to the others."""
    return _first(bug.exceptions[0]) if isinstance(bug, BaseExceptionGroup) else bug


def _in_words(bug: BaseException) -> str:
    """What a traceback would end with."""
    return traceback.format_exception_only(_first(bug))[-1].strip()


class _Again(Exception):
    """This connection has come to its end, and another may do better."""


class _Lost(_Again):
    """The connection was lost, or there was none."""


class _Elsewhere(_Again):
    """Another process of the receiver has the site."""


class _Miss(_Again):
    """The receiver of the run is not registered yet."""


class _Wake:
    """An asyncio.Event for one who waits, without the deque of others: it is kept of each of very many logs."""

    __slots__ = ("_set", "_timer", "_waiting")

    def __init__(self) -> None:
        self._set = False
        self._waiting: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self) -> None:
        self._set = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> asyncio.Future[None]:
        """To be awaited until it is set; it sets itself after *timeout* seconds."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        if self._set:
            waiting.set_result(None)
        elif timeout is not None:
            self._timer = loop.call_later(timeout, self.set)
        return waiting


class _Delivery:
    """One log on its way."""

    def __init__(self, sidecar: Sidecar, tail: Tail) -> None:
        options = sidecar.options
        self.stream = StreamId(options.run, options.site, tail.log)
        self.wake = _Wake()
        self.ended = False
        self.untouched = False  # it was sealed, and there is nothing more
        self.error: FlarelogError | None = None
        self._sidecar = sidecar
        self._tail = tail
        self._producer = Producer(options.delivery)
        self._packing = Packing(sidecar.compressing)
        self._producer.acked, self._producer.marks_acked = tail.end, len(tail.marks)
        self._receipt: Receipt | None = None
        self._moved = 0  # connections that led to another process of the receiver
        self._most = (
            -1,
            -1,
        )  # bytes and marks that were acknowledged: what a receiver loses again moves nothing
        self._opened = math.inf  # when the present connection was answered
        self._pace, self._sent_at = 0.0, -math.inf  # seconds between two small chunks, and when the last one was sent
        self._told, self._news_at = 0, math.inf  # the end that was told last, and when it may be told again

    @property
    def acked(self) -> int:
        return self._producer.acked

    def let_go(self) -> None:
        """Give the descriptors back if nothing more will be read."""
        if self.ended:
            self._tail.lay_down()

    def outcome(self, unsent: int = 0) -> StreamOutcome:
        producer, marks = self._producer, self._tail.marks
        return StreamOutcome(
            self.stream,
            producer.acked,
            self._receipt if producer.state is State.SEALED else None,
            producer.all_misses,
            max(0, producer.opens - 1 - producer.all_misses - self._moved),
            sum(isinstance(mark, Generation) for mark in marks),
            sum(isinstance(mark, Gap) for mark in marks),
            self.error,
            unsent,
        )

    async def run(self) -> None:
        """Deliver until the stream is sealed or cannot go on."""
        if self._is_whole():
            self.ended = self.untouched = True
            return
        try:
            begin, failures = -math.inf, 0
            while self._producer.state is not State.SEALED:
                # A receiver that takes a little at each Open, and ends the call, is not to be called without a pause.
                pause = begin + self._sidecar.options.delivery.first_delay - time.monotonic()
                if pause > 0:
                    await asyncio.sleep(pause)
                begin = time.monotonic()
                try:
                    if await self._session():
                        begin = -math.inf
                    else:
                        failures = 0  # it brought something
                except _Again as trouble:
                    await self._sidecar.pause(trouble, failures)
                    failures += 1
        except FlarelogError as error:
            self.error = error
        except Exception as bug:
            self.error = _Mistake(f"flarelog failed at it, and the other logs go on: {_in_words(bug)}")
            self.error.__cause__ = bug
        if self.error is not None:
            self._sidecar.failed(self, self.error)
        else:
            log.info("%s: sealed at offset %d", self.stream, self._producer.acked)
        self.ended = True
        self._sidecar.brought()
        text = str(self.error) if self.error else f"sealed at offset {self._producer.acked}"
        self._sidecar.bus.publish(
            Event.STREAM_ENDED, self.stream.run, stream=self.stream, text=text, ok=self.error is None
        )
        self._sidecar.ended()

    def _is_whole(self) -> bool:
        """Whether the stream need not be opened again: it is sealed, and its files hold nothing more."""
        sidecar, tail = self._sidecar, self._tail
        if not (sidecar.options.again and tail.log in sidecar.sealed):
            return False
        try:
            return tail.next(tail.end, len(tail.marks), 0, time.monotonic()) is None and not tail.unread()
        except OSError:
            return False  # to be said where it is read

    async def _session(self) -> bool:
        """One connection. Returns if it brought the stream on, or led to another process, and whether the next one is
        to be made at once; else raises _Again.
        """
        producer = self._producer
        before = (producer.acked, producer.marks_acked)
        self._opened = math.inf
        producer.opened()
        uplink = self._sidecar.uplink()
        stream = uplink.stream(self._receive, self._beat, self.wake.set)
        try:
            await self._open(stream)
            await self._send(stream)
        except grpc.RpcError as error:
            trouble = wire.error_of(error, self._sidecar.options.receiver)
            if not trouble.retry_safe:
                raise trouble from error
            self._again(before, _Lost(str(trouble)))
        except Gone as gone:
            self._again(before, _Lost(f"{self._sidecar.options.receiver} {gone}"))
        except OSError as error:
            self._again(before, _Again(f"{self.stream}: its source cannot be read: {error.strerror}"))
        except _Elsewhere:
            stream.error = None  # it knows, by way of its traceback, the call, which keeps the connection
            self._sidecar.move(uplink)
            self._moved += 1
            return self._sidecar.moves <= MOST_MOVES
        except _Again as again:
            self._again(before, again)
        finally:
            stream.leave()
        return False

    def _again(self, before: tuple[int, int], why: _Again) -> None:
        brought_on = (self._producer.acked, self._producer.marks_acked) > before
        # One that had nothing to send was as good as any, if it lasted.
        if not brought_on and time.monotonic() - self._opened < self._sidecar.options.delivery.max_delay:
            raise why

    async def _open(self, stream: Stream) -> None:
        sidecar, producer = self._sidecar, self._producer
        epoch = max(producer.epoch, sidecar.epoch)
        agent = f"flarelog/{__version__}"
        backwards = producer.went_backwards
        stream.put(Open(self.stream, sidecar.producer_id, epoch, wire.MAJOR, agent, self._news(), 1 + sidecar.moves))
        while not stream.answered:
            self.wake.clear()
            stream.check()
            await self.wake.wait()
        stream.check()
        self._opened = time.monotonic()
        sidecar.answers()
        sidecar.epoch = max(sidecar.epoch, producer.epoch)
        log.info("%s: sending from offset %d", self.stream, producer.acked)
        if producer.unproven or not self._tail.covers(producer.acked, producer.marks_acked):
            record = [info for info in await sidecar.record() if info.stream == self.stream]
            sidecar.discovery.resume(record, time.monotonic())
            if producer.acked and not record:
                raise _Again(f"{self.stream}: the receiver holds {producer.acked} bytes that its record does not show")
        if producer.went_backwards > backwards:
            gone = sum(mark.length for mark in self._tail.marks[producer.marks_acked :] if isinstance(mark, Gap))
            log.warning(
                "%s: the receiver has lost %d bytes that it had acknowledged; %s from offset %d",
                self.stream,
                producer.went_backwards - backwards,
                f"{gone} bytes are gone for good, and a gap; the rest is sent again" if gone else "they are sent again",
                producer.acked,
            )

    def _receive(self, reply: Reply) -> bool:
        """Take in what the receiver says; returns whether it owes another answer."""
        producer = self._producer
        producer.receive(reply)
        if reply.code in (Code.OK, Code.SEALED) and (producer.acked, producer.marks_acked) > self._most:
            self._most = producer.acked, producer.marks_acked
            self._sidecar.brought()
        self._packing.heard(reply)
        if reply.code is Code.EXECUTION_EXCEPTION:
            raise _Miss(f"{self.stream}: {reply.reason} (miss {producer.misses} of {producer.options.max_misses})")
        if reply.elsewhere and self._opened == math.inf:
            raise _Elsewhere(reply.reason)
        if reply.code not in (Code.OK, Code.SEALED):
            raise _Again(f"{self.stream}: the receiver answered {reply.code.name} at {producer.acked}: {reply.reason}")
        self._tail.acknowledged(producer.acked)
        self._pace = min(reply.pace, LONGEST_PACE)
        if reply.ending and self._sidecar.options.heed:
            self._sidecar.drain_early()
        return producer.awaits_reply

    def _beat(self) -> Chunk | None:
        if self._packing.busy:  # it would overtake the chunk, behind which it stands
            return None
        return self._producer.heartbeat() if self._producer.state is not State.FINISHING else None

    async def _send(self, stream: Stream) -> None:
        producer, tail = self._producer, self._tail
        minds = bool(self._sidecar.options.source.sites)
        while producer.state is not State.SEALED:
            if minds:
                await self._sidecar.consents()
            await stream.room()
            stream.check()
            if self._sealed:  # it was while there was no room, and nothing will wake this again
                return
            self.wake.clear()
            now = time.monotonic()
            if 0 < (rest := self._sent_at + self._pace - now) <= self._pace and self._gathers():
                await asyncio.sleep(min(rest, LOOK_UP))
                continue
            item = tail.next(producer.position, producer.marks_sent, producer.room(), now)
            if now >= self._news_at:
                self._tell(stream, producer.position + (len(item) if isinstance(item, bytes) else 0))
            if isinstance(item, bytes):
                self._sent_at = now
                stream.put(await self._packing.packed(producer.chunk(item)))
            elif item is not None:
                if not item.clock:  # what is sent again is sent with the same time
                    item = tail.marks[producer.marks_sent] = replace(item, clock=time.time_ns() // 1_000_000)
                mark = replace(item, digest=producer.position_digest)
                stream.put((producer.mark(), mark))
            elif self._complete(now):
                self._receipt = replace(producer.finish(), redacted=self._sidecar.discovery.masked(tail))
                stream.put(self._receipt)
            else:  # until the file has changed, or a reply has come
                await self.wake.wait(self._patience())

    @property
    def _sealed(self) -> bool:
        return self._producer.state is State.SEALED

    def _gathers(self) -> bool:
        """Whether lines that come now should wait for more of them."""
        producer, tail = self._producer, self._tail
        if tail.draining or tail.has_more or producer.position != tail.end:
            return False
        return tail.unread() < GATHERED

    def _patience(self) -> float | None:
        """Seconds after which to look at the file though nothing is known to have changed."""
        if self._tail.at_rest:
            return None
        return URGENT_POLL if self._tail.urgent else LOOK_AGAIN

    def _news(self) -> News:
        self._news_at = time.monotonic() + NEWS_EVERY
        self._told = self._tail.end + self._tail.unread()
        return News(max(0, round(time.time() * 1000)), self._told)

    def _tell(self, stream: Stream, sent: int) -> None:
        """Say how far the source is ahead of what is *sent*, if it is, or is less than was said."""
        told, news = self._told, self._news()
        if news.end < told or (news.end > told and news.end > sent):
            stream.put(news)

    def _complete(self, now: float) -> bool:
        producer, tail = self._producer, self._tail
        return (
            producer.state in (State.STREAMING, State.PAUSED)
            and producer.position == tail.end
            and producer.marks_sent == len(tail.marks)
            and tail.drained(now)
        )
