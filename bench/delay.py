"""A TCP proxy that adds a delay in each direction: ``python -m bench.delay READY-FILE HOST:PORT SECONDS``.

It forwards bytes SECONDS after it read them, at any rate, so a round trip takes twice as long. It does not simulate
the loss of a real link, nor its slowly growing congestion window.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from queue import SimpleQueue

PIECE = 1 << 20


def main(ready: str, target: str, seconds: float) -> None:
    host, _, port = target.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as server:
        with open(f"{ready}.new", "w") as file:
            file.write(f"127.0.0.1:{server.getsockname()[1]}\n")
        os.replace(f"{ready}.new", ready)
        while True:
            near, _ = server.accept()
            far = socket.create_connection((host, int(port)))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                threading.Thread(target=_take, args=(one, waiting, seconds), daemon=True).start()
                threading.Thread(target=_give, args=(other, waiting), daemon=True).start()


def _take(source: socket.socket, waiting: SimpleQueue[tuple[float, bytes]], seconds: float) -> None:
    data = b"begin"
    while data:
        try:
            data = source.recv(PIECE)
        except OSError:
            data = b""
        waiting.put((time.monotonic() + seconds, data))


def _give(sink: socket.socket, waiting: SimpleQueue[tuple[float, bytes]]) -> None:
    try:
        while True:
            due, data = waiting.get()
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
    except OSError:  # the other end has closed: close this connection too
        sink.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
