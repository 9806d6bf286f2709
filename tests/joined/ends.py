"""The two processes without their sockets, clocks and loops: what sidecar.py and server.py do, a message at a time.

Everything below them is real: files, discovery, tails, both state machines, the wire's bytes, and the store on disk.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from flarelog.delivery.producer import DeliveryOptions, Producer, State
from flarelog.delivery.receiver import Receiver, Refused
from flarelog.errors import FlarelogError, StreamFenced
from flarelog.model import Chunk, Code, Leave, News, Open, Packed, Receipt, Reply, StreamId, StreamInfo
from flarelog.receiver.session import code_of
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.watch import InotifyWatch, Watch
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.store import LocalStore
from flarelog.wire import codec as wire
from flarelog.wire.packing import decompress
from tests.sources.files.tailing import NoWatch

RUN, SITE = "run", "site"
T = TypeVar("T")


class Disk:
    """What the store's appender knows as ``os``: a disk that can be full, and whose syncs cost no time."""

    def __init__(self) -> None:
        self.room: int | None = None  # bytes; None is enough

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        if self.room is None:
            return os.pwrite(fd, data, at)
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = os.pwrite(fd, memoryview(data)[: self.room], at)
        self.room -= done
        return done

    def fsync(self, fd: int) -> None: ...

    def fdatasync(self, fd: int) -> None: ...


@dataclass(eq=False)
class Call:
    """One Push call: what is on its way in both directions, and how far its receiving end has come."""

    requests: deque[bytes] = field(default_factory=deque)
    replies: deque[bytes] = field(default_factory=deque)
    stream: StreamId | None = None
    appender: LocalAppender | None = None
    receiver: Receiver | None = None
    dirty: bool = False  # something was taken since the last reply
    over: bool = False  # nothing is taken any more


class ReceivingEnd:
    """One receiver over the store in *root*: it misses the first opens; killed, it loses what was not committed."""

    def __init__(self, root: Path, durability: Literal["disk", "memory"], number: int, misses: int) -> None:
        self.incarnation, self.misses = number.to_bytes(8, "big"), misses
        self.promised: dict[StreamId, tuple[int, int]] = {}  # bytes and marks that some reply said to be committed
        self._runner = asyncio.Runner()
        self.store = LocalStore(root, durability)
        self._run(self.store.__aenter__())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def record(self) -> list[StreamInfo]:
        """What List answers, by way of the wire."""

        async def listed() -> list[StreamInfo]:
            return [info async for info in self.store.list(f"{RUN}/{SITE}/")]

        found: list[StreamInfo] = []
        for info in self._run(listed()):
            for sent in wire.parts_of(info):
                part, first = wire.decode_info(wire._encode_info(sent))
                found.append(part if not first else replace(found.pop(), marks=found[-1].marks + part.marks))
        return found

    def take(self, call: Call) -> None:
        """The next request of *call* arrives."""
        request = wire.decode_request(call.requests.popleft())
        if call.over:
            return
        try:
            if isinstance(request, Open):
                self._open(call, request)
                return
            assert call.appender is not None
            assert call.receiver is not None
            if isinstance(request, Packed):
                request = Chunk(request.offset, decompress(request.data, request.raw_length), request.digest)
            if isinstance(request, Chunk):
                new = call.receiver.chunk(request)
                if len(new):
                    self._run(call.appender.append(call.receiver.accepted - len(new), new))
            elif isinstance(request, Receipt):
                call.receiver.finish(request)
                self._run(call.appender.sync())
                self._run(call.appender.seal(request))
                self._end(call, Code.SEALED)
                return
            elif isinstance(request, News | Leave):
                return
            elif call.receiver.mark(*request):
                self._run(call.appender.mark(request[1]))
            call.dirty = True
        except FlarelogError as error:
            self._refuse(call, error)

    def _open(self, call: Call, request: Open) -> None:
        if self.misses > 0:
            self.misses -= 1
            raise Refused(Code.EXECUTION_EXCEPTION, "the run is not registered")
        appender = self._run(self.store.appender(request.stream, request.producer, request.epoch))
        promised = self.promised.get(request.stream, (0, 0))
        held = appender.committed, len(appender.marks)
        assert min(held[0] - promised[0], held[1] - promised[1]) >= 0, f"{promised} was acknowledged, {held} is held"
        call.stream, call.appender = request.stream, appender
        call.receiver = Receiver(appender.committed, appender.digest, appender.marks, max_chunk=appender.max_chunk)
        self._reply(call, Code.OK)

    def commit(self, call: Call) -> None:
        """Make durable what *call* brought, and acknowledge it."""
        if call.over or call.appender is None or not call.dirty:
            return
        call.dirty = False
        try:
            self._run(call.appender.sync())
        except FlarelogError as error:
            self._refuse(call, error)
        else:
            self._reply(call, Code.OK)

    def hang_up(self, call: Call) -> None:
        """The producer has gone; what it sent is committed all the same."""
        if call.appender is not None and not call.over:
            call.over = True
            try:
                self._run(call.appender.close())
            except FlarelogError:
                pass  # the next appender recovers

    def _refuse(self, call: Call, error: FlarelogError) -> None:
        if call.appender is not None:
            try:
                self._run(call.appender.sync())
            except FlarelogError:
                pass
        self._end(call, code_of(error), str(error))

    def _end(self, call: Call, code: Code, reason: str = "") -> None:
        self._reply(call, code, reason)
        self.hang_up(call)
        call.over = True

    def _reply(self, call: Call, code: Code, reason: str = "") -> None:
        appender = call.appender
        if appender is None or call.stream is None:
            reply = Reply(code, incarnation=self.incarnation, reason=reason)
        else:
            held = appender.committed, appender.digest, len(appender.marks)
            reply = Reply(code, *held, self.incarnation, appender.holder.epoch, reason)
            if code is not Code.FENCED:
                self.promised[call.stream] = held[0], held[2]
        call.replies.append(wire.encode_reply(reply))

    def stop(self) -> None:
        self._run(self.store.__aexit__())
        self._runner.close()

    def kill(self, data: int, journal: int, hole: bool) -> None:
        """End without a word. Of what was not committed *data* percent of the bytes and *journal* percent of the
        journal's lines reached the disk; with *hole* the file is as long as it was to be, but holds zeros there.
        """
        for appender in list(self.store._open.values()):
            lines, _ = appender._batch()
            committed, written = appender.committed, appender._written
            os.ftruncate(appender._data_fd, committed + (written - committed) * data // 100)
            if hole:
                os.ftruncate(appender._data_fd, written)
            os.pwrite(appender._journal_fd, lines[: len(lines) * journal // 100], appender._journal_size)
            os.close(appender._data_fd)
            os.close(appender._journal_fd)
        self.store._open.clear()
        if self.store._threads is not None:
            self.store._threads.shutdown()
        os.close(self.store._lock_fd)
        self._runner.close()


class Delivery:
    """One log on its way, as ``sidecar._Delivery``."""

    def __init__(self, end: SendingEnd, tail: Tail) -> None:
        self.stream = StreamId(RUN, SITE, tail.log)
        self.tail = tail
        self.producer = Producer(end.delivery)
        self.producer.acked, self.producer.marks_acked = tail.end, len(tail.marks)
        self.call: Call | None = None
        self.opened = False  # the call's first reply came
        self.error: StreamFenced | None = None
        self._end = end

    @property
    def done(self) -> bool:
        return self.error is not None or self.producer.state is State.SEALED

    def open(self) -> Call:
        self.producer.opened()
        self.call, self.opened = Call(), False
        self._write(Open(self.stream, self._end.producer_id, self.producer.epoch))
        return self.call

    def _write(self, request: wire.Request) -> None:
        assert self.call is not None
        self.call.requests.append(wire.encode_request(request))

    def send(self, count: int, now: float) -> int:
        """Write at most *count* things into the call; returns how many there were."""
        producer, tail = self.producer, self.tail
        for sent in range(count if self.opened else 0):
            item = tail.next(producer.position, producer.marks_sent, producer.room(), now)
            if isinstance(item, bytes):
                self._write(producer.chunk(item))
            elif item is not None:
                mark = replace(item, digest=producer.position_digest)
                self._write((producer.mark(), mark))
            elif self._complete(now):
                self._write(producer.finish())
            else:
                return sent
        return count if self.opened else 0

    def beat(self) -> None:
        if self.opened and self.producer.state is not State.FINISHING:
            self._write(self.producer.heartbeat())

    def _complete(self, now: float) -> bool:
        producer, tail = self.producer, self.tail
        return (
            producer.state in (State.STREAMING, State.PAUSED)
            and producer.position == tail.end
            and producer.marks_sent == len(tail.marks)
            and tail.drained(now)
        )

    def hear(self, receiver: ReceivingEnd, now: float) -> bool:
        """The next reply arrives; True if the call has ended with it."""
        assert self.call is not None
        reply = wire.decode_reply(self.call.replies.popleft())
        assert reply.code not in (Code.HOLE, Code.CORRUPT), f"{self.stream}: {reply}"
        try:
            self.producer.receive(reply)
        except StreamFenced as error:
            self.error = error
            return True
        if reply.code not in (Code.OK, Code.SEALED):
            return True
        self.tail.acknowledged(self.producer.acked)
        if not self.opened:
            self.opened = True
            if not self.tail.covers(self.producer.acked, self.producer.marks_acked):
                record = [info for info in receiver.record() if info.stream == self.stream]
                self._end.discovery.resume(record, now)
        return self.producer.state is State.SEALED


class SendingEnd:
    """One sidecar process."""

    def __init__(
        self, number: int, source: SourceOptions, delivery: DeliveryOptions, inotify: bool, state: str, now: float
    ) -> None:
        self.producer_id = b"producer %7d" % number
        self.delivery = delivery
        watch: Watch = InotifyWatch() if inotify else NoWatch()
        self.discovery = Discovery(source, watch)
        self._checkpoint = Checkpoint(state, RUN, SITE, "receiver:1")
        self.discovery.remembered.update(self._checkpoint.load())
        self.learned = False  # what the receiver holds
        self.deliveries: dict[str, Delivery] = {}
        self.look(now)

    def look(self, now: float) -> None:
        self.discovery.look(now)
        self._checkpoint.save(self.discovery.starts())

    def hear(self, now: float) -> None:
        """Take in what the watch reports."""
        changes = self.discovery.watch.ready()
        if changes:
            self.discovery.apply(changes, now)

    def learn(self, receiver: ReceivingEnd, now: float) -> None:
        if not self.learned:
            self.discovery.learn(receiver.record(), now)
            self.learned = True

    def logs(self) -> list[Delivery]:
        """All deliveries, of new logs as well; none before the receiver's record is known."""
        if self.learned:
            for name, tail in self.discovery.tails.items():
                if name not in self.deliveries:
                    self.deliveries[name] = Delivery(self, tail)
        return [self.deliveries[name] for name in sorted(self.deliveries)]

    def held(self) -> set[str]:
        """The identities of all files that are held open."""
        return {file.identity for tail in self.discovery.tails.values() for file in tail.files if file.fd >= 0}

    def close(self) -> None:
        self.discovery.close()
