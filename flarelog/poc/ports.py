"""Ports that stay free for a process while it is down."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from flarelog.errors import CannotListen


def free_ports(count: int) -> list[int]:
    """*count* ports of 127.0.0.1 that nothing uses. Raises CannotListen.

    They are outside the range that the system gives to connections: a connection could take one meanwhile, and a
    client that keeps trying to reach the process would in the end connect to itself.
    """
    dynamic = 32768
    with contextlib.suppress(OSError):
        dynamic = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(15000, min(30000, dynamic)) or range(61000, 65000)
    found: list[int] = []
    for port in random.sample(candidates, min(100 + count, len(candidates))):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise CannotListen("not enough ports are free; stop what listens on this machine's ports")
