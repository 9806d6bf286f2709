"""Streams: the same bytes in 1, 8, 100 and 1,000 logs of one site, and 64 KiB in each of 10,000; with durability
memory, in memory.

A round is a bulk round (bulk.py), but all logs appear at once, and the clock starts with the first: their discovery
counts. It ends when each journal has the seal. Bare gRPC (bare_files.py) carries the 10,000 small logs too. rsyslog
gets a part of the bytes in as many files, and writes them all into one file; its clock ends when that file is complete.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import bulk, content, peers, processes
from bench.results import Row

COUNTS = (1, 8, 100, 1000)
MOST, SMALL = 10_000, 64 << 10  # logs, and bytes of a log
PEERS_COUNTS = (1, 100, 1000)
PEERS_SHARE = 8  # the divisor of rsyslog's bytes: it is slow


def measure(places: processes.Places, total: int, rounds: int) -> list[Row]:
    """Rows for *total* bytes in each number of logs; a row's ratio is to one stream."""
    sizes = [(count, total // count) for count in COUNTS] + [(MOST, SMALL)]
    bare = partial(_round_of_bare, SMALL, MOST, places=places)
    theirs = [(count, total // PEERS_SHARE // count) for count in PEERS_COUNTS]
    troubles: dict[int, str] = {}
    taken = bulk.interleaved(
        places.memory,
        rounds,
        *(partial(_round, length, count, places=places) for count, length in sizes),
        bare,
        *(partial(_round_of_peer, length, count, troubles=troubles) for count, length in theirs),
    )
    one = bulk.rate(taken[0])
    rows = []
    for (count, length), samples in zip(sizes, taken, strict=False):
        ratios = {"this / 1": bulk.rate(samples) / one} if count > 1 else {}
        rows.append(bulk.row("streams", f"{count:,}", samples, ratios, f"{processes.mib(length)} each"))
    ours = dict(zip((count for count, _ in sizes), taken, strict=False))
    floor, *of_peer = taken[len(sizes) :]
    ratios = {"flarelog / this": bulk.rate(ours[MOST]) / bulk.rate(floor)}
    rows.append(bulk.row("streams, bare gRPC", f"{MOST:,}", floor, ratios, f"{processes.mib(SMALL)} each"))
    for (count, length), samples in zip(theirs, of_peer, strict=True):
        ratios = {"flarelog / this": bulk.rate(ours[count]) / bulk.rate(samples)} if samples else {}
        note = "; ".join(filter(None, [f"{processes.mib(length)} each", troubles.get(count, "")]))
        rows.append(bulk.row("streams, rsyslog, TCP", f"{count:,}", samples, ratios, note))
    return rows


def _round_of_peer(length: int, count: int, work: Path, troubles: dict[int, str]) -> bulk.Sample | None:
    sources, root = work / "sources", work / "root"
    for directory in (sources, root):
        directory.mkdir()
    for number in range(count):
        content.write(sources / f"log-{number}.txt", length)
    total = sum(processes.size(path) for path in sources.iterdir())
    processes.touch(work, total * 5 // 4).unlink()
    try:
        if trouble := peers.TCP.missing():
            raise processes.BenchError(trouble)
        (root / "log-first.txt").write_bytes(first := content.line(1))
        with peers.TCP.pair(work, root / "log-*.txt") as (sender, receiver, stored):
            both = (sender, receiver)
            processes.wait_for(lambda: processes.size(stored) > 0, 30, "the first log", *both)
            used = [processes.cpu_seconds(process) for process in both]
            begin = time.perf_counter()
            for number in range(count):
                os.rename(sources / f"log-{number}.txt", root / f"log-{number}.txt")
            whole = total + len(first)
            end = processes.wait_for(
                lambda: processes.size(stored) >= whole, bulk.LONGEST_OF_PEER, "all bytes", *both, every=0.002
            )
            cpu = tuple((processes.cpu_seconds(p) - then) / total * 1e9 for p, then in zip(both, used, strict=True))
            return bulk.Sample(total / 1e6 / (end - begin), cpu, tuple(map(processes.memory_mib, both)))
    except processes.BenchError as error:
        troubles[count] = str(error)
        return None


def _round(length: int, count: int, work: Path, places: processes.Places) -> bulk.Sample:
    site = work / "store" / "bench" / "site"
    with (
        processes.scratch(places.memory) as sources,
        processes.scratch(places.memory) as root,
        processes.serve(work, "memory") as (receiver, address),
    ):
        for number in range(count):
            content.write(sources / f"log-{number}.txt", length)
        (root / "first.txt").write_bytes(content.line(1))
        touched = processes.touch(work, length * count * 5 // 4)
        with processes.sidecar(work, address, root, "--drain-timeout", str(bulk.LONGEST)) as sender:
            both = (sender, receiver)
            processes.wait_for(lambda: processes.size(site / "first.txt") > 0, 30, "the first log", *both)
            time.sleep(0.2)
            touched.unlink()
            sample = _timed(sources, root, site, length, count, both, sender.terminate)
            processes.finish(sender)
    return sample


def _round_of_bare(length: int, count: int, work: Path, places: processes.Places) -> bulk.Sample:
    store, ready = work / "store", work / "ready"
    store.mkdir()
    with (
        processes.scratch(places.memory) as sources,
        processes.scratch(places.memory) as root,
        processes.python("bench.bare_files", "serve", ready, store, talk=work / "serve.err") as receiver,
    ):
        for number in range(count):
            content.write(sources / f"log-{number}.txt", length)
        (sources / "first.txt").write_bytes(content.line(1))
        touched = processes.touch(work, length * count * 5 // 4)
        address = processes.address(receiver, ready)
        with processes.python("bench.bare_files", "send", address, root, talk=work / "send.err") as sender:
            both = (sender, receiver)
            time.sleep(1.0)  # until it watches the directory
            os.rename(sources / "first.txt", root / "first.txt")
            processes.wait_for(lambda: processes.size(store / "first.txt") > 0, 30, "the first log", *both)
            time.sleep(0.2)
            touched.unlink()
            return _timed(sources, root, store, length, count, both, lambda: None)


def _timed(
    sources: Path,
    root: Path,
    site: Path,
    length: int,
    count: int,
    both: tuple[processes.Process, processes.Process],
    begun: Callable[[], None],
) -> bulk.Sample:
    used = [processes.cpu_seconds(process) for process in both]
    begin = time.perf_counter()
    for number in range(count):
        os.rename(sources / f"log-{number}.txt", root / f"log-{number}.txt")
    begun()
    for number in range(count):  # in order, so that each journal is checked at most once more than needed
        journal = site / f".log-{number}.txt.journal"
        left = begin + bulk.LONGEST - time.perf_counter()
        processes.wait_for(partial(bulk.sealed, journal), left, f"{count} seals", *both, every=0.002)
    seconds, billions = time.perf_counter() - begin, length * count / 1e9
    cpu = tuple((processes.cpu_seconds(p) - then) / billions for p, then in zip(both, used, strict=True))
    return bulk.Sample(billions * 1e3 / seconds, cpu, tuple(map(processes.memory_mib, both)))
