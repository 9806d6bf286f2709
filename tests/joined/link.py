"""Both ends of a delivery joined in memory, with faults at chosen messages. Nothing waits, and nothing is random."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flarelog.checksum import extend
from flarelog.delivery.producer import DeliveryOptions, Producer
from flarelog.delivery.receiver import Epochs, Holder, Receiver, Refused
from flarelog.delivery.receiving import Reception
from flarelog.delivery.sending import Again, Delivery
from flarelog.errors import FlarelogError, Full
from flarelog.model import Activity, Chunk, Code, Generation, Mark, Open, Receipt, Reply, StreamId

STREAM = StreamId("run-1", "site-1", "log.txt")
PRODUCER = b"a-producer-of-16"
FOREVER = 10_000  # connections after which a delivery counts as endless

Message = Open | Chunk | tuple[int, Mark] | Receipt


class Kind(enum.Enum):
    """The fault at a message that is about to be delivered."""

    CUT = "cut"  # the connection is lost; *n* of the requests in flight still arrive
    REPEAT = "repeat"  # a chunk arrives *n* more times
    SWAP = "swap"  # the next request overtakes this one
    DAMAGE = "damage"  # a byte of a chunk changes in flight
    MUTE = "mute"  # a reply is lost
    PAUSE = "pause"  # the disk is full, and still is at the next *n* opens
    FORGET = "forget"  # the receiver no longer knows the run: it misses the next *n* opens
    RESTART = "restart"  # the receiver is killed; the new one misses *n* opens and keeps the store
    STALL = (
        "stall"  # the network holds it for longer than any timeout: the receiver's, which answers; n > 0: the sender's
    )
    RESTORE = "restore"  # a RESTART without a miss, whose store is a copy that is *n* commits old


@dataclass(frozen=True)
class Fault:
    kind: Kind
    n: int = 0


def generations(source: bytes, *offsets: int) -> list[Mark]:
    """A mark at each of *offsets*."""
    return [Generation(at, extend(0, source[:at]), f"log.{n}", 0, f"file-{n}") for n, at in enumerate(offsets)]


@dataclass
class Memory:
    """A source that is complete: *data*, and its marks."""

    data: bytes
    marks: list[Mark] = field(default_factory=list)
    end: int = 0
    draining, away = True, ""
    has_more = at_rest = urgent = goes_on = False
    activity: Activity | None = None

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        end = min(len(self.data), offset + room)
        if marks < len(self.marks):
            if self.marks[marks].offset == offset:
                return self.marks[marks]
            end = min(end, self.marks[marks].offset)
        self.end = max(self.end, end)
        return self.data[offset:end] or None

    def unread(self, *, look: bool = True) -> int:
        return len(self.data) - self.end

    def covers(self, offset: int, marks: int) -> bool:
        return True

    def acknowledged(self, offset: int) -> None: ...

    def drained(self, now: float) -> bool:
        return not self.unread()


class Link:
    """A source, its producer, a receiver that commits every *lag* messages, and the receiver's durable store.

    ``run`` connects until the stream is sealed. Messages are delivered one by one, a request and a reply in turn, and
    are counted from 1 over all connections. *faults* maps such numbers to faults.
    """

    def __init__(
        self,
        source: bytes,
        marks: Sequence[Mark] = (),
        *,
        options: DeliveryOptions | None = None,
        late: int = 0,
        lag: int = 1,
        faults: Mapping[int, Fault] | None = None,
    ) -> None:
        self.source, self.marks = source, list(marks)
        memory = Memory(source)
        self.delivery = Delivery(STREAM, memory, options or DeliveryOptions())
        memory.marks += marks  # after the Delivery exists: a file's marks, too, come while it is sent
        self.late, self.lag, self.faults = late, lag, dict(faults or {})
        self.stored, self.stored_marks = bytearray(), list[Mark]()
        self.sealed: Receipt | None = None
        self.holder, self._epochs = Holder(), Epochs()
        self.delivered = self.connections = self.appended = self.unanswered = 0
        self.most_before_ok = 0  # the most messages in flight before this receiver's first OK
        self._incarnation, self._paused, self._greeted = 1, 0, False
        self._copies = [(0, 0)]
        self._reception: Reception | None = None
        self._bytes, self._marks = bytearray(), list[Mark]()  # taken, and not durable yet
        self._requests, self._replies = deque[Message](), deque[Reply]()
        self._held: tuple[Message, ...] = ()  # by the network, after the sender gave up their call

    @property
    def agrees(self) -> bool:
        """Whether the store holds the source, byte for byte and mark for mark, under the receipt of both ends."""
        receipt = Receipt(len(self.source), extend(0, self.source), len(self.marks))
        return self.stored == self.source and self.stored_marks == self.marks and self.sealed == receipt

    @property
    def producer(self) -> Producer:
        return self.delivery.producer

    def run(self) -> Link:
        while not self.delivery.sealed:
            self.connections += 1
            assert self.connections < FOREVER, "the delivery never ends"
            self.connect()
        return self

    def connect(self) -> None:
        """One connection, from its Open to its loss, to a refusal or to the receipt."""
        self._requests.clear()
        self._replies.clear()
        self._reception = None
        self._requests.append(self.delivery.open(PRODUCER, 0, 0, 0.0, 0.0))
        while not self.delivery.sealed:
            self._send()
            if not self._greeted:
                self.most_before_ok = max(self.most_before_ok, len(self._requests))
            if not (self._requests or self._replies) or not self._deliver():
                return  # a silent connection is lost, too

    # --- the sending end

    def _send(self) -> None:
        while self.delivery.answered and (item := self.delivery.next(0.0, 0.0)) is not None:
            self._requests.append(item)

    # --- the network

    def _deliver(self) -> bool:
        """Deliver the next message, or apply its fault; False: the connection has ended."""
        self.delivered += 1
        fault = self.faults.get(self.delivered, Fault(Kind.REPEAT))
        match fault.kind:
            case Kind.CUT:
                for _ in range(min(fault.n, len(self._requests))):
                    self._take(self._requests.popleft())
                self._commit()
                return False
            case Kind.RESTART | Kind.RESTORE:
                self._restart(fault)
                return False
            case Kind.FORGET:
                self._commit()
                self.late = fault.n
                return False
            case Kind.PAUSE if self._reception is not None:
                self._paused = fault.n
                self._refuse(Full("the disk is full"))
            case Kind.SWAP if len(self._requests) > 1 and not self._parts_mark_from_bytes():
                self._requests[0], self._requests[1] = self._requests[1], self._requests[0]
            case Kind.STALL if fault.n:
                self._held = tuple(self._requests)
                self._commit()
                return False
            case Kind.STALL if self._reception is None and self._requests:
                self._replies.append(Reply(Code.GOING_AWAY, reason="no Open came"))
                self._requests.clear()
            case Kind.STALL:
                self._requests.clear()
                self._refuse(Refused(Code.GOING_AWAY, "no message came"))
            case Kind.MUTE if self._replies:
                self._replies.popleft()
                self.unanswered += 1
                return True
        if self._replies and (self.delivered % 2 or not self._requests):
            reply = self._replies.popleft()
            try:
                self.delivery.heard(reply, 0.0)
            except Again:
                return False
            return True
        if self._requests:
            request = self._requests.popleft()
            if isinstance(request, Chunk):
                for _ in range(fault.n if fault.kind is Kind.REPEAT else 0):
                    self._take(request)
                if fault.kind is Kind.DAMAGE:
                    request = replace(request, data=bytes([request.data[0] ^ 1]) + bytes(request.data[1:]))
            self._take(request)
        return True

    def _parts_mark_from_bytes(self) -> bool:
        """Whether a swap would move bytes before their mark, which the order within a gRPC call forbids."""
        return isinstance(self._requests[0], tuple) and isinstance(self._requests[1], Chunk)

    # --- the receiving end

    def _take(self, request: Message) -> None:
        if isinstance(request, Open):
            self._open(request)
            return
        reception = self._reception
        if reception is None:  # the call has ended: later requests are dropped
            return
        try:
            new = reception.take(request)
        except Refused as refused:
            self._refuse(refused)
            return
        if isinstance(new, bytes | bytearray | memoryview):
            self._bytes += new
            self.appended += len(new)
        elif new is not None:
            self._marks.append(new)
        if not reception.taking:
            self._commit()
            reception.sealed()
            self.sealed = reception.receipt
            self._close(reception)
            return
        if len(self._replies) == 0 and (self.delivered % self.lag == 0 or not self._requests):
            self._commit()
            self._reply(Code.OK)

    def _open(self, request: Open) -> None:
        if self.late > 0:
            self.late -= 1
            self._reply(Code.EXECUTION_EXCEPTION, f"run {request.stream.run} is not registered")
        elif self._paused > 0:
            self._paused -= 1
            self._reply(Code.PAUSE, "the disk is full")
        else:
            self.holder = self._epochs.claim(self.holder, request.producer, request.epoch)
            self._reception = Reception()
            self._reception.held(Receiver(len(self.stored), extend(0, self.stored), self.stored_marks))
            self._bytes.clear()
            self._marks.clear()
            self._greeted = True
            self._reply(Code.OK)
            self._thaw()

    def _thaw(self) -> None:
        """Deliver the held messages of the call before. Its Open is that of a new call, and ends the present one."""
        held, self._held = self._held, ()
        if held and isinstance(held[0], Open):
            self.holder = self._epochs.claim(self.holder, held[0].producer, held[0].epoch)
            self._refuse(Refused(Code.GOING_AWAY, "its producer opened it again"))

    def _refuse(self, error: FlarelogError) -> None:
        if self._reception is not None:
            self._reception.refuse(error)
            self._commit()
            self._close(self._reception)

    def _close(self, reception: Reception) -> None:
        self._reply(reception.last_word, str(reception.refusal or ""))
        reception.committed()
        self._reception = None

    def _commit(self) -> None:
        if self._bytes or self._marks:
            self.stored += self._bytes
            self.stored_marks += self._marks
            self._bytes.clear()
            self._marks.clear()
            self._copies.append((len(self.stored), len(self.stored_marks)))

    def _reply(self, code: Code, reason: str = "") -> None:
        incarnation = self._incarnation.to_bytes(8, "big")
        digest, marks = extend(0, self.stored), len(self.stored_marks)
        self._replies.append(
            Reply(code, len(self.stored), digest, marks, incarnation, self.holder.epoch, reason),
        )

    def _restart(self, fault: Fault) -> None:
        self._incarnation += 1
        self._greeted = False
        self._bytes.clear()
        self._marks.clear()
        if fault.kind is Kind.RESTART:
            self.late = fault.n
        else:
            del self._copies[max(1, len(self._copies) - fault.n) :]
            length, marks = self._copies[-1]
            del self.stored[length:]
            del self.stored_marks[marks:]
