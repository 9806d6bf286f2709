"""Bulk: one large file as one stream, from a sending process over loopback to a receiving process that stores it.

A round starts ``flarelog serve`` and ``flarelog sidecar``, waits until a line of another log is stored, makes the large
file appear under the sidecar's root (a hard link), and orders the sidecar to drain (SIGTERM) as soon as it has begun;
the rounds of stop_and_wait start a sender on the file. The clock starts when the stored file is first seen to have
bytes, and those bytes are not counted, so that no start of a process is; it ends when the stored file has its whole
length and, for flarelog, its journal has the seal: both ends agreed on length and digest then, and with durability
``disk`` every byte had passed fdatasync. The files are looked at every 2 ms. CPU seconds are those in between.

``memory``: durability memory, in memory if there is room, against stop-and-wait. ``disk``: durability disk, stored
on a disk, against a loop that reads the same file and writes it there in 1 MiB pieces, with one fdatasync at the end;
for information also with one each 16 MiB. ``over_tls``: durability memory, in memory, with mutual TLS and without.

Before each round what the one before left unwritten is synced. A virtual machine gets memory from its host when it is
first touched, at a few hundred MB/s, and gives it back a second after it was freed; a round that happens to pay for
that says nothing about its candidate. So each candidate's bytes begin right after a larger file on the same file system
was removed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import content, processes
from bench.results import Row, largest, medians
from flarelog import certs
from flarelog.certs import Role
from flarelog.tls import Tls

LOG = "log.txt"
_LONGEST = 600.0  # seconds of a round


@dataclass(frozen=True, slots=True)
class Sample:
    """One round."""

    rate: float  # MB/s, 10^6 bytes
    cpu: tuple[float, ...] = ()  # seconds per 10^9 bytes: sender, receiver
    rss: tuple[float, ...] = ()  # MiB: sender, receiver


def memory(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the comparison with stop-and-wait; *source*, in ``places.memory``, is the file."""
    ours, theirs = interleaved(
        places.memory,
        rounds,
        lambda work: flarelog(source, work, places, "memory"),
        lambda work: _stop_and_wait(source, work),
    )
    ratio = f"{rate(ours) / rate(theirs):.1f} x stop-and-wait"
    return [
        row("bulk, memory", "flarelog", ours, ratio),
        row("bulk, memory", "stop-and-wait, 64 KiB", theirs, ""),
    ]


def redaction(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of what redaction costs; *source*, in ``places.memory``, is the file."""
    masked, plain = interleaved(
        places.memory,
        rounds,
        lambda work: flarelog(source, work, places, "memory", "--redact", "all"),
        lambda work: flarelog(source, work, places, "memory"),
    )
    ratio = f"{rate(masked) / rate(plain):.2f} x plain"
    return [row("redaction, bulk", "--redact all", masked, ratio), row("redaction, bulk", "flarelog", plain, "")]


def disk(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the comparison with a plain write and fdatasync; *source*, in ``places.memory``, is the file."""
    ours, plain, often = interleaved(
        places.disk,
        rounds,
        lambda work: flarelog(source, work, places, "disk"),
        lambda work: _plain(source, work, None),
        lambda work: _plain(source, work, 16 << 20),
    )
    ratio = f"{rate(ours) / rate(plain):.2f} x plain"
    return [
        row("bulk, disk", "flarelog", ours, ratio),
        row("bulk, disk", "plain write, one fdatasync", plain, ""),
        row("bulk, disk", "plain write, fdatasync each 16 MiB", often, ""),
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
        row("tls, bulk", "flarelog, mutual TLS", tls, f"{rate(tls) / rate(plain):.2f} x plain"),
        row("tls, bulk", "flarelog, plain", plain, ""),
    ]


def _certificates(directory: Path) -> tuple[Tls, Tls]:
    """The receiver's, and those of the site ``site``."""
    now = datetime.now(UTC)
    certs.init(directory, now=now)
    issued = certs.issue_server(directory, ["127.0.0.1"], now=now), certs.issue(directory, Role.SITE, "site", now=now)
    server, site = (Tls(str(directory / "ca.crt"), str(one.certificate), str(one.key)) for one in issued)
    return server, site


def interleaved(parent: Path, rounds: int, *candidates: Callable[[Path], Sample]) -> list[list[Sample]]:
    """The samples of each of *candidates*, which get a new directory in *parent* each time."""
    samples: list[list[Sample]] = [[] for _ in candidates]
    for _ in range(rounds):
        for candidate, taken in zip(candidates, samples, strict=True):
            os.sync()
            with processes.scratch(parent) as work:
                taken.append(candidate(work))
    return samples


def rate(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.rate for sample in samples)


def row(measurement: str, of: str, samples: Sequence[Sample], compared: str) -> Row:
    rates = [sample.rate for sample in samples]
    cpu, rss = [sample.cpu for sample in samples], [sample.rss for sample in samples]
    return Row(measurement, of, "MB/s", rates, medians(cpu), largest(rss), compared)


def flarelog(
    source: Path,
    work: Path,
    places: processes.Places,
    durability: str,
    *more: str,
    sender: str = "flarelog",
    tls: tuple[Tls, Tls] | None = None,
) -> Sample:
    """One round; *more* are options of the sending process, *sender* is its module, *tls* what the receiver and the
    site show.
    """
    receiving, sending_as = (one.arguments() for one in tls) if tls is not None else ((), ())
    site = work / "store" / "bench" / "site"
    touched = processes.touch(work, processes.size(source) * 5 // 4)
    with processes.scratch(places.memory) as root, processes.serve(work, durability, *receiving) as (receiver, address):
        (root / "first.txt").write_bytes(content.line(1))
        options = ("--drain-timeout", str(_LONGEST), *sending_as, *more)
        with processes.sidecar(work, address, root, *options, module=sender) as sending:
            processes.wait_for(lambda: processes.size(site / "first.txt") > 0, 30, "the first log", sending, receiver)
            time.sleep(0.2)
            touched.unlink()
            os.link(source, root / LOG)
            journal = site / f".{LOG}.journal"
            sample = _timed(source, site / LOG, sending, receiver, sending.terminate, lambda: _sealed(journal))
            processes.finish(sending)
    return sample


def _stop_and_wait(source: Path, work: Path) -> Sample:
    module = "bench.stop_and_wait"
    ready, stored = work / "ready", work / LOG
    touched = processes.touch(work, processes.size(source) * 5 // 4)
    with processes.python(module, "serve", ready, stored, talk=work / "serve.err") as receiver:
        address = processes.address(receiver, ready)
        touched.unlink()
        with processes.python(module, "send", address, source, talk=work / "send.err") as sender:
            sample = _timed(source, stored, sender, receiver, lambda: None, lambda: True)
            processes.finish(sender)
    return sample


def _timed(
    source: Path,
    stored: Path,
    sender: subprocess.Popen[bytes],
    receiver: subprocess.Popen[bytes],
    begun: Callable[[], None],
    committed: Callable[[], bool],
) -> Sample:
    length = processes.size(source)
    both = (sender, receiver)
    begin = processes.wait_for(lambda: processes.size(stored) > 0, 60, "the first byte", *both)
    before, used = processes.size(stored), [processes.cpu_seconds(process) for process in both]
    begun()
    end = processes.wait_for(
        lambda: processes.size(stored) >= length and committed(), _LONGEST, "the last byte", *both, every=0.002
    )
    billions = (length - before) / 1e9
    cpu = tuple((processes.cpu_seconds(p) - then) / billions for p, then in zip(both, used, strict=True))
    rss = tuple(processes.memory_mib(process) for process in both)
    return Sample(billions * 1e3 / (end - begin), cpu, rss)


def _sealed(journal: Path) -> bool:
    with open(journal, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        return b'{"t":"seal"' in file.read()


def _plain(source: Path, work: Path, each: int | None) -> Sample:
    """Copy *source*, with fdatasync each *each* bytes and at the end."""
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
