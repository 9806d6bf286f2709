"""A hostile peer takes nothing from an honest site: what it sends meanwhile is stored byte for byte, and as fast.

Each attack is a process of its own (see hostile.py). An honest site's lines are timed from the append to the moment
when they are in the store; quiet, and while the attack lasts.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import PATIENCE, Program, Receiver, append, new_place
from integration.hostile import ATTACKS

RUN, SITE, LOG = "honest-run", "honest-site", "app.log"
SECONDS = 3.0  # that an attack lasts
EVERY = 0.01  # seconds between two lines
LINES = 60  # that are timed before each attack, when nothing else goes on
FLOOR = 0.05  # seconds: no p99 below it is slow. The attacker has one of the two cores, and a turn of it is 4 ms
TRIES = 3  # others work on the machine as well, and an attack is slow only if it always is
MAX_RESIDENT = 300 << 20  # bytes of memory that the receiver may have got by then


class Honest:
    """A site that writes line after line, and knows how long each took to be stored."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.path = receiver.place.log
        self.stored = receiver.file(LOG, SITE, RUN)
        self.written = bytearray()
        append(self.path, b"")
        self.sidecar = receiver.place.sidecar(receiver, run=RUN, site=SITE)
        self.line()

    def line(self) -> float:
        """Seconds from the append of a line to the store."""
        data = b"%06d line %s\n" % (len(self.written), os.urandom(20).hex().encode())
        self.written += data
        begin = time.perf_counter()
        append(self.path, data)
        deadline = begin + PATIENCE
        while self._size() < len(self.written):
            assert time.perf_counter() < deadline, f"a line was not stored:\n{self.receiver.program.talk()}"
            time.sleep(0.001)
        late = time.perf_counter() - begin
        time.sleep(max(0.0, EVERY - late))
        return late

    def _size(self) -> int:
        try:
            return os.stat(self.stored).st_size
        except FileNotFoundError:
            return 0


def p99(seconds: list[float]) -> float:
    """Of lines that come every EVERY seconds: behind one that takes long, others would have waited as well."""
    due = sorted(late - EVERY * n for late in seconds for n in range(1 + int(late / EVERY)))
    return due[int(len(due) * 0.99)]


def resident(program: Program) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{program.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(program: Program) -> int:
    return len(os.listdir(f"/proc/{program.process.pid}/fd"))


@contextlib.contextmanager
def attack(name: str, receiver: Receiver, seconds: float = SECONDS) -> Iterator[subprocess.Popen[str]]:
    """A hostile peer while it lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "integration.hostile", name, receiver.address, str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def honest() -> Iterator[Honest]:
    with new_place() as place:
        yield Honest(place.serve("--read-timeout", "2"))


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_an_honest_site_is_served_while_a_hostile_peer(honest: Honest, name: str) -> None:
    for _ in range(TRIES):
        quiet = p99([honest.line() for _ in range(LINES)])
        late = _attacked(honest, name, quiet)
        if late < max(5 * quiet, FLOOR):
            return
    raise AssertionError(f"{name}: p99 is {late:.3f} s, and {quiet:.3f} s when it is quiet")


def _attacked(honest: Honest, name: str, quiet: float) -> float:
    """The p99 of a line's latency, in seconds, during one attack, of which nothing else may be seen either."""
    seconds: list[float] = []
    receiver = honest.receiver.program
    with attack(name, honest.receiver) as process:
        end = time.monotonic() + 3 * PATIENCE
        while process.poll() is None and time.monotonic() < end:
            seconds.append(honest.line())
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    print(
        f"{name}: {len(seconds)} lines, p99 {p99(seconds):.3f} s, max {max(seconds):.3f}, quiet {quiet:.3f} s,"
        f" {resident(receiver) >> 20} MiB, {descriptors(receiver)} fds, told {told}"
    )
    honest.line()
    assert receiver.process.poll() is None
    assert "Traceback" not in receiver.said
    assert honest.stored.read_bytes() == honest.written
    assert honest.sidecar.process.poll() is None
    assert "ERROR" not in honest.sidecar.said
    assert resident(receiver) < MAX_RESIDENT
    assert not told.get("accepted")
    return p99(seconds)
