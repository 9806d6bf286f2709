"""The limit: a plain copy of a file over one TCP connection.

The sender fills one buffer with ``readinto`` and sends it with ``sendall``; the receiver fills one with ``recv_into``
and writes it. With ``--crc`` both compute a CRC-32 over all bytes, as flarelog does. Neither exits by itself, so that
the bench can read their usage first.

    python -m bench.raw serve READY-FILE FILE [--crc]
    python -m bench.raw send HOST:PORT FILE [--crc]
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from flarelog.checksum import extend

PIECE = 1 << 20


def serve(ready: str, path: str, crc: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with open(f"{ready}.new", "w") as file:
            file.write(f"127.0.0.1:{server.getsockname()[1]}\n")
        os.replace(f"{ready}.new", ready)
        connection, _ = server.accept()
        digest, buffer = 0, memoryview(bytearray(PIECE))
        with connection, open(path, "wb", buffering=0) as file:
            while size := connection.recv_into(buffer):
                if crc:
                    digest = extend(digest, buffer[:size])
                file.write(buffer[:size])
            connection.sendall(b"%d" % digest)


def send(receiver: str, path: str, crc: bool) -> None:
    host, _, port = receiver.rpartition(":")
    digest, buffer = 0, memoryview(bytearray(PIECE))
    with socket.create_connection((host, int(port))) as connection, open(path, "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            if crc:
                digest = extend(digest, buffer[:size])
            connection.sendall(buffer[:size])
        connection.shutdown(socket.SHUT_WR)
        if int(connection.recv(16)) != digest:
            sys.exit("the two ends have different digests")


if __name__ == "__main__":
    role, where, path, *flags = sys.argv[1:]
    {"serve": serve, "send": send}[role](where, path, "--crc" in flags)
    signal.pause()
