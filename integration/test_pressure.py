"""Scarce resources: disk, inodes, descriptors, memory, a quota. Streams are held, and resume by themselves."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.harness.mounts import mounted, tmpfs
from integration.harness.places import Place, Program, Receiver, append, lines, noise, records_of, until
from tests.often import rarely

MIB = 1 << 20


@contextlib.contextmanager
def ext4(place: Place, size: str) -> Iterator[Path]:
    image = place.directory / "image"
    made = subprocess.run(["truncate", "-s", size, str(image)], check=True) and subprocess.run(
        ["mkfs.ext4", "-q", "-m", "0", "-J", "size=1", "-N", "64", str(image)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"install e2fsprogs: mkfs.ext4 is needed ({made.stderr.decode(errors='replace').strip()})")
    with mounted(place.directory / "small", "-o", "loop", str(image)) as path:
        yield path


def fill(directory: Path) -> Path:
    """A file that takes all remaining space."""
    path = directory / "filler"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    return path


def with_files(program: Program, count: int) -> Program:
    """Limit *program* to *count* open files."""
    resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE, (count, count))
    return program


def opens(receiver: Receiver) -> int:
    return receiver.program.said.count("opened at offset")


def several(place: Place, count: int, size: int) -> dict[str, bytes]:
    """Write *count* logs of *size* bytes at the site."""
    logs = {f"{n}.log": noise(size, n) for n in range(count)}
    for name, data in logs.items():
        (place.root / name).write_bytes(data)
    return logs


def holds_all(receiver: Receiver, logs: dict[str, bytes]) -> None:
    for name, data in logs.items():
        assert receiver.stored(name) == data, name
    streams = receiver.streams()
    assert all(streams[f"site-1/{name}"]["sealed"] for name in logs)


# --- quotas


def test_of_a_thousand_logs_that_wait_to_be_sent_only_some_are_open_at_a_time(place: Place) -> None:
    receiver = place.serve("--max-site-streams", "500")
    logs = several(place, 1000, 20_000)
    sidecar = place.sidecar(receiver, "--once")
    assert sidecar.ends(120) == 0
    assert "is the limit" not in sidecar.talk()
    assert all(receiver.stored(name) == data for name, data in logs.items())


@pytest.mark.parametrize("limit", ["--max-site-bytes", pytest.param("--max-run-bytes", marks=pytest.mark.soak)])
def test_a_stream_over_its_quota_is_held_and_goes_on_when_the_quota_is_raised(place: Place, limit: str) -> None:
    receiver = place.serve(limit, str(3 * MIB))
    logs = several(place, 3, 2 * MIB)
    sidecar = place.sidecar(receiver)
    sidecar.says(f"or start the receiver with a higher {limit}; retrying", 1)
    held = sum(len(receiver.stored(name)) for name in logs)
    assert 3 * MIB <= held < 5 * MIB
    receiver.stop()
    receiver = receiver.again(limit, str(3 * MIB))  # the stored bytes count for the next receiver, too
    receiver.program.says("paused at offset")
    assert sum(len(receiver.stored(name)) for name in logs) == held
    receiver.stop()
    receiver = receiver.again(limit, str(100 * MIB))
    for name, data in logs.items():
        receiver.gets(data, name)
    assert sidecar.stop() == 0, sidecar.talk()
    holds_all(receiver, logs)


def test_what_is_removed_from_the_store_makes_room_for_others(place: Place) -> None:
    receiver = place.serve("--max-run-bytes", str(MIB))
    place.log.write_bytes(noise(MIB))
    assert place.sidecar(receiver, "--once", site="old").ends() == 0
    sidecar = place.sidecar(receiver, "--once")
    sidecar.says("or start the receiver with a higher --max-run-bytes")
    assert receiver.stored() == b""
    for path in sorted((receiver.store / "run-1" / "old").iterdir()):
        path.unlink()
    assert sidecar.ends() == 0, sidecar.talk()
    receiver.holds(noise(MIB))


def test_streams_over_the_limit_take_their_turns(place: Place) -> None:
    receiver = place.serve("--max-site-streams", "2")
    logs = several(place, 5, 10_000)
    sidecar = place.sidecar(receiver)
    sidecar.says("2 streams of site site-1 in run run-1 are open, and 2 is the limit: wait until one ends")
    assert sidecar.stop() == 0, sidecar.talk()
    holds_all(receiver, logs)


def test_a_stream_that_needs_no_byte_more_is_sealed_though_the_quota_is_spent(place: Place) -> None:
    receiver = place.serve("--max-run-bytes", "1000")
    place.log.write_bytes(noise(1000))
    sidecar = place.sidecar(receiver)
    receiver.gets(noise(1000))
    sidecar.kill()
    assert place.once(receiver).ends() == 0
    receiver.holds(noise(1000))


# --- a full disk


@pytest.mark.parametrize(
    ("size", "durability"),
    [
        *(("16k", "disk"), ("36k", "disk"), ("2800k", "disk"), ("28k", "memory")),
        *rarely(*(pytest.param(f"{size}k", "disk") for size in (24, 28, 32, 64)), pytest.param("2800k", "memory")),
    ],
)
def test_a_disk_that_is_full_at_any_moment_holds_the_streams(place: Place, size: str, durability: str) -> None:
    with tmpfs(place.directory / "small", f"size={size}") as disk:
        receiver = place.serve("--durability", durability, store=disk / "store")
        logs = several(place, 3, MIB)
        sidecar = place.sidecar(receiver)
        sidecar.says("No space left on device; retrying")
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        assert sidecar.stop() == 0, sidecar.talk()
        holds_all(receiver, logs)
        assert receiver.stop() == 0
        assert not receiver.program.complaints()


def test_no_inode_for_a_new_stream_holds_that_one_alone(place: Place) -> None:
    with tmpfs(place.directory / "small", "size=16m,nr_inodes=10") as disk:
        receiver = place.serve(store=disk / "store")
        first = append(place.log, lines(100))
        sidecar = place.sidecar(receiver)
        receiver.gets(first)
        (place.root / "deep").mkdir()
        for name in ("deep/second.log", "third.log"):
            (place.root / name).write_bytes(b"x" * 1000)
        sidecar.says("No space left on device; retrying")
        more = first + append(place.log, lines(100, 100))
        receiver.gets(more)
        subprocess.run(["mount", "-o", "remount,nr_inodes=100", str(disk)], check=True)
        assert sidecar.stop() == 0, sidecar.talk()
        holds_all(receiver, {"app.log": more, "deep/second.log": b"x" * 1000, "third.log": b"x" * 1000})


def test_a_receiver_that_starts_on_a_full_disk_serves_and_takes_more_when_there_is_room(place: Place) -> None:
    with tmpfs(place.directory / "small", "size=1m") as disk:
        receiver = place.serve(store=disk / "store")
        data = append(place.log, noise(100_000))
        sidecar = place.sidecar(receiver)
        receiver.gets(data)
        receiver.stop()
        filler = fill(disk)
        receiver = receiver.again()
        data += append(place.log, noise(200_000, 2))
        (place.root / "new.log").write_bytes(b"new\n")
        sidecar.says("No space left on device; retrying", 2)
        # The disk may have an empty journal of new.log: the receiver, unlike the store, knows that it is no log yet.
        asked = place.start("streams", "run-1", "--receiver", receiver.address, "--json")
        assert records_of(asked)["site-1/app.log"]["committed"] <= len(data)
        filler.unlink()
        assert sidecar.stop() == 0, sidecar.talk()
        holds_all(receiver, {"app.log": data, "new.log": b"new\n"})


def test_a_run_that_begins_and_ends_while_the_disk_is_full_is_remembered(place: Place) -> None:
    with tmpfs(place.directory / "small", "size=1m,nr_inodes=40") as disk:
        receiver = place.serve("--announced-runs-only", store=disk / "store")
        filler = fill(disk)
        assert place.call("run-start", "run-1", "--receiver", receiver.address).ends() == 0
        data = append(place.log, noise(5000))
        sidecar = place.sidecar(receiver)
        sidecar.says("No space left on device; retrying")
        filler.unlink()
        receiver.gets(data)
        filler = fill(disk)
        assert place.call("run-end", "run-1", "--receiver", receiver.address).ends() == 0
        filler.unlink()
        assert sidecar.ends() == 0, sidecar.talk()
        journal = receiver.store / "run-1" / ".run.journal"
        until(lambda: b'"ended"' in journal.read_bytes().lower(), lambda: f"the end is recorded: {journal.read_text()}")
        assert not receiver.program.complaints()


@pytest.mark.soak
def test_an_ext4_disk_that_is_full_holds_the_streams(place: Place) -> None:
    with ext4(place, "8m") as disk:
        receiver = place.serve(store=disk / "store")
        filler = fill(disk)
        logs = several(place, 3, MIB)
        sidecar = place.sidecar(receiver)
        sidecar.says("No space left on device; retrying")
        os.truncate(filler, filler.stat().st_size - MIB)
        sidecar.says("No space left on device; retrying", 4)
        filler.unlink()
        assert sidecar.stop() == 0, sidecar.talk()
        holds_all(receiver, logs)
        assert receiver.stop() == 0


@pytest.mark.soak
def test_a_journal_that_cannot_be_compacted_waits_for_room(place: Place) -> None:
    with tmpfs(place.directory / "small", "size=8m") as disk:
        receiver = place.serve("--durability", "memory", store=disk / "store")
        sidecar = place.sidecar(receiver)
        data = append(place.log, b"begin\n")
        receiver.gets(data)
        filler = disk / "filler"
        journal = receiver.store / "run-1" / "site-1" / ".app.log.journal"
        with open(place.log, "ab", buffering=0) as file:
            while journal.stat().st_size < 420_000:  # a compaction is due at 8192 records of some 50 bytes
                for n in range(200):
                    file.write(line := b"%d\n" % n)
                    data += line
                    time.sleep(0.0002)
        room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        with open(filler, "wb") as full:
            os.posix_fallocate(full.fileno(), 0, max(4096, room - 20_480))
        data += append(place.log, noise(40_000))
        sidecar.says("No space left on device; retrying")
        filler.unlink()
        assert sidecar.stop() == 0, sidecar.talk()
        receiver.holds(data)


def test_a_checkpoint_that_cannot_be_saved_costs_nothing(place: Place) -> None:
    with tmpfs(place.directory / "small", "size=64k,nr_inodes=8") as disk:
        receiver = place.serve()
        filler = fill(disk)
        sidecar = place.sidecar(receiver, "--state", str(disk / "state"))
        data = append(place.log, lines(1000))
        sidecar.says("could not be saved")
        receiver.gets(data)
        place.log.rename(place.root / "app.log.1")
        data += append(place.log, lines(1000, 1000))
        receiver.gets(data)
        assert sidecar.stop() == 0, sidecar.talk()
        receiver.holds(data)
        assert filler.exists()


# --- descriptors


def test_a_receiver_without_descriptors_takes_what_it_can_and_the_rest_in_turn(place: Place) -> None:
    receiver = place.serve()
    with_files(receiver.program, 80)
    logs = several(place, 60, 20_000)
    sidecar = place.sidecar(receiver)
    sidecar.says("open files")  # a log that cannot be opened, or the receiver's limit
    other = place.sidecar(receiver, site="site-2", root=place.root)
    other.says("open files")
    for program in (sidecar, other):  # both at once, because each waits for the other's descriptors
        program.tell(signal.SIGTERM)
    assert sidecar.ends() == 0, sidecar.talk()
    assert other.ends() == 0, other.talk()
    assert not receiver.program.complaints()
    holds_all(receiver, logs)


@pytest.mark.soak
def test_a_receiver_that_cannot_accept_a_connection_accepts_it_later(place: Place) -> None:
    receiver = place.serve()
    data = append(place.log, lines(100))
    pid = receiver.program.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
    sidecar = place.sidecar(receiver)
    sidecar.says("retrying")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(data)


@pytest.mark.soak
def test_a_sidecar_with_more_logs_than_descriptors_sends_them_all(place: Place) -> None:
    receiver = place.serve()
    logs = several(place, 70, 3000)
    sidecar = with_files(place.sidecar(receiver), 70)
    sidecar.says("wait for their turn")
    until(lambda: all(receiver.stored(name) == data for name, data in logs.items()), "all are sent while it runs")
    for name in ("0.log", "7.log", "69.log"):  # a quiet log whose file was closed resumes when it grows
        logs[name] += append(place.root / name, b"one line more\n")
        receiver.gets(logs[name], name)
    assert sidecar.stop() == 0, sidecar.talk()
    assert not sidecar.complaints()
    holds_all(receiver, logs)


@pytest.mark.soak
def test_a_sidecar_that_drains_with_more_logs_than_descriptors_sends_them_all(place: Place) -> None:
    receiver = place.serve()
    logs = several(place, 150, 3000)
    sidecar = with_files(place.sidecar(receiver, "--once"), 80)
    assert sidecar.ends() == 0, sidecar.talk()
    holds_all(receiver, logs)


# --- memory and time


def peak(program: Program) -> int:
    """The peak resident size of *program*, in bytes."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10  # type: ignore[index]


@pytest.mark.soak
def test_many_logs_at_once_take_no_more_memory_than_a_few(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    logs = several(place, 100, 2 * MIB)
    sidecar = place.sidecar(receiver)
    until(lambda: any(map(receiver.stored, logs)), "it begins")
    receiver.program.tell(signal.SIGSTOP)
    time.sleep(1)
    receiver.program.tell(signal.SIGCONT)
    for name, data in logs.items():
        receiver.gets(data, name)
    assert peak(receiver.program) < 200 * MIB
    assert peak(sidecar) < 200 * MIB
    assert sidecar.stop() == 0
    holds_all(receiver, logs)


def test_a_receiver_that_stands_still_does_not_slow_the_writer(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    append(place.log, b"begin\n")
    receiver.gets(b"begin\n")
    receiver.program.tell(signal.SIGSTOP)
    longest, data = 0.0, bytearray(b"begin\n")
    for rotation in range(20):
        piece = noise(100_000, rotation)
        begin = time.monotonic()
        data += append(place.log, piece)
        longest = max(longest, time.monotonic() - begin)
        place.log.rename(place.root / f"app.log.{rotation:02}")
        time.sleep(0.01)
    assert longest < 10.0  # otherwise it would wait until the receiver resumes, which is never
    receiver.program.tell(signal.SIGCONT)
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(bytes(data))


def test_a_sidecar_that_is_stopped_at_any_moment_does_not_keep_a_writer_from_opening_its_log(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    data = bytearray(append(place.log, b"begin\n"))
    receiver.gets(bytes(data))
    longest = 0.0
    for n in range(200):
        sidecar.tell(signal.SIGSTOP)
        begin = time.monotonic()
        fd = os.open(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        longest = max(longest, time.monotonic() - begin)
        data += (line := b"line %d\n" % n)
        os.write(fd, line)
        os.close(fd)
        if n % 20 == 19:
            place.log.rename(place.root / f"app.log.{n:03}")
        sidecar.tell(signal.SIGCONT)
        time.sleep(0.002)
    assert longest < 15.0  # a lease would block it for 45 s
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(bytes(data))
