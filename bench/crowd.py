"""Simulate very many sites in one process: a connection, a call and a log each, as a receiver sees them.

    python -m bench.crowd READY-FILE PORT FIRST COUNT LINES-A-SECOND

READY-FILE appears when the receiver has the first line of every log; then each log gets LINES-A-SECOND, in turn, until
the process is killed. ``delivery.Producer`` and the receiver's pace decide what is sent and when, as in a sidecar. This
module writes HTTP/2 frames itself: gRPC's client costs several times as much as its server, and real sites are remote.
"""

from __future__ import annotations

import gc
import heapq
import os
import selectors
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from flarelog.cli.tuning import more_descriptors
from flarelog.delivery.producer import Producer
from flarelog.model import Code, Open, StreamId
from flarelog.wire.codec.base import SERVICE
from flarelog.wire.codec.push import Request
from tests.messages import decode_reply, encode_request

LOG = "log.txt"
LINE = b"2025-06-01 08:00:00,370 - trainer - INFO - step=1234 loss=0.123456 lr=1e-4 gpu_mem=71.3GiB\n"
_EACH = 0.005  # seconds between two polls for due lines
_AT_ONCE = 50  # sites started together
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _AWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK = 1
_WINDOW_AT_FIRST = 65_535  # bytes
_REFILL = 16_384  # bytes of replies before a window update


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _request() -> bytes:
    """The frames that begin a call of Push."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/Push",
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(
        b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value.encode()) for name, value in headers.items()
    )
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b"")
    return preface + _frame(_HEADERS, 4, 1, block)


class Site:
    """One site's connection, with one log."""

    _socket: socket.socket

    def __init__(self, port: int, name: str) -> None:
        self._port, self._stream, self._id = port, StreamId("bench", name, LOG), os.urandom(16)
        self.producer, self.pace, self.sent_at = Producer(), 0.0, 0.0
        self.lines, self.due = 0, False
        self.moves, self.elsewhere = (
            0,
            True,
        )  # reconnect: another process of the receiver has the site

    def connect(self) -> None:
        """Start over with a new connection."""
        if self.moves:
            self._socket.close()
        self.moves, self.elsewhere = self.moves + 1, False
        self._socket = socket.create_connection(("127.0.0.1", self._port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received, self._messages = bytearray(), bytearray()
        self._windows = {0: _WINDOW_AT_FIRST, 1: _WINDOW_AT_FIRST}  # bytes to send: connection, call
        self._first_window, self._read = _WINDOW_AT_FIRST, 0
        self.producer.opened()
        self._socket.sendall(_request())
        self._say(Open(self._stream, self._id, 0, "bench", None, self.moves))

    def fileno(self) -> int:
        return self._socket.fileno()

    def _say(self, request: Request) -> None:
        message = encode_request(request, 1)
        size = len(message) + 5
        for stream in self._windows:
            self._windows[stream] -= size
            if self._windows[stream] < 0:
                raise SystemExit("the receiver takes too little: its window is used up")
        self._socket.sendall(_frame(_DATA, 0, 1, struct.pack(">BI", 0, len(message)) + message))

    def send(self, now: float) -> None:
        """Send the lines that are due, as one chunk."""
        data, self.lines, self.sent_at = LINE * self.lines, 0, now
        self._say(self.producer.chunk(data))

    def receive(self) -> None:
        """Process received bytes."""
        got = self._socket.recv(1 << 16)
        if not got:
            raise SystemExit("the receiver closed a connection")
        self._received += got
        while len(self._received) >= 9 and not self.elsewhere:
            size = int.from_bytes(self._received[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
            if len(self._received) < 9 + size:
                return
            payload = bytes(self._received[9 : 9 + size])
            del self._received[: 9 + size]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self._messages += payload
            self._read += len(payload)
            if self._read > _REFILL:
                more = struct.pack(">I", self._read)
                self._socket.sendall(_frame(_WINDOW, 0, 0, more) + _frame(_WINDOW, 0, 1, more))
                self._read = 0
            while len(self._messages) >= 5 and len(self._messages) >= 5 + (
                size := int.from_bytes(self._messages[1:5], "big")
            ):
                reply = decode_reply(bytes(self._messages[5 : 5 + size]))
                del self._messages[: 5 + size]
                if reply.elsewhere:
                    self.elsewhere = True
                    return
                if reply.code is not Code.OK:
                    raise SystemExit(f"the receiver answered {reply.code.name}: {reply.reason}")
                self.producer.receive(reply)
                self.pace = reply.pace
        elif kind == _SETTINGS and not flags & _ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == 4:
                    self._windows[1] += value - self._first_window
                    self._first_window = value
            self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._socket.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind in (_RESET, _AWAY):
            raise SystemExit("the receiver ended a call")


def main(ready: str, port: int, first: int, count: int, rate: int) -> None:
    more_descriptors()
    sites: list[Site] = []
    events = selectors.DefaultSelector()

    def take(timeout: float) -> None:
        for key, _ in events.select(timeout):
            site: Any = key.fileobj
            site.receive()
            if site.elsewhere:
                events.unregister(site)
                connect(site)

    def connect(site: Site) -> None:
        site.connect()
        events.register(site, selectors.EVENT_READ)

    for number in range(first, first + count):
        sites.append(Site(port, f"site-{number}"))
        connect(sites[-1])
        while not sites[-1].producer.room() and number % _AT_ONCE == 0:
            take(1)
    for site in sites:
        while not site.producer.room():
            take(1)
        site.lines = 1
        site.send(0.0)
    while any(site.producer.awaits_reply for site in sites):
        take(1)
    Path(ready).write_text("all have begun\n")
    gc.collect()
    gc.freeze()
    begin, written = time.perf_counter(), 0
    waiting: list[tuple[float, int]] = []  # (when, site) of sites that gather lines before they send
    while True:
        take(_EACH)
        now = time.perf_counter()
        due = int((now - begin) * rate * count)
        for number in range(written, due):
            site = sites[number % count]
            site.lines += 1
            if not site.due:
                site.due = True
                heapq.heappush(waiting, (site.sent_at + site.pace, number % count))
        written = due
        while waiting and waiting[0][0] <= now:
            site = sites[heapq.heappop(waiting)[1]]
            site.due = False
            site.send(now)


if __name__ == "__main__":
    where, *numbers = sys.argv[1:]
    main(where, *map(int, numbers))
