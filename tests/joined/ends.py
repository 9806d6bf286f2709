"""The two processes without sockets, clocks and loops: sidecar.py and server.py, one message at a time.

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

from flarelog.delivery.pace import Load
from flarelog.delivery.producer import DeliveryOptions, Producer
from flarelog.delivery.sending import Again
from flarelog.delivery.sending import Delivery as Sending
from flarelog.delivery.windows import Window
from flarelog.errors import FlarelogError, StreamFenced
from flarelog.lifecycle import Event
from flarelog.model import Code, Open, Reply, Started, StreamId, StreamInfo
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.receiver.session import Session
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.watch import InotifyWatch, Watch
from flarelog.stores.local.store import LocalStore
from flarelog.wire.codec.lists import decode_info, encode_info, parts_of
from flarelog.wire.codec.push import Request
from flarelog.wire.codec.replies import encode_reply
from tests.messages import decode_reply, decode_request, encode_request
from tests.sources.files.tailing import NoWatch
from tests.stores.local.crash import crash

RUN, SITE = "run", "site"
WALL = 1_700_000_000.0  # seconds since 1970, when the world's own clock begins
T = TypeVar("T")


class Disk:
    """The appender's ``os``: a disk that can be full, and whose syncs take no time."""

    def __init__(self) -> None:
        self.room: int | None = None  # bytes; None: unlimited

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
    """One Push call of one stream: the messages in flight in both directions, and the session at its receiving end."""

    requests: deque[bytes] = field(default_factory=deque)
    replies: deque[bytes] = field(default_factory=deque)
    session: Session | None = None
    dirty: bool = False  # the session took something since the last reply
    over: bool = False  # no request is taken any more
    greeted: bool = False
    promised: dict[StreamId, tuple[int, int]] = field(default_factory=dict)
    # The rest is the interface that a session needs of its call.
    peer: str = "a peer"
    address: str = "a peer"
    context: Any = None
    load: Load = field(default_factory=Load)
    window: Window = field(default_factory=Window)
    gone: bool = False
    lost: bool = False

    def opened(self, session: Session) -> None:
        promised, held = self.promised.get(session.stream, (0, 0)), session.appender
        short = min(held.committed - promised[0], held.mark_count - promised[1])
        assert short >= 0, f"{promised} was acknowledged, {held.committed} bytes and {held.mark_count} marks are held"

    def acknowledge(self, session: Session) -> None:
        if self.greeted:
            self.dirty = True
        else:
            self.greeted = True
            self.last_word(session.reply(Code.OK))

    def last_word(self, reply: Reply) -> None:
        if self.session is not None and self.greeted and reply.code is not Code.FENCED:
            self.promised[self.session.stream] = reply.committed, reply.marks
        self.replies.append(encode_reply(reply))

    def tell(self, where: object, reply: Reply, error: FlarelogError, *, new: bool | None = None) -> None: ...

    def closed(self, session: Session) -> None:
        self.over = True


class ReceivingEnd:
    """One receiver over the store in *root*. It misses the first opens; killed, it loses its uncommitted bytes.

    All of it is real but for gRPC's call: the model chooses when it takes, commits and answers.
    """

    def __init__(self, root: Path, durability: Literal["disk", "memory"], number: int, misses: int) -> None:
        self.misses = misses
        self.promised: dict[StreamId, tuple[int, int]] = {}  # the bytes and marks that replies said to be committed
        self._runner = asyncio.Runner()
        self._calls: list[Call] = []
        self.store = LocalStore(root, durability)
        self._server = Server(self.store, ServerOptions(announced_runs_only=True))
        self._server.intake.incarnation = number.to_bytes(8, "big")
        self._run(self.store.__aenter__())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def settled() -> T:
            done = await work
            while ending := [call for call in self._calls if call.session and call.session.ending and not call.over]:
                await asyncio.wait([call.session.closed for call in ending if call.session])
            return done

        return self._runner.run(settled())

    def record(self) -> list[StreamInfo]:
        """The answer of List, sent through the wire's encoding."""

        async def listed() -> list[StreamInfo]:
            return [info async for info in self.store.list(f"{RUN}/{SITE}/")]

        found: list[StreamInfo] = []
        for info in self._run(listed()):
            for sent in parts_of(info):
                part, first = decode_info(encode_info(sent))
                found.append(part if not first else replace(found.pop(), marks=found[-1].marks + part.marks))
        return found

    def take(self, call: Call) -> None:
        """Take the next request of *call*."""
        request = decode_request(call.requests.popleft())
        if not call.over:
            self._run(self._take(call, request))

    async def _take(self, call: Call, request: Request) -> None:
        if call.session is None and isinstance(request, Open):
            if self.misses > 0:
                self.misses -= 1
            else:
                await self._server.runs.announce(RUN, Event.START_RUN)
            call.promised = self.promised
            self._calls.append(call)
            call.session = Session(self._server.intake, call, 0, request)
            await call.session.opened()
            return
        assert call.session is not None
        try:
            if await call.session.take(request):
                call.session.taken()
        except FlarelogError as error:
            call.session.refuse(error)

    def commit(self, call: Call) -> None:
        """Make the bytes of *call* durable, and acknowledge them."""
        if call.over or call.session is None or not call.dirty:
            return
        call.dirty = False
        self._run(call.session.sync())
        if call.session.open:
            call.last_word(call.session.reply(Code.OK))

    def hang_up(self, call: Call) -> None:
        """Drop the producer's connection; the receiver still commits the bytes that it took."""
        if call.session is not None and not call.over:
            self._run(self._hang_up(call.session))
        if call in self._calls:
            self._calls.remove(call)

    async def _hang_up(self, session: Session) -> None:
        session.leave()

    def stop(self) -> None:
        for call in list(self._calls):
            self.hang_up(call)
        self._server.intake.close()
        self._run(self.store.__aexit__())
        self._runner.close()

    def kill(self, data: int, journal: int, hole: bool) -> None:
        """End without cleanup; ``crash`` decides what the store is left with."""
        crash(self.store, data, journal, hole)
        self._runner.close()


class Delivery:
    """The delivery of one log, as in ``sender.log.Log``: ``sending`` decides, and the test makes the call."""

    def __init__(self, end: SendingEnd, tail: Tail) -> None:
        self.sending = Sending(StreamId(RUN, SITE, tail.log), tail, end.delivery)
        self.stream = self.sending.stream
        self.call: Call | None = None
        self.error: StreamFenced | None = None
        self._end = end

    @property
    def producer(self) -> Producer:
        return self.sending.producer

    @property
    def opened(self) -> bool:
        """Whether the call's first reply came."""
        return self.call is not None and self.sending.answered

    @property
    def done(self) -> bool:
        return self.error is not None or self.sending.sealed

    def open(self, now: float) -> Call:
        self.call = Call()
        end = self._end
        self._write(self.sending.open(end.producer_id, 0, 0, now, WALL + now, started=end.started))
        return self.call

    def _write(self, request: Request) -> None:
        assert self.call is not None
        self.call.requests.append(encode_request(request))

    def send(self, count: int, now: float) -> int:
        """Write at most *count* items into the call; return how many there were."""
        for sent in range(count if self.opened else 0):
            item = self.sending.next(now, WALL + now)
            if news := self.sending.news(now, WALL + now):
                self._write(news)
            if item is None:
                return sent
            self._write(item)
        return count if self.opened else 0

    def beat(self) -> None:
        if self.opened and (beat := self.sending.beat()):
            self._write(beat)

    def hear(self, receiver: ReceivingEnd, now: float) -> bool:
        """Take the next reply; return whether it ended the call."""
        assert self.call is not None
        reply, opened = decode_reply(self.call.replies.popleft()), self.opened
        assert reply.code not in (Code.HOLE, Code.CORRUPT), f"{self.stream}: {reply}"
        try:
            self.sending.heard(reply, now)
            if not opened and self.sending.unknown:
                record = [info for info in receiver.record() if info.stream == self.stream]
                self._end.discovery.resume(record, now)
                self.sending.learned(shown=bool(record))
        except StreamFenced as error:
            self.error = error
            return True
        except Again as again:
            self.sending.ended(again, 0, now)
            return True
        return self.done


class SendingEnd:
    """One sidecar process."""

    def __init__(
        self, number: int, source: SourceOptions, delivery: DeliveryOptions, inotify: bool, state: str, now: float
    ) -> None:
        self.producer_id, self.started = b"producer %7d" % number, Started("boot", number)
        self.delivery = delivery
        watch: Watch = InotifyWatch() if inotify else NoWatch()
        self.discovery = Discovery(source, watch)
        self._checkpoint = Checkpoint(state, RUN, SITE, "receiver:1")
        self.discovery.ledger.remembered.update(self._checkpoint.load())
        self.learned = False  # whether the receiver's record is known
        self.deliveries: dict[str, Delivery] = {}
        self.look(now)

    def look(self, now: float) -> None:
        self.discovery.look(now)
        self._checkpoint.save(self.discovery.starts())

    def hear(self, now: float) -> None:
        """Apply the changes that the watch reports."""
        changes = self.discovery.watch.ready()
        if changes:
            self.discovery.apply(changes, now)

    def learn(self, receiver: ReceivingEnd, now: float) -> None:
        if not self.learned:
            self.discovery.learn(receiver.record(), now)
            self.learned = True

    def logs(self) -> list[Delivery]:
        """All deliveries, including those of new logs; empty before the receiver's record is known."""
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
