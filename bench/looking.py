"""The cost of the page's viewers for a run: of viewers that read, and of viewers that stall.

    python -m bench.looking ADDRESS READY-FILE COOKIES LOG-NAME FROM READS

A viewer is a connection that requests the tail of one log, as a tab does; each session in COOKIES, separated by commas,
has two. With READS "yes" they read and discard, else they read nothing. READY-FILE appears when all have an answer;
they stay until the process is killed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import selectors
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bench import latency, processes
from bench.results import Row

VIEWERS, EACH = 20, 2  # in all, and a session
STALLED = 64 << 20  # bytes of the log that a stalled viewer requests
RUN, SITE, LOG = "bench", "site", "log.txt"
SETTLED = 2.0  # seconds
TRIMMED = 11.0  # seconds within which the process returns freed memory


def measure(places: processes.Places, lines: int, rounds: int) -> list[Row]:
    """Rows of both measurements. *lines*: timed in each round. Raises BenchError."""
    return [_stalled(places, rounds), *_honest(places, lines, rounds)]


def _stalled(places: processes.Places, rounds: int) -> Row:
    """MiB of the web process for each stalled viewer of a long log."""
    taken = []
    with processes.scratch(places.memory) as work, processes.serve(work, "memory") as (_, receiver):
        root = work / "root"
        root.mkdir()
        line = latency.LINES[0]
        (root / LOG).write_bytes(line * (STALLED // len(line)))
        with processes.sidecar(work, receiver, root, "--once") as sender:
            processes.finish(sender)
        for number in range(rounds):
            with processes.web(work, "--receiver", receiver, name=f"web-{number}") as (web, address):
                first, *cookies = _cookies(address, VIEWERS // EACH + 1)  # a session has room for EACH viewers
                with _looking(work, address, [first], 0, reads=True, name=f"reads-{number}"):
                    time.sleep(SETTLED)  # the first viewer makes it import modules, which must not count
                before = processes.memory_mib(web, "VmRSS")
                with _looking(work, address, cookies, 0, reads=False, name=f"stalls-{number}"):
                    used = -1.0
                    while processes.cpu_seconds(web) - used > 0.02:  # it first fills the kernel's socket buffers
                        used = processes.cpu_seconds(web)
                        time.sleep(1)
                    time.sleep(TRIMMED)
                    taken.append(max(0.0, processes.memory_mib(web, "VmRSS") - before) / VIEWERS)
    return Row("page, memory of stalled viewers", "web process, each", "MiB", taken)


def _honest(places: processes.Places, lines: int, rounds: int) -> list[Row]:
    """p99 of a site's lines, from the append to the stored file, without viewers and with VIEWERS, in turn."""
    taken: dict[str, list[float]] = {"no viewer": [], f"{VIEWERS} viewers": []}
    for number in range(rounds):
        with (
            processes.scratch(places.memory) as work,
            latency.site(work) as (fd, stored, written, _),
            processes.web(work, "--receiver", (work / "ready").read_text().strip()) as (_, page),
        ):
            cookies = _cookies(page, VIEWERS // EACH)
            for watched in (number % 2 == 1, number % 2 == 0):  # in turn first: the second runs warmer
                looks = _looking(work, page, cookies, written, reads=True, name=f"{watched}")
                with looks if watched else contextlib.nullcontext():
                    found = latency.follow([(fd, stored)], [processes.size(stored)], lines, latency.EVERY)
                name = f"{VIEWERS} viewers" if watched else "no viewer"
                taken[name].append(latency.percentile(found, 0.99) * 1e3)
    none = statistics.median(taken["no viewer"])
    return [
        Row(
            "page, a site's lines beside viewers", f"p99, {name}", "ms", samples,
            ratios={"no viewer / this": none / statistics.median(samples)},
        )
        for name, samples in taken.items()
    ]  # fmt: skip


def _cookies(address: str, count: int) -> list[str]:
    """The cookies of *count* sessions."""
    found = []
    for _ in range(count):
        secret = unquote(processes.login(address).partition("#login=")[2])
        connection = http.client.HTTPConnection(address)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/login", json.dumps({"secret": secret}), headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise processes.BenchError(f"nobody can log in: {answer.read().decode()}")
        found.append(str(answer.headers["Set-Cookie"]).partition(";")[0])
        connection.close()
    return found


@contextlib.contextmanager
def _looking(work: Path, address: str, cookies: Sequence[str], start: int, *, reads: bool, name: str) -> Iterator[None]:
    ready = work / f"{name}.ready"
    command = ("bench.looking", address, ready, ",".join(cookies), LOG, str(start), "yes" if reads else "no")
    with processes.python(*command, talk=work / f"{name}.err") as viewers:
        processes.wait_for(ready.exists, 30, "all viewers", viewers, every=0.05)
        yield


def main(address: str, ready: str, cookies: Sequence[str], log: str, start: int, *, reads: bool) -> None:
    host, _, port = address.rpartition(":")
    body = json.dumps({"streams": [{"run": RUN, "site": SITE, "log": log, "from": start}]})
    events = selectors.DefaultSelector()
    viewers: list[socket.socket] = []
    for cookie in [one for one in cookies for _ in range(EACH)]:
        made = socket.create_connection((host, int(port)))
        lines = (
            "POST /api/tail HTTP/1.1", f"Host: {address}", f"Cookie: {cookie}", "Content-Type: application/json",
            f"Content-Length: {len(body)}", "", body,
        )  # fmt: skip
        made.sendall("\r\n".join(lines).encode())
        viewers.append(made)
    for made in viewers:
        head = made.recv(64)
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"a viewer was refused: {head.decode(errors='replace')}")
        events.register(made, selectors.EVENT_READ)
    Path(ready).write_text("all look\n")
    while reads:
        for key, _ in events.select():
            viewer: Any = key.fileobj
            if not viewer.recv(1 << 16):
                raise SystemExit("the page ended a viewer's connection")
    time.sleep(3600)


if __name__ == "__main__":
    at, when, who, what, begin, goes_on = sys.argv[1:]
    main(at, when, who.split(","), what, int(begin), reads=goes_on == "yes")
