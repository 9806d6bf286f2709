"""Both ends after accidents: a store that went backwards or was edited, a source shorter than its record, clocks that
jump, and the traces of a power cut.

Bytes that are still at the site are stored; those that are gone are a gap, and the exit code says so.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import flarelog
from flarelog.lifecycle import RunState
from flarelog.receiver.runs import AGAIN_EVERY
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import RunRecord, runs, set_run
from integration.harness.places import (
    LOG,
    RUN,
    SITE,
    Place,
    Program,
    Receiver,
    Writer,
    append,
    free_address,
    lines,
    noise,
    until,
)

HEAD, TAIL, NEXT = lines(2000), lines(300, 2000), lines(50, 9000)
DAY = 86400


def quiet(program: Program) -> None:
    assert program.complaints() == []


def verified(receiver: Receiver, *source: str) -> tuple[int, str]:
    """Exit code and output of ``flarelog verify``."""
    program = receiver.place.call("verify", RUN, "--store", str(receiver.store), *source)
    assert "Traceback" not in program.said
    return program.ends(), program.printed


def agrees(receiver: Receiver, lacks: str = "") -> None:
    """``flarelog verify`` finds no difference, and of each log that it *lacks* so much."""
    code, text = verified(receiver, "--source", str(receiver.place.root))
    said = f": ok, but incomplete: {lacks}" if lacks else ": ok"
    assert (code, all(line.endswith(said) for line in text.splitlines())) == (6 if lacks else 0, True), text


def journal(receiver: Receiver, log: str = LOG) -> Path:
    return receiver.file(log).with_name(f".{log}.journal")


@pytest.mark.soak
def test_a_receiver_that_is_back_is_back_for_all_logs_at_once(place: Place) -> None:
    """Each log's retry delay grows while the receiver is away; the first log that gets an answer wakes the others."""
    receiver = place.serve()
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver)
    receiver.gets(HEAD)
    receiver.program.kill()
    names = [f"rank-{number}.log" for number in range(9)]
    for name in names:
        append(place.root / name, TAIL)
        time.sleep(0.6)  # gives each log another retry time; the delays grow to some seconds
    again = receiver.again()
    for name in names:
        again.gets(TAIL, name)
    opened = [line.split()[0] for line in again.program.said.splitlines() if "opened at" in line]
    first, last = (datetime.fromisoformat(moment) for moment in (min(opened), max(opened)))
    assert len(opened) == len(names) + 1
    assert (last - first).total_seconds() < 2.5
    assert sidecar.stop() == 0


def test_a_run_that_was_ending_when_its_receiver_was_killed_ends_under_the_next_one(place: Place) -> None:
    store = LocalStore(place.directory / "store")
    store.root.mkdir()
    asyncio.run(set_run(store, RUN, RunState.ENDING))
    with flarelog.Receiver(str(store.root), join_timeout=0.5):
        until(lambda: asyncio.run(runs(store)) == {RUN: RunRecord(RunState.ENDED)}, "the run ends")


def test_under_the_next_receiver_a_run_ends_when_everything_that_is_held_of_it_is_sealed(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    receiver.gets(append(place.log, b"one\n"))
    sidecar.kill()
    receiver.program.kill()
    store = LocalStore(receiver.store)
    asyncio.run(set_run(store, RUN, RunState.ENDING))
    with flarelog.Receiver(str(receiver.store), join_timeout=3600) as again:
        time.sleep(4 * AGAIN_EVERY)
        assert asyncio.run(runs(store)) == {RUN: RunRecord(RunState.ENDING)}
        assert place.sidecar(again.address, "--once").ends() == 0
        until(lambda: asyncio.run(runs(store)) == {RUN: RunRecord(RunState.ENDED)}, "the run ends")


@pytest.mark.soak
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_that_is_ended_after_a_restart_ends_behind_the_last_lines_of_its_sites(
    place: Place, workers: str
) -> None:
    receiver = place.serve("--workers", workers)
    sidecars = []
    for site in ("site-1", "site-2"):
        log = place.directory / site / LOG
        log.parent.mkdir(exist_ok=True)
        append(log, b"%s: one\n" % site.encode())
        sidecars.append(place.sidecar(receiver, root=log.parent, site=site))
        receiver.gets(log.read_bytes(), site=site)
    for sidecar in sidecars:
        sidecar.tell(signal.SIGSTOP)  # the sidecar comes back late
    receiver.program.kill()
    for site in ("site-1", "site-2"):
        append(place.directory / site / LOG, b"%s: the last line\n" % site.encode())
    again = receiver.again("--workers", workers)
    follow = place.start("follow", RUN, "--receiver", again.address)
    until(lambda: "site-2: one" in follow.printed, "follow shows what was stored")
    assert place.call("run-end", RUN, "--receiver", again.address).ends() == 0
    time.sleep(2 * AGAIN_EVERY)
    for sidecar in sidecars:
        sidecar.tell(signal.SIGCONT)
    assert follow.ends() == 0, follow.talk()
    for site in ("site-1", "site-2"):
        assert f"{site}: the last line" in follow.printed


# --- the store went backwards


def committed(receiver: Receiver, data: bytes, log: str = LOG) -> None:
    """Wait until *data* is in the log's file and in its journal."""
    receiver.gets(data, log)
    until(lambda: b'"n":%d,' % len(data) in journal(receiver, log).read_bytes(), f"{log} is committed")


def copied(receiver: Receiver) -> Path:
    copy = receiver.store.with_name("copy")
    shutil.copytree(receiver.store, copy)
    return copy


def restored(receiver: Receiver, copy: Path) -> Receiver:
    """The next receiver, with the older *copy* of the store."""
    assert receiver.stop() == 0  # a clean stop: all bytes are acknowledged
    shutil.rmtree(receiver.store)
    copy.rename(receiver.store)
    return receiver.again()


@pytest.mark.parametrize(
    "rotated", [pytest.param(False, marks=pytest.mark.soak), True], ids=["the-same-file", "rotated-meanwhile"]
)
def test_what_an_older_copy_of_the_store_lacks_is_sent_again_and_said(place: Place, rotated: bool) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    data = append(place.log, HEAD)
    committed(receiver, data)
    copy = copied(receiver)
    data += append(place.log, TAIL)
    if rotated:
        receiver.gets(data)
        place.log.rename(place.root / f"{LOG}.1")
        data += append(place.log, NEXT)
    receiver.gets(data)
    receiver = restored(receiver, copy)
    sidecar.says(f"the receiver lost {len(data) - len(HEAD)} bytes that it had acknowledged; the producer resends what")
    receiver.gets(data)
    data += append(place.log, NEXT)
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    quiet(sidecar)
    assert receiver.holds(data)["gaps"] == []
    agrees(receiver)


def let_go(sidecar: Program, path: Path) -> None:
    until(lambda: not sidecar.has_open(path), f"{path} is let go")


def test_what_an_older_copy_of_the_store_lacks_and_the_source_as_well_is_a_gap(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    after = {"removed.log": b"", "replaced.log": NEXT, "truncated.log": NEXT}
    for log in after:
        append(place.root / log, HEAD)
    for log in after:
        committed(receiver, HEAD, log)
    copy = copied(receiver)
    for log in after:
        append(place.root / log, TAIL)
    for log in after:
        receiver.gets(HEAD + TAIL, log)
    for log in after:
        if log == "truncated.log":
            (place.root / log).write_bytes(NEXT)
        else:
            (place.root / log).unlink()
            let_go(sidecar, Path(f"{place.root / log} (deleted)"))
    append(place.root / "replaced.log", NEXT)
    for log, data in after.items():
        receiver.gets(HEAD + TAIL + data, log)
    receiver = restored(receiver, copy)
    sidecar.says(f": gap at offset {len(HEAD)}: {len(TAIL):,} bytes were ", times=3)
    for log, data in after.items():
        receiver.gets(HEAD + data, log)
    assert sidecar.stop() == 6, sidecar.talk()
    quiet(sidecar)
    for log, data in after.items():
        (gap,) = receiver.holds(HEAD + data, log)["gaps"]
        assert (gap["offset"], gap["length"]) == (len(HEAD), len(TAIL))
    code, text = verified(receiver, "--source", str(place.root))
    lost = f": ok, but incomplete: 1 gap: {len(TAIL):,} bytes are lost"
    assert (code, all(lost in line for line in text.splitlines())) == (6, True), text


def test_a_copy_that_was_taken_while_the_receiver_wrote_is_good_for_what_it_holds(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    with Writer(place.log, size=50_000, pause=0.002) as writer:
        receiver.grows(300_000)
        copy = copied(receiver)
        receiver.grows(300_000)
        receiver = restored(receiver, copy)
        receiver.grows(300_000)
    receiver.gets(bytes(writer.written))
    assert sidecar.stop() == 0, sidecar.talk()
    quiet(sidecar)
    receiver.holds(bytes(writer.written))


@pytest.mark.soak
def test_a_store_that_is_deleted_under_a_sidecar_with_rotated_files_gets_all_that_is_left(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    data = b""
    for n in range(3):
        data += append(place.log, lines(500, n * 500))
        receiver.gets(data)
        place.log.rename(place.root / f"{LOG}.{n}")
    data += append(place.log, TAIL)
    receiver.gets(data)
    for n in range(3):
        let_go(sidecar, place.root / f"{LOG}.{n}")
    receiver.program.kill()
    shutil.rmtree(receiver.store)
    receiver = receiver.again()
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    quiet(sidecar)
    assert receiver.holds(data)["gaps"] == []


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        pytest.param(lambda file: shutil.rmtree(file.parents[1]), " is gone", id="removed", marks=pytest.mark.soak),
        pytest.param(lambda file: os.truncate(file, 100), " ends at offset 100, but had ", id="truncated"),
    ],
)
def test_what_was_taken_from_the_store_below_a_running_receiver_is_not_sealed_but_sent_again(
    place: Place, harm: Callable[[Path], None], what: str
) -> None:
    receiver = place.serve()
    data = append(place.log, HEAD)
    sidecar = place.sidecar(receiver)
    receiver.gets(data)
    committed(receiver, data)
    harm(receiver.file())
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(data)
    agrees(receiver)
    assert receiver.program.said.count(f"{receiver.file()}{what}") == 1, receiver.program.said
    assert f"the receiver lost {len(data)} bytes that it had acknowledged" in sidecar.said


@pytest.mark.parametrize(
    "length",
    [pytest.param(1000, marks=pytest.mark.soak), len(HEAD), pytest.param(len(HEAD) + 1000, marks=pytest.mark.soak)],
    ids=["shorter", "as-long", "longer"],
)
def test_a_store_with_other_bytes_is_never_gone_on_with_as_if_they_were_these(place: Place, length: int) -> None:
    """The store has another receiver's stream: this site's bytes are stored whole, after it."""
    other = place.serve(store=place.directory / "other")
    elsewhere = place.directory / "elsewhere"
    elsewhere.mkdir()
    foreign = append(elsewhere / LOG, noise(length))
    assert place.sidecar(other, "--once", root=elsewhere).ends() == 0
    assert other.stop() == 0

    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    receiver.program.kill()
    shutil.rmtree(receiver.store)
    shutil.copytree(other.store, receiver.store)
    receiver = receiver.again()
    if length == len(HEAD):
        assert sidecar.ends() == 1, sidecar.talk()
        assert "holds other bytes" in sidecar.sentence()
        assert "start this producer again" in sidecar.sentence()
        sidecar = place.sidecar(receiver)
    data = HEAD + append(place.log, TAIL)
    receiver.gets(foreign + data)
    assert sidecar.stop() == 6, sidecar.talk()  # nobody here knows whether the foreign file went on
    receiver.holds(foreign + data)
    agrees(receiver, f"the end of {LOG} was not seen")


# --- the store was edited by hand


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def cut(path: Path, last: int) -> None:
    """Cut off the *last* bytes."""
    os.truncate(path, path.stat().st_size - last)


def nul(path: Path, size: int = 4096) -> None:
    append(path, bytes(size))


def nul_tail(path: Path) -> None:
    """Leave zeros, as a power cut does in blocks that were allocated but not written."""
    cut(path, len(TAIL) - 100)
    nul(path, len(TAIL) + 4096)


def torn_nul_tail(path: Path) -> None:
    cut(path, 20)
    nul(path)


HANDS: dict[str, Callable[[Path, Path], object]] = {
    "cut": lambda data, journal: cut(data, len(HEAD)),
    "emptied": lambda data, journal: data.write_bytes(b""),
    "removed": lambda data, journal: data.unlink(),
    "grown": lambda data, journal: append(data, b"an editor was here\n"),
    "last-byte-flipped": lambda data, journal: flip(data, len(HEAD + TAIL) - 1),
    "data-ends-in-nul-bytes": lambda data, journal: nul_tail(data),
    "journal-torn": lambda data, journal: cut(journal, 7),
    "journal-ends-in-nul-bytes": lambda data, journal: nul(journal),
    "journal-torn-and-filled-with-nul-bytes": lambda data, journal: torn_nul_tail(journal),
    "journal-older-than-data": lambda data, journal: cut(journal, len(journal.read_bytes().splitlines(True)[-1])),
    "journal-of-nul-bytes": lambda data, journal: journal.write_bytes(bytes(4096)),
    "journal-empty": lambda data, journal: journal.write_bytes(b""),
}
"""The edits, by the name of the log that gets each."""


@pytest.mark.parametrize(
    "alive", [pytest.param(True, marks=pytest.mark.soak), False], ids=["sidecar-alive", "sidecar-killed"]
)
def test_streams_that_were_changed_by_hand_or_by_a_power_cut_are_whole_again(place: Place, alive: bool) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    for data, more in ((HEAD, HEAD), (HEAD + TAIL, TAIL)):  # two commits of each log
        for log in HANDS:
            append(place.root / log, more)
        for log in HANDS:
            committed(receiver, data, log)
    assert receiver.stop() == 0
    if not alive:
        sidecar.kill()
    for log, hand in HANDS.items():
        hand(receiver.file(log), journal(receiver, log))
        append(place.root / log, NEXT)
    receiver = receiver.again()
    if not alive:
        sidecar = place.sidecar(receiver)
    for log in HANDS:
        receiver.gets(HEAD + TAIL + NEXT, log)
    assert sidecar.stop() == 0, sidecar.talk()
    quiet(sidecar)
    streams = receiver.streams()
    assert {log: streams[f"{SITE}/{log}"]["gaps"] for log in HANDS} == {log: [] for log in HANDS}
    agrees(receiver)
    for log in ("cut", "emptied", "removed", "last-byte-flipped", "data-ends-in-nul-bytes"):
        assert f"{RUN}/{SITE}/{log}: the journal lists" in receiver.program.said
        if alive:
            assert any(f"{SITE}/{log}: the receiver lost" in line for line in sidecar.said.splitlines())


def test_a_journal_that_is_gone_is_said_and_nothing_is_overwritten(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    receiver.program.kill()
    journal(receiver).unlink()
    receiver = receiver.again()
    sidecar.says("move it away")
    assert receiver.stored() == HEAD
    receiver.file().rename(place.directory / "moved")
    receiver.gets(HEAD)
    assert sidecar.stop() == 0, sidecar.talk()
    quiet(sidecar)


def test_verify_locates_a_byte_that_was_flipped_in_the_middle(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    data = append(place.log, HEAD)
    committed(receiver, data)
    data += append(place.log, TAIL)
    committed(receiver, data)
    receiver.program.kill()
    flip(receiver.file(), 1000)
    receiver = receiver.again()  # it reads only the last range again
    after = append(place.log, NEXT)
    until(lambda: receiver.stored().endswith(after), "it goes on")
    assert sidecar.stop() == 0, sidecar.talk()
    code, text = verified(receiver)
    found = re.search(r"differs from the committed bytes between offset 0 and (\d+)", text)
    assert code == 1, text
    assert found is not None, text
    assert 1000 < int(found[1]) <= len(HEAD), "the head may have been committed in parts"
    assert len(receiver.stored()) == len(data + after)


def test_verify_says_where_a_stream_was_cut_and_what_was_added_to_it(place: Place) -> None:
    receiver = place.serve()
    append(place.log, HEAD)
    assert place.once(receiver).ends() == 0
    assert receiver.stop() == 0
    append(receiver.file(), b"an editor was here\n")
    code, text = verified(receiver)
    assert (code, "is sealed, and 19 bytes are behind its end: " in text) == (1, True)
    os.truncate(receiver.file(), 100)
    code, text = verified(receiver)
    assert code == 1
    assert f"ends at offset 100, but {len(HEAD)} bytes were committed" in text


# --- the receiver's address changes, both ends die


def test_a_receiver_that_moved_is_gone_on_with_by_a_sidecar_that_is_told_where(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    data = append(place.log, HEAD)
    receiver.gets(data)
    receiver.program.kill()
    data += append(place.log, TAIL)
    sidecar.says("retrying")
    receiver = place.serve(store=receiver.store)
    assert sidecar.process.poll() is None
    sidecar.tell(signal.SIGTERM)  # it reaches no receiver: a second signal ends it at once
    sidecar.took_signals()
    sidecar.tell(signal.SIGTERM)
    sidecar.ends()
    sidecar = place.sidecar(receiver)
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    assert len(receiver.holds(data)["generations"]) == 1


@pytest.mark.parametrize("durability", [pytest.param("memory", marks=pytest.mark.soak), "disk"])
def test_both_ends_killed_at_once_again_and_again_lose_and_repeat_nothing(place: Place, durability: str) -> None:
    rng = random.Random()
    address = free_address()
    receiver = place.serve("--durability", durability, listen=address)
    with Writer(place.log, size=40_000, pause=0.003) as writer:
        for _ in range(5):
            sidecar = place.sidecar(receiver)
            receiver.grows(200_000)
            time.sleep(rng.uniform(0, 0.05))
            for program in (sidecar, receiver.program):
                program.tell(signal.SIGKILL)
            sidecar.ends()
            receiver.program.ends()
            receiver = receiver.again("--durability", durability)
    assert place.once(receiver).ends() == 0
    record = receiver.holds(bytes(writer.written))
    assert len(record["generations"]) == 1
    assert record["gaps"] == []


# --- the source is shorter than the stored bytes


def test_a_source_that_is_shorter_than_what_is_held_begins_anew_and_what_is_held_stays(place: Place) -> None:
    after = {"truncated": b"", "gone": b"", "cut": HEAD[:1000], "rewritten": NEXT, "replaced": NEXT}
    receiver = place.serve()
    for log in after:
        append(place.root / log, HEAD)
    assert place.once(receiver).ends() == 0
    os.truncate(place.root / "truncated", 0)
    os.truncate(place.root / "cut", 1000)
    (place.root / "rewritten").write_bytes(NEXT)
    for log in ("gone", "replaced"):
        (place.root / log).unlink()
    append(place.root / "replaced", NEXT)
    for new in (1, 0):  # the second time nothing is new
        sidecar = place.once(receiver)
        assert sidecar.ends() == 6, sidecar.talk()
        assert sidecar.said.count("WARNING") == sidecar.said.count(": the end of replaced was not seen\n") - 1 == new
        quiet(sidecar)
        streams = receiver.streams()
        for log, data in after.items():
            assert receiver.stored(log) == HEAD + data
            assert streams[f"{SITE}/{log}"]["committed"] == len(HEAD + data)
            assert streams[f"{SITE}/{log}"]["generations"][0]["length"] == len(HEAD)


# --- clocks


def test_a_files_times_say_nothing_about_what_is_sent(place: Place) -> None:
    receiver = place.serve()
    stamps = {"1970": 0, "2100": 4102444800}
    data = b""
    sidecar = None
    for n in range(4):
        data += lines(100, n)
        for log, stamp in stamps.items():
            append(place.root / log, lines(100, n))
            os.utime(place.root / log, (stamp, stamp))
        sidecar = sidecar or place.sidecar(receiver)
        for log in stamps:
            receiver.gets(data, log)
    assert sidecar is not None
    assert sidecar.stop() == 0, sidecar.talk()


def test_a_file_that_claims_to_be_from_the_future_is_not_older_than_any_age(place: Place) -> None:
    receiver = place.serve()
    append(place.log, HEAD)
    os.utime(place.log, (time.time() + DAY, time.time() + DAY))
    old = place.root / "old.log"
    append(old, HEAD)
    os.utime(old, (0, 0))
    assert place.once(receiver, "--ignore-older", "3600").ends() == 0
    receiver.holds(HEAD)
    assert receiver.stored("old.log") == b""


def test_what_is_added_to_a_file_at_rest_arrives_though_its_time_is_set_back(place: Place) -> None:
    receiver = place.serve()
    data = append(place.log, HEAD)
    sidecar = place.sidecar(receiver)
    receiver.gets(data)
    rotated = place.root / f"{LOG}.1"
    place.log.rename(rotated)
    data += append(place.log, TAIL)
    receiver.gets(data)
    until(lambda: not sidecar.has_open(rotated), "the rotated file is laid to rest")
    before = rotated.stat()
    data += append(rotated, NEXT)
    os.utime(rotated, ns=(before.st_atime_ns, before.st_mtime_ns))
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(data)


def faketime() -> str:
    """The path of the library that gives a process another clock."""
    found = ctypes.util.find_library("faketime") or next(
        (str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None
    )
    if found is None:
        pytest.skip("needs libfaketime: apt-get install libfaketime")
    return found


@pytest.mark.parametrize(
    "jumps",
    [("+400d", "-10y", "+0"), pytest.param(("+400d", "-400d", "+20y", "-10y", "+0"), marks=pytest.mark.soak)],
    ids=["few", "many"],
)
def test_clocks_that_jump_both_ways_at_both_ends_change_nothing(place: Place, jumps: tuple[str, ...]) -> None:
    clock = place.directory / "clock"
    clock.write_text("+0\n")
    env: dict[str, Any] = {
        "LD_PRELOAD": faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    receiver = place.serve("--idle-timeout", "5", **env)
    sidecar = place.sidecar(receiver, "--ignore-older", "3600", **env)
    data = append(place.log, HEAD)
    receiver.gets(data)
    for jump in jumps:
        clock.write_text(f"{jump}\n")
        data += append(place.log, TAIL)
        receiver.gets(data)
        place.log.rename(place.root / f"{LOG}.{jump[1:]}")
        data += append(place.log, NEXT)
        receiver.gets(data)
    clock.write_text("-3000d\n")
    assert sidecar.stop() == 0, sidecar.talk()
    for program in (sidecar, receiver.program):
        assert "retrying" not in program.said
        assert "ends the connection" not in program.said
        quiet(program)
    assert len({line[:4] for line in receiver.program.said.splitlines()}) > 1  # the fake clock did reach another year
    receiver.holds(data)
