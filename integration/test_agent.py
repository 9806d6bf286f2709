"""One agent for all runs of a site: runs begin and end by themselves, share a connection, and do not
delay each other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest

from flarelog.locks import take
from flarelog.sender.agent import RUNS_A_CONNECTION
from integration.harness.places import SITE, Place, Program, Receiver, free_address, noise, until

LATE = 45.0  # the latest time, on a loaded machine, after which a finished run is sealed, in seconds


def agent(place: Place, receiver: Receiver | str, *args: str) -> Program:
    address = receiver if isinstance(receiver, str) else receiver.address
    return place.start("agent", "--receiver", address, "--site", SITE, "--root", str(place.root), *args)


def wrote(place: Place, run: str, data: bytes, log: str = "log.txt") -> bytes:
    """Append to the log; return its whole content."""
    path = place.root / run / log
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.write(data)
    return path.read_bytes()


def sealed(receiver: Receiver, run: str, data: bytes, log: str = "log.txt") -> None:
    until(lambda: receiver.stored(log, run=run) == data, f"{run} is stored")
    until(lambda: all(one["sealed"] for one in receiver.streams(run).values()), f"{run} is over", LATE)
    receiver.holds(data, log, run=run)


def connections(program: Program, address: str) -> int:
    """The number of the program's sockets that are connected to *address*."""
    port = f"{int(address.rpartition(':')[2]):04X}"
    mine = {os.readlink(path) for path in Path(f"/proc/{program.process.pid}/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port}") and row[3] == "01" and f"socket:[{row[9]}]" in mine for row in rows)


def test_runs_begin_and_end_by_themselves_over_one_connection(place: Place) -> None:
    receiver = place.serve()
    old = wrote(place, "old", noise(100_000))
    os.utime(place.root / "old" / "log.txt", (1_000_000_000, 1_000_000_000))
    first = wrote(place, "first", b"one\n")
    program = agent(place, receiver, "--idle", "3")
    sealed(receiver, "old", old)
    sealed(receiver, "first", first)
    late = wrote(place, "late", b"late\n")
    wrote(place, "late", b"deep\n", "deep/er/log.txt")
    receiver.gets(late, "log.txt", run="late")
    assert connections(program, receiver.address) == 1
    first = wrote(place, "first", b"two\n")
    sealed(receiver, "first", first)
    sealed(receiver, "late", late)
    last = wrote(place, "last", b"last\n")
    receiver.gets(last, "log.txt", run="last")
    assert program.stop() == 0, program.talk()
    sealed(receiver, "last", last)
    assert program.complaints() == []


@pytest.mark.soak
def test_a_log_of_a_resumed_run_that_grows_after_another_one_is_sent(place: Place) -> None:
    """The run's first new byte resumes it, when the receiver has all of the other log."""
    receiver = place.serve()
    program = agent(place, receiver, "--idle", "3")
    wrote(place, "job", b"one\n", "rank-0.log")
    wrote(place, "job", b"one\n", "rank-1.log")
    sealed(receiver, "job", b"one\n", "rank-0.log")
    first = wrote(place, "job", b"two\n", "rank-0.log")
    receiver.gets(first, "rank-0.log", run="job")
    other = wrote(place, "job", b"two\n", "rank-1.log")
    receiver.gets(other, "rank-1.log", run="job")
    sealed(receiver, "job", other, "rank-1.log")
    assert program.stop() == 0
    assert program.complaints() == []


def test_a_killed_agent_goes_on_where_it_was(place: Place) -> None:
    receiver = place.serve()
    logs = {f"job-{n}": wrote(place, f"job-{n}", noise(200_000, n)) for n in range(5)}
    for n in range(5):
        program = agent(place, receiver, "--run-from", "path:job-{run}/**", "--state", str(place.directory / "state"))
        receiver.gets(logs["job-0"], "log.txt", run="0")
        program.kill()
        for run in logs:
            wrote(place, run, noise(10_000, n))
            logs[run] += noise(10_000, n)
        (place.root / "job-1" / "log.txt").rename(place.root / "job-1" / f"log.txt.{9 - n}")
        logs["job-1"] += wrote(place, "job-1", b"%d\n" % n)
    program = agent(place, receiver, "--run-from", "path:job-{run}/**", "--state", str(place.directory / "state"))
    for run, data in logs.items():
        receiver.gets(data, "log.txt", run=run.removeprefix("job-"))
    assert program.stop() == 0, program.talk()
    for run, data in logs.items():
        sealed(receiver, run.removeprefix("job-"), data)


def test_its_own_state_is_no_run_of_an_agent(place: Place) -> None:
    receiver, state = place.serve(), str(place.root / "state")
    data = wrote(place, "job", b"one\n")
    assert agent(place, receiver, "--state", state, "--once", "--include", "*").ends() == 0
    again = agent(place, receiver, "--state", state, "--once", "--include", "*")
    assert again.ends() == 0, again.talk()
    assert receiver.stored("log.txt", run="job") == data
    assert list((place.root / "state").iterdir())
    assert not (receiver.store / "state").exists()


def test_once_sends_all_runs_that_there_are(place: Place) -> None:
    """There are more runs than one connection carries at a time."""
    receiver = place.serve()
    logs = {f"job-{n}": wrote(place, f"job-{n}", noise(1000, n)) for n in range(RUNS_A_CONNECTION + 20)}
    assert agent(place, receiver, "--once").ends(120.0) == 0
    for run, data in logs.items():
        assert receiver.stored("log.txt", run=run) == data
    more = wrote(place, "job-7", b"more\n")
    again = agent(place, receiver, "--once")
    assert again.ends(120.0) == 0, again.talk()
    assert receiver.stored("log.txt", run="job-7") == more
    assert again.said.count("sending from offset") == 1, "nothing else was opened again"


def test_a_run_of_which_a_directory_is_closed_is_not_said_to_be_whole(place: Place) -> None:
    receiver = place.serve()
    wrote(place, "job-1", b"one\n")
    wrote(place, "job-1", b"secret\n", "closed/log.txt")
    wrote(place, "job-2", b"secret\n", "closed/log.txt")
    for run in ("job-1", "job-2"):
        (place.root / run / "closed").chmod(0o600)  # its names may be listed
    program = place.start(
        *("agent", "--receiver", receiver.address, "--site", SITE, "--root", str(place.root), "--once"), plain=True
    )
    assert program.ends() == 1, program.talk()
    for run in ("job-1", "job-2"):
        (place.root / run / "closed").chmod(0o700)
        assert f"{run}/closed cannot be listed: Permission denied" in program.said
    assert "all of it is stored" not in program.said
    assert "there is no file" not in program.said
    assert receiver.stored("log.txt", run="job-1") == b"one\n"


@pytest.mark.soak
def test_runs_wait_for_a_receiver_that_is_late(place: Place) -> None:
    address = free_address()
    data = wrote(place, "job", b"one\n")
    program = agent(place, address, "--idle", "2")
    program.says("no connection to")
    data = wrote(place, "job", b"two\n")
    sealed(place.serve(listen=address), "job", data)
    assert program.stop() == 0


def test_a_run_that_a_newer_sidecar_sends_is_left_to_it_and_the_others_go_on(place: Place) -> None:
    receiver = place.serve()
    wrote(place, "mine", b"one\n")
    data = wrote(place, "other", b"one\n")
    program = agent(place, receiver)
    for run in ("mine", "other"):
        receiver.gets(b"one\n", "log.txt", run=run)
    newer = place.sidecar(receiver, run="other", root=place.root / "other")
    until(lambda: "newer" in program.said, "it is told")
    data = wrote(place, "other", b"two\n")
    receiver.gets(data, "log.txt", run="other")
    mine = wrote(place, "mine", b"two\n")
    receiver.gets(mine, "log.txt", run="mine")
    assert newer.stop() == 0
    assert program.stop() == 5
    sealed(receiver, "mine", mine)
    sealed(receiver, "other", data)


def test_sigterm_sends_what_is_there(place: Place) -> None:
    """There are a backlog of old runs, a run that begins right before the signal, and a new byte of a finished run."""
    receiver = place.serve()
    logs = {f"old-{n}": wrote(place, f"old-{n}", noise(500, n)) for n in range(60)}
    for run in logs:
        os.utime(place.root / run / "log.txt", (1_000_000_000, 1_000_000_000))
    program = agent(place, receiver)
    until(lambda: receiver.stored("log.txt", run="old-0"), "it has begun")
    logs["old-0"] = wrote(place, "old-0", b"more\n")
    logs["new"] = wrote(place, "new", b"new\n")
    assert program.stop() == 0, program.talk()
    for run, data in logs.items():
        assert receiver.stored("log.txt", run=run) == data, run
    sealed(receiver, "old-0", logs["old-0"])
    sealed(receiver, "new", logs["new"])


@pytest.mark.soak
def test_what_another_agent_took_over_and_sealed_is_taken_up_again(place: Place) -> None:
    receiver = place.serve()
    wrote(place, "job", b"one\n")
    program = agent(place, receiver)
    receiver.gets(b"one\n", "log.txt", run="job")
    assert agent(place, receiver, "--once").ends() == 0
    until(lambda: "newer" in program.said, "it is told")
    data = wrote(place, "job", b"two\n")
    until(lambda: receiver.stored("log.txt", run="job") == data, "it is sent again", LATE)
    assert program.stop() == 0
    sealed(receiver, "job", data)


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (("--run-from", "job-{run}"), 2, "names no kind of pattern: write path:{run}/**"),
        (("--run-from", "path:jobs/**"), 2, "must hold {run} once"),
        (("--idle", "0"), 2, "idle must be a number of seconds"),
        (("--include", "["), 78, "["),
        (("--once",), 3, "has no log in a directory of a run; nothing was sent"),
        (("--once", "--root", "nowhere"), 3, "--root nowhere does not exist; nothing was sent"),
    ],
)
def test_bad_input_gets_a_sentence(place: Place, args: tuple[str, ...], code: int, sentence: str) -> None:
    program = agent(place, "127.0.0.1:1", *args)
    assert program.ends() == code, program.talk()
    assert sentence in program.said
    assert "Traceback" not in program.said


def test_once_says_what_the_patterns_leave_out(place: Place) -> None:
    wrote(place, "job", b"one\n")
    program = agent(place, "127.0.0.1:1", "--once", "--include", "*.out")
    assert program.ends() == 3, program.talk()
    assert "in a directory of a run: no file under " in program.said
    assert "matches --include '*.out', which leaves out 1 file; nothing was sent" in program.said


def test_an_agent_says_what_it_waits_for_and_nothing_of_a_run_that_was_removed(place: Place) -> None:
    receiver = place.serve()
    (place.root / ".cache").mkdir()
    wrote(place, ".cache", b"no log\n")
    wrote(place, "", b"a log of no run\n")
    program = agent(place, receiver, "--idle", "60")
    program.says("waiting for a run: ")
    data = wrote(place, "one", b"one\n")
    receiver.gets(data, "log.txt", run="one")
    shutil.rmtree(place.root / "one")
    sealed(receiver, "one", data)
    assert program.stop() == 0, program.talk()
    assert program.said.count("waiting for") == 1
    assert "WARNING" not in program.said


@pytest.mark.parametrize("moves", [("a", "b"), ("x/a", "y/a")], ids=["to-another-run", "within-a-run"])
def test_bytes_that_follow_a_rename_of_the_directory_are_in_the_run_of_its_name(
    place: Place, moves: tuple[str, str]
) -> None:
    receiver = place.serve()
    old, new = (Path(move) for move in moves)
    (place.root / new).parent.mkdir(parents=True, exist_ok=True)
    wrote(place, str(old), b"begin\n")
    program = agent(place, receiver, "--idle", "60", "--run-from", f"path:{'*/' * (len(old.parts) - 1)}{{run}}/**")
    receiver.gets(b"begin\n", "log.txt", run="a")
    (place.root / old).rename(place.root / new)
    with open(place.root / new / "log.txt", "ab") as file:
        file.write(b"later\n")
    receiver.gets(b"begin\nlater\n", "log.txt", run=new.name)
    # Nobody can tell whether the last bytes under the old name were all seen.
    assert program.stop() == (6 if new.name == "b" else 0), program.talk()
    assert receiver.stored("log.txt", run="a") == (b"begin\n" if new.name == "b" else b"begin\nlater\n")


# --- spools of flarelog run


def left_spool(place: Place, receiver: str, run: str, *args: str) -> Path:
    """The spool of a ``flarelog run`` that was killed with all its processes, after its command's first line."""
    spool = place.root / run / SITE / "run"
    command = ("sh", "-c", 'echo "$0"; while :; do sleep 0.2; done', run)
    program = place.start(
        *("run", "--receiver", receiver, "--run", run, "--site", SITE, "--spool", str(place.root), *args, "--"),
        *command,
        X="1",
    )
    until(lambda: run in (spool / "stdout.log").read_text(), lambda: program.talk())
    for path in Path("/proc").glob("[0-9]*/cmdline"):  # its own name for the run is in no other test
        with contextlib.suppress(OSError):
            if f"\0{run}\0".encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
    program.process.wait()
    with open(spool / ".run.lock", "rb") as lock:
        until(lambda: take(lock.fileno()), "all its processes are gone")
    return spool


def test_the_spool_of_a_killed_flarelog_run_is_sent_and_removed(place: Place) -> None:
    address, run = free_address(), f"killed-{os.getpid()}"
    spool = left_spool(place, address, run)
    wrote(place, "job", b"of a run\n")
    receiver = place.serve(listen=address)
    program = agent(place, receiver, "--idle", "3")
    until(lambda: not spool.exists(), lambda: program.talk())
    assert receiver.stored("stdout.log", run=run) == f"{run}\n".encode()
    assert sorted(receiver.streams(run)) == [f"{SITE}/stderr.log", f"{SITE}/stdout.log"]
    sealed(receiver, "job", b"of a run\n")
    assert program.stop() == 0, program.talk()
    assert not (place.root / run).exists()


def test_an_agent_that_sends_once_sends_left_spools_alone_and_none_that_is_in_use(place: Place) -> None:
    receiver, run = place.serve(), f"once-{os.getpid()}"
    spool = left_spool(place, free_address(), run)
    with open(spool / ".run.lock", "rb") as lock:
        assert take(lock.fileno())
        assert agent(place, receiver, "--once").ends() == 0
        assert spool.exists()
    program = agent(place, receiver, "--once")
    assert program.ends() == 0, program.talk()
    assert receiver.stored("stdout.log", run=run) == f"{run}\n".encode()
    assert not spool.exists()


def test_a_left_spool_of_another_site_stays_and_is_named(place: Place) -> None:
    receiver, run = place.serve(), f"other-{os.getpid()}"
    spool = left_spool(place, free_address(), run)
    program = place.start(
        *("agent", "--receiver", receiver.address, "--site", "rome", "--root", str(place.root), "--once")
    )
    program.says(f"{spool} is not sent: it is a spool of site {SITE}")
    program.ends()
    assert spool.exists()
