"""Bulk: one large file as one stream, from a sending process over loopback to a receiving process that stores it.

A round starts ``flarelog serve`` and ``flarelog sidecar``, waits until a line of another log is stored, hard-links the
large file below the sidecar's root, and tells the sidecar to drain (SIGTERM) once the stream has begun; the rounds of
stop_and_wait start a sender on the file. The clock starts when the stored file first has bytes, which are not counted,
so that no start of a process counts. It ends when the stored file is complete and, for flarelog, its journal has the
seal: by then both ends have agreed on length and digest, and with durability ``disk`` every byte has passed fdatasync.
The files are polled every 2 ms. CPU seconds are those between the two moments.

``memory``: durability memory, in memory if there is room, against stop-and-wait. ``disk``: durability disk, stored
on a disk, against a loop that copies the same file there in 1 MiB pieces, with one fdatasync at the end; for
information also with one every 16 MiB. ``over_tls``: durability memory, in memory, with mutual TLS and without.

Before each round the dirty pages of the last round are synced. A virtual machine gets memory from its host at first
touch, at a few hundred MB/s, and returns it a second after it was freed; that cost says nothing about a candidate. So
each round begins right after a larger file on the same file system was removed.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import content, peers, processes
from bench.results import Row, largest, medians
from flarelog.security import authority
from flarelog.security.authority import Role
from flarelog.security.tls import Tls

LOG = "log.txt"
LONGEST = 120.0  # seconds of a round
LONGEST_OF_PEER = 60.0
PEERS = {peers.TCP.name: 4, peers.RELP.name: 16, peers.NG.name: 8}  # divisors of the file's size: peers are slow


@dataclass(frozen=True, slots=True)
class Sample:
    """The result of one round."""

    rate: float  # MB/s, 10^6 bytes
    cpu: tuple[float, ...] = ()  # seconds per 10^9 bytes: sender, receiver
    rss: tuple[float, ...] = ()  # MiB: sender, receiver


Candidate = Callable[[Path], Sample | None]
Through = Callable[[str], contextlib.AbstractContextManager[str]]


def memory(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the comparison with the limit and with the peers; *source*, in ``places.memory``, is the file."""
    everything = processes.size(source)
    smaller = {name: source.with_name(f"part-{share}") for name, share in PEERS.items()}
    for name, path in smaller.items():
        content.write(path, everything // PEERS[name])
    troubles: dict[str, str] = {}

    def of_peer(peer: peers.Peer) -> Candidate:
        return lambda work: _attempt(peer, smaller[peer.name], work, troubles)

    samples = interleaved(
        places.memory,
        rounds,
        lambda work: flarelog(source, work, places, "memory"),
        lambda work: pair("bench.raw", source, work),
        lambda work: pair("bench.raw", source, work, "--crc"),
        lambda work: pair("bench.bare", source, work),
        lambda work: pair("bench.stop_and_wait", source, work),
        *(of_peer(peer) for peer in peers.ALL),
    )
    for path in smaller.values():
        path.unlink()
    names = ["raw socket copy", "raw socket copy, CRC-32 at both ends", "bare gRPC", "stop-and-wait, 64 KiB"]
    names += [peer.name for peer in peers.ALL]
    ours, *others = samples
    rows = [row("bulk, memory", "flarelog", ours)]
    for name, theirs in zip(names, others, strict=True):
        ratios = {"flarelog / this": rate(ours) / rate(theirs)} if theirs else {}
        if theirs and name in PEERS:
            ratios["CPU of this / flarelog"] = _cpu(theirs) / _cpu(ours)
        small = processes.mib(everything // PEERS[name]) if name in PEERS else ""
        note = "; ".join(filter(None, [small, peers.packets(name), troubles.get(name, "")]))
        rows.append(row("bulk, memory", name, theirs, ratios, note))
    return rows


def _cpu(samples: Sequence[Sample]) -> float:
    return sum(medians([sample.cpu for sample in samples]))


def _attempt(peer: peers.Peer, source: Path, work: Path, troubles: dict[str, str]) -> Sample | None:
    """One round of *peer*; None, with the reason in *troubles*, if it is missing or failed."""
    try:
        if trouble := peer.missing():
            raise processes.BenchError(trouble)
        processes.touch(work, processes.size(source) * 5 // 4).unlink()
        with peer.pair(work, source) as (sender, receiver, stored):
            sample = _timed(source, stored, sender, receiver, lambda: None, lambda: True, LONGEST_OF_PEER)
            if not filecmp.cmp(source, stored, shallow=False):
                raise processes.BenchError("what it stored is not what was sent")
            return sample
    except processes.BenchError as error:
        troubles[peer.name] = str(error)
        return None


def redaction(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the cost of redaction; *source*, in ``places.memory``, is the file."""
    masked, plain = interleaved(
        places.memory,
        rounds,
        lambda work: flarelog(source, work, places, "memory", "--redact", "all"),
        lambda work: flarelog(source, work, places, "memory"),
    )
    ratios = {"masked / plain": rate(masked) / rate(plain)}
    return [row("redaction, bulk", "--redact all", masked, ratios), row("redaction, bulk", "flarelog", plain)]


def disk(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the comparison with a plain write and fdatasync; *source*, in ``places.memory``, is the file."""
    ours, plain, often = interleaved(
        places.disk,
        rounds,
        lambda work: flarelog(source, work, places, "disk"),
        lambda work: _plain(source, work, None),
        lambda work: _plain(source, work, 16 << 20),
    )
    return [
        row("bulk, disk", "flarelog", ours),
        row("bulk, disk", "plain write, one fdatasync", plain, {"flarelog / this": rate(ours) / rate(plain)}),
        row("bulk, disk", "plain write, fdatasync each 16 MiB", often),
    ]


def over_tls(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the comparison of mutual TLS with none; *source*, in ``places.memory``, is the file."""
    with processes.scratch(places.memory) as directory:
        server, site = _certificates(directory / "certs")
        plain, tls = interleaved(
            places.memory,
            rounds,
            lambda work: flarelog(source, work, places, "memory"),
            lambda work: flarelog(source, work, places, "memory", tls=(server, site)),
        )
    return [
        row("tls, bulk", "flarelog, mutual TLS", tls, {"TLS / plain": rate(tls) / rate(plain)}),
        row("tls, bulk", "flarelog, plain", plain),
    ]


def _certificates(directory: Path) -> tuple[Tls, Tls]:
    """TLS files: the receiver's, and those of the site ``site``."""
    now = datetime.now(UTC)
    authority.init(directory, now=now)
    issued = (
        authority.issue_server(directory, ["127.0.0.1"], now=now),
        authority.issue(directory, Role.SITE, "site", now=now),
    )
    server, site = (Tls(str(directory / "ca.crt"), str(one.certificate), str(one.key)) for one in issued)
    return server, site


def interleaved(parent: Path, rounds: int, *candidates: Candidate) -> list[list[Sample]]:
    """The samples of each of *candidates*, which get a new directory in *parent* each time; None is dropped."""
    samples: list[list[Sample]] = [[] for _ in candidates]
    for _ in range(rounds):
        for candidate, taken in zip(candidates, samples, strict=True):
            os.sync()
            with processes.scratch(parent) as work:
                if (sample := candidate(work)) is not None:
                    taken.append(sample)
    return samples


def rate(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.rate for sample in samples)


def row(
    measurement: str, of: str, samples: Sequence[Sample], ratios: Mapping[str, float] | None = None, note: str = ""
) -> Row:
    rates = [sample.rate for sample in samples]
    cpu, rss = [sample.cpu for sample in samples], [sample.rss for sample in samples]
    return Row(measurement, of, "MB/s", rates, medians(cpu), largest(rss), ratios or {}, note)


def flarelog(
    source: Path,
    work: Path,
    places: processes.Places,
    durability: str,
    *more: str,
    sender: str = "flarelog",
    tls: tuple[Tls, Tls] | None = None,
    through: Through = contextlib.nullcontext,
    serving: Sequence[str] = (),
) -> Sample:
    """One round. *more*: options of the sender; *serving*: of the receiver; *sender*: the sender's module; *tls*: files
    of the receiver and of the site; *through*: maps the receiver's address to the one that is sent to.
    """
    receiving, sending_as = (one.arguments() for one in tls) if tls is not None else ((), ())
    site = work / "store" / "bench" / "site"
    touched = processes.touch(work, processes.size(source) * 5 // 4)
    with (
        processes.scratch(places.memory) as root,
        processes.serve(work, durability, *receiving, *serving) as (receiver, listening),
        through(listening) as address,
    ):
        (root / "first.txt").write_bytes(content.line(1))
        options = ("--drain-timeout", str(LONGEST), *sending_as, *more)
        with processes.sidecar(work, address, root, *options, module=sender) as sending:
            processes.wait_for(lambda: processes.size(site / "first.txt") > 0, 30, "the first log", sending, receiver)
            time.sleep(0.2)
            touched.unlink()
            os.link(source, root / LOG)
            journal = site / f".{LOG}.journal"
            sample = _timed(source, site / LOG, sending, receiver, sending.terminate, lambda: sealed(journal))
            processes.finish(sending)
    return sample


def pair(module: str, source: Path, work: Path, *flags: str, through: Through = contextlib.nullcontext) -> Sample:
    """One round of *module*, which has both a server and a sender."""
    ready, stored = work / "ready", work / LOG
    touched = processes.touch(work, processes.size(source) * 5 // 4)
    with processes.python(module, "serve", ready, stored, *flags, talk=work / "serve.err") as receiver:
        listening = processes.address(receiver, ready)
        touched.unlink()
        with (
            through(listening) as address,
            processes.python(module, "send", address, source, *flags, talk=work / "send.err") as sender,
        ):
            return _timed(source, stored, sender, receiver, lambda: None, lambda: True)


def _timed(
    source: Path,
    stored: Path,
    sender: subprocess.Popen[bytes],
    receiver: subprocess.Popen[bytes],
    begun: Callable[[], None],
    committed: Callable[[], bool],
    longest: float = LONGEST,
) -> Sample:
    length = processes.size(source)
    both = (sender, receiver)
    begin = processes.wait_for(lambda: processes.size(stored) > 0, 60, "the first byte", *both)
    before, used = processes.size(stored), [processes.cpu_seconds(process) for process in both]
    begun()
    end = processes.wait_for(
        lambda: processes.size(stored) >= length and committed(), longest, "the last byte", *both, every=0.002
    )
    billions = (length - before) / 1e9
    cpu = tuple((processes.cpu_seconds(p) - then) / billions for p, then in zip(both, used, strict=True))
    rss = tuple(processes.memory_mib(process) for process in both)
    return Sample(billions * 1e3 / (end - begin), cpu, rss)


def sealed(journal: Path) -> bool:
    """Whether *journal* holds the seal; False if it does not exist."""
    if not journal.exists():
        return False
    with open(journal, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        return b'{"t":"seal"' in file.read()


def _plain(source: Path, work: Path, each: int | None) -> Sample:
    """Copy *source*, with fdatasync every *each* bytes and at the end."""
    processes.touch(work, processes.size(source) * 5 // 4).unlink()
    fd = os.open(work / LOG, os.O_WRONLY | os.O_CREAT, 0o640)
    try:
        begin, used, written, synced = time.perf_counter(), time.process_time(), 0, 0
        with open(source, "rb", buffering=0) as file:
            while data := file.read(1 << 20):
                written += os.write(fd, data)
                if each is not None and written - synced >= each:
                    os.fdatasync(fd)
                    synced = written
        os.fdatasync(fd)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    finally:
        os.close(fd)
    return Sample(written / 1e6 / seconds, (cpu * 1e9 / written,))
