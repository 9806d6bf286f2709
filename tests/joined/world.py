"""Both ends of flarelog on real files in one thread, and all faults, one step at a time.

A step that is impossible in the present state changes nothing and is not counted. Nothing waits, and nothing is random:
the same steps lead to the same end, so their list is a program that replays it (``script``).
"""

from __future__ import annotations

import functools
import gzip
import os
import random
import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec

from flarelog import replace as replacing
from flarelog.delivery.producer import DeliveryOptions, State
from flarelog.model import StreamId, StreamInfo
from flarelog.sources.files.identity import identity
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.tail import ROTATION_GRACE
from flarelog.stores.local import appender as appending
from tests.joined.ends import RUN, SITE, Call, Delivery, Disk, ReceivingEnd, SendingEnd
from tests.joined.oracle import Incarnation, Oracle
from tests.sources.files.storms import Calls

What = bytes | tuple[str, int]
"""The bytes of a write: these, or so many of ``lines`` (no line repeats), ``noise``, or ``same`` (equal in all files).
"""

TICK = 10_000_000  # ns; one tick of the files' own clock: unlike the kernel's, it gives each write a time of its own
SAME = b"the same line in every file\n" * 4000
ROUNDS = 500  # rounds after which a delivery counts as endless
OUT = "out"  # a directory that no pattern matches
P = ParamSpec("P")


def step(work: Callable[Concatenate[World, P], bool]) -> Callable[Concatenate[World, P], bool]:
    """A step: recorded in the script, taken, and followed by a judgement of the store. False: it was impossible."""

    @functools.wraps(work)
    def taken(world: World, *args: P.args, **kwargs: P.kwargs) -> bool:
        world.script.append(f"world.{work.__name__}({', '.join(map(repr, args))})")
        try:
            if not work(world, *args, **kwargs):
                world.script.pop()
                return False
            world.judge()
        except BaseException:
            world.failed = True
            raise
        world.steps += 1
        world._follow()
        return True

    return taken  # type: ignore[return-value]  # functools.wraps keeps what it wraps


class World:
    """A site with its writers and its sidecar, a receiver with its store, and the messages in flight between them."""

    def __init__(
        self,
        *,
        inotify: bool = False,
        durability: Literal["disk", "memory"] = "disk",
        chunk: int = 4096,
    ) -> None:
        self.script = [f"world = World(inotify={inotify}, durability={durability!r}, chunk={chunk})"]
        self.steps = 0
        self.failed = False
        self.oracle = Oracle()
        self._place = Path(tempfile.mkdtemp(prefix="flarelog-model-"))
        self.root = self._place / "site"
        (self.root / OUT).mkdir(parents=True)
        self._inotify, self._durability = inotify, durability
        self._source = SourceOptions(str(self.root), include=("*.log*",))
        self._delivery = DeliveryOptions(max_chunk=chunk, window=4 * chunk)
        self._disk = Disk()
        appending.os = self._disk  # type: ignore[assignment,attr-defined]
        replacing.os = Disk()  # type: ignore[assignment,attr-defined]
        self._now = 0.0
        self._ticks = 0
        self._writes = 0
        self._inodes: dict[tuple[int, int], Incarnation] = {}
        self._handles: list[tuple[int, Incarnation, bool]] = []  # (descriptor, its file, whether it appends)
        self._numbers = 0  # of processes so far
        self._copy: dict[StreamId, tuple[int, int]] | None = None  # the promises at the time of the store's copy
        self._judged: dict[str, tuple[int, int]] = {}
        self.sidecar: SendingEnd | None = None
        self.fenced: SendingEnd | None = None  # the former sidecar, which does not know that another took over
        self.receiver: ReceivingEnd | None = None
        self._late = deque[Call]()  # calls that the sidecar gave up, whose messages the network still holds

    def close(self) -> None:
        self._fall()
        if self.receiver is not None:
            self.receiver.kill(100, 0, False)
        for fd, _, _ in self._handles:
            os.close(fd)
        appending.os = replacing.os = os  # type: ignore[attr-defined]
        shutil.rmtree(self._place)

    def judge(self) -> None:
        """Compare the streams that have grown in the store with the written bytes."""
        if self.receiver is not None:
            for info in self.receiver.record():
                log, state = info.stream.log, (info.committed, len(info.marks))
                if self._judged.get(log) != state:
                    self.oracle.check(info, self._stored(info))
                    self._judged[log] = state

    def _stored(self, info: StreamInfo) -> bytes:
        path = self._place / "store" / RUN / SITE / info.stream.log
        return path.read_bytes()[: info.committed] if info.committed else b""

    # --- writers

    def _at(self, name: str) -> Incarnation | None:
        """The file at the path *name*."""
        try:
            found = os.stat(self.root / name)
        except OSError:
            return None
        return self._inodes.get((found.st_dev, found.st_ino))

    def _open(self, name: str) -> tuple[int, Incarnation] | None:
        """Open *name* for writing, and create the file if it is missing. None: a dangling link."""
        before = self._at(name)
        try:
            fd = os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError:
            return None
        if before is not None:
            return fd, before
        found = os.fstat(fd)
        source = Incarnation(identity(fd))
        assert source.identity not in self.oracle.sources, f"{source.identity} was another file's before"
        self.oracle.sources[source.identity] = self._inodes[found.st_dev, found.st_ino] = source
        self._touch(fd)
        return fd, source

    def _touch(self, fd: int) -> None:
        self._ticks += 1
        os.utime(fd, ns=(self._ticks * TICK, self._ticks * TICK))

    def _bytes(self, source: Incarnation, what: What) -> bytes:
        if isinstance(what, bytes):
            return what
        kind, size = what
        self._writes += 1
        at = len(source.content)
        if kind == "same" and SAME.startswith(source.content) and at + size <= len(SAME):
            return SAME[at : at + size]
        if kind == "noise":
            return random.Random(self._writes).randbytes(size)
        lines = (b"%d.%d of this file and no other\n" % (self._writes, number) for number in range(size // 30 + 1))
        return b"".join(lines)[:size]

    def _append(self, fd: int, source: Incarnation, what: What, at: int | None = None) -> None:
        end = len(source.content)
        data = self._bytes(source, what)
        if at is not None and data:
            source.content.extend(bytes(at - end))  # a hole
            end = at
        os.pwrite(fd, data, end)
        source.content.extend(data)
        self._touch(fd)

    @step
    def append(self, name: str, what: What) -> bool:
        opened = self._open(name)
        if opened is None:
            return False
        self._append(*opened, what)
        os.close(opened[0])
        return True

    @step
    def open(self, name: str, appends: bool) -> bool:
        """Open *name* and keep it open. Without *appends* the writer keeps its own position, even after truncations."""
        opened = self._open(name) if len(self._handles) < 6 else None
        if opened is None:
            return False
        fd, source = opened
        os.lseek(fd, 0, os.SEEK_END)
        self._handles.append((fd, source, appends))
        return True

    @step
    def write(self, handle: int, what: What) -> bool:
        """Write through one of the open handles."""
        if not self._handles:
            return False
        fd, source, appends = self._handles[handle % len(self._handles)]
        if appends:
            self._append(fd, source, what)
            return True
        at = os.lseek(fd, 0, os.SEEK_CUR)
        if at < len(source.content):
            return False  # the write would overwrite another writer's bytes
        self._append(fd, source, what, at)
        os.lseek(fd, 0, os.SEEK_END)
        return True

    @step
    def shut(self, handle: int) -> bool:
        if not self._handles:
            return False
        os.close(self._handles.pop(handle % len(self._handles))[0])
        return True

    @step
    def rename(self, old: str, new: str) -> bool:
        if not os.path.lexists(self.root / old):
            return False
        os.replace(self.root / old, self.root / new)
        return True

    @step
    def rotate(self, name: str, keep: int) -> bool:
        """Rename *name* to its first backup, the first to the second, and so on; the last of *keep* is replaced."""
        if not os.path.lexists(self.root / name):
            return False
        for number in range(keep, 0, -1):
            old = f"{name}.{number - 1}" if number > 1 else name
            if os.path.lexists(self.root / old):
                os.replace(self.root / old, self.root / f"{name}.{number}")
        return True

    @step
    def truncate(self, name: str, permille: int, then: What) -> bool:
        """Cut *name* to so many thousandths of its length, and append *then* before the sidecar looks."""
        opened = self._open(name) if self._at(name) is not None else None
        if opened is None:
            return False
        fd, source = opened
        length = len(source.content) * permille // 1000
        source.cut(length)
        os.ftruncate(fd, length)
        self._append(fd, source, then)
        os.close(fd)
        return True

    @step
    def copytruncate(self, name: str) -> bool:
        before, copy = self._at(name), f"{name}.1"
        if before is None or before is self._at(copy):
            return False
        if os.path.lexists(self.root / copy):
            os.unlink(self.root / copy)
        for path, data in ((copy, bytes(before.content)), (name, b"")):
            opened = self._open(path)
            assert opened is not None
            fd, source = opened
            source.cut(0)
            os.ftruncate(fd, 0)
            self._append(fd, source, data)
            os.close(fd)
        return True

    @step
    def compress(self, name: str) -> bool:
        """Replace *name* by its compressed copy."""
        source = self._at(name)
        if source is None or name.endswith(".gz") or os.path.lexists(self.root / f"{name}.gz"):
            return False
        opened = self._open(f"{name}.gz")
        assert opened is not None
        opened[1].compressed = True
        self._append(*opened, gzip.compress(bytes(source.content), mtime=0))
        os.close(opened[0])
        os.unlink(self.root / name)
        return True

    @step
    def delete(self, name: str) -> bool:
        if not os.path.lexists(self.root / name):
            return False
        os.unlink(self.root / name)
        return True

    @step
    def link(self, name: str, new: str) -> bool:
        """Give the file the second name *new*."""
        if self._at(name) is None or os.path.lexists(self.root / new):
            return False
        os.link(os.path.realpath(self.root / name), self.root / new)
        return True

    @step
    def point(self, name: str, target: str) -> bool:
        """Point the symbolic link *name* to *target*."""
        if os.path.lexists(self.root / name) and not (self.root / name).is_symlink():
            return False
        os.symlink(target, self.root / f"{OUT}/new-link")
        os.replace(self.root / f"{OUT}/new-link", self.root / name)
        return True

    @step
    def wait(self, seconds: float) -> bool:
        self._now += seconds
        return True

    @step
    def spoil(self, name: str) -> bool:
        """Tell the oracle a wrong byte, so that it must fail. Only the test of the oracle itself takes this step."""
        source = self._at(name)
        if source is None or not source.content:
            return False
        source.content[0] ^= 1
        return True

    # --- the sidecar

    def _saw(self) -> set[Incarnation]:
        """Tell the oracle that the sidecar looked; return the files that it saw."""
        assert self.sidecar is not None
        held = self.sidecar.held()
        linked = {self._at(path.name) for path in self.root.iterdir() if self._source.matches(path.name)}
        present = {source for source in self.oracle.sources.values() if source.identity in held or source in linked}
        for source in present:
            source.look()
        return present

    def _follow(self) -> None:
        """Tell the oracle how far the sidecar has read."""
        tails = self.sidecar.discovery.tails.values() if self.sidecar is not None else ()
        for file in [file for tail in tails for file in tail.files]:
            if file.begun and file.identity in self.oracle.sources:
                self.oracle.sources[file.identity].reading(file.position, file.marker)

    @step
    def start(self) -> bool:
        """Start a sidecar, if there is none."""
        if self.sidecar is not None:
            return False
        self._start()
        return True

    def _start(self) -> None:
        self._numbers += 1
        state = str(self._place / "state")
        self.sidecar = SendingEnd(self._numbers, self._source, self._delivery, self._inotify, state, self._now)
        self._saw()

    @step
    def start_amid(self, name: str, keep: int, at: int) -> bool:
        """Start a sidecar, and let *name* rotate and grow before the *at*-th call that it makes of the system."""
        if self.sidecar is not None or self._at(name) is None:
            return False
        calls = Calls()

        def turn() -> None:
            World.rotate.__wrapped__(self, name, keep)  # type: ignore[attr-defined]
            World.append.__wrapped__(self, name, ("lines", 90))  # type: ignore[attr-defined]

        calls.act, calls.due = turn, [at]
        try:
            self._start()
        finally:
            calls.close()
        self._saw()
        return True

    @step
    def kill(self, forget: bool) -> bool:
        """Kill the sidecar; with *forget* its checkpoint is lost as well."""
        if self.sidecar is None:
            return False
        self._fall()
        if forget:
            shutil.rmtree(self._place / "state")
        return True

    def _fall(self) -> None:
        for end in (self.sidecar, self.fenced):
            if end is not None:
                self._drop(end)
                end.close()
        self.sidecar = self.fenced = None
        self.oracle.forget_seen()

    @step
    def take_over(self) -> bool:
        """Start another sidecar beside the present one, which sleeps from now on."""
        if self.sidecar is None or self.receiver is None or self.fenced is not None or self._disk.room is not None:
            return False
        self.fenced = self.sidecar
        self.oracle.forget_seen()
        self._start()
        self._learn()
        for delivery in self._logs():
            for _ in range(10):  # the new sidecar opens the streams before the old one wakes
                if not delivery.opened:
                    self._exchange(delivery)
        return True

    @step
    def wake(self, index: int) -> bool:
        """The fenced sidecar goes on with one of the logs that the other one has."""
        assert self.sidecar is not None or self.fenced is None
        if self.fenced is None or self.receiver is None:
            return False
        taken = {other.stream for other in self._logs() if other.opened or other.producer.epoch}
        # A log that the fenced sidecar never had may still be opened, as by a newcomer.
        mine = [
            delivery for delivery in self.fenced.deliveries.values() if delivery.producer.epoch and not delivery.done
        ]
        logs = [delivery for delivery in mine if delivery.stream in taken]
        if not logs:
            return False
        before = self._held()
        self._exchange(logs[index % len(logs)])
        assert self._held() == before, "a sidecar that was taken over has added to a stream"
        return True

    def _held(self) -> list[tuple[StreamId, int, int]]:
        assert self.receiver is not None
        return [(info.stream, info.committed, len(info.marks)) for info in self.receiver.record()]

    @step
    def look(self) -> bool:
        if self.sidecar is None:
            return False
        self.sidecar.look(self._now)
        self._saw()
        return True

    @step
    def hear(self) -> bool:
        """The sidecar takes the watch's reports."""
        if self.sidecar is None or not self._inotify:
            return False
        self.sidecar.hear(self._now)
        return True

    # --- the network

    def _logs(self) -> list[Delivery]:
        """The deliveries that have not ended."""
        if self.sidecar is None:
            return []
        logs = self.sidecar.logs()
        for delivery in logs:
            assert delivery.error is None, f"{delivery.stream}: {delivery.error}"
        return [delivery for delivery in logs if not delivery.done]

    def _log(self, index: int, connected: bool = True) -> Delivery | None:
        logs = [delivery for delivery in self._logs() if (delivery.call is not None) is connected]
        return logs[index % len(logs)] if logs else None

    def _learn(self) -> bool:
        """Give the receiver's record to the sidecar; False if it has it already."""
        if self.sidecar is None or self.receiver is None or self.sidecar.learned:
            return False
        self._saw()
        self.oracle.learn(self.receiver.record())
        self.sidecar.learn(self.receiver, self._now)
        return True

    @step
    def learn(self) -> bool:
        return self._learn()

    @step
    def connect(self, index: int) -> bool:
        delivery = self._log(index, connected=False)
        if delivery is None or self.receiver is None:
            return False
        delivery.open(self._now)
        return True

    @step
    def send(self, index: int, count: int) -> bool:
        delivery = self._log(index)
        return delivery is not None and delivery.send(count, self._now) > 0

    @step
    def beat(self, index: int) -> bool:
        delivery = self._log(index)
        if delivery is None or not delivery.opened:
            return False
        delivery.beat()
        return True

    @step
    def arrive(self, index: int, count: int) -> bool:
        """Deliver requests to the receiver, which, if it syncs, does not commit them yet."""
        delivery = self._log(index)
        return delivery is not None and self._arrive(delivery, count) > 0

    def _arrive(self, delivery: Delivery, count: int) -> int:
        assert self.receiver is not None
        assert delivery.call is not None
        count = min(count, len(delivery.call.requests))
        for _ in range(count):
            self.receiver.take(delivery.call)
        return count

    @step
    def commit(self, index: int) -> bool:
        delivery = self._log(index)
        if delivery is None or self.receiver is None or delivery.call is None or not delivery.call.dirty:
            return False
        self.receiver.commit(delivery.call)
        return True

    @step
    def answer(self, index: int, count: int) -> bool:
        """Deliver replies to the sidecar."""
        delivery = self._log(index)
        return delivery is not None and self._answer(delivery, count) > 0

    def _answer(self, delivery: Delivery, count: int) -> int:
        assert self.receiver is not None
        heard = 0
        while heard < count and delivery.call is not None and delivery.call.replies:
            heard += 1
            if delivery.hear(self.receiver, self._now):
                self._cut(delivery)
        return heard

    def _cut(self, delivery: Delivery) -> None:
        if delivery.call is not None and self.receiver is not None:
            self.receiver.hang_up(delivery.call)
        delivery.call = None

    @step
    def cut(self, index: int, arriving: int) -> bool:
        """Cut the connection; *arriving* requests still reach the receiver, but no reply reaches the sidecar."""
        delivery = self._log(index)
        if delivery is None:
            return False
        self._arrive(delivery, arriving)
        self._cut(delivery)
        return True

    @step
    def stall(self, index: int) -> bool:
        """The network holds a call's messages for longer than any timeout, so that the sidecar gives the call up."""
        delivery = self._log(index)
        if delivery is None or delivery.call is None:
            return False
        self._late.append(delivery.call)
        delivery.call = None
        return True

    @step
    def go_on(self) -> bool:
        """The messages that were held for longest reach the receiver, and then the end of their call."""
        if not self._late or self.receiver is None:
            return False
        call = self._late.popleft()
        while call.requests:
            self.receiver.take(call)
        self.receiver.hang_up(call)
        return True

    @step
    def pump(self, rounds: int) -> bool:
        """Let all logs go on without faults for so many rounds."""
        learned = self._learn()
        moved = [
            self._exchange(delivery) for _ in range(rounds) for delivery in self._logs()
        ]  # a list, so that each delivery has its turn
        return learned or any(moved)

    def _exchange(self, delivery: Delivery) -> bool:
        """One round of one log: connect, send, store, answer. False if there was nothing to do."""
        if self.receiver is None:
            return False
        before = delivery.producer.state
        moved = delivery.call is None
        if delivery.call is None:
            delivery.open(self._now)
        moved |= delivery.send(8, self._now) > 0
        moved |= self._arrive(delivery, 100) > 0
        if delivery.call is not None:
            self.receiver.commit(delivery.call)
        moved |= self._answer(delivery, 100) > 0
        return moved or before is not delivery.producer.state

    def _drop(self, end: SendingEnd) -> None:
        for delivery in end.deliveries.values():
            self._cut(delivery)

    # --- the receiver

    @step
    def serve(self, misses: int) -> bool:
        """Start a receiver, if there is none; it misses the first opens."""
        if self.receiver is not None:
            return False
        self._serve(misses, {})
        return True

    def _serve(self, misses: int, promised: dict[StreamId, tuple[int, int]]) -> None:
        self._numbers += 1
        self.receiver = ReceivingEnd(self._place / "store", self._durability, self._numbers, misses)
        self.receiver.promised = dict(promised)

    def _stop(self, stop: Callable[[ReceivingEnd], None]) -> dict[StreamId, tuple[int, int]]:
        """End the receiver and all its connections; return its promises."""
        assert self.receiver is not None
        receiver, self.receiver = self.receiver, None
        self._late.clear()
        stop(receiver)
        for end in (self.sidecar, self.fenced):
            if end is not None:
                self._drop(end)
        return receiver.promised

    @step
    def restart_receiver(self, misses: int) -> bool:
        if self.receiver is None:
            return False
        self._serve(misses, self._stop(ReceivingEnd.stop))
        return True

    @step
    def kill_receiver(self, misses: int, data: int, journal: int, hole: bool) -> bool:
        """Kill the receiver; *data* and *journal* percent of its uncommitted bytes and lines reach the disk."""
        if self.receiver is None:
            return False
        self._serve(misses, self._stop(lambda receiver: receiver.kill(data, journal, hole)))
        return True

    @step
    def backup(self) -> bool:
        """Copy the store as it is."""
        if self.receiver is None:
            return False
        self._copy = self._stop(ReceivingEnd.stop)
        shutil.rmtree(self._place / "copy", ignore_errors=True)
        shutil.copytree(self._place / "store", self._place / "copy")
        self._serve(0, self._copy)
        return True

    @step
    def restore(self) -> bool:
        """Replace the store by its copy."""
        if self.receiver is None or self._copy is None or self.fenced is not None:
            return False
        self._stop(lambda receiver: receiver.kill(100, 100, False))
        shutil.rmtree(self._place / "store")
        shutil.copytree(self._place / "copy", self._place / "store")
        self._judged.clear()
        self._serve(0, self._copy)
        return True

    @step
    def fill(self, room: int) -> bool:
        """Let the store's disk be full after so many more bytes."""
        self._disk.room = room
        return True

    @step
    def clear(self) -> bool:
        """Give the disk room again."""
        if self._disk.room is None:
            return False
        self._disk.room = None
        return True

    # --- the end

    def _all(self) -> None:
        self._learn()
        for _ in range(ROUNDS):
            moved = [self._exchange(delivery) for delivery in self._logs()]
            if not any(moved):
                return
        raise AssertionError("the delivery never ends")

    @step
    def settle(self) -> bool:
        """Store all bytes that exist, however long that takes."""
        if self.receiver is None or self.sidecar is None or self._disk.room is not None:
            return False
        for _ in range(4):
            self.sidecar.look(self._now)
            self._saw()
            self._all()
            self._now += ROTATION_GRACE
        return True

    @step
    def finish(self) -> bool:
        """Start the missing ends, store all bytes, and check that both ends agree."""
        self._disk.room = None
        if self.receiver is None:
            self._serve(0, {})
        if self.sidecar is None:
            self._start()
        assert self.receiver is not None
        assert self.sidecar is not None
        for _ in range(5):
            self.sidecar.look(self._now)
            self._saw()
            self._all()
            self._now += ROTATION_GRACE
        record = {info.stream.log: (info, self._stored(info)) for info in self.receiver.record()}
        self.oracle.check_complete(record, self._saw())
        self.sidecar.discovery.drain(self._now)
        self._all()
        for info in self.receiver.record():
            delivery = self.sidecar.deliveries.get(info.stream.log)
            if delivery is not None:
                assert delivery.producer.state is State.SEALED, f"{info.stream} has no receipt"
                assert info.sealed, f"{info.stream} is not sealed"
                assert (delivery.producer.acked, delivery.producer.digest) == (info.committed, info.digest)
        assert {info.stream.log: info.committed for info in self.receiver.record()} == {
            log: info.committed for log, (info, _) in record.items()
        }, "the drain brought bytes that nobody had written meanwhile"
        return True

    @step
    def drain(self) -> bool:
        """The sidecar ends with receipts, and another one follows."""
        if self.receiver is None or self.sidecar is None or self._disk.room is not None:
            return False
        self._learn()
        self.sidecar.discovery.drain(self._now)
        self._saw()
        self._all()
        for delivery in self.sidecar.deliveries.values():
            assert delivery.producer.state is State.SEALED, f"{delivery.stream} has no receipt"
        self._fall()
        self._start()
        return True


def replay(script: list[str]) -> str:
    """A program that repeats the steps of *script* without hypothesis, run in the repository's root."""
    return "\n".join(
        [
            '"""Replays a run of tests/joined/test_stateful.py that failed; run it in the root of the repository."""',
            "",
            "import sys",
            "",
            'sys.path.insert(0, ".")',
            "from tests.joined.world import World",
            "",
            *script,
            "world.close()",
            "",
        ]
    )
