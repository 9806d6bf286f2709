"""Latency: the time from a line's append at the site to its bytes in the receiver's stored file (durability memory).

Lines are appended every 10 ms, each by one write, to a file that a sidecar already follows, and the size of the stored
file is polled, all in one thread of this process: one clock, no signal between processes. A late line does not delay
the next one. The polls are about 0.1 ms apart, which is the resolution.

``idle``: without other load; against the peers, in turns. ``under_load``: a separate process appends to another log of
the same site, at a share of the rate of the bulk rounds right before, on the same cores. Bare gRPC gets the same load.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import bulk, content, peers, processes
from bench.results import Row

EVERY = 0.010  # seconds between two lines
LINES = [
    line for line in map(content.line, range(2000)) if line.endswith(b"\n")
]  # the peers forward only complete lines
_PAUSE = 0.00005
_LONGEST = 30.0  # seconds a line may take
_LOG, _BULK = "log.txt", "bulk.txt"
_SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
LOADS = (25, 50, 75)  # percent of the bulk rate
_Followed = tuple[int, Path, int, Path]  # a log's descriptor, the stored file, its length, and the log's directory
PEERS = (peers.TCP, peers.RELP, peers.NG, peers.NG_OFTEN)


def idle(places: processes.Places, lines: int, rounds: int) -> list[Row]:
    """p50, p99 and max of flarelog, p50 and p99 of the peers: a sample for each round of *lines* lines."""
    troubles: dict[str, str] = {}
    names = ("flarelog", "bare gRPC", *(peer.name for peer in PEERS))
    taken: dict[str, list[list[float]]] = {name: [] for name in names}
    for _ in range(rounds):
        taken["flarelog"].append(_round(places.memory, lines))
        taken["bare gRPC"].append(_of_pair(_bare, places.memory, lines))
        for peer in PEERS:
            with contextlib.suppress(_Missing):
                taken[peer.name].append(_of_peer(peer, places.memory, lines, troubles))
    ours = taken.pop("flarelog")
    rows = [Row("latency of a line", f"flarelog, {share}", "ms", _of(ours, share)) for share in _SHARES]
    for name, theirs in taken.items():
        for share in ("p50", "p99"):
            ratios = {"this / flarelog": _median(theirs, share) / _median(ours, share)} if theirs else {}
            note = troubles.get(name, "")
            rows.append(
                Row("latency of a line", f"{name}, {share}", "ms", _of(theirs, share), ratios=ratios, note=note)
            )
    return rows


def under_load(source: Path, places: processes.Places, lines: int, rounds: int) -> list[Row]:
    """p50, p99 and max beside each of LOADS, in turn; *source*, in ``places.memory``, is the file of the bulk rate."""
    (full,) = bulk.interleaved(
        places.memory, min(rounds, 3), lambda work: bulk.flarelog(source, work, places, "memory")
    )
    found: dict[int, list[list[float]]] = {load: [] for load in LOADS}
    bare: dict[int, list[list[float]]] = {load: [] for load in LOADS}
    rates: dict[int, list[float]] = {load: [] for load in LOADS}
    for _ in range(rounds):
        for load in LOADS:
            target = bulk.rate(full) * 1e6 * load / 100
            latencies, rate = _loaded(site, places.memory, lines, target)
            found[load].append(latencies)
            rates[load].append(rate / 1e6)
            bare[load].append(_loaded(_bare_site, places.memory, lines, target)[0])
    rows = []
    for load in LOADS:
        for share in ("p50", "p99"):
            of_it = {"flarelog / this": _median(found[load], share) / _median(bare[load], share)}
            name = f"bare gRPC, {load} %, {share}"
            rows.append(Row("latency under load", name, "ms", _of(bare[load], share), ratios=of_it))
        rows += [Row("latency under load", f"{load} %, {share}", "ms", _of(found[load], share)) for share in _SHARES]
        ratios = {"stored / written": statistics.median(rates[load]) / (bulk.rate(full) * load / 100)}
        rows.append(Row("latency under load", f"{load} %, the bulk", "MB/s", rates[load], ratios=ratios))
    return rows


def _of(rounds: Sequence[list[float]], share: str) -> list[float]:
    return [percentile(taken, _SHARES[share]) * 1e3 for taken in rounds]


def _median(rounds: Sequence[list[float]], share: str) -> float:
    return statistics.median(_of(rounds, share))


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _round(parent: Path, lines: int) -> list[float]:
    with processes.scratch(parent) as work, site(work) as (fd, stored, written, _):
        return _latencies(fd, stored, written, lines)


@contextlib.contextmanager
def site(work: Path) -> Iterator[_Followed]:
    """Start a receiver and a sidecar; yield the log's descriptor, the stored file, its length, and the site's root."""
    root, store = work / "root", work / "store"
    root.mkdir()
    stored = store / "bench" / "site" / _LOG
    fd = os.open(root / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        with (
            processes.serve(work, "memory") as (receiver, address),
            processes.sidecar(work, address, root) as sender,
        ):
            written = os.write(fd, LINES[0])
            processes.wait_for(lambda: processes.size(stored) == written, 30, "the first line", receiver, sender)
            time.sleep(0.5)
            yield fd, stored, written, root
    finally:
        os.close(fd)


def _loaded(
    site: Callable[[Path], contextlib.AbstractContextManager[_Followed]], parent: Path, lines: int, target: float
) -> tuple[list[float], float]:
    """(latencies, bytes a second of the bulk log that were stored)."""
    with processes.scratch(parent) as work, site(work) as (fd, stored, written, root):
        bulky = stored.with_name(_BULK)
        processes.touch(work, int(target * 2 * (lines * EVERY + 2))).unlink()
        with processes.python("bench.pace", root / _BULK, str(int(target)), talk=work / "pace.err") as writer:
            processes.wait_for(lambda: processes.size(bulky) > 0, 30, "the bulk beside it", writer)
            time.sleep(0.5)
            begin, before = time.perf_counter(), processes.size(bulky)
            latencies = _latencies(fd, stored, written, lines)
            return latencies, (processes.size(bulky) - before) / (time.perf_counter() - begin)


def _of_pair(pair: Callable[[Path, Path], peers.Pair], parent: Path, lines: int) -> list[float]:
    """The latencies of a candidate. *pair* starts its sender and receiver, and yields them with the stored file."""
    with processes.scratch(parent) as work:
        source = work / "source.txt"
        fd = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            written = os.write(fd, LINES[0])
            with pair(work, source) as (sender, receiver, stored):
                processes.wait_for(lambda: processes.size(stored) == written, 30, "the first line", receiver, sender)
                time.sleep(0.5)
                return _latencies(fd, stored, written, lines)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _bare(work: Path, source: Path) -> Iterator[peers.Started]:
    stored, ready = work / _LOG, work / "ready"
    with processes.python("bench.bare", "serve", ready, stored, talk=work / "serve.err") as receiver:
        address = processes.address(receiver, ready)
        with processes.python("bench.bare", "send", address, source, talk=work / "send.err") as sender:
            yield sender, receiver, stored


@contextlib.contextmanager
def _bare_site(work: Path) -> Iterator[_Followed]:
    """As ``site``, for bare gRPC, with a file for the bulk beside the log."""
    root, store, ready = work / "root", work / "store", work / "ready"
    root.mkdir()
    store.mkdir()
    both = [directory / name for directory in (store, root) for name in (_LOG, _BULK)]
    for path in both:
        path.touch()
    fd = os.open(root / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        with processes.python("bench.bare", "serve", ready, *both[:2], talk=work / "serve.err") as receiver:
            address = processes.address(receiver, ready)
            with processes.python("bench.bare", "send", address, *both[2:], talk=work / "send.err") as sender:
                written = os.write(fd, LINES[0])
                stored = store / _LOG
                processes.wait_for(lambda: processes.size(stored) == written, 30, "the first line", receiver, sender)
                time.sleep(0.5)
                yield fd, stored, written, root
    finally:
        os.close(fd)


class _Missing(Exception):
    """The round of a peer failed."""


def _of_peer(peer: peers.Peer, parent: Path, lines: int, troubles: dict[str, str]) -> list[float]:
    try:
        if trouble := peer.missing():
            raise processes.BenchError(trouble)
        return _of_pair(peer.pair, parent, lines)
    except processes.BenchError as error:
        troubles[peer.name] = str(error)
        raise _Missing from error


def _latencies(fd: int, stored: Path, written: int, lines: int) -> list[float]:
    return follow([(fd, stored)], [written], lines, EVERY)


def follow(logs: Sequence[tuple[int, Path]], sizes: list[int], lines: int, every: float) -> list[float]:
    """Append *lines* lines, one every *every* seconds, to *logs* in turn. Returns the latencies, in seconds.

    *logs*: (descriptor, stored file) of each; *sizes*: of the stored files.
    Raises BenchError when a line takes too long.
    """
    waiting: deque[tuple[int, int, float]] = deque()  # (log, its expected size, time of the append)
    found: list[float] = []
    clock = time.perf_counter
    begin, appended = clock(), 0
    while len(found) < lines:
        now = clock()
        if appended < lines and now >= begin + appended * every:
            which = appended % len(logs)
            line = LINES[appended % len(LINES)]
            now = clock()
            sizes[which] += os.write(logs[which][0], line)
            waiting.append((which, sizes[which], now))
            appended += 1
        if waiting:
            there = {which: os.stat(logs[which][1]).st_size for which in {which for which, _, _ in waiting}}
            now = clock()
            found += [now - since for which, size, since in waiting if size <= there[which]]
            waiting = deque(one for one in waiting if one[1] > there[one[0]])
            if waiting and now - waiting[0][2] > _LONGEST:
                raise processes.BenchError(f"a line was not stored within {_LONGEST:g} s")
        time.sleep(_PAUSE)
    return found
