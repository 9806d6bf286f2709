"""One log on its way: a loop that hands what the delivery decides to the call, and what the receiver says back to it.

One log that fails does not hold the others. So it is where flarelog itself is wrong about one: the log ends, with a
traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Protocol

import grpc

from flarelog.delivery.sending import Again, Delivery, Elsewhere, Lost
from flarelog.errors import FlarelogError
from flarelog.model import Chunk, Code, Gap, Generation, Receipt, Reply, StreamId
from flarelog.sender.consents import Consents
from flarelog.sender.link import Link
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Mistake, StreamOutcome
from flarelog.sources.base import Finder, Source
from flarelog.talk import each
from flarelog.wire import statuses
from flarelog.wire.packing import Compressing, Packing
from flarelog.wire.uplink import Gone, Stream

log = logging.getLogger(__name__)


class Site(Protocol):
    """What a log asks of the sidecar that has it, and tells it: something was acknowledged, the receiver says that the
    run is ending, the log has come to its end.
    """

    options: SidecarOptions
    link: Link
    finder: Finder
    compressing: Compressing
    consents: Consents

    def brought(self) -> None: ...
    def drain_early(self) -> None: ...
    def ended(self, ended: Log) -> None: ...


class Log:
    """One of *site*, which *source* gives; *sealed*: the receiver has all of it, unless there is more by now."""

    def __init__(self, site: Site, source: Source, *, sealed: bool = False) -> None:
        options = site.options
        self.delivery = Delivery(StreamId(options.run, options.site, source.log), source, options.delivery)
        self.wake = _Wake()
        self.ended = False
        self.untouched = False  # it was sealed, and there is nothing more
        self.error: FlarelogError | None = None
        self._site, self._source, self._sealed = site, source, sealed
        self._packing = Packing(site.compressing)
        self._receipt: Receipt | None = None

    @property
    def stream(self) -> StreamId:
        return self.delivery.stream

    @property
    def acked(self) -> int:
        return self.delivery.producer.acked

    def let_go(self) -> None:
        """Give the descriptors back if nothing more will be read."""
        if self.ended:
            self._source.lay_down()

    def outcome(self, unsent: int = 0) -> StreamOutcome:
        producer, marks = self.delivery.producer, self._source.marks
        return StreamOutcome(
            self.stream,
            producer.acked,
            self._receipt if self.delivery.sealed else None,
            producer.all_misses,
            self.delivery.reconnects,
            sum(isinstance(mark, Generation) for mark in marks),
            sum(isinstance(mark, Gap) for mark in marks),
            self.error,
            unsent,
        )

    async def run(self) -> None:
        """Deliver until the stream is sealed or cannot go on."""
        delivery = self.delivery
        try:
            if self._sealed and self._is_whole():
                self.ended = self.untouched = True
                return
            while not delivery.sealed:
                if (pause := delivery.wait(time.monotonic())) > 0:
                    await asyncio.sleep(pause)
                trouble = await self.connect()
                if trouble is None:
                    continue
                failures = delivery.ended(trouble, self._site.link.moves, time.monotonic())
                if failures is not None:
                    await self._site.link.pause(trouble, failures)
        except FlarelogError as error:
            self.error = error
        except Exception as bug:
            self.error = Mistake("flarelog failed on this log; the other logs continue", bug)
        self.ended = True
        if self._source.withheld:
            why = "the receiver is older and cannot store it"
            log.warning("%s: the command ended: %s; %s", self.stream, self._source.withheld, why)
        self._site.ended(self)

    def _is_whole(self) -> bool:
        try:
            return self.delivery.whole(time.monotonic())
        except OSError:
            return False  # to be said where it is read

    async def connect(self) -> Again | None:
        """One connection; returns why another one is needed, or None when the stream is sealed."""
        link, receiver = self._site.link, self._site.options.receiver
        uplink = link.uplink()
        stream = uplink.stream(self._heard, self._beat, self.wake.set)
        try:
            await self._open(stream)
            await self._send(stream)
        except grpc.RpcError as error:
            trouble = statuses.error_of(error, receiver)
            if not trouble.retry_safe:
                raise trouble from error
            return Lost(str(trouble))
        except Gone as gone:
            return Lost(f"{receiver} {gone}")
        except OSError as error:
            return Again(f"{self.stream}: its source cannot be read: {error.strerror}")
        except Elsewhere as elsewhere:
            link.move(uplink)
            stream.error = None  # it knows, by way of its traceback, the call, which keeps the connection
            return elsewhere.with_traceback(None)
        except Again as again:
            return again.with_traceback(None)
        finally:
            stream.leave()
        return None

    async def _open(self, stream: Stream) -> None:
        link, delivery = self._site.link, self.delivery
        backwards = delivery.producer.went_backwards
        stream.put(delivery.open(link.producer_id, link.epoch, link.moves, time.monotonic(), time.time()))
        while not stream.answered:
            self.wake.clear()
            stream.check()
            await self.wake.wait()
        stream.check()
        link.answers(delivery.producer.epoch)
        log.info("%s: sending from offset %d", self.stream, self.acked, extra=each("are being sent"))
        if delivery.unknown:
            record = [info for info in await link.record() if info.stream == self.stream]
            self._site.finder.resume(record, time.monotonic())
            delivery.learned(shown=bool(record))
        if lost := delivery.producer.went_backwards - backwards:
            gone = delivery.gone()
            log.warning(
                "%s: the receiver lost %d bytes that it had acknowledged; %s from offset %d",
                self.stream,
                lost,
                f"{gone} bytes are lost for good and become a gap; the producer resends the rest"
                if gone
                else "the producer resends them",
                self.acked,
            )

    def _heard(self, reply: Reply) -> bool:
        most = self.delivery.most
        try:
            owed = self.delivery.heard(reply, time.monotonic())
        finally:
            if self.delivery.most != most:
                self._site.brought()
            self._packing.heard(reply)
            if reply.code is Code.OK:
                self._source.takes_exits(reply.exits)
        if reply.ending and self._site.options.heed:
            self._site.drain_early()
        return owed

    def _beat(self) -> Chunk | None:
        if self._packing.busy:  # it would overtake the chunk, behind which it stands
            return None
        return self.delivery.beat()

    async def _send(self, stream: Stream) -> None:
        delivery, consents = self.delivery, self._site.consents
        while not delivery.sealed:
            if consents:
                await consents.given()
            await stream.room()
            stream.check()
            if self.delivery.sealed:  # it was while there was no room, and nothing will wake this again
                return
            self.wake.clear()
            now, wall = time.monotonic(), time.time()
            if pause := delivery.gather(now):
                await asyncio.sleep(pause)
                continue
            item = delivery.next(now, wall)
            if news := delivery.news(now, wall):
                stream.put(news)
            if isinstance(item, Chunk):
                stream.put(await self._packing.packed(item))
            elif isinstance(item, Receipt):
                self._receipt = replace(item, redacted=self._site.finder.masked(self.stream.log))
                stream.put(self._receipt)
            elif item is not None:
                stream.put(item)
            else:
                await self.wake.wait(delivery.patience())


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
