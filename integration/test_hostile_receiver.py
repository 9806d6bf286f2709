"""A hostile receiver does not harm a site: its sidecar ends or goes on, with a sentence, and stays small and quiet.

The receiver is a bare gRPC server whose answers are bytes made by hand.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zlib import crc32

import grpc
import pytest

from flarelog.v1 import log_pb2 as pb
from integration.harness.places import LOG, RUN, SITE, Place, Program, append, lines, until
from tests.often import each

DATA = lines(2000)
TOP = (1 << 64) - 1
MAX_RESIDENT = 400 << 20  # bytes: a list of streams may be large
MAX_SHARE = 0.5  # CPU time, in shares of one core
MAX_CALLS = 25  # a second and log

Replies = Callable[[Iterator[bytes], int], Iterable[bytes]]
"""The replies of a Push, given its requests and the number of earlier Pushes."""


def reply(code: int = pb.OK, committed: int = 0, **more: Any) -> bytes:
    return pb.Reply(code=code, committed=committed, incarnation=b"12345678", **more).SerializeToString()  # type: ignore[arg-type]  # the enum is an int


def listed(log: str = LOG, run: str = RUN, **more: Any) -> bytes:
    return pb.StreamInfo(stream=pb.StreamId(run=run, site=SITE, log=log), **more).SerializeToString()


def always(answer: bytes) -> Replies:
    """Answer every request with *answer*."""
    return lambda requests, _: (answer for _ in requests)


def opened(*then: bytes) -> Replies:
    """Answer the Open correctly, send *then* at once, and end the call."""

    def replies(requests: Iterator[bytes], _: int) -> Iterable[bytes]:
        next(requests)
        yield reply(epoch=1)
        yield from then

    return replies


def forth(requests: Iterator[bytes], number: int) -> Iterable[bytes]:
    """Claim to hold more at each Open, and end the call."""
    next(requests)
    yield reply(committed=number, epoch=1)


def back_and_forth(requests: Iterator[bytes], number: int) -> Iterable[bytes]:
    next(requests)
    yield reply(committed=1000 * (number % 2), epoch=1)


def byte_by_byte(requests: Iterator[bytes], number: int) -> Iterable[bytes]:
    """Grant a window of one byte, without end."""
    for _ in requests:
        yield reply(epoch=1, window=1)


def endless(make: Callable[[int], bytes]) -> Callable[[], Iterable[bytes]]:
    return lambda: map(make, itertools.count())


def many_marks(number: int) -> bytes:
    mark = pb.Mark(generation=pb.Generation(path="../../etc/passwd", identity="x" * 1000, notes="𝄞" * 1000))
    return listed(marks=[mark] * 200, first_mark=200 * number)


def nothing() -> Iterable[bytes]:
    return ()


PUSHES: dict[str, Replies] = {
    "pause-for-ever": always(reply(pb.PAUSE, reason="never")),
    "pause-after-open": opened(reply(pb.PAUSE, epoch=1, reason="never")),
    "acknowledges-what-was-never-sent": opened(reply(committed=1 << 40, epoch=1)),
    "acknowledges-marks-that-were-never-sent": opened(reply(marks=99, epoch=1)),
    "as-much-as-can-be": always(reply(committed=TOP, marks=TOP, epoch=TOP, window=(1 << 32) - 1, digest=7)),
    "more-at-each-open": forth,
    "back-and-forth": back_and_forth,
    "garbage": always(b"\xff\xff garbage"),
    "garbage-after-open": opened(b"\xff\xff garbage"),
    "nothing": lambda requests, _: (),
    "open-and-nothing": opened(),
    "window-of-one": byte_by_byte,
    "window-of-all": always(reply(epoch=1, window=(1 << 32) - 1)),
    "idle-timeout-of-1-ms": always(reply(epoch=1, idle_timeout_ms=1)),
    "unknown-code": always(reply(99, reason="new\nline" * 100)),
    "miss-for-ever": always(reply(pb.EXECUTION_EXCEPTION, reason="never")),
    "hole-for-ever": opened(reply(pb.HOLE, epoch=1, reason="never")),
    "replies-without-end": lambda requests, _: itertools.repeat(reply(epoch=1)),
    "going-away-for-ever": always(reply(pb.GOING_AWAY, reason="there")),
    "elsewhere-for-ever": always(reply(pb.GOING_AWAY, reason="there", elsewhere=True)),
    "elsewhere-after-open": opened(reply(pb.GOING_AWAY, epoch=1, elsewhere=True)),
    "sealed-at-once": always(reply(pb.SEALED)),
    "a-reply-as-large-as-can-be": always(reply(pb.REJECTED, reason="x" * (3 << 20))),
    "a-reply-larger-than-can-be": always(reply(pb.REJECTED, reason="x" * (9 << 20))),
}
LISTS: dict[str, Callable[[], Iterable[bytes]]] = {
    "streams-without-end": endless(lambda number: listed(f"{number}.log")),
    "marks-without-end": endless(many_marks),
    "one-stream-again-and-again": endless(lambda number: listed(first_mark=number)),
    "garbage": lambda: [b"\xff\xff garbage"],
    "bad-names": lambda: [listed("../../x")],
    "another-run": lambda: [listed(run="another", committed=TOP)],
    "marks-that-lie": lambda: [
        listed(
            committed=TOP,
            marks=[pb.Mark(offset=TOP, generation=pb.Generation(path="../x", identity="1:2:3", source_offset=TOP))] * 3,
        )
    ],
    "marks-of-no-kind": lambda: [listed(marks=[pb.Mark(offset=5)])],
}


class HostileReceiver:
    """A gRPC server that answers Push with *replies* and List with *listed*. Use as a context manager."""

    def __init__(self, replies: Replies, listed: Callable[[], Iterable[bytes]] = nothing) -> None:
        self.calls = 0
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(20), options=[("grpc.max_send_message_length", -1)])
        handlers: dict[str, Any] = {
            "Push": grpc.stream_stream_rpc_method_handler(lambda requests, _: replies(requests, self._called())),
            "List": grpc.unary_stream_rpc_method_handler(lambda _, context: self._until_gone(listed(), context)),
            "GetRun": grpc.unary_unary_rpc_method_handler(lambda *_: b""),
        }
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("flarelog.v1.LogService", handlers)]
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def _called(self) -> int:
        with self._lock:
            self.calls += 1
            return self.calls

    @staticmethod
    def _until_gone(messages: Iterable[bytes], context: Any) -> Iterator[bytes]:
        yield from itertools.takewhile(lambda _: context.is_active(), messages)

    def __enter__(self) -> HostileReceiver:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()


def ends_in_peace(program: Program, seconds: float = 40.0, share: float = MAX_SHARE) -> float:
    """Wait for the end of *program*, which must stay small and quiet; return the seconds that it took. *share*: of a
    core.
    """
    begin, largest, used = time.monotonic(), 0, 0.0
    where = Path(f"/proc/{program.process.pid}")
    while program.process.poll() is None:
        with contextlib.suppress(OSError, IndexError, ValueError):
            largest = max(largest, int((where / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            fields = (where / "stat").read_text().rpartition(")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        assert time.monotonic() - begin < seconds, program.talk()
        time.sleep(0.02)
    took = time.monotonic() - begin
    assert largest < MAX_RESIDENT, f"{largest >> 20} MiB"
    assert used < 1.5 + share * took, f"{used:.1f} s of CPU in {took:.1f} s"  # its start takes some CPU
    return took


def is_said(program: Program) -> None:
    assert "Traceback" not in program.said, program.said[:4000]
    assert program.said.strip() or program.process.returncode == 0
    assert len(program.said.splitlines()) < 200, program.said[:4000]


@pytest.mark.parametrize(
    "name",
    each(
        sorted(PUSHES),
        *("pause-for-ever", "acknowledges-what-was-never-sent", "as-much-as-can-be", "garbage-after-open"),
        *("open-and-nothing", "replies-without-end", "elsewhere-for-ever"),
    ),
)
def test_a_sidecar_bears_a_receiver_that_answers(place: Place, name: str) -> None:
    append(place.log, DATA)
    with HostileReceiver(PUSHES[name]) as receiver:
        # A receiver that acknowledges a byte now and then makes progress, so only the drain limit ends the drain.
        sidecar = place.sidecar(receiver.address, "--once", "--drain-timeout", "2", "--drain-limit", "10")
        # Replies at full speed keep two threads busy until the drain's time is over.
        took = ends_in_peace(sidecar, share=2.0 if name == "replies-without-end" else MAX_SHARE)
        assert receiver.calls <= 5 + MAX_CALLS * took
    is_said(sidecar)
    assert place.log.read_bytes() == DATA


@pytest.mark.parametrize("name", each(sorted(LISTS), "marks-without-end", "bad-names", "marks-that-lie"))
def test_a_sidecar_bears_a_receiver_that_lists(place: Place, name: str) -> None:
    append(place.log, DATA)
    with HostileReceiver(always(reply(epoch=1)), LISTS[name]) as receiver:
        sidecar = place.sidecar(receiver.address, "--once", "--drain-timeout", "2")
        ends_in_peace(sidecar)
    is_said(sidecar)


def test_a_sidecar_gathers_lines_as_long_as_it_is_asked_to_but_neither_much_nor_the_last_ones(place: Place) -> None:
    got: list[bytes] = []  # the data of each chunk

    def slowly(requests: Iterator[bytes], _: int) -> Iterable[bytes]:
        marks = 0
        for raw in requests:
            message = pb.PushRequest.FromString(raw)
            for request in message.several or [message]:
                marks += request.HasField("mark")
                got.extend([request.chunk.data] if request.chunk.data else [])
            held = b"".join(got)
            yield reply(
                committed=len(held), marks=marks, digest=crc32(held), epoch=1, pace_ms=4000 if len(got) < 2 else 90_000
            )

    append(place.log, DATA[:100])
    with HostileReceiver(slowly) as receiver:
        sidecar = place.sidecar(receiver.address)
        until(lambda: got == [DATA[:100]], lambda: f"the first line came: {got}; {sidecar.said}")
        append(place.log, DATA[100:200])
        time.sleep(0.5)
        append(place.log, DATA[200:300])
        time.sleep(0.5)
        assert len(got) == 1, "a line is sent before its time"
        until(lambda: got[1:] == [DATA[100:300]], lambda: f"both lines came together: {got}")
        begin, much = time.monotonic(), lines(5000)
        append(place.log, much)
        until(lambda: b"".join(got[2:]) == much, lambda: f"what is much came: {sidecar.said}")
        append(place.log, DATA[:100])
        time.sleep(0.3)
        sidecar.tell(signal.SIGTERM)
        until(lambda: got[-1] == DATA[:100], lambda: f"the last line came: {sidecar.said}")
        assert time.monotonic() - begin < 60, "neither waits for the pace to be over"
