"""The byte path with real processes: every byte that a site writes is stored once, in order, and sealed.

Each test ends with a check of both ends (``Receiver.holds``): the stored file has the SHA-256 of the written bytes, and
``--store`` and ``--receiver`` show the same streams, with its length and digest.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.poc import answers
from integration.harness.places import (
    LOG,
    RUN,
    SITE,
    Place,
    Program,
    Proxy,
    Receiver,
    Writer,
    append,
    free_address,
    lines,
    new_place,
    noise,
    until,
)
from tests.often import table

HEAD, TAIL, AFTER, NEXT = lines(300), lines(40, 300), lines(40, 340), lines(200, 1000)
LONGEST_AFTER = 7  # attempts after which the delays grow no more
DURABILITY = pytest.mark.parametrize("durability", ["disk", pytest.param("memory", marks=pytest.mark.soak)])


@pytest.fixture(scope="module", autouse=True)
def unannounced() -> Iterator[tuple[Place, Program]]:
    """A sidecar of an unannounced run. It gives up after half a minute, while the other tests run."""
    with new_place() as place:
        append(place.log, HEAD)
        receiver = place.serve("--announced-runs-only")
        yield place, place.sidecar(receiver)


def stop(*programs: Program) -> None:
    """Stop each program, which must drain and succeed."""
    for program in programs:
        program.heeds_signals()
    for program in programs:
        program.tell(signal.SIGTERM)
    for program in programs:
        assert program.ends() == 0, program.talk()


def quiet(program: Program) -> None:
    """Assert that a CI that greps the program's output for trouble finds none."""
    assert not any(word in program.said for word in ("ERROR", "Traceback", "Exception")), program.said


# --- one file


@DURABILITY
def test_a_file_that_does_not_exist_yet_arrives_as_it_grows(place: Place, durability: str) -> None:
    receiver = place.serve("--durability", durability)
    sidecar = place.sidecar(receiver)
    written = b""
    for piece in (b"no line end", b"", b"\n", lines(5), b"\0\xff\xfe", noise(3 << 20), b"\r\n\r", lines(3)):
        written += append(place.log, piece)
        receiver.gets(written)
    stop(sidecar)
    record = receiver.holds(written)
    assert [generation["path"] for generation in record["generations"]] == [LOG]
    assert receiver.stop() == 0
    quiet(sidecar)


def test_a_renamed_file_keeps_its_tail_and_what_is_written_to_it_later(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    with open(place.log, "ab", buffering=0) as old:
        old.write(HEAD)
        receiver.gets(HEAD)
        old.write(TAIL)
        place.log.rename(place.root / "app.log.1")
        old.write(AFTER)
        append(place.log, NEXT)
        receiver.gets(HEAD + TAIL + AFTER + NEXT)
        late = lines(7, 5000)
        old.write(late)  # its successor has begun
        receiver.gets(HEAD + TAIL + AFTER + NEXT + late)
    last = append(place.log, lines(9, 6000))
    receiver.gets(HEAD + TAIL + AFTER + NEXT + late + last)
    stop(sidecar)
    record = receiver.holds(HEAD + TAIL + AFTER + NEXT + late + last)
    first = len(HEAD + TAIL + AFTER)
    assert [(generation["source_offset"], generation["length"]) for generation in record["generations"]] == [
        (0, first),
        (0, len(NEXT)),
        (first, len(late)),
        (len(NEXT), len(last)),
    ]
    assert record["gaps"] == []
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]


@pytest.mark.parametrize(
    "grown_past", [pytest.param(False, marks=pytest.mark.soak), True], ids=["shorter", "longer-than-before"]
)
def test_a_truncated_file_begins_anew(place: Place, grown_past: bool) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    again = lines(900, 2000) if grown_past else lines(3, 2000)
    with open(place.log, "wb") as file:
        file.write(again)
    receiver.gets(HEAD + again)
    more = append(place.log, NEXT)
    receiver.gets(HEAD + again + more)
    stop(sidecar)
    record = receiver.holds(HEAD + again + more)
    assert [generation["ended"] for generation in record["generations"]] == ["truncated", None]


def test_copy_and_truncate_makes_a_log_of_the_copy_and_a_generation_of_the_rest(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    with open(place.log, "ab", buffering=0) as writer:
        writer.write(HEAD)
        receiver.gets(HEAD)
        shutil.copy(place.log, place.root / "app.log.1")
        os.truncate(place.log, 0)
        writer.write(NEXT)
    receiver.gets(HEAD + NEXT)
    receiver.gets(HEAD, "app.log.1")
    stop(sidecar)
    receiver.holds(HEAD + NEXT)
    receiver.holds(HEAD, "app.log.1")


def test_a_file_that_is_removed_and_made_anew_loses_nothing_of_either(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    with open(place.log, "ab", buffering=0) as old:
        old.write(HEAD)
        receiver.gets(HEAD)
        old.write(TAIL)
        place.log.unlink()
        append(place.log, NEXT)
        old.write(AFTER)
    receiver.gets(HEAD + TAIL + AFTER + NEXT)
    stop(sidecar)
    record = receiver.holds(HEAD + TAIL + AFTER + NEXT)
    assert record["gaps"] == []


def test_many_rotations_in_a_row_are_one_stream(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    written = b""
    for rotation in range(12):
        written += append(place.log, lines(50, rotation * 50))
        receiver.gets(written)
        written += append(place.log, lines(5, rotation * 1000))  # perhaps unread before the file moves
        for number in range(rotation, 0, -1):
            (place.root / f"app.log.{number}").rename(place.root / f"app.log.{number + 1}")
        place.log.rename(place.root / "app.log.1")
    stop(sidecar)
    record = receiver.holds(written)
    assert len(record["generations"]) == 12
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]


def test_a_link_to_a_log_is_not_another_log(place: Place) -> None:
    append(place.log, HEAD)
    (place.root / "latest.log").symlink_to(LOG)
    os.link(place.log, place.root / "z.log")
    receiver = place.serve()
    assert place.once(receiver).ends() == 0
    receiver.holds(HEAD)
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]


# --- several files


def test_files_are_chosen_by_globs_and_new_ones_are_found(place: Place) -> None:
    def write(path: str) -> None:
        (place.root / path).parent.mkdir(parents=True, exist_ok=True)
        append(place.root / path, path.encode() * 50)

    receiver = place.serve()
    early = ["app.log", "rank-0/stderr.log", "a/b/deep.log", "rank-0/out/x.txt"]
    late = ["late.log", "rank-1/stderr.log", "n/e/w/deep.log", "rank-1/out/y.txt"]
    never = ["notes.txt", "debug.log", "a/debug.log", "skip/this.log", "skip/b/this.log", "rank-0/out/x.bin"]
    for path in (*early, *never):
        write(path)
    globs = ("--include", "*.log", "--include", "rank-*/out/*.txt", "--exclude", "debug.log", "--exclude", "skip/**")
    sidecar = place.sidecar(receiver, *globs)
    receiver.gets(b"app.log" * 50)
    for path in late:
        write(path)
    for path in (*early, *late):
        receiver.gets(path.encode() * 50, path)
    stop(sidecar)
    assert sorted(receiver.streams()) == sorted(f"{SITE}/{path}" for path in (*early, *late))
    for path in ("app.log", "n/e/w/deep.log"):
        receiver.holds(path.encode() * 50, path)


def test_without_globs_everything_is_sent_that_does_not_look_like_something_else(place: Place) -> None:
    for name in ("log.txt", "stdout", "metrics.jsonl", "model.pt", "old.log.gz", ".hidden", "code.py"):
        append(place.root / name, HEAD)
    receiver = place.serve()
    assert place.once(receiver).ends() == 0
    assert sorted(receiver.streams()) == [f"{SITE}/log.txt", f"{SITE}/metrics.jsonl", f"{SITE}/stdout"]


def test_all_files_are_sent_but_hidden_ones_and_those_in_hidden_directories(place: Place) -> None:
    for name in ("model.pt", "a/old.log.gz", ".netrc", "a/.env", ".ssh/id_rsa", "a/.git/b/config"):
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        append(place.root / name, HEAD)
    receiver = place.serve()
    assert place.once(receiver, "--all-files").ends() == 0
    assert sorted(receiver.streams()) == [f"{SITE}/a/old.log.gz", f"{SITE}/model.pt"]


def test_three_hundred_files_that_appear_at_once_all_arrive(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    sidecar = place.sidecar(receiver)
    for number in range(300):
        (place.root / f"d{number % 7}").mkdir(exist_ok=True)
        append(place.root / f"d{number % 7}" / f"{number}.log", lines(number % 5, number))
    until(lambda: sum(1 for _ in receiver.store.glob("*/*/*/*.log")) == 300, "all of them are there")
    stop(sidecar)
    streams = receiver.streams()
    assert len(streams) == 300
    assert all(record["sealed"] for record in streams.values())
    for number in range(300):
        assert receiver.stored(f"d{number % 7}/{number}.log") == lines(number % 5, number)


def test_an_empty_file_is_a_stream_of_no_bytes(place: Place) -> None:
    append(place.log, b"")
    receiver = place.serve()
    assert place.once(receiver).ends() == 0
    receiver.holds(b"")


# --- places and times


def test_start_at_end_sends_what_comes_and_new_files_whole(place: Place) -> None:
    append(place.log, HEAD)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--start-at", "end", "--state", str(place.directory / "state"))
    until(receiver.file().exists, "the stream is opened")
    append(place.log, TAIL)
    append(place.root / "new.log", NEXT)
    receiver.gets(TAIL)
    receiver.gets(NEXT, "new.log")
    sidecar.kill()
    append(place.log, AFTER)
    sidecar = place.sidecar(receiver, "--start-at", "end", "--state", str(place.directory / "state"))
    receiver.gets(TAIL + AFTER)
    stop(sidecar)
    record = receiver.holds(TAIL + AFTER)
    assert record["generations"][0]["source_offset"] == len(HEAD)
    receiver.holds(NEXT, "new.log")


def test_start_at_end_is_remembered_from_before_the_receiver_was_there(place: Place) -> None:
    append(place.log, HEAD)
    address, state = free_address(), place.directory / "state"
    sidecar = place.sidecar(address, "--start-at", "end", "--state", str(state))
    until(lambda: list(state.glob("*.json")), "the checkpoint is written")
    sidecar.kill()
    append(place.log, TAIL)
    sidecar = place.sidecar(address, "--start-at", "end", "--state", str(state))
    receiver = place.serve(listen=address)
    receiver.gets(TAIL)
    stop(sidecar)
    receiver.holds(TAIL)


def test_a_root_that_appears_later_is_awaited(place: Place) -> None:
    receiver = place.serve()
    root = place.directory / "not" / "yet"
    sidecar = place.sidecar(receiver, root=root)
    sidecar.says("waiting for it")
    root.mkdir(parents=True)
    append(root / LOG, HEAD)
    receiver.gets(HEAD)
    stop(sidecar)
    receiver.holds(HEAD)
    assert sidecar.said.count("waiting for it") == 1


def test_once_sends_what_is_there_and_repeats_nothing_the_next_time(place: Place) -> None:
    receiver = place.serve()
    data = append(place.log, lines(2000))
    first = place.sidecar(receiver, "--once", "--json")
    assert first.ends() == 0
    record = receiver.holds(data)
    assert [(line["committed"], line["receipt"]) for line in first.records()] == [(len(data), record["digest"])]
    assert place.once(receiver).ends() == 0
    receiver.holds(data)
    data += append(place.log, NEXT)
    assert place.once(receiver).ends() == 0
    assert len(receiver.holds(data)["generations"]) == 1


def test_once_with_nothing_to_send_says_so(place: Place) -> None:
    once = place.once(place.serve())
    assert once.ends() == 3
    assert "there is no file under" in once.said


# --- the end


@DURABILITY
def test_sigterm_drains_what_is_there(place: Place, durability: str) -> None:
    data = append(place.log, noise(24 << 20))
    receiver = place.serve("--durability", durability)
    sidecar = place.sidecar(receiver)
    until(receiver.file().exists, "it has begun")
    stop(sidecar)
    receiver.holds(data)
    quiet(sidecar)


def test_a_second_sigterm_ends_at_once(place: Place) -> None:
    append(place.log, HEAD)
    sidecar = place.sidecar(free_address(), "--drain-timeout", "600")
    sidecar.says("retrying")
    sidecar.tell(signal.SIGTERM)
    sidecar.took_signals()
    with pytest.raises(AssertionError, match="did not end"):
        sidecar.ends(0.5)
    sidecar.tell(signal.SIGTERM)
    assert sidecar.ends() == 128 + signal.SIGTERM


def test_a_file_that_never_stops_growing_does_not_hold_the_drain(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    with Writer(place.log, size=20_000, pause=0.0) as writer:
        receiver.grows(200_000)
        before = len(writer.written)
        sidecar.tell(signal.SIGTERM)
        assert sidecar.ends(20.0) == 0
    stored = receiver.stored()
    assert len(stored) >= before
    receiver.holds(bytes(writer.written[: len(stored)]))


def test_the_end_of_the_run_makes_its_sidecars_drain_and_end(place: Place) -> None:
    receiver = place.serve()
    data = append(place.log, HEAD)
    other = place.directory / "other"
    other.mkdir()
    append(other / LOG, NEXT)
    ending = [place.sidecar(receiver), place.sidecar(receiver, root=other, site="site-2")]
    staying = place.sidecar(receiver, run="run-2")
    receiver.gets(HEAD)
    receiver.gets(NEXT, site="site-2")
    receiver.gets(HEAD, run="run-2")
    data += append(place.log, TAIL)
    assert place.call("run-end", RUN, "--receiver", receiver.address).ends() == 0
    assert [sidecar.ends() for sidecar in ending] == [0, 0]
    receiver.holds(data)
    receiver.holds(NEXT, site="site-2")
    data += append(place.log, AFTER)
    receiver.gets(data, run="run-2")
    stop(staying)
    receiver.holds(data, run="run-2")


def test_a_writer_that_outlives_the_end_of_the_run_loses_nothing(place: Place) -> None:
    """The log gets a receipt at the run's end, and another one when its writer has gone."""
    receiver = place.serve()
    other = append(place.root / "other.txt", NEXT)
    script = "import os\nwhile data := os.read(0, 65536): os.write(1, data)\n"
    with open(place.log, "ab") as file:
        writer = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=file)
    assert writer.stdin is not None
    writer.stdin.write(HEAD)
    writer.stdin.flush()
    sidecar = place.sidecar(receiver)
    receiver.gets(HEAD)
    assert place.call("run-end", RUN, "--receiver", receiver.address).ends() == 0
    sidecar.says("sealed at offset")
    writer.stdin.write(TAIL)
    writer.stdin.flush()
    until(lambda: place.log.read_bytes() == HEAD + TAIL, "it is written")
    assert sidecar.process.poll() is None
    writer.stdin.close()
    writer.wait()
    assert sidecar.ends() == 0
    receiver.holds(HEAD + TAIL)
    assert (receiver.store / RUN / SITE / "other.txt").read_bytes() == other
    assert sidecar.talk().count("other.txt: sealed") == 1  # no process wrote to it


def test_the_end_of_the_run_also_ends_a_sidecar_that_found_no_log(place: Place) -> None:
    receiver = place.serve()
    assert place.call("run-start", RUN, "--receiver", receiver.address).ends() == 0
    sidecar = place.sidecar(receiver)
    until(lambda: sidecar.has_open(Path("anon_inode:inotify")), "it watches")
    assert place.call("run-end", RUN, "--receiver", receiver.address).ends() == 0
    assert sidecar.ends() == 0


def test_sigterm_ends_a_sidecar_whose_root_never_appeared(place: Place) -> None:
    sidecar = place.sidecar(place.serve(), "--drain-timeout", "600", root=place.directory / "none")
    sidecar.says("waiting for it")
    sidecar.tell(signal.SIGTERM)
    assert sidecar.ends() in (0, 3)  # a sidecar does not wait for bytes that the whole run did not bring


# --- the producer fails


@pytest.mark.parametrize(
    ("rotated", "state"), table({"as-it-was": False, "rotated-meanwhile": True}, ["none", "kept", "damaged"])
)
def test_a_sidecar_that_was_killed_goes_on_where_it_was(place: Place, state: str, rotated: bool) -> None:
    receiver = place.serve()
    directory = place.directory / "state"
    options = () if state == "none" else ("--state", str(directory))
    sidecar = place.sidecar(receiver, *options)
    written = append(place.log, HEAD)
    receiver.gets(HEAD)
    if options:
        until(lambda: list(directory.glob("*.json")), "the checkpoint is written")
    sidecar.kill()
    written += append(place.log, TAIL)
    if rotated:
        place.log.rename(place.root / "app.log.1")
        written += append(place.log, NEXT)
    if state == "damaged":
        for path in directory.iterdir():
            path.write_bytes(path.read_bytes()[:-9] + b"garbage\xff")
    sidecar = place.sidecar(receiver, *options)
    receiver.gets(written)
    written += append(place.log, AFTER)
    receiver.gets(written)
    stop(sidecar)
    record = receiver.holds(written)
    assert len(record["generations"]) == 1 + rotated
    assert record["gaps"] == []
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]


def test_a_sidecar_with_include_finds_the_file_that_was_rotated_out_of_it_meanwhile(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--include", LOG)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    sidecar.kill()
    append(place.log, TAIL)
    place.log.rename(place.root / "app.log.1")
    append(place.log, NEXT)
    sidecar = place.sidecar(receiver, "--include", LOG)
    receiver.gets(HEAD + TAIL + NEXT)
    stop(sidecar)
    receiver.holds(HEAD + TAIL + NEXT)


@pytest.mark.parametrize("how", ["truncated", "replaced", pytest.param("removed", marks=pytest.mark.soak)])
def test_a_sidecar_that_was_killed_meets_another_file_under_the_name(place: Place, how: str) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    sidecar.kill()
    sidecar.process.wait()
    if how == "truncated":
        place.log.write_bytes(NEXT)
    else:
        place.log.unlink()
    if how == "replaced":
        append(place.log, NEXT)
    sidecar = place.sidecar(receiver)
    if how == "removed":
        append(place.root / "other.log", b"x")
        receiver.gets(b"x", "other.log")
        append(place.log, NEXT)
    receiver.gets(HEAD + NEXT)
    code = sidecar.stop()
    record = receiver.holds(HEAD + NEXT)
    assert len(record["generations"]) == 2
    assert record["generations"][0]["ended"] is not None
    assert code == (0 if how == "truncated" else 6), sidecar.talk()


def test_a_sidecar_that_is_killed_again_and_again_loses_and_repeats_nothing(place: Place) -> None:
    receiver = place.serve()
    with Writer(place.log, size=30_000) as writer:
        for _ in range(5):
            sidecar = place.sidecar(receiver)
            receiver.grows()
            writer.wrote(60_000)
            sidecar.kill()
    assert place.once(receiver).ends() == 0
    record = receiver.holds(bytes(writer.written))
    assert len(record["generations"]) == 1


def test_of_two_sidecars_the_older_ends_with_one_sentence(place: Place) -> None:
    receiver = place.serve()
    append(place.log, HEAD)
    older = place.sidecar(receiver)
    receiver.gets(HEAD)
    newer = place.sidecar(receiver)
    assert older.ends() == 5
    assert "newer sidecar" in older.sentence()
    data = HEAD + append(place.log, NEXT)
    receiver.gets(data)
    stop(newer)
    receiver.holds(data)
    quiet(newer)


# --- the receiver fails


@DURABILITY
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_receiver_that_comes_back_misses_nothing(place: Place, how: signal.Signals, durability: str) -> None:
    receiver = place.serve("--durability", durability, listen=free_address())
    sidecar = place.sidecar(receiver)
    with Writer(place.log, size=50_000) as writer:
        for _ in range(3):
            receiver.grows(300_000)
            receiver.program.tell(how)
            code = receiver.program.ends()
            assert code == (0 if how is signal.SIGTERM else -signal.SIGKILL)
            writer.wrote(200_000)
            receiver = receiver.again("--durability", durability)
    receiver.gets(bytes(writer.written))
    stop(sidecar)
    record = receiver.holds(bytes(writer.written))
    assert len(record["generations"]) == 1
    quiet(sidecar)


def test_what_is_written_in_the_moment_when_the_receiver_dies_arrives(place: Place) -> None:
    receiver = place.serve("--durability", "memory", listen=free_address())
    sidecar = place.sidecar(receiver)
    written = append(place.log, HEAD)
    for _ in range(8):
        receiver.gets(written)
        receiver.program.tell(signal.SIGKILL)
        for _ in range(20):
            written += append(place.log, TAIL)
        receiver.program.ends()
        receiver = receiver.again("--durability", "memory")
    receiver.gets(written)
    stop(sidecar)
    receiver.holds(written)
    quiet(sidecar)


def test_thirty_logs_outlive_receivers_that_are_killed(place: Place) -> None:
    receiver = place.serve("--durability", "memory", listen=free_address())
    sidecar = place.sidecar(receiver)
    logs = {f"{number}.log": b"" for number in range(30)}
    for turn in range(4):
        for piece in range(15):
            for log in logs:
                logs[log] += append(place.root / log, lines(40, 1000 * turn + piece))
            if piece == 9:
                receiver.program.kill()
        receiver = receiver.again("--durability", "memory")
    for log, written in logs.items():
        receiver.gets(written, log)
    stop(sidecar)
    streams = receiver.streams()
    assert [streams[f"{SITE}/{log}"]["sealed"] for log in logs] == [True] * 30
    assert all(receiver.stored(log) == written for log, written in logs.items())
    quiet(sidecar)


def test_a_rotation_while_the_receiver_is_away_costs_nothing(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    receiver.program.kill()
    append(place.log, TAIL)
    place.log.rename(place.root / "app.log.1")
    append(place.log, NEXT)
    until(lambda: sidecar.has_open(place.log), "the new file is found")
    (place.root / "app.log.1").unlink()
    receiver = receiver.again()
    receiver.gets(HEAD + TAIL + NEXT)
    stop(sidecar)
    assert receiver.holds(HEAD + TAIL + NEXT)["gaps"] == []


def test_a_receiver_that_lost_its_store_gets_everything_again(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar = place.sidecar(receiver)
    append(place.log, HEAD)
    receiver.gets(HEAD)
    receiver.program.kill()
    shutil.rmtree(receiver.store)
    receiver = receiver.again()
    append(place.log, TAIL)
    receiver.gets(HEAD + TAIL)
    stop(sidecar)
    receiver.holds(HEAD + TAIL)


def test_a_receiver_that_starts_late_is_awaited(place: Place) -> None:
    address = free_address()
    append(place.log, HEAD)
    sidecar = place.sidecar(address)
    sidecar.says("retrying")
    append(place.log, TAIL)
    receiver = place.serve(listen=address)
    receiver.gets(HEAD + TAIL)
    stop(sidecar)
    receiver.holds(HEAD + TAIL)
    quiet(sidecar)
    assert sidecar.said.count("retrying") <= 2


def test_a_run_that_is_announced_late_is_complete_and_no_error_is_said(place: Place) -> None:
    receiver = place.serve("--announced-runs-only", FLARELOG_LOG_LEVEL="debug")
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver, "--json")
    receiver.program.says("run run-1 is not registered", times=4)
    append(place.log, TAIL)
    assert not receiver.file().exists()
    assert place.call("run-start", RUN, "--receiver", receiver.address).ends() == 0
    receiver.gets(HEAD + TAIL)
    stop(sidecar)
    receiver.holds(HEAD + TAIL)
    quiet(sidecar)
    assert sidecar.records()[0]["misses"] >= 4


def test_an_announced_run_has_its_first_bytes_within_seconds(place: Place) -> None:
    """Its sidecar has waited until its attempts were as far apart as they ever are."""
    counted, run = place.directory / "answers", answers.RUN
    command = (sys.executable, "-m", "flarelog.poc.answers", str(counted))
    receiver = place.serve("--announced-runs-only", plain=command, FLARELOG_LOG_LEVEL="debug")
    logs = [f"{number}.log" for number in range(3)]
    for log in logs:
        append(place.root / log, HEAD)
    sidecar = place.sidecar(receiver, run=run)

    def refused() -> int:
        missed = (json.loads(line) for line in counted.read_text().splitlines())
        return Counter(one["log"] for one in missed if one["code"] == "EXECUTION_EXCEPTION").most_common(1)[0][1]

    until(lambda: refused() >= LONGEST_AFTER, "its attempts are far apart")
    assert place.call("run-start", run, "--receiver", receiver.address).ends() == 0
    begun = time.monotonic()
    for log in logs:
        until(lambda: receiver.stored(log, run=run) == HEAD, f"{log} is there")  # noqa: B023
    assert time.monotonic() - begun < 4.0  # 2 s, and what a loaded machine needs
    quiet(sidecar)


def test_an_announced_run_is_still_known_after_a_restart(place: Place) -> None:
    receiver = place.serve("--announced-runs-only", listen=free_address())
    assert place.call("run-start", RUN, "--receiver", receiver.address).ends() == 0
    receiver.program.kill()
    receiver = receiver.again("--announced-runs-only")
    append(place.log, HEAD)
    assert place.once(receiver).ends() == 0
    receiver.holds(HEAD)


# --- the network fails


def test_a_connection_that_is_cut_in_the_middle_loses_and_repeats_nothing(place: Place) -> None:
    receiver = place.serve()
    data = append(place.log, noise(8 << 20))
    with Proxy(receiver.address, cuts=(300, 100_000, 1_200_000, 5_000, 2_000_000, 700_001)) as network:
        sidecar = place.sidecar(network.address)
        receiver.gets(data)
        stop(sidecar)
        assert network.connections >= 7
    receiver.holds(data)
    quiet(sidecar)


def test_a_network_that_comes_and_goes_while_logs_rotate_loses_and_repeats_nothing(place: Place) -> None:
    receiver = place.serve()
    written = b""
    with Proxy(receiver.address) as network:
        sidecar = place.sidecar(network.address)
        for rotation in range(6):
            written += append(place.log, lines(3000, rotation * 3000))
            receiver.gets(written) if rotation % 2 else None
            network.cut()
            written += append(place.log, lines(30, rotation))
            until(lambda: sidecar.has_open(place.log), "it has found the file")
            place.log.rename(place.root / f"app-{rotation}.log")
        receiver.gets(written)
        stop(sidecar)
    receiver.holds(written)
    quiet(sidecar)


# --- losses are reported


def stalled(place: Place, receiver: Receiver) -> tuple[Program, bytes]:
    """A sidecar that has read more than its stopped receiver has stored; and all bytes of the log."""
    sidecar = place.sidecar(receiver)
    data = append(place.log, HEAD)
    receiver.gets(HEAD)
    receiver.program.tell(signal.SIGSTOP)
    before = sidecar.bytes_read()
    sidecar.tell(signal.SIGSTOP)  # so that it sees all bytes at once: those that are truncated unseen make no gap
    data += append(place.log, noise(40 << 20))
    sidecar.tell(signal.SIGCONT)
    until(lambda: sidecar.bytes_read() > before + (4 << 20), "it reads on, more than one chunk")
    return sidecar, data


def ended_with_a_gap(receiver: Receiver, sidecar: Program, data: bytes, after: bytes) -> None:
    """Assert that the stream is a prefix of *data*, a gap for the rest, and *after*."""
    until(lambda: receiver.stored().endswith(after), "what came afterwards arrives")
    assert sidecar.stop() == 6, sidecar.talk()
    stored = receiver.stored()
    kept = len(stored) - len(after)
    record = receiver.holds(data[:kept] + after)
    assert sum(gap["length"] for gap in record["gaps"]) == len(data) - kept
    assert {gap["offset"] for gap in record["gaps"]} == {kept}
    assert "Traceback" not in sidecar.said


def test_what_was_truncated_before_it_was_read_is_a_gap(place: Place) -> None:
    receiver = place.serve()
    sidecar, data = stalled(place, receiver)
    place.log.write_bytes(NEXT)
    receiver.program.tell(signal.SIGCONT)
    ended_with_a_gap(receiver, sidecar, data, NEXT)


def test_what_was_sent_but_not_stored_and_is_truncated_is_a_gap(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    sidecar, data = stalled(place, receiver)
    receiver.program.kill()
    sidecar.says("retrying")
    place.log.write_bytes(NEXT)
    receiver = receiver.again()
    ended_with_a_gap(receiver, sidecar, data, NEXT)


def test_what_was_truncated_before_the_receiver_came_is_a_gap(place: Place) -> None:
    address = free_address()
    append(place.log, HEAD)
    sidecar = place.sidecar(address, "--state", str(place.directory / "state"))
    until(lambda: list((place.directory / "state").glob("*.json")), "it has looked at the file")
    place.log.write_bytes(NEXT)
    receiver = place.serve(listen=address)
    receiver.gets(NEXT)
    assert sidecar.stop() == 6, sidecar.talk()
    (gap,) = receiver.holds(NEXT)["gaps"]
    alike = next(
        n for n, (was, became) in enumerate(zip(HEAD, NEXT, strict=False)) if was != became
    )  # equal bytes cannot be told apart
    assert (gap["offset"], gap["length"]) == (0, len(HEAD) - alike)


def test_a_loss_is_said_once_at_each_end_with_its_log_its_length_and_its_reason(place: Place) -> None:
    append(place.log, b"start\n")
    os.truncate(place.log, size := 100 << 20)
    append(place.log, b"end\n")
    receiver = place.serve()
    sidecar = place.once(receiver)
    assert sidecar.ends() == 6, sidecar.talk()
    (gap,) = receiver.streams()[f"{SITE}/{LOG}"]["gaps"]
    assert 0 < gap["length"] < size
    lost = f"{gap['length']:,} bytes are lost: a hole in the file is not sent; it reads as NULs"
    sentence = f"{RUN}/{SITE}/{LOG}: gap at offset {gap['offset']}: {lost}\n"
    for said in (sidecar.said, receiver.program.said):
        assert said.count(sentence) == 1, said
        assert said.count(f" WARNING {'sidecar' if said == sidecar.said else 'receiver'}: {sentence}") == 1


# --- the unannounced run


@pytest.mark.soak  # waits for a delay that no option can shorten
def test_a_run_that_is_never_announced_ends_with_one_error(unannounced: tuple[Place, Program]) -> None:
    place, sidecar = unannounced
    assert sidecar.ends(75.0) == 7
    assert sidecar.said.count("ERROR") == 1
    assert "announce the run" in sidecar.sentence()
    assert not (place.directory / "store" / RUN / SITE).exists()
