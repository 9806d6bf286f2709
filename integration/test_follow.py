"""``flarelog follow`` and ``flarelog logs`` with a real receiver and real sidecars, from the receiver and from its
store, in pipes and on a pseudo-terminal.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from flarelog.errors import NOT_FOUND
from integration.harness.places import FLARELOG, LOG, RUN, SITE, Place, Program, Proxy, Receiver, append, until
from tests.often import table

SITES = ("site-1", "site-2")
BAR = b"".join(b"\rtrain: %3d%%|##|" % percent for percent in range(0, 101, 5)) + b"\n"


def sites(place: Place, receiver: Receiver, **logs: bytes) -> list[Program]:
    """A sidecar for each of SITES, with the site's bytes in *logs* as its log.txt."""
    programs = []
    for site in SITES:
        root = place.directory / site
        root.mkdir(exist_ok=True)
        (root / "log.txt").write_bytes(logs.get(site.replace("-", ""), b""))
        programs.append(place.sidecar(receiver, root=root, site=site))
    return programs


def log(place: Place, site: str) -> Path:
    return place.directory / site / "log.txt"


def where(receiver: Receiver, how: str) -> tuple[str, str]:
    return ("--receiver", receiver.address) if how == "receiver" else ("--store", str(receiver.store))


def end(place: Place, receiver: Receiver, programs: list[Program]) -> None:
    place.call("run-end", RUN, "--receiver", receiver.address)
    for program in programs:
        assert program.ends() == 0, program.talk()


def of(program: Program, site: str) -> list[str]:
    """The shown lines of *site*, without its name."""
    found = (line.split(" │ ", 1) for line in program.printed.splitlines())
    return [line[1] for line in found if line[0].strip() == f"{site}/log.txt"]


def shows(program: Program, text: str) -> None:
    until(lambda: text in program.printed, lambda: f"{text!r} is shown; {program.talk()}")


@pytest.mark.parametrize("how", ["receiver", pytest.param("store", marks=pytest.mark.soak)])
def test_a_run_is_followed_from_its_beginning_to_its_end(place: Place, how: str) -> None:
    receiver = place.serve()
    reader = place.start("follow", RUN, *where(receiver, how))
    reader.says("has no run run-1 yet: waiting")
    programs = sites(place, receiver, site1=b"one\n", site2=BAR + b"a \xff b")
    shows(reader, "one")
    append(log(place, "site-1"), b"two\n")
    shows(reader, "two")
    log(place, "site-1").rename(place.directory / "site-1" / "log.txt.1")
    append(log(place, "site-1"), b"three\n")
    shows(reader, "three")
    append(log(place, "site-2"), b" c\n")
    end(place, receiver, programs)
    assert reader.ends() == 0
    rotated, ended = "── the file ended here: rotated ──", "── ended at {} bytes, its receipt is complete ──"
    assert of(reader, "site-1") == ["one", "two", rotated, "three", ended.format(14)]
    assert of(reader, "site-2")[-3:] == ["train: 100%|##|", "a � b c", ended.format(len(BAR) + 8)]
    assert "1 piece is not UTF-8" in reader.said


def test_a_lost_connection_is_taken_up_where_it_was(place: Place) -> None:
    receiver = place.serve()
    programs = sites(place, receiver, site1=b"".join(b"line %d\n" % n for n in range(20_000)))
    with Proxy(receiver.address, cuts=(300_000,)) as proxy:
        reader = place.start("follow", RUN, "--receiver", proxy.address, "--log", "log.txt", "--no-notes")
        shows(reader, "line 19999\n")
        proxy.cut()
        append(log(place, "site-1"), b"behind\n")
        shows(reader, "behind")
        end(place, receiver, programs)
        assert reader.ends() == 0
    assert of(reader, "site-1") == [*(f"line {n}" for n in range(20_000)), "behind"]
    assert "retrying from where it was" in reader.said
    assert "connected again: no bytes are missing" in reader.said
    assert "Traceback" not in reader.said


def test_a_receiver_that_is_started_again(place: Place) -> None:
    receiver = place.serve()
    programs = sites(place, receiver, site1=b"one\n")
    reader = place.start("follow", RUN, "--receiver", receiver.address, "--site", "site-1", "--no-notes")
    shows(reader, "one")
    assert receiver.stop() == 0
    reader.says("retrying")
    append(log(place, "site-1"), b"two\n")
    receiver = receiver.again()
    shows(reader, "two")
    end(place, receiver, programs)
    assert reader.ends() == 0
    assert of(reader, "site-1") == ["one", "two"]


@pytest.fixture
def ended(place: Place) -> Receiver:
    """A receiver with a run that has ended."""
    receiver = place.serve()
    first = b"2026-11-20 08:00:01 a1\n" + b"2026-11-20 08:00:04 step 4\n" + b"2026-11-20 08:00:05 a5\n"
    second = b"2026-11-20 08:00:02 b2\nTraceback (most recent call last):\n  File x\nValueError: no\n"
    programs = sites(place, receiver, site1=first, site2=second)
    receiver.gets(first, "log.txt", "site-1")
    receiver.gets(second, "log.txt", "site-2")
    end(place, receiver, programs)
    return receiver


def told(place: Place, receiver: Receiver, how: str, *arguments: str) -> list[str]:
    program = place.call(arguments[0], RUN, *where(receiver, how), *arguments[1:])
    assert (program.process.returncode, program.complaints()) == (0, []), program.talk()
    return program.printed.splitlines()


@pytest.mark.parametrize(("how", "command"), table(["receiver", "store"], ["logs", "follow"]))
def test_what_is_there(place: Place, ended: Receiver, how: str, command: str) -> None:
    def lines(*arguments: str) -> list[str]:
        return told(place, ended, how, command, "--no-notes", *arguments)

    one = ("--site", "site-1", "--log", "log.txt")
    assert [line.split()[-1] for line in lines(*one)] == ["a1", "4", "a5"]
    assert lines(*one)[0] == "2026-11-20 08:00:01 a1"
    by_time = [line.split(" │ ")[1].split()[-1] for line in lines("--order", "time")]
    assert by_time == ["a1", "b2", "last):", "x", "no", "4", "a5"]
    assert sorted(lines("-i", "step", "-B", "1", "--site", "*-1", "--format", "{site}:{offset} {text}")) == [
        "site-1:0 2026-11-20 08:00:01 a1",
        "site-1:23 2026-11-20 08:00:04 step 4",
    ]
    assert lines("--from", "site-1/log.txt:23", "--tail", "1") == ["2026-11-20 08:00:05 a5"]
    (found,) = map(json.loads, lines("-o", "json", "-i", "b2", "--tz", "+02:00"))
    zone = found.pop("timestamp")
    assert found == {"run": RUN, "site": "site-2", "log": "log.txt", "offset": 0, "body": "2026-11-20 08:00:02 b2"}
    assert zone.endswith("+02:00")
    raw = place.call(command, RUN, *where(ended, how), *one, "-o", "raw")
    assert raw.printed.encode() == ended.stored("log.txt", "site-1")


@pytest.mark.parametrize(("command", "how"), table(["logs", "follow"], ["receiver", "store"]))
def test_the_first_error_of_all_sites(place: Place, ended: Receiver, how: str, command: str) -> None:
    first = place.call(command, RUN, *where(ended, how), "--first-error")
    assert "this is the earliest finding that may be the cause: python.traceback" in first.said
    assert [line.split(" │ ") for line in first.printed.splitlines()] == [
        ["site-2/log.txt", text] for text in ended.stored("log.txt", "site-2").decode().splitlines()
    ]
    nothing = place.call(command, RUN, *where(ended, how), "--first-error", "--site", "site-1")
    assert (nothing.process.returncode, nothing.printed) == (3, "")
    assert nothing.sentence() == "flarelog: no error was found in 1 log of run run-1"
    part = place.call(command, RUN, *where(ended, how), "--first-error", "--since", "2026-11-20T08:00:03Z")
    assert part.process.returncode == 3
    assert part.sentence() == "flarelog: no error was found among the lines of 2 logs of run run-1 that --since left"
    last = place.call(command, RUN, *where(ended, how), "--first-error", "--tail", "1")
    assert last.process.returncode == 2
    assert "--first-error reads whole logs" in last.said


@pytest.mark.parametrize("command", ["logs", "follow"])
def test_the_first_error_on_a_terminal_may_stand_anywhere(place: Place, command: str) -> None:
    receiver = place.serve()
    error, rest = b"RuntimeError: the first of all\n", b"".join(b"step %d is fine\n" % n for n in range(300))
    programs = sites(place, receiver, site1=error + rest, site2=rest)
    receiver.gets(error + rest, "log.txt", "site-1")
    receiver.gets(rest, "log.txt", "site-2")
    end(place, receiver, programs)
    terminal = Terminal(command, RUN, "--receiver", receiver.address, "--first-error", NO_COLOR="1")
    assert terminal.ended() == 0
    first = next(line for line in (error + rest).splitlines() if b"Error" in line)
    assert terminal.shown.startswith(b"site-1/log.txt \xe2\x94\x82 " + first + b"\r\n")
    assert b"no error was found" not in terminal.seen


def test_what_cannot_match_does_not_travel(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    data = b"".join(b"2026-11-20 08:00:00 step=%07d loss=0.5\n" % n for n in range(400_000))
    append(place.log, data + b"an Error here\n")
    assert place.once(receiver).process.returncode == 0
    with Proxy(receiver.address) as proxy:
        program = place.start("logs", RUN, "--receiver", proxy.address, "-i", "(?i)error")
        assert program.ends() == 0, program.talk()
        assert "an Error here" in program.printed
        assert proxy.carried < 1 << 20
        assert place.call("logs", RUN, "--receiver", proxy.address, "--tail", "3").printed.count("step=") == 2
        assert proxy.carried < 2 << 20


@pytest.mark.soak
@pytest.mark.parametrize("how", ["receiver", pytest.param("store", marks=pytest.mark.soak)])
def test_a_long_log_needs_no_more_memory_than_a_short_one(place: Place, how: str) -> None:
    receiver = place.serve("--durability", "memory")
    piece = b"".join(b"step %06d loss 0.1 and what else a line of training says\n" % n for n in range(1 << 17))
    append(place.log, b"x" * (4 << 20) + b"\n" + 12 * piece)
    size = place.log.stat().st_size
    sidecar = place.sidecar(receiver, "--once")
    assert sidecar.ends() == 0
    for options in (("-i", "no such word"), ("-o", "raw")):
        command = [*FLARELOG, "logs", RUN, *where(receiver, how), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            peak, length = 0, 0
            while data := os.read(reader.stdout.fileno(), 1 << 20):
                peak, length = max(peak, memory(reader.pid)), length + len(data)
        assert reader.returncode == 0
        assert length >= size if "raw" in options else length < 2000
        assert peak < 120 << 10, f"{peak:,} KiB for {size:,} bytes"


def memory(pid: int) -> int:
    """The peak memory of the process, in KiB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found is not None else 0


def test_exit_status_tells_of_what_is_missing(place: Place, ended: Receiver) -> None:
    whole = place.call("follow", RUN, "--store", str(ended.store), "--exit-status")
    assert whole.process.returncode == 0
    program = place.sidecar(ended, root=place.directory / "site-1", site="site-3", run="run-2")
    ended.gets(ended.stored("log.txt", "site-1"), "log.txt", "site-3", "run-2")
    program.kill()
    open_yet = place.call("logs", "run-2", "--store", str(ended.store), "--exit-status")
    assert open_yet.process.returncode == 7


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        pytest.param(["logs", RUN], 2, "no place was given", id="nowhere"),
        pytest.param(
            ["logs", RUN, "--store", ".", "--receiver", "127.0.0.1:1"],
            2,
            "two places were given",
            id="in-two-places",
            marks=pytest.mark.soak,
        ),
        pytest.param(["logs", RUN, "--store", "nowhere"], 3, "there is no store at nowhere", id="no-store"),
        pytest.param(["logs", RUN, "--store", "."], 3, ". has no run run-1", id="no-run"),
        pytest.param(["logs", "..", "--store", "."], 2, "the run's name", id="a-name"),
        pytest.param(
            ["logs", RUN, "--store", ".", "--from", "x:1"],
            2,
            "give SITE/LOG:OFFSET",
            id="a-place",
            marks=pytest.mark.soak,
        ),
        pytest.param(["follow", RUN, "--store", ".", "-i", "("], 2, "is not a regular expression", id="a-pattern"),
        pytest.param(
            ["follow", RUN, "--store", ".", "--format", "{x}"],
            2,
            "has the field 'x'",
            id="a-format",
            marks=pytest.mark.soak,
        ),
        pytest.param(["follow", RUN, "--store", ".", "--format", "{"], 2, "is not a format", id="a-brace"),
        pytest.param(
            ["logs", RUN, "--store", ".", "--format", "{text:{site}}"],
            2,
            "a field inside",
            id="a-nested-field",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["follow", RUN, "--store", ".", "--tz", "Mars"],
            2,
            "is not a time zone",
            id="a-zone",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["follow", RUN, "--store", ".", "-o", "raw", "-t"],
            2,
            "-o raw writes the exact bytes",
            id="raw",
            marks=pytest.mark.soak,
        ),
        pytest.param(["follow", RUN, "--receiver", "x"], 2, "'x' is not an address", id="an-address"),
    ],
)
def test_bad_input_gets_a_sentence(place: Place, arguments: list[str], code: int, sentence: str) -> None:
    (place.directory / ".lock").touch()  # marks the directory as a store
    program = place.call(*arguments)
    assert program.process.returncode == code, program.talk()
    assert sentence in program.said
    assert "Traceback" not in program.said


def test_nobody_there_is_said_soon(place: Place) -> None:
    program = place.call("logs", RUN, "--receiver", "127.0.0.1:1")
    assert program.process.returncode == 4, program.talk()


@pytest.mark.parametrize("order", ["arrival", "time"])
def test_a_log_that_had_ended_and_was_continued_is_complete_at_its_second_end(place: Place, order: str) -> None:
    receiver = place.serve()
    append(place.log, b"2026-11-20 08:00:01 first\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    program = place.start("follow", RUN, "--receiver", receiver.address, "--order", order, "-n", "0", "--no-prefix")
    until(lambda: "its receipt is complete" in program.printed, "the first end is shown")
    append(place.log, b"2026-11-20 08:00:02 more\n")
    sidecar = place.sidecar(receiver)
    until(lambda: "more" in program.printed, "what continued it is shown")
    time.sleep(1.2)  # until a list has shown the log open again
    assert sidecar.stop() == 0
    until(lambda: program.printed.count("ended at") == 2, "the second end is shown")
    place.call("run-end", RUN, "--receiver", receiver.address)
    assert program.ends() == 0, program.talk()
    shown = [line for line in program.printed.splitlines() if not line.startswith("──")]
    assert shown == ["2026-11-20 08:00:02 more"]
    assert program.printed.count("its receipt is complete") == 2, program.printed


# --- the reader of the output


def test_a_slow_reader_of_a_pipe_gets_every_line(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    data = b"".join(b"line %07d\n" % n for n in range(300_000))
    append(place.log, data)
    program = place.sidecar(receiver)
    receiver.gets(data)
    command = [*FLARELOG, "follow", RUN, "--receiver", receiver.address, "--no-prefix", "--no-notes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        first = reader.stdout.read(1000)
        place.call("run-end", RUN, "--receiver", receiver.address)
        assert program.ends() == 0
        assert first + reader.stdout.read() == data
    assert reader.returncode == 0


@pytest.mark.parametrize("command", ["follow", pytest.param("logs", marks=pytest.mark.soak)])
def test_a_reader_that_has_seen_enough_ends_it(place: Place, command: str) -> None:
    receiver = place.serve()
    append(place.log, b"line\n" * 200_000 if command == "logs" else b"line\n")
    place.sidecar(receiver)
    receiver.gets(place.log.read_bytes())
    shell = " ".join((*FLARELOG, command, RUN, "--receiver", receiver.address, "--no-prefix"))
    done = subprocess.run(
        ["bash", "-c", f"{shell} | head -n 1; echo ${{PIPESTATUS[0]}}"], capture_output=True, timeout=60, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if b" INFO " not in line]  # the command may have to wait
    assert (done.stdout, complaints) == (b"line\n141\n", [])


def test_ctrl_c_ends_it_without_a_word(place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"one\n")
    place.sidecar(receiver)
    receiver.gets(b"one\n")
    reader = place.start("follow", RUN, "--receiver", receiver.address)
    shows(reader, "one")
    reader.tell(signal.SIGINT)
    assert reader.ends() == 130
    assert reader.said == ""


class Terminal:
    """A command in a pseudo-terminal, and its output."""

    def __init__(self, *arguments: str, columns: int = 100, **env: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(columns)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path), "TERM": "xterm", **env}
        self.process = subprocess.Popen(
            [*FLARELOG, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        os.set_blocking(self.master, False)
        self.seen = b""

    @property
    def shown(self) -> bytes:
        """What was seen, without the line that names a receiver that is slow to answer, as on a loaded machine."""
        return re.sub(rb"[^\n]*does not answer yet[^\n]*\n", b"", self.seen)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, columns, 0, 0))

    def sees(self, text: str) -> None:
        def found() -> bool:
            try:
                self.seen += os.read(self.master, 1 << 20)
            except (BlockingIOError, OSError):
                pass
            return text.encode() in self.seen

        until(found, lambda: f"{text!r} is seen: {self.seen[-2000:]!r}")

    def ended(self) -> int:
        def over() -> bool:
            try:
                self.seen += os.read(self.master, 1 << 20)
            except (BlockingIOError, OSError):
                pass
            return self.process.poll() is not None

        until(over, lambda: f"the command has ended: {self.seen[-2000:]!r}")
        os.close(self.master)
        return self.process.returncode


def test_a_terminal_shows_the_state_of_the_sites_below_and_bars_that_move(place: Place) -> None:
    receiver = place.serve()
    written = {"site1": b"\x1b[31mred\x1b[0m\n\rtrain:  10%", "site2": b"two\n"}
    programs = sites(place, receiver, **written)
    for site in SITES:  # in order: colours follow the order in which sites are seen
        receiver.gets(written[site.replace("-", "")], "log.txt", site)
    terminal = Terminal("follow", RUN, "--receiver", receiver.address)
    terminal.sees("\x1b[36msite-1\x1b[0m │ \x1b[31mred\x1b[0m\r\n")
    terminal.sees("site-1\x1b[0m │ train:  10%")
    terminal.sees("2 sites: 2 live")
    append(log(place, "site-1"), b"\rtrain:  20%")
    terminal.sees("site-1\x1b[0m │ train:  20%")
    terminal.resize(40)
    append(log(place, "site-1"), b"\rtrain: 100%" + b"#" * 60)
    terminal.sees("│ train: 100%#")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    wiped, _, said = terminal.seen.rpartition(b"flarelog: ")
    assert wiped.endswith(b"\x1b[J")
    assert said.startswith(b"continue with: ")
    assert b"Traceback" not in terminal.seen
    end(place, receiver, programs)


def test_nothing_of_the_footer_stands_before_the_sentence_of_a_run_that_was_removed(place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"one\n")
    place.sidecar(receiver)
    receiver.gets(b"one\n")
    terminal = Terminal("follow", RUN, "--receiver", receiver.address)
    terminal.sees("1 site: 1 live")
    place.call("rm", RUN, "--receiver", receiver.address, "--yes", "--force")
    assert terminal.ended() == NOT_FOUND
    before, _, said = terminal.seen.rpartition(b"flarelog: ")
    assert before.endswith(b"\x1b[J")
    assert said == f"{RUN}/{SITE}/{LOG} was removed\r\n".encode()


@pytest.mark.soak
def test_a_terminal_that_vanishes_without_a_signal_ends_it_though_nothing_comes_any_more(place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"one\n")
    place.sidecar(receiver)
    receiver.gets(b"one\n")
    lines, first_error, watched = (
        Terminal(*command, RUN, "--receiver", receiver.address)
        for command in (("follow",), ("follow", "--first-error"), ("status", "--watch"))
    )
    os.close(first_error.master)  # it is no controlling terminal, so there is no SIGHUP
    until(lambda: first_error.process.poll() is not None, "--first-error has ended")
    watched.sees("live")
    os.close(watched.master)
    until(lambda: watched.process.poll() is not None, "status has ended")
    lines.sees("one")
    assert receiver.stop() == 0
    lines.sees("retrying from where it was")
    os.close(lines.master)
    until(lambda: lines.process.poll() is not None, "follow has ended")
    assert [one.process.returncode for one in (lines, first_error, watched)] == [141, 141, 141]


def interrupted(terminal: Terminal) -> list[str]:
    """Press Ctrl-C; return the command that resumes, as printed."""
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    told = terminal.seen.decode().rpartition("flarelog: continue with: ")[2]
    program, *command = shlex.split(told)
    assert (program, told[-2:]) == ("flarelog", "\r\n")
    return command


@pytest.mark.parametrize("chosen", [("--site", "site-*"), pytest.param((), marks=pytest.mark.soak)])
def test_ctrl_c_on_a_terminal_tells_how_to_go_on(place: Place, chosen: tuple[str, ...]) -> None:
    receiver = place.serve()
    programs = sites(place, receiver, site1=b"one\ntwo\nhalf of a line", site2=b"")
    until(lambda: receiver.file("log.txt", "site-2").exists(), "the log without a byte is there")
    options = ("--receiver", receiver.address, *chosen, "--tail", "7", "--no-notes", "-H", "it's \\d", "-t")
    terminal = Terminal("follow", RUN, *options)
    terminal.sees("half of a line")
    command = interrupted(terminal)
    assert command[:2] == ["follow", RUN]
    assert command[-2:] == ["--from=site-1/log.txt:8", "--from=site-2/log.txt:0"]
    assert {"--no-notes", "--highlight", "it's \\d"} <= {*command}
    assert "--tail" not in command
    append(log(place, "site-1"), b" and all of it\nthree\n")
    append(log(place, "site-2").with_name("later.log"), b"a log that begins later\n")
    receiver.gets(b"a log that begins later\n", "later.log", "site-2")
    end(place, receiver, programs)
    again = place.start(*command)
    assert again.ends() == 0
    assert of(again, "site-1") == ["half of a line and all of it", "three"]
    assert "a log that begins later\n" in again.printed


@pytest.mark.parametrize(("count", "order"), table([3, 30], ["arrival", "time"]))
def test_what_comes_after_ctrl_c_is_shown_however_old_its_times_are_and_however_many_logs_there_are(
    place: Place, count: int, order: str
) -> None:
    """With three logs or more, the lines' own times were once compared with that of Ctrl-C."""
    receiver = place.serve()
    root, old = place.directory / "many", b"2020-01-01 00:00:%02d line\n"
    root.mkdir()
    files = [root / f"{number}.log" for number in range(count)]
    for file in files:
        append(file, old % 1)
    sidecar = place.sidecar(receiver, root=root)
    for file in files:
        receiver.gets(old % 1, file.name)
    terminal = Terminal("follow", RUN, "--receiver", receiver.address, "--order", order, "-o", "json")
    for file in files if order == "arrival" else files[:1]:  # by time, the other logs are held back
        terminal.sees(f'"{file.name}"')
    command = interrupted(terminal)
    before = [json.loads(line) for line in terminal.seen.decode().splitlines() if line.startswith("{")]
    assert ("--from=@" in "".join(command)) is (count == 30)
    for file in files:
        append(file, old % 2)
    append(root / "later.log", old % 3)
    receiver.gets(old % 3, "later.log")
    place.call("run-end", RUN, "--receiver", receiver.address)
    assert sidecar.ends() == 0
    again = place.start(*command)
    assert again.ends() == 0
    shown = [(each["log"], each["body"]) for each in [*before, *again.records()] if "body" in each]
    wanted = [(file.name, old % number) for file in files for number in (1, 2)] + [("later.log", old % 3)]
    assert sorted(shown) == sorted((name, line.decode().strip()) for name, line in wanted)
    for word in command:
        if word.startswith("--from=@"):
            Path(word.removeprefix("--from=@")).unlink()


def test_no_color_on_a_terminal_and_the_last_lines_first(place: Place) -> None:
    receiver = place.serve()
    data = b"".join(b"\x1b[31mline %d\x1b[0m\n" % n for n in range(300))
    programs = sites(place, receiver, site1=data)
    receiver.gets(data, "log.txt", "site-1")
    end(place, receiver, programs)
    terminal = Terminal("follow", RUN, "--receiver", receiver.address, NO_COLOR="1")
    assert terminal.ended() == 0
    assert b"\x1b[31m" not in terminal.seen
    assert b"line 200\r\n" in terminal.seen
    assert b"line 199\r\n" not in terminal.seen
    assert b"line 299\r\n" in terminal.seen


def test_logs_on_a_terminal_are_in_a_pager(place: Place, ended: Receiver) -> None:
    paged = place.directory / "paged"
    terminal = Terminal("logs", RUN, "--store", str(ended.store), PAGER=f"cat > {paged}; echo $LESS; exit 3")
    assert terminal.ended() == 0
    assert terminal.shown == b"FRX\r\n"
    assert "\x1b[36msite-1\x1b[0m │ 2026-11-20 08:00:01 a1\n" in paged.read_text()
    left = Terminal("logs", RUN, "--store", str(ended.store), PAGER="true")
    assert (left.ended(), left.seen) == (0, b"")
    without = Terminal("logs", RUN, "--store", str(ended.store), "--no-pager", PAGER="false")
    assert without.ended() == 0
    assert b"08:00:01 a1\r\n" in without.seen


@pytest.mark.soak
def test_a_terminal_that_is_too_slow_skips_and_says_so(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    append(place.log, b"first\n")
    place.sidecar(receiver)
    receiver.gets(b"first\n")
    terminal = Terminal("follow", RUN, "--receiver", receiver.address, "--site", "site-1", "--log", "app.log")
    terminal.sees("first")
    data = b"".join(b"line %07d\n" % n for n in range(400_000))
    append(place.log, data)
    receiver.gets(b"first\n" + data)
    terminal.sees("line 0399999")
    seen = terminal.seen.decode()
    command = rf"flarelog logs run-1 --from site-1/app.log:\d+ --receiver {receiver.address}"
    assert re.search(rf"this terminal was too slow and skipped [\d,]+ bytes: {command} shows", seen)
    assert seen.count("\n") < 300_000
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130


@pytest.mark.parametrize("how", ["receiver", pytest.param("store", marks=pytest.mark.soak)])
def test_a_crash_is_the_first_error_though_nothing_comes_behind_it(place: Place, how: str) -> None:
    receiver = place.serve()
    trace = b'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: boom\n'
    sites(place, receiver, site1=b"step 1\n" + trace, site2=b"step 1\n")
    until(lambda: receiver.file("log.txt", "site-1").exists(), "the site sends")
    first = place.call("follow", RUN, *where(receiver, how), "--first-error")
    assert first.ends() == 0
    assert "ValueError: boom" in first.printed


def test_a_command_that_is_killed_is_the_first_error_though_its_log_tells_none(place: Place) -> None:
    receiver = place.serve()
    sites(place, receiver, site2=b"step 1\n")
    named = ("--receiver", receiver.address, "--run", RUN, "--site", "site-3")
    place.call("run", *named, "--", "sh", "-c", "echo step 1; kill -9 $$")
    first = place.call("follow", RUN, "--receiver", receiver.address, "--first-error")
    assert first.ends() == 0
    assert "SIGKILL" in first.said + first.printed
