"""What processes wait for in the network, from /proc: the addresses on which they listen, and the peers that they are
connected to.

A process counts only if it is blocked until the network has something for it: one that sleeps, or waits for a lock
alone, hangs whatever connections it has. For an address on which it listens any of its threads counts, for a peer only
the main one: a thread of NVFlare's, or of an embedded producer, waits for its server also in a job that hangs. Blocks
for some milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Collection, Iterator

from flarelog.sources.files.openers import PROC
from flarelog.values import frozen

_LISTENS, _CONNECTED = b"0A", b"01"
_BLOCKED = ("poll", "select", "accept", "sk_wait", "wait_woken", "skb_wait", "unix_stream", "cqring_wait")
_MOST = 64 << 20  # bytes of a table of connections that are read
_THREADS = 1000  # of a process that are looked at


@frozen
class Waits:
    """*listens*, *on*: addresses, HOST:PORT; empty: none."""

    listens: str = ""
    on: str = ""


def waits(pids: Collection[int], proc: str = PROC) -> Waits:
    """What the processes *pids* wait for, as far as it can be seen."""
    blocked = {f"{proc}/{pid}": _blocked(f"{proc}/{pid}") for pid in pids}
    waiting = [process for process, threads in blocked.items() if threads]
    connects = {
        inode for process in waiting if os.path.basename(process) in blocked[process] for inode in _sockets(process)
    }
    inodes = {inode for process in waiting for inode in _sockets(process)}
    if not inodes:
        return Waits()
    listens, local, remote = set[str](), set[str](), set[str]()
    for process in waiting[:1]:  # the processes of a log have one network
        for here, there, state, inode in (*_table(f"{process}/net/tcp"), *_table(f"{process}/net/tcp6")):
            if inode not in inodes:
                continue
            if state == _LISTENS:
                listens.add(here)
            elif state == _CONNECTED:
                local.add(here)
                if inode in connects:
                    remote.add(there)
    return Waits(min(listens, default=""), min(remote - local - listens, default=""))


def _blocked(process: str) -> set[str]:
    """The threads of *process* that wait for the network; a stopped process waits for nothing."""
    found = set[str]()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"{process}/task")[:_THREADS]:
            with open(f"{process}/task/{thread}/stat", "rb") as file:
                if file.read(4096).rpartition(b")")[2].split()[0] in (b"T", b"t"):
                    return set()
            with open(f"{process}/task/{thread}/wchan") as file:
                name = file.read()
            if any(part in name for part in _BLOCKED):
                found.add(thread)
    return found


def _sockets(process: str) -> Iterator[bytes]:
    """The inodes of the sockets that *process* has."""
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"{process}/fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(os.fsencode(f"{process}/fd/{descriptor}"))
                if name.startswith(b"socket:["):
                    yield name[8:-1]


def _table(path: str) -> Iterator[tuple[str, str, bytes, bytes]]:
    """The local address, the remote address, the state and the inode of each connection."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        for row in file.read(_MOST).split(b"\n")[1:]:
            fields = row.split(maxsplit=10)
            if len(fields) > 9 and fields[3] in (_LISTENS, _CONNECTED):
                yield _address(fields[1]), _address(fields[2]), fields[3], fields[9]


def _address(text: bytes) -> str:
    """``0100007F:1F90`` as ``127.0.0.1:8080``. Raises ValueError."""
    host, _, port = text.partition(b":")
    words = [struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8)]
    raw = b"".join(words)
    mapped = raw[12:] if raw[:12] == b"\0" * 10 + b"\xff\xff" else raw
    if len(mapped) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, mapped)}:{int(port, 16)}"
    return f"[{socket.inet_ntop(socket.AF_INET6, mapped)}]:{int(port, 16)}"
