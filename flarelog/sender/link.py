"""The way to one receiver, for all logs of a sidecar: its connection, the call over it, its record, and the pauses
between two attempts.

Laws that hold here: a lost connection is not an answer, and is tried again for as long as the sidecar is wanted; one
trouble is said once in a while, whoever has it; what the receiver answers to one log counts for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import random
import time
from collections.abc import Callable

import grpc

from flarelog.delivery.fair import SMALL
from flarelog.delivery.sending import Lost, Miss
from flarelog.errors import CannotConnect, InvalidOption
from flarelog.model import StreamId, StreamInfo
from flarelog.security.tls import why
from flarelog.sender.options import SidecarOptions
from flarelog.talk import each
from flarelog.watched import Watched
from flarelog.wire import calls, listing, statuses
from flarelog.wire.heartbeat import REPLY_TIMEOUT
from flarelog.wire.uplink import ENDED, Uplink

log = logging.getLogger(__name__)

SAY_EVERY = 30.0  # seconds between two log lines about the same trouble
MOVES_FORGOTTEN = 60.0  # seconds
BEGINNING = 500  # logs that begin at the same time: all of thousands would be open before one has ended


class Channels:
    """The channel to the receiver: another one when the certificates have changed, or another connection is wanted."""

    def __init__(self, options: SidecarOptions) -> None:
        self._options = options
        self.said: dict[str, float] = {}  # sentences about the connection, and when each was logged last
        self._files: tuple[bytes, ...] | None = None  # the certificates that the channel has
        self._old: list[grpc.aio.Channel] = []  # their calls go on
        self._closing: set[asyncio.Task[None]] = set()  # of them
        self._channel = self._connect()
        self._follower = self._following()

    def _following(self) -> Watched[grpc.aio.Channel] | None:
        return self._options.tls.watched(self._connect) if self._options.tls is not None else None

    def current(self) -> grpc.aio.Channel:
        """For a new call: with other certificates than before, if the files have changed."""
        if self._follower is not None:
            self._use(self._follower.look())
        return self._channel

    def reread(self) -> bool:
        """Read the certificates again though they seem unchanged, and say what came of it; False: there are none."""
        if self._follower is not None:
            self._use(self._follower.look(anyway=True))
        return self._follower is not None

    def replace(self) -> None:
        """Let the next call go over another connection."""
        before, self._files = self._channel, None
        with contextlib.suppress(InvalidOption):  # the certificates are being changed
            self._use(self._connect())
            self._follower = self._following()
            closing = asyncio.create_task(self._close(before))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close(self, channel: grpc.aio.Channel) -> None:
        """Close one of the old channels when its calls have ended."""
        await channel.close(REPLY_TIMEOUT)
        self._old.remove(channel)

    def _connect(self) -> grpc.aio.Channel:
        """A channel with what the files hold; the present one, if that is what it has. Raises InvalidOption."""
        tls = self._options.tls
        if tls is not None:
            tls.check("client")
        files = tls.contents() if tls is not None else ()
        if files == self._files:
            return self._channel
        channel = calls.channel(self._options.receiver, tls)
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
    """What the deliveries of one sidecar share of the receiver. *channels*: the connection, shared with other runs."""

    def __init__(self, options: SidecarOptions, channels: Channels | None = None) -> None:
        self.producer_id = os.urandom(16)
        self.epoch = 0  # the latest that the receiver granted
        self.connected = False  # has the receiver ever said what it holds
        self.trouble = ""  # why it does not answer, since it was asked last
        self.whose = f"{options.receiver}: " if options.others else ""  # what begins a sentence of one log
        self.shared = channels is not None  # with other runs of this process
        self.channels = channels or Channels(options)
        self._options = options
        self._uplink: tuple[grpc.aio.Channel, Uplink] | None = None
        self._moves, self._moved_at = 0, -math.inf
        self._answered = asyncio.Event()  # a new one each time the receiver answers
        self._little, self._much = asyncio.Semaphore(BEGINNING), asyncio.Semaphore(BEGINNING)

    def uplink(self) -> Uplink:
        """The call that carries the logs: another one when it has ended, or the certificates have changed."""
        channel = self.channels.current()
        if self._uplink is None or self._uplink[0] is not channel or self._uplink[1].closing:
            self._uplink = channel, Uplink(calls.push(channel)(), self._options.heartbeat)
        return self._uplink[1]

    def beginning(self, unread: int) -> asyncio.Semaphore:
        """What a log that has *unread* bytes to say has from before its Open until they are said, or a turn's worth of
        them. Those that have little do not wait for those that have much.
        """
        return self._little if unread < SMALL else self._much

    @property
    def gathers(self) -> float:
        """Seconds for which what is written to logs may be gathered before it is looked at (see Uplink)."""
        return self._uplink[1].gathers if self._uplink is not None else 0.0

    @property
    def moves(self) -> int:
        """Connections that led lately to another process of the receiver than to the one that has this site."""
        return self._moves if time.monotonic() - self._moved_at < MOVES_FORGOTTEN else 0

    def move(self, uplink: Uplink) -> None:
        """Another process of the receiver has the site than the one of *uplink*: let the next call go over another
        connection, whose number decides which process gets it.
        """
        if self._uplink is not None and self._uplink[1] is uplink:  # else another log has seen to it
            self._uplink = None
            self._moves, self._moved_at = self.moves + 1, time.monotonic()
            if self.shared:  # the other runs stay where they are
                self.channels, self.shared = Channels(self._options), False
            else:
                self.channels.replace()

    async def record(self, late: Callable[[], None] = lambda: None) -> list[StreamInfo]:
        """What the receiver holds of this site in this run. Tries until there is an answer; *late* is called when there
        was none.
        """
        failures, options = 0, self._options
        while True:
            try:
                channel = self.channels.current()
                found = await listing.streams(channel, options.run, options.site, silence=REPLY_TIMEOUT)
            except grpc.RpcError as error:
                trouble = statuses.error_of(error, options.receiver)
                if not trouble.retry_safe:
                    raise trouble from error
            except TimeoutError:
                trouble = CannotConnect(f"{options.receiver} did not answer for {REPLY_TIMEOUT:g} s")
            except ENDED:
                trouble = CannotConnect(f"{options.receiver} ended the call")
            else:
                self.connected, self.trouble = True, ""
                return found
            late()
            await self.pause(trouble, failures)
            failures += 1

    async def pause(self, trouble: Exception, failures: int, stream: StreamId | None = None) -> None:
        """Wait before the next attempt, of *stream*: *trouble* ended this one, and there were so many *failures* before
        it.

        A receiver that answers one log again is there for the others as well: they need not wait any longer.
        """
        delivery = self._options.delivery
        answered = self._answered  # an answer that comes before it is waited for counts as well
        self.trouble = str(trouble)
        await self._say(trouble, stream)
        # Chance keeps sidecars apart that lost one receiver together.
        apart = random.uniform(0, delivery.first_delay)  # noqa: S311  nobody gains by guessing it
        seconds = delivery.delay(failures) + apart
        if not isinstance(trouble, Lost):
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(delivery.first_delay)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - delivery.first_delay):
                await answered.wait()

    def answers(self, epoch: int) -> None:
        """The receiver has answered an Open: let all those try again that had lost their connection."""
        self.epoch, self.trouble = max(self.epoch, epoch), ""
        self._answered.set()
        self._answered = asyncio.Event()

    async def _say(self, trouble: Exception, stream: StreamId | None) -> None:
        """One line now and then about what keeps being tried; a miss is none of anybody's business."""
        if isinstance(trouble, Miss):
            log.debug("%s", trouble)
            return
        sentence, now = str(trouble), time.monotonic()
        said = self.channels.said
        if now - said.get(sentence, -math.inf) < SAY_EVERY:
            return
        while said and now - next(iter(said.values())) >= SAY_EVERY:  # the oldest stands first
            del said[next(iter(said))]
        said[sentence] = now
        of_each = each("are being retried", stream, self.whose) if stream is not None else {}
        if isinstance(trouble, Lost | CannotConnect):
            of_each, receiver, reason = {}, self._options.receiver, ""
            with contextlib.suppress(RuntimeError):  # a program that is ending gives no thread any more
                reason = await asyncio.to_thread(why, receiver, self._options.tls)
            sentence = f"no connection to {receiver}: {reason}" if reason else sentence
        log.warning("%s; retrying", self.names(sentence), extra=of_each)

    def names(self, sentence: object) -> str:
        """*sentence*, so that it names the receiver where there are others."""
        text = str(sentence)
        return text if self._options.receiver in text else f"{self.whose}{text}"

    async def leave(self) -> None:
        """Tell the receiver that no log comes again."""
        if self._uplink is not None:
            await self._uplink[1].leave_all()

    async def close(self) -> None:
        if self._uplink is not None:
            self._uplink[1].close()
            self._uplink = None  # a call that something still knows keeps the connection
        if not self.shared:
            await self.channels.close()
