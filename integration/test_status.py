"""``flarelog status`` with real processes: each state of a stream, and its reason."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest

from flarelog.stores.fares import points
from integration.harness.places import FLARELOG, LOG, PATIENCE, Place, Receiver, Writer, append, noise, until

QUICK = ("--idle-timeout", "3")  # so that every timeout comes soon
QUIET = ("--quiet-after", "1")


def status(receiver: Receiver, log: str = LOG) -> dict[str, Any]:
    program = receiver.place.call("status", "run-1", "--receiver", receiver.address, *QUIET, "-o", "json")
    assert program.ends() in (0, 3), program.talk()  # 3: its first stream is not open yet
    return next((record for record in program.records() if record["log"] == log), {})


def becomes(receiver: Receiver, state: str, log: str = LOG, seconds: float = PATIENCE) -> dict[str, Any]:
    """Wait until the stream has that state; return its record."""
    seen: list[dict[str, Any]] = []

    def called() -> bool:
        seen.append(status(receiver, log))
        return seen[-1].get("state") == state

    until(called, lambda: f"{log} is {state}; it was {[record.get('state') for record in seen]}", seconds)
    return seen[-1]


def test_live_quiet_silent_lost_and_ended_by_a_timeout_and_back_again(place: Place) -> None:
    receiver = place.serve(*QUICK)
    sidecar = place.sidecar(receiver)
    with Writer(place.log, 100, 0.1):
        record = becomes(receiver, "live")
    assert (record["run"], record["site"], record["gaps"]) == ("run-1", "site-1", 0)
    assert abs(record["clock_ahead_seconds"]) < 5
    record = becomes(receiver, "quiet")
    assert record["seconds"] > 1
    until(lambda: status(receiver)["last_heard_seconds"] < 1.5, "it is heard of all the same")
    sidecar.tell(signal.SIGSTOP)
    record = becomes(receiver, "silent")
    assert record["last_heard_seconds"] > 1.5
    becomes(receiver, "lost link")
    record = becomes(receiver, "ended")
    assert record["reason"] == "timeout"
    sidecar.tell(signal.SIGCONT)
    becomes(receiver, "quiet")
    with Writer(place.log, 100, 0.1):
        record = becomes(receiver, "live")
    assert record["bytes_per_second"] > 0
    sidecar.kill()
    becomes(receiver, "lost link")


def test_a_receiver_that_was_restarted_knows_which_logs_had_timed_out(place: Place) -> None:
    receiver = place.serve(*QUICK)
    sidecars = []
    for log in ("a.log", LOG):
        append(place.root / log, b"one\n")
        sidecars.append(place.sidecar(receiver, "--include", log))
        until(lambda log=log: status(receiver, log).get("committed") == 4, f"{log} is stored")  # type: ignore[misc]
        if log != LOG:
            sidecars[0].kill()
            assert becomes(receiver, "ended", log)["reason"] == "timeout"
    assert receiver.stop() == 0
    sidecars[1].kill()
    again = receiver.again("--idle-timeout", "600")
    assert status(again, "a.log")["reason"] == "timeout"
    assert status(again)["state"] == "lost link"
    place.sidecar(again)
    until(lambda: status(again, "a.log")["reason"] != "timeout", "a.log is sent again")


def test_ended_by_a_receipt(place: Place) -> None:
    receiver = place.serve()
    place.log.write_bytes(b"all of it\n")
    assert place.once(receiver).ends() == 0
    record = status(receiver)
    assert (record["state"], record["reason"], record["committed"], record["lag_bytes"]) == (
        "ended",
        "receipt",
        10,
        None,
    )


def test_what_is_paused_says_why_and_how_much_waits(place: Place) -> None:
    receiver = place.serve("--max-site-bytes", "1000")
    place.log.write_bytes(noise(3_000_000))
    place.sidecar(receiver)
    record = becomes(receiver, "paused")
    assert "or start the receiver with a higher --max-site-bytes" in record["reason"]
    assert record["committed"] + record["lag_bytes"] == 3_000_000
    program = place.call("status", "run-1", "--receiver", receiver.address)
    assert re.search(
        r"^paused: [\d,]+ bytes of site site-1 .*\(run-1/site-1/app.log\); see flarelog logs run-1 .*$",
        program.printed,
        re.MULTILINE,
    )


def test_where_a_log_cannot_be_had_it_says_why_and_how_to_look(place: Place) -> None:
    receiver = place.serve()
    place.log.write_bytes(b"hello\n")
    sidecar = place.sidecar(receiver)
    record = becomes(receiver, "quiet")
    assert (record["missing"], record["url"]) == (None, None)
    sidecar.kill()
    record = becomes(receiver, "lost link")
    assert record["missing"]["why"] == "no sidecar sends it, and it has not ended"
    asked = record["missing"]["command"].split()[1:]
    assert place.call(*asked, "--notes", "off").printed == "hello\n"

    text = place.call("status", "run-1", "--receiver", receiver.address).printed
    sentence = "lost link: no sidecar sends it, and it has not ended (run-1/site-1/app.log); see "
    assert f"{sentence}{record['missing']['command']}\n" in text
    template = "https://logs.example.org/{run}/{site}?log={log}&at={offset}"
    text = place.call("status", "run-1", "--receiver", receiver.address, FLARELOG_LOG_URL_TEMPLATE=template).printed
    assert f"{sentence}https://logs.example.org/run-1/site-1?log=app.log&at=6\n" in text
    program = place.call(
        "status", "--store", str(place.directory / "store"), "-o", "json", FLARELOG_LOG_URL_TEMPLATE=template
    )
    assert program.records()[0]["url"].endswith("log=app.log&at=6")
    program = place.call("status", "run-1", "--receiver", receiver.address, "--log-url-template", "https://{site}/")
    assert program.ends() == 2
    assert "--log-url-template has a field in the name of the machine" in program.talk()


def test_how_a_site_fares_is_kept_by_the_minute(place: Place) -> None:
    receiver = place.serve()
    place.log.write_bytes(b"hello\n")
    place.sidecar(receiver)
    path = place.directory / "store" / "run-1" / ".site-1.health"
    until(lambda: path.exists() and list(points(path.read_bytes())), "the first word is written at once")
    receiver.stop()
    told = list(points(path.read_bytes()))
    assert told[0].health.memory
    assert told[-1].at >= told[0].at > 1_700_000_000_000
    report = place.directory / "run.md"
    assert place.call("report", "run-1", "--store", str(receiver.store), "-o", str(report)).ends() == 0
    assert "## Machines at their worst" in report.read_text()
    assert place.call("rm", "run-1", "--store", str(receiver.store), "--yes").ends() == 0
    assert not path.parent.exists()


@pytest.mark.soak  # tests/receiver covers it without processes
def test_lag_is_told_while_a_stream_is_slowed_down(place: Place) -> None:
    receiver = place.serve("--max-site-rate", "2000000")
    place.log.write_bytes(noise(60_000_000))
    place.sidecar(receiver)
    seen: list[int] = []

    def grows() -> bool:
        append(place.log, noise(500_000))
        record = status(receiver)
        if record and record["lag_bytes"] is not None:
            seen.append(record["committed"] + record["lag_bytes"])
        return len(seen) > 1 and seen[-1] > 60_000_000 and seen[-1] > seen[0]

    until(grows, lambda: f"the lag follows the source: {seen}")


def test_a_store_alone_says_what_it_can(place: Place) -> None:
    receiver = place.serve()
    place.log.write_bytes(b"hello\n")
    (place.root / "b.log").write_bytes(b"hello\n")
    sidecar = place.sidecar(receiver, "--include", "b.log")
    receiver.gets(b"hello\n", "b.log")
    assert place.once(receiver, "--include", LOG).ends() == 0
    sidecar.kill()
    receiver.program.kill()
    program = place.call("status", "run-1", "--store", str(receiver.store))
    head, _, *rows = program.printed.splitlines()
    assert head.startswith("run-1 open: 1 site: 1 open ")
    assert re.fullmatch(r"site-1 +app\.log +ended: receipt +6 +- +- +- +0", rows[0])
    assert re.fullmatch(r"site-1 +b\.log +open \d+ s +6 +- +- +- +0", rows[1])


def test_whom_to_ask_and_for_what(place: Place) -> None:
    receiver = place.serve()
    place.log.write_bytes(b"hello\n")
    assert place.once(receiver).ends() == 0
    assert place.call("status").ends() == 2
    for arguments, code, words in (
        (("nothing", "--receiver", receiver.address), 3, "has no run nothing"),
        (("run-1", "--receiver", receiver.address, "--site", "x*"), 3, "has no site x* (it has site-1)"),
        (("..", "--receiver", receiver.address), 2, "use a relative path"),
        (("--store", str(place.directory / "none")), 3, "there is no store"),
    ):
        program = place.call("status", *arguments)
        assert program.ends() == code, program.talk()
        assert words in program.sentence()


def test_watch_refreshes_in_place_and_ends_with_the_run(place: Place) -> None:
    receiver = place.serve(*QUICK)
    place.log.write_bytes(b"hello\n")
    sidecar = place.sidecar(receiver)
    receiver.gets(b"hello\n")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
    with subprocess.Popen(
        [*FLARELOG, "status", "run-1", "--receiver", receiver.address, "--watch", "--interval", "0.2", *QUIET],
        stdout=slave, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    ) as watching:  # fmt: skip
        os.close(slave)
        shown = b""
        try:
            while b"quiet" not in shown:
                shown += os.read(master, 65536)
            assert place.call("run-end", "run-1", "--receiver", receiver.address).ends() == 0
            while True:
                shown += os.read(master, 65536)
        except OSError:  # a pseudo-terminal ends so
            pass
        finally:
            os.close(master)
            watching.wait(30)
    assert watching.returncode == 0
    assert sidecar.ends() == 0
    text = shown.decode()
    assert "\x1b[3A" in text  # the line of all sites, the header, and one row
    last = text.rsplit("\x1b[3A", 1)[1]
    assert "ended: receipt" in last
    assert "run-1 ended: 1 site: 1 complete" in last


@pytest.mark.soak  # processes are checked every 15 seconds, and are hung after a minute
def test_what_is_idle_or_waits_is_not_hung_and_a_site_stands_as_the_worst_of_its_logs(place: Place) -> None:
    receiver = place.serve()
    listens = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\nc = []\n"
    )
    listens += "while True: c.append(s.accept())"
    with subprocess.Popen((sys.executable, "-c", listens), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = server.stdout.readline().decode().strip()
        waits = f"import socket\ns = socket.create_connection(('127.0.0.1', {port}))\nprint(1, flush=True)\ns.recv(1)"
        commands = {
            "hung": ("sh", "-c", "echo 1; sleep 600"),
            "writes": ("sh", "-c", "while :; do echo 1; sleep 3; done"),
            "listens": (sys.executable, "-c", listens),
            "waits": (sys.executable, "-c", waits),
        }
        programs = [
            place.start(
                *("run", "--receiver", receiver.address, "--run", "run-1", "--site", "site-1", "--log", name),
                *("--spool", str(place.directory / name), "--copy", "off", "--", *command),
            )
            for name, command in commands.items()
        ]  # fmt: skip
        try:
            for log, state, why in (
                ("hung/stderr.log", "hung", "used less than 1 % of a core for"),
                ("writes/stderr.log", "idle", "writes/stdout.log instead"),
                ("listens/stdout.log", "idle", "listens on 127.0.0.1:"),
                ("waits/stdout.log", "waiting", f"is connected to 127.0.0.1:{port}, and used less than"),
            ):
                becomes(receiver, state, log, 150)
                assert why in status(receiver, log)["reason"]
            shown = place.call("status", "run-1", "--receiver", receiver.address).printed
            assert shown.startswith("run-1 running: 1 site: 1 hung ")
            made = place.call("report", "run-1", "--receiver", receiver.address, "-o", "-", "--format", "md").printed
            assert "hung 2 of 8 logs" in made
        finally:
            for program in programs:
                program.stop()
            server.kill()


@pytest.mark.soak  # processes are checked every 15 seconds
def test_a_silent_log_is_told_apart_by_what_its_processes_do(place: Place) -> None:
    """The processes compute, idle, or have ended; they are checked every 15 seconds."""
    receiver = place.serve()
    place.sidecar(receiver)
    programs = {
        "busy.log": ("-c", "import time\nprint(1, flush=True)\nwhile True: time.sleep(0.1 + 0 * sum(range(500_000)))"),
        "idle.log": ("-c", "import time; time.sleep(600)"),
    }
    place.root.mkdir(exist_ok=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for log, arguments in programs.items():
            with open(place.root / log, "wb") as file:
                # Each in a group of its own, because processes of a writer's group count as the writer.
                running[log] = subprocess.Popen((sys.executable, *arguments), stdout=file, start_new_session=True)
        until(lambda: status(receiver, "busy.log").get("state") == "busy", "one computes", 90)
        assert re.fullmatch(r"its 1 process uses .* cores?", status(receiver, "busy.log")["reason"])

        def idle() -> bool:
            return "its 1 process used less than 1 % of a core" in status(receiver, "idle.log").get("reason", "")

        until(idle, "the other does nothing", 90)
        running["idle.log"].kill()
        running["idle.log"].wait()
        until(lambda: status(receiver, "idle.log").get("state") == "gone", "it has ended", 90)
        said = place.call("status", "run-1", "--receiver", receiver.address, *QUIET)
        assert said.ends() == 0
        assert "\ngone: the processes that wrote it have ended (run-1/site-1/idle.log)" in said.printed, said.talk()
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def test_how_a_site_s_machine_fares_is_shown(place: Place) -> None:
    receiver = place.serve()
    place.sidecar(receiver)
    append(place.log, b"one\n")
    until(lambda: status(receiver).get("health"), "its sidecar told how the machine fares")
    health = status(receiver)["health"]
    assert 0 < health["memory"] <= health["memory_max"]
    assert 0 <= health["disk_free"] < health["disk_size"]
    shown = place.call("status", "run-1", "--receiver", receiver.address, "--wide")
    assert shown.ends() == 0
    head, row = shown.printed.splitlines()[-2:]
    assert head.split()[:2] == ["SITE", "MEMORY"]
    assert re.match(r"site-1 +[\d.]+ of [\d.]+ [KMGT]iB ", row), shown.talk()
