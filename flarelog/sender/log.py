"""The sending of one log: it passes messages from its delivery to the call, and replies from the call to the delivery;
a loop opens the stream, waits for its end, and reopens it.

A log that fails holds up no other log. An error in flarelog itself ends only its log, with a traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, Protocol

import grpc

from flarelog.completeness import Losses, loss_sentence
from flarelog.delivery.fair import TURN
from flarelog.delivery.producer import State
from flarelog.delivery.sending import Again, Delivery, Elsewhere, Lost, Silent
from flarelog.errors import FlarelogError, GoesOn, NoAnswer
from flarelog.model import Chunk, Code, News, Packed, Receipt, Reply, StreamId, generations
from flarelog.names import beside, is_cut
from flarelog.sender.consents import Consents
from flarelog.sender.link import Link
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Mistake, StreamOutcome
from flarelog.sources.base import Finder, Source
from flarelog.talk import each, info_each
from flarelog.values import changed
from flarelog.wire import statuses
from flarelog.wire.codec.push import Request
from flarelog.wire.packing import Compressing, Packing
from flarelog.wire.uplink import Gone, Stream, Unanswered

log = logging.getLogger(__name__)

LOST = "the receiver lost"
_MARKS = 64  # marks that are sent at a time


class Site(Protocol):
    """The part of the sidecar that a log uses. ``brought``: bytes were acknowledged; ``drain_early``: the receiver
    reports that the run is ending; ``ended``: the log has ended; ``health``: the report on the machine, if one is due.
    """

    options: SidecarOptions
    link: Link
    compressing: Compressing
    consents: Consents

    @property
    def finder(self) -> Finder: ...
    def beside(self, work: Coroutine[Any, Any, None]) -> None: ...
    def health(self) -> News | None: ...
    def brought(self) -> None: ...
    def drain_early(self) -> None: ...
    def ended(self, ended: Log) -> None: ...


class Log:
    """One log of *site*, read from *source*; *sealed*: the receiver has sealed it with so many marks, though its source
    may have more.
    """

    def __init__(self, site: Site, source: Source, *, sealed: int | None = None) -> None:
        options = site.options
        self.delivery = Delivery(StreamId.of_file(options.run, options.site, source.log), source, options.delivery)
        self.ended = False
        self.untouched = False  # the log was sealed and has not grown, so it was not opened
        self.error: FlarelogError | None = None
        self.source = source
        self._site, self._sealed = site, sealed
        self._packing = Packing(site.compressing)
        self._packed: Chunk | Packed | None = None  # a compressed chunk that is ready to send
        self._stream: Stream | None = None  # set while the stream is open
        self._turn: asyncio.Semaphore | None = None  # held while the log starts: limits the logs that start at a time
        self._full = False  # data was ready, and the stream's own window had no room
        self._waiting: asyncio.Future[None] | None = None  # for a reply, or the end
        self._timer: asyncio.TimerHandle | None = None
        self._receipt: Receipt | None = None
        self._end = ""  # the receiver's end of the latest connection
        self._trouble = ""  # why the latest connection ended; cleared when the receiver accepts the log again

    @property
    def stream(self) -> StreamId:
        return self.delivery.stream

    @property
    def acked(self) -> int:
        return self.delivery.producer.acked

    def let_go(self) -> None:
        """Close the descriptors if the log has ended."""
        if self.ended:
            self.source.lay_down()

    @property
    def why(self) -> str:
        """Why the log is not being sent; empty: it is being sent, or was sent completely."""
        return str(self.error) if self.error is not None else self._trouble

    def outcome(self, unsent: int = 0) -> StreamOutcome:
        producer, marks = self.delivery.producer, self.source.marks
        sealed = self.delivery.sealed or self.untouched
        return StreamOutcome(
            self.stream,
            producer.acked,
            self._receipt if self.delivery.sealed else None,
            producer.all_misses,
            self.delivery.reconnects,
            generations(marks),
            Losses(marks).with_receipt(sealed or isinstance(self.error, GoesOn)),
            self.error,
            unsent,
            "" if self.ended else self._trouble,
        )

    @property
    def standing(self) -> str:
        """The log's offset, and why it does not advance."""
        if self._trouble.startswith(f"{self.stream}: "):
            return self._trouble
        return f"{self.stream} at offset {self.acked}{f': {self._trouble}' if self._trouble else ''}"

    @property
    def can_tell(self) -> bool:
        """Whether the log is connected, and can carry a report."""
        return self._stream is not None and not self.delivery.sealed

    async def run(self) -> None:
        """Deliver until the stream is sealed or fails for good."""
        try:
            if self._sealed is not None and self._is_whole(self._sealed):
                self.ended = self.untouched = True
                return
            while not self.delivery.sealed:
                delivery = self.delivery
                if (pause := delivery.wait(time.monotonic())) > 0:
                    await asyncio.sleep(pause)
                trouble = await self.connect()
                if trouble is None or delivery is not self.delivery:
                    continue
                if not isinstance(trouble, Elsewhere):
                    self._trouble = str(trouble)
                failures = delivery.ended(trouble, self._site.link.moves, time.monotonic())
                if failures is not None:
                    await self._site.link.pause(trouble, failures, self._end, self.stream)
        except FlarelogError as error:
            self.error = error
        except Exception as bug:
            self.error = Mistake("flarelog failed on this log; the other logs continue", bug)
        self.ended = True
        self._site.ended(self)

    def _is_whole(self, marks: int) -> bool:
        try:
            return self.delivery.whole(marks, time.monotonic())
        except OSError:
            return False  # the delivery reports the error

    async def connect(self) -> Again | None:
        """Deliver over one connection; returns why another one is needed, or None when the stream is sealed."""
        link = self._site.link
        stream: Stream | None = None
        try:
            turn = link.beginning(self.source.unread())
            await turn.acquire()
            self._turn = turn
            uplink = link.uplink()  # after the wait: an earlier call may have ended
            self._end, peer = link.end, link.peer
            stream = uplink.stream(self)
            await self._open(stream)
            await self._sent(stream)
        except grpc.RpcError as error:
            trouble = statuses.error_of(error, self._end, self._site.options.proxy)
            if statuses.refuses(trouble):
                raise trouble from error
            return link.turned(uplink, (Silent if isinstance(trouble, NoAnswer) else Lost)(str(trouble)))
        except Unanswered as silence:
            return link.turned(uplink, Silent(f"{peer} {silence}"))
        except Gone as gone:
            return link.turned(uplink, Lost(f"{self._end} {gone}"))
        except OSError as error:
            return Again(f"{self.stream}: its source cannot be read: {error.strerror}")
        except Elsewhere as elsewhere:
            link.move(uplink)
            return elsewhere.with_traceback(None)
        except Again as again:
            return link.turned(uplink, again.with_traceback(None))
        finally:
            self._stream = self._packed = None
            self._has_begun()
            self._look_after(None)
            if stream is not None:
                stream.leave()
                stream.error = None  # its traceback refers to the call, which would keep the connection open
        return None

    def _has_begun(self) -> None:
        """Let another log start; idempotent."""
        if self._turn is not None:
            self._turn.release()
            self._turn = None

    async def _open(self, stream: Stream) -> None:
        link, delivery = self._site.link, self.delivery
        backwards, paused = delivery.producer.went_backwards, delivery.producer.state is State.PAUSED
        now, wall = time.monotonic(), time.time()
        stream.put(delivery.open(link.producer_id, link.epoch, link.moves, now, wall, link.started))
        while not stream.answered:
            stream.check()
            await self._woken()
        stream.check()
        link.answers(delivery.producer.epoch)
        if not paused:  # a paused log retries all the time; ``heard`` logs when it goes on
            self._say_sending()
        if delivery.unknown:
            record = [changed(info, stream=self.stream) for info in await link.record_of(self.stream)]
            self._site.finder.resume(record, time.monotonic())
            delivery.learned(shown=bool(record))
        if lost := delivery.producer.went_backwards - backwards:
            log.warning(
                "%s: %s %d bytes that it had acknowledged; the producer resends what its files still"
                " hold from offset %d",
                self._named, LOST, lost, self.acked,
            )  # fmt: skip

    async def _sent(self, stream: Stream) -> None:
        """Wait until the stream is sealed; meanwhile the call fetches messages with ``say``."""
        stream.check()
        self._stream = stream
        stream.wants()
        while not self.delivery.sealed:
            await self._woken()
            stream.check()

    async def _woken(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def changed(self) -> None:
        """Note that the log's files may have changed."""
        self._look_after(None)
        if self._stream is not None:
            self._stream.wants()

    def _look_after(self, seconds: float | None) -> None:
        """Call ``changed`` after *seconds*, replacing an earlier timer; None: never."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.changed)

    # --- the interface for the call (see uplink.Speaker)

    @property
    def in_flight(self) -> int:
        producer = self.delivery.producer
        return producer.position - producer.acked

    @property
    def hurries(self) -> bool:
        return self.delivery.hurries

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            stream = self._stream
            if stream is None or stream.error is not None or self.delivery.sealed:
                self._waiting.set_result(None)

    def heard(self, reply: Reply) -> bool:
        if reply.name_taken and not is_cut(self.stream.log):
            raise self._aside(reply.reason)
        most, paused = self.delivery.most, self.delivery.producer.state is State.PAUSED
        try:
            owed = self.delivery.heard(reply, time.monotonic())
        finally:
            if self.delivery.most != most:
                self._site.brought()
            self._packing.heard(reply)
        if reply.code in (Code.OK, Code.SEALED) and self.delivery.producer.state is not State.PAUSED:
            self._trouble = ""
            if paused:
                self._say_sending()
        if reply.ending and self._site.options.heed:
            self._site.drain_early()
        if self._full and self._stream is not None:
            self._stream.wants()
        return owed

    def _aside(self, why: str) -> Again:
        """Deliver the log under another name from now on, because the store cannot hold its own."""
        before, path = self.stream, self.source.log
        other = StreamId(before.run, before.site, beside(path), original=path)
        self.delivery = Delivery(other, self.source, self._site.options.delivery)
        log.info("%s is stored as %s: %s", self._named, other.log, why)
        return Again(f"{before}: {why}")

    def beat(self) -> Chunk | None:
        if self._packing.busy or self._packed is not None:  # a heartbeat would overtake the chunk before it
            return None
        return self.delivery.beat()

    def say(self, room: int) -> tuple[list[Request], bool]:
        said, more = self._say(room)
        if self._turn is not None and not self._packing.busy and (self.in_flight >= TURN or not (more or self._full)):
            self._has_begun()
        return said, more

    def _say(self, room: int) -> tuple[list[Request], bool]:
        delivery, said = self.delivery, list[Request]()
        if self._packed is not None:
            said, self._packed = [self._packed], None
            return said, True
        if self._stream is None or self._packing.busy or (self._site.consents and not self._site.consents.given()):
            return said, False
        now, wall = time.monotonic(), time.time()
        self._full = False
        while len(said) < _MARKS:
            item = delivery.next(now, wall, room)
            self._say_losses()
            if not said and (news := self._news(now, wall)):
                said.append(news)
            if item is None:
                self._full = not delivery.producer.room()
                self._look_after(delivery.patience())
                return said, False
            if isinstance(item, Chunk):
                return self._chunk(item, said)
            if isinstance(item, Receipt):
                if (masked := self._site.finder.masked(self.stream.path)) is not None:
                    item = changed(item, redacted=masked)
                self._receipt = item
            said.append(item)
        return said, True

    def _say_losses(self) -> None:
        for loss in self.delivery.losses:
            extra = each("have gaps", self.stream, self._site.link.whose)
            log.warning("%s: %s", self._named, loss_sentence(loss, self.source.marks), extra=extra)
        self.delivery.losses.clear()

    def _say_sending(self) -> None:
        whose, sentence = self._site.link.whose, "%s%s: sending from offset %d"
        info_each(log, "are being sent", self.stream, sentence, whose, self.stream, self.acked, whose=whose)

    @property
    def _named(self) -> str:
        return f"{self._site.link.whose}{self.stream}"

    def _news(self, now: float, wall: float) -> News | None:
        news, told = self.delivery.news(now, wall), self._site.health()
        if told is None:
            return news
        word = news or self.delivery.word(now, wall)
        return changed(told, clock=word.clock, end=word.end, activity=word.activity)

    def _chunk(self, chunk: Chunk, said: list[Request]) -> tuple[list[Request], bool]:
        packed = self._packing.at_once(chunk)
        if packed is None:
            self._site.beside(self._pack(chunk, self._stream))
            return said, False
        said.append(packed)
        if self.delivery.has_more:
            return said, True
        self._look_after(self.delivery.patience())
        return said, False

    async def _pack(self, chunk: Chunk, stream: Stream | None) -> None:
        try:
            packed = await self._packing.packed(chunk)
        except Exception as bug:
            if stream is not None:
                stream.lost(bug)
            return
        if stream is self._stream:  # otherwise the chunk belongs to a connection that has ended
            self._packed = packed
        if self._stream is not None:
            self._stream.wants()  # it was asked for nothing meanwhile
