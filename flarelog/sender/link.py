"""The link to one receiver, shared by all logs of a sidecar: the connection, the call over it, the receiver's record,
and the backoff between two attempts.

Laws that hold here: a lost connection is not an answer, and the link reconnects for as long as the sidecar is wanted;
an error that many logs meet is logged once in a while, not once a log; an answer of the receiver to one log counts for
all. After a lost connection, silence or GOING_AWAY the next of the receiver's ends is used, and the backoff grows with
each round of them; a miss is no reason to leave an end. So one log alone asks often whether the run is announced: a
thousand sites with a hundred logs each may wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import math
import os
import random
import time
from collections.abc import Callable, Container

import grpc

from flarelog.delivery.fair import SMALL
from flarelog.delivery.sending import Again, Lost, Miss, Silent
from flarelog.ends import Ends
from flarelog.errors import CannotConnect, InvalidOption, NoAnswer
from flarelog.model import StreamId, StreamInfo
from flarelog.proxies import route
from flarelog.security.tls import why
from flarelog.sender import starts
from flarelog.sender.older import Older
from flarelog.sender.options import SidecarOptions
from flarelog.talk import each
from flarelog.watched import Watched
from flarelog.wire import calls, listing, statuses
from flarelog.wire.codec.base import Malformed
from flarelog.wire.heartbeat import REPLY_TIMEOUT
from flarelog.wire.uplink import ENDED, Uplink

log = logging.getLogger(__name__)

SAY_EVERY = 30.0  # seconds between two log lines about the same error
MOVES_FORGOTTEN = 60.0  # seconds
OLDER_WITHIN, OLDER_LOOK = 7.0, 1.0  # seconds that an older sidecar has to come back and send, and between two looks
BEGINNING = 500  # logs that may start at the same time; without a limit, thousands would be open at once


class Channels:
    """The channel to one of the *ends*; replaced for another end, another connection, or new certificates."""

    def __init__(self, options: SidecarOptions, ends: Ends | None = None) -> None:
        self._options = options
        self.ends = ends or Ends(options.receiver)
        self.said: dict[str, float] = {}  # when each trouble was last logged; empty: the connection's
        self._files: tuple[bytes, ...] | None = None  # the certificates of the channel
        self._old: list[grpc.aio.Channel] = []  # replaced channels, whose calls go on
        self._closing: set[asyncio.Task[None]] = set()  # tasks that close old channels
        self._channel = self._connect()
        self._follower = self._following()

    def _following(self) -> Watched[grpc.aio.Channel] | None:
        return self._options.tls.watched(self._connect) if self._options.tls is not None else None

    def current(self) -> grpc.aio.Channel:
        """The channel for a new call; a new one if the certificates' files have changed."""
        if self._follower is not None:
            self._use(self._follower.look())
        return self._channel

    def reread(self) -> bool:
        """Read the certificates again, even if they seem unchanged, and log the result; returns False without any."""
        if self._follower is not None:
            self._use(self._follower.look(anyway=True))
        return self._follower is not None

    def turn(self, channel: grpc.aio.Channel, *, lost: bool) -> None:
        """Use the next end after trouble at *channel*, unless another log has done so. *lost*: its connection was."""
        if channel is self._channel and self.ends.turn(lost=lost):
            self.replace()

    def replace(self) -> None:
        """Connect anew, so that the next call goes over another connection."""
        before, self._files = self._channel, None
        with contextlib.suppress(InvalidOption):  # the certificates are just being replaced
            self._use(self._connect())
            self._follower = self._following()
            closing = asyncio.create_task(self._close(before))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close(self, channel: grpc.aio.Channel) -> None:
        """Close an old channel once its calls have ended."""
        await channel.close(REPLY_TIMEOUT)
        self._old.remove(channel)

    def _connect(self) -> grpc.aio.Channel:
        """A channel with the certificates in the files; the present channel if it has them. Raises InvalidOption."""
        tls = self._options.tls
        if tls is not None:
            tls.check("client")
        files = tls.contents() if tls is not None else ()
        if files == self._files:
            return self._channel
        channel = calls.channel(self.ends.current, tls, proxy=self._options.proxy)
        self._files = files
        return channel

    def _use(self, channel: grpc.aio.Channel) -> None:
        if channel is not self._channel:
            self._old.append(self._channel)
            self._channel = channel

    async def close(self) -> None:
        for closing in self._closing:
            closing.cancel()
        for channel in (*self._old, self._channel):
            await channel.close()


class Link:
    """The link of one sidecar to its receiver, shared by its deliveries. *channels*: the connection, if it is shared
    with other runs; *heard*: called for each message of the receiver's record.
    """

    def __init__(
        self,
        options: SidecarOptions,
        channels: Channels | None = None,
        heard: Callable[[], object] = lambda: None,
    ) -> None:
        self.producer_id, self.started = options.producer or os.urandom(16), options.started or starts.now()
        self.epoch = 0  # the latest epoch that the receiver has granted
        self.connected = False  # whether the receiver has ever returned its record
        self.trouble = ""  # why the last attempt failed; empty: it did not
        self.shared = channels is not None  # whether other runs of this process use the channels
        self.channels = channels or Channels(options)
        self._options, self._heard = options, heard
        self._uplink: tuple[grpc.aio.Channel, Uplink] | None = None
        self._moves, self._moved_at = 0, -math.inf
        self._answered = asyncio.Event()  # replaced each time that the receiver answers
        self._scouted = False  # whether a log waits to ask soon whether the run is announced
        self._asking = asyncio.Lock()
        self._asked: asyncio.Task[dict[StreamId, StreamInfo]] | None = None  # a request for the record, not yet made
        self._asks: set[asyncio.Task[dict[StreamId, StreamInfo]]] = set()
        self._older: Older | None = None  # from the first request on
        self._little, self._much = asyncio.Semaphore(BEGINNING), asyncio.Semaphore(BEGINNING)

    @property
    def end(self) -> str:
        """The address of the receiver's end that is in use."""
        return self.channels.ends.current

    @property
    def peer(self) -> str:
        """The end in use, and the proxy before it, for messages."""
        return route(self.end, self._options.proxy).to(self.end)

    @property
    def whose(self) -> str:
        """The prefix of log lines about one log."""
        return f"{self.end}: " if self._options.others or len(self.channels.ends) > 1 else ""

    def uplink(self) -> Uplink:
        """The call that carries the logs; a new one if it has ended, or the certificates have changed."""
        channel = self.channels.current()
        if self._uplink is None or self._uplink[0] is not channel or self._uplink[1].closing:
            self._uplink = channel, Uplink(calls.push(channel)(), self._options.heartbeat)
        return self._uplink[1]

    def beginning(self, unread: int) -> asyncio.Semaphore:
        """The semaphore that a log with *unread* bytes holds from before its Open until its bytes, or one turn of them,
        are sent. Small logs and large logs have one each, so that small logs do not wait for large ones.
        """
        return self._little if unread < SMALL else self._much

    @property
    def gathers(self) -> float:
        """Seconds for which new bytes of logs may be gathered before they are read (see Uplink)."""
        return self._uplink[1].gathers if self._uplink is not None else 0.0

    @property
    def moves(self) -> int:
        """The number of recent connections that reached a worker of the receiver which does not have this site."""
        return self._moves if time.monotonic() - self._moved_at < MOVES_FORGOTTEN else 0

    def move(self, uplink: Uplink) -> None:
        """Reconnect, because the worker of *uplink* does not have the site; the kernel picks the worker of a connection
        by its addresses and ports.
        """
        if self._uplink is not None and self._uplink[1] is uplink:  # otherwise another log has done it
            self._uplink = None
            self._moves, self._moved_at = self.moves + 1, time.monotonic()
            if self.shared:  # other runs keep their connection
                self.channels, self.shared = Channels(self._options, copy.deepcopy(self.channels.ends)), False
            else:
                self.channels.replace()

    def turned(self, uplink: Uplink, trouble: Again) -> Again:
        """Go on to the receiver's next end if *uplink* is over or ends, with *trouble*, which is returned."""
        if uplink.closing and self._uplink is not None and self._uplink[1] is uplink:
            self.channels.turn(self._uplink[0], lost=isinstance(trouble, Lost) and not isinstance(trouble, Silent))
        return trouble

    async def record(self, late: Callable[[], None] = lambda: None) -> list[StreamInfo]:
        """The receiver's record of this site in this run. Retries until the receiver answers; *late* is called after
        each failed attempt.
        """
        failures, options = 0, self._options
        while True:
            channel, end, peer = self.channels.current(), self.end, self.peer
            try:
                found = await listing.streams(
                    channel, options.run, options.site, silence=REPLY_TIMEOUT, heard=self._heard
                )
            except grpc.RpcError as error:
                trouble = statuses.error_of(error, end, options.proxy)
                if statuses.refuses(trouble):
                    raise trouble from error
            except TimeoutError:
                trouble = NoAnswer(f"{peer} did not answer for {REPLY_TIMEOUT:g} s")
            except Malformed as error:
                trouble = CannotConnect(f"{end} answered with an invalid list: {error}")
            except (asyncio.CancelledError, *ENDED):  # gRPC cancels a task that reads from a closed channel
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                trouble = CannotConnect(f"{end} ended the call")
            else:
                self.connected, self.trouble = True, ""
                return found
            self.channels.turn(channel, lost=not isinstance(trouble, NoAnswer))
            late()
            await self.pause(trouble, failures, end)
            failures += 1

    async def first_record(self, late: Callable[[], None], logs: Container[str]) -> list[StreamInfo]:
        """The receiver's record, as in ``record``, before any log is opened. *logs*: the logs that were found so far.

        If no receiver answered at first, an older sidecar of the site may be retrying as well. It may have files open
        that are gone by now, and can no longer send them once its logs are taken over. So this waits for it to open its
        logs and to send their bytes. A receiver that has no open log of the site may still get one from it.
        """
        was_late, self._older = False, Older(self._options)

        def fails() -> None:
            nonlocal was_late
            was_late = True
            late()

        found, before = await self.record(fails), 0
        # An older one of this machine may wait for a still older one, and the receiver may have answered it later.
        until = time.monotonic() + OLDER_WITHIN * (2 if self._older.is_there() else 1)
        while was_late and time.monotonic() < until:
            if all(info.sealed for info in found) and not self._older.is_there():
                break
            known = [(info, info.state) for info in found if info.stream.path in logs and info.state is not None]
            behind = [info.committed < state.end for info, state in known if state.linked]
            # The second look is for marks, which ``end`` does not count, and for logs that open a moment later.
            if behind and len(behind) == before and not any(behind):
                break
            before = len(behind)
            await asyncio.sleep(OLDER_LOOK)
            found = await self.record()
        return found

    async def record_of(self, stream: StreamId) -> list[StreamInfo]:
        """The receiver's record of *stream*, if it has one, as it is now or later. Logs that ask at the same time share
        an answer: at a takeover a thousand of them may ask, and each answer has all logs of the site.
        """
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask())
            self._asks.add(self._asked)
            self._asked.add_done_callback(self._asks.discard)
        found = (await asyncio.shield(self._asked)).get(stream)
        return [] if found is None else [found]

    async def _ask(self) -> dict[StreamId, StreamInfo]:
        async with self._asking:
            self._asked = None  # who asks from now on needs a later answer
            return {info.stream: info for info in await self.record()}

    async def pause(self, trouble: Exception, failures: int, end: str, stream: StreamId | None = None) -> None:
        """Sleep before the next attempt, of *stream* or of the record: *trouble* at *end* ended this one, after
        *failures* failures.

        After a lost connection or a miss, the sleep ends early when the receiver accepts another log.
        """
        delivery = self._options.delivery
        answered = self._answered  # taken now, so that an answer before the wait counts as well
        self.trouble = str(trouble)
        await self._say(trouble, end, stream)
        if not isinstance(trouble, Miss):
            failures //= len(self.channels.ends)  # each end is tried once before the pause grows
        # Jitter spreads the reconnects of sidecars that lost one receiver together.
        chance = random.random()  # noqa: S311  not a secret
        seconds = delivery.delay(failures) + chance * delivery.first_delay
        if not isinstance(trouble, Lost | Miss):
            await asyncio.sleep(seconds)
            return
        scout = isinstance(trouble, Miss) and not self._scouted
        if scout:
            self._scouted, seconds = True, delivery.miss_delay(failures, chance)
        try:
            await asyncio.sleep(min(seconds, delivery.first_delay))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds - delivery.first_delay):
                    await answered.wait()
        finally:
            if scout:
                self._scouted = False

    def answers(self, epoch: int) -> None:
        """Note that the receiver has answered an Open: all logs that lost their connection retry now."""
        self.epoch, self.trouble = max(self.epoch, epoch), ""
        self._answered.set()
        self._answered = asyncio.Event()

    async def _say(self, trouble: Exception, end: str, stream: StreamId | None) -> None:
        """Log *trouble*, the same one at most every SAY_EVERY seconds; a miss only at DEBUG. All troubles of the
        connection count as one, because a connection that fails may fail in many ways in turn.
        """
        if isinstance(trouble, Miss):
            log.debug("%s", trouble)
            return
        sentence, now = str(trouble), time.monotonic()
        of_connection = isinstance(trouble, Lost | CannotConnect)
        kind, said = "" if of_connection else sentence, self.channels.said
        if now - said.get(kind, -math.inf) < SAY_EVERY:
            return
        while said and now - next(iter(said.values())) >= SAY_EVERY:  # the oldest comes first
            del said[next(iter(said))]
        said[kind] = now
        of_each = each("are being retried", stream, self.whose) if stream is not None and not of_connection else {}
        if of_connection and not isinstance(trouble, Silent | NoAnswer):  # a handshake would wait as well
            reason, options = "", self._options
            with contextlib.suppress(RuntimeError):  # the interpreter is shutting down and starts no threads
                reason = await asyncio.to_thread(why, end, options.tls, options.proxy)
            sentence = f"no connection to {route(end, options.proxy).to(end)}: {reason}" if reason else sentence
        told = sentence if end in sentence or not self.whose else f"{end}: {sentence}"
        log.warning("%s; retrying%s", told, f" at {self.end}" if self.end != end else "", extra=of_each)

    def names(self, sentence: object) -> str:
        """*sentence* with the address of the end in use, if there are several."""
        text = str(sentence)
        return text if self.end in text else f"{self.whose}{text}"

    async def leave(self) -> None:
        """Tell the receiver that no log will come back."""
        if self._uplink is not None:
            await self._uplink[1].leave_all()

    async def close(self) -> None:
        for asked in self._asks:
            asked.cancel()
        if self._uplink is not None:
            self._uplink[1].close()
            self._uplink = None  # a reference to the call would keep the connection open
        if self._older is not None:
            self._older.close()
        if not self.shared:
            await self.channels.close()
