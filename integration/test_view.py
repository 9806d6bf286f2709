"""``flarelog view`` as users run it: files and pipes, a pseudo-terminal, a reader that stops early, bad input."""

from __future__ import annotations

import bz2
import codecs
import fcntl
import gzip
import json
import lzma
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import FLARELOG, Place, append, until

DATA = Path(__file__).parent.parent / "tests" / "data"
CASES = [case for case in json.loads((DATA / "render.json").read_text()) if case["kind"] == "view"]
TRAINED = sorted((DATA / "train").glob("*.log"))
BAR = b"".join(b"\rtrain: %3d%%|##|" % percentage for percentage in range(101)) + b"\nend\n"


def view(*arguments: str | Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [*FLARELOG, "view", *map(str, arguments)],
        input=stdin,
        env={**environment, **env},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['name']}")
def test_the_collections_views(case: dict[str, Any]) -> None:
    """A case that follows uses a pipe that ends."""
    options = [f"--{name}={value}" for name, value in case["input"]["options"].items() if name != "follow"]
    done = view("-", *options, stdin=case["input"]["file"].encode())
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, case["expected"]["stdout"], b"")


def test_a_bar_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(BAR)
    lines = view(tmp_path / "a.log").stdout.decode().splitlines()
    assert lines == ["train:   1%|##|", *(f"train: {n:3}%|##|" for n in range(10, 101, 10)), "end"]
    assert view(tmp_path / "a.log", "--bars", "off").stdout == b"train: 100%|##|\nend\n"
    assert view("--bars=off", stdin=BAR).stdout == b"train: 100%|##|\nend\n"


CRI = b"2026-11-20T08:00:00.5Z stdout F step %d\n2026-11-20T08:00:01.5Z stderr P a part, \n"


@pytest.mark.parametrize(
    "data",
    [
        *(pytest.param(path.read_bytes() * (1 + (1 << 19) // path.stat().st_size), id=path.stem) for path in TRAINED),
        pytest.param(b"".join(CRI % n for n in range(6_000)) + b"2026-11-20T08:00:02Z stderr F end\n", id="cri"),
        pytest.param(b"2026-11-20 08:00:00 begin\n" + b"no time\n" * 60_000 + b"no end", id="an-early-time"),
        pytest.param(b"\x1b[31mred\n" + b"still red\n" * 60_000, id="a-colour-from-the-beginning"),
        pytest.param(b"begin\n" + b"\0" * (1 << 19) + b"\nend\n", id="a-long-line"),
        pytest.param("Größe\n".encode("utf-16") * 60_000, id="another-encoding"),
        pytest.param(gzip.compress(os.urandom(1 << 19).hex(" ", 40).encode().replace(b" ", b"\n")), id="packed"),
    ],
)
def test_the_last_lines_of_a_large_file_are_those_of_the_whole(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(data)
    whole = view(path, "-o", "json").stdout.splitlines()
    for number in (0, 1, 3, 100):
        shown, wanted = view(path, "-o", "json", "-n", str(number)).stdout.splitlines(), whole[len(whole) - number :]
        # A level that goes on from a line that is not shown is not known.
        for one, other in zip(map(json.loads, shown), map(json.loads, wanted), strict=True):
            assert one.items() <= other.items()
            assert other.items() - one.items() <= {("severity_text", "ERROR"), ("severity_number", 17)}


def test_the_last_lines_of_a_large_file_cost_no_more_than_those_of_a_small_one(tmp_path: Path) -> None:
    line, path = b"2026-11-20 08:00:00 INFO step 1: loss 0.7\n", tmp_path / "a.log"
    path.write_bytes(line * 1_500_000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    printed = view(path, "-o", "json", "-n", "3").stdout.splitlines()
    assert [json.loads(each)["offset"] for each in printed] == [len(line) * n for n in range(1_499_997, 1_500_000)]
    assert (
        resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2.0
    )  # seconds of CPU; a minute for all lines


def test_files_of_one_log_are_read_on_as_one_and_others_are_not(tmp_path: Path) -> None:
    stamp = b"2026-11-20T08:00:00Z stdout "
    (tmp_path / "0.log.20261120-080000.gz").write_bytes(gzip.compress(stamp + b"P one \n"))
    (tmp_path / "0.log").write_bytes(stamp + b"F line\n")
    (tmp_path / "1.log").write_bytes(b"other\n")
    done = view(tmp_path / "0.log.20261120-080000.gz", tmp_path / "0.log", tmp_path / "1.log")
    assert done.stdout == b"one line\nother\n"


def in_order(names: list[str], *options: str) -> list[str]:
    return view(*names, *options).stdout.decode().splitlines()


@pytest.mark.parametrize(
    "oldest_first",
    [
        pytest.param(["app.log.10", "app.log.2.gz", "app.log.1", "app.log"], id="counted"),
        pytest.param(["app.log-20261119.gz", "app.log-20261120", "app.log"], id="dated", marks=pytest.mark.soak),
        pytest.param(
            ["0.log.20261119-235959.gz", "0.log.20261120-080000", "0.log"], id="of-a-container", marks=pytest.mark.soak
        ),
        pytest.param(["app.log.old", "app.log"], id="a-word", marks=pytest.mark.soak),
        pytest.param(["app.log.3", "app.log.2"], id="without-the-newest"),
    ],
)
def test_rotated_files_are_read_the_oldest_first_however_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oldest_first: list[str]
) -> None:
    """Each line has its file and its offset there, and a line may continue in the next file."""
    monkeypatch.chdir(tmp_path)
    told = []
    for number, name in enumerate(oldest_first):
        lines = [f"2026-11-20 08:00:{number:02}.{of} {number}.{of}\n" for of in range(3)]
        told += [
            {"log.file.path": name, "offset": sum(map(len, lines[:of])), "body": lines[of][:-1]} for of in range(3)
        ]
        data = "".join(lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    bodies = [str(each["body"]) for each in told]
    for given in (oldest_first, oldest_first[::-1], sorted(oldest_first)):
        for order in ("given", "time"):
            found = [json.loads(line) for line in in_order([*given, "-o", "json", "--order", order])]
            assert [{name: each[name] for name in told[0]} for each in found] == told
    backwards = oldest_first[::-1]
    assert in_order(backwards) == bodies
    assert in_order([*backwards, "-o", "raw"]) == bodies
    assert in_order([*backwards, "--tail", "4"]) == bodies[-4:]
    assert in_order([*backwards, "-i", "[.]1$"]) == bodies[1::3]


def test_files_of_which_no_name_says_that_they_are_one_log_s_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, second in (("app.log", 3), ("app.log.err", 1), ("b.log", 2)):
        (tmp_path / name).write_text(f"2026-11-20 08:00:0{second} {name}\n")
    names = ["app.log", "app.log.err", "b.log"]
    assert [line.split()[-1] for line in in_order(names)] == names
    merged = in_order([*names, "--order", "time"])
    assert [line.split()[-1] for line in merged] == ["app.log.err", "b.log", "app.log"]
    assert [line.split()[-1] for line in in_order(["b.log", "app.log", "b.log"])] == ["b.log", "app.log", "b.log"]


def test_a_line_that_goes_on_in_the_next_file_is_told_with_the_file_in_which_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log.1").write_text("one\ntw")
    (tmp_path / "a.log").write_text("o\nthree\n")
    found = [json.loads(line) for line in in_order(["a.log", "a.log.1", "-o", "json"])]
    assert [(each["log.file.path"], each["offset"], each["body"]) for each in found] == [
        ("a.log.1", 0, "one"),
        ("a.log.1", 4, "two"),
        ("a.log", 2, "three"),
    ]


def test_logs_are_merged_by_time(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("2026-11-20 08:00:01 a1\n  more\n2026-11-20 08:00:03 a3\n")
    (tmp_path / "bb.log").write_text("2026-11-20 08:00:02 b2\n")
    done = view(tmp_path / "a.log", tmp_path / "bb.log", "--order", "time")
    found = [(Path(line.split(" │ ")[0].strip()).name, line.split()[-1]) for line in done.stdout.decode().splitlines()]
    assert found == [("a.log", "a1"), ("a.log", "more"), ("bb.log", "b2"), ("a.log", "a3")]


def test_a_line_that_is_left_out_moves_no_other_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("2026-11-20 08:10:00 noise\n2026-11-20 08:01:00 match a1\n  match a\n")
    (tmp_path / "b.log").write_text("2026-11-20 08:05:00 match b5\n")
    for more, shown in (((), ["b5", "noise", "a1", "a"]), (("-i", "match"), ["b5", "a1", "a"])):
        done = view(tmp_path / "a.log", tmp_path / "b.log", "--order", "time", *more)
        assert [line.split()[-1] for line in done.stdout.decode().splitlines()] == shown


def test_a_date_within_a_line_hides_no_line_of_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        '2026-11-20 08:00:01 ERROR failed\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
        "ValueError: 2019-01-01 00:00:00 is not a time\n2026-11-20 08:00:02 INFO next\n"
    )
    (tmp_path / "b.log").write_text("2026-11-20 08:00:01.5 b\n")
    whole = (tmp_path / "a.log").read_bytes()
    assert view(tmp_path / "a.log", "--since", "2026-11-20T08:00:00Z").stdout == whole
    assert view(tmp_path / "a.log", "--until", "2026-11-20T08:00:02Z").stdout == whole[: whole.rindex(b"2026")]
    done = view(tmp_path / "a.log", tmp_path / "b.log", "--order", "time")
    assert [line.split(" \u2502 ")[-1] for line in done.stdout.decode().splitlines()] == [
        *whole.decode().splitlines()[:4],
        "2026-11-20 08:00:01.5 b",
        "2026-11-20 08:00:02 INFO next",
    ]


@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_a_date_within_a_traceback_is_no_time_where_no_line_has_one(tmp_path: Path, prefix: str) -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in <module>',
        '    when("2011-01-01T00:00:00Z")',
        "ValueError: 2011-01-01T00:00:00Z is too early",
    )
    log = tmp_path / "a.log"
    log.write_text("".join(f"{prefix}{line}\n" for line in lines))
    objects = [json.loads(line) for line in view(log, "-o", "json").stdout.splitlines()]
    assert [found["body"] for found in objects] == [prefix + line for line in lines]
    assert not [found for found in objects if "timestamp" in found]
    assert view(log, "-t").stdout.decode().split("\n")[2].split() == [*prefix.split(), 'when("2011-01-01T00:00:00Z")']


def test_a_file_s_name_cannot_drive_the_terminal_either(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path / "a") + b"\x1b]0;\x07\xff\xc2\x9b.log"
    with open(name, "wb") as file:
        file.write(b"2026-11-20 08:00:01 \xff\n")
    (tmp_path / "b.log").write_text("2026-11-20 08:00:02\n")
    for output in ("text", "json"):
        done = view(os.fsdecode(name), tmp_path / "b.log", os.fsdecode(name) + "x", "--order=time", "-o", output)
        assert done.returncode == 3
        assert not set((done.stdout + done.stderr).decode()) & {*map(chr, range(10)), *map(chr, range(11, 32)), "\x9b"}


def test_json_raw_and_colours(tmp_path: Path) -> None:
    data = b"\x1b[31mred\x1b[0m \xff\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data) + gzip.compress(data))
    path = tmp_path / "a.log.gz"
    assert view(path, "-o", "raw").stdout == data * 2
    assert view(path).stdout.decode() == "red \ufffd\n" * 2
    assert b"2 pieces are not UTF-8" in view(path).stderr
    assert view(path, FORCE_COLOR="1").stdout.decode() == "\x1b[31mred\x1b[0m \ufffd\n" * 2
    objects = [json.loads(line) for line in view(path, "-o", "json").stdout.splitlines()]
    assert objects == [{"log.file.path": str(path), "offset": at, "body": "red \ufffd"} for at in (0, len(data))]


def test_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("première ligne\nzweite\n", "utf-16")
    assert view(tmp_path / "a.log", "--encoding", "utf-16").stdout.decode() == "première ligne\nzweite\n"


@pytest.mark.parametrize(
    ("codec", "mark", "told"),
    [
        ("utf-16-le", codecs.BOM_UTF16_LE, "utf-16"),
        ("utf-16-be", codecs.BOM_UTF16_BE, "utf-16"),
        ("utf-32-le", codecs.BOM_UTF32_LE, "utf-32"),
    ],
)
def test_a_byte_order_mark_tells_which_encoding_to_give(tmp_path: Path, codec: str, mark: bytes, told: str) -> None:
    path, text = tmp_path / "a.log", "première ligne\nzweite ཀ\n"
    path.write_bytes(mark + text.encode(codec))
    for options in ([], ["-i", "x"]):
        said = view(path, *options).stderr.decode()
        assert said == f"note: {path}: the file is {told.upper()}: --encoding {told} shows its text\n"
    done = view(path, "--encoding", told)
    assert (done.stdout.decode(), done.stderr) == (text, b"")
    assert b"UTF-16" not in view(stdin=b"plain\n" + mark).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        pytest.param(["nowhere.log"], 3, "nowhere.log: No such file", id="missing"),
        pytest.param(["/"], 1, "/: this is a directory: name a file", id="a-directory"),
        pytest.param(["-", "-i", "("], 2, "is not a regular expression", id="a-pattern"),
        pytest.param(["-", "--since", "soon"], 2, "'soon' is not a time", id="a-time", marks=pytest.mark.soak),
        pytest.param(
            ["-", "--encoding", "morse"], 2, "Python has no encoding 'morse'", id="an-encoding", marks=pytest.mark.soak
        ),
        pytest.param(
            ["-", "--encoding", "hex"],
            2,
            "'hex' is not an encoding of text",
            id="no-encoding-of-text",
            marks=pytest.mark.soak,
        ),
        pytest.param(["-", "-o", "raw", "-i", "x"], 2, "-o raw writes the exact bytes", id="raw-with-a-filter"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: list[str], code: int, sentence: str) -> None:
    done = view(*arguments)
    assert (done.returncode, sentence in done.stderr.decode()) == (code, True), done.stderr
    assert b"Traceback" not in done.stderr


def test_a_file_that_cannot_be_read_holds_no_other(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text("fine\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"some line\n" * 1000)[:-12])
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b\x08 damaged")
    done = view(tmp_path / "no.log", tmp_path / "cut.gz", tmp_path / "bad.gz", tmp_path / "b.log")
    assert done.stdout.startswith(b"some line\n")
    assert done.stdout.endswith(b"fine\n")
    assert done.returncode == 3
    said = done.stderr.decode()
    assert "cut.gz: the compressed data is truncated" in said
    assert "bad.gz: the compressed data is damaged" in said


def test_what_view_does_not_unpack_is_told_with_the_command_that_does(tmp_path: Path) -> None:
    (tmp_path / "a.log.bz2").write_bytes(bz2.compress(b"some line\n"))
    (tmp_path / "a b.log.xz").write_bytes(lzma.compress(b"some line\n"))
    done = view(tmp_path / "a.log.bz2", tmp_path / "a b.log.xz")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"the file is compressed: bzcat {tmp_path}/a.log.bz2 | flarelog view - shows it" in done.stderr.decode()
    assert f"the file is compressed: xzcat '{tmp_path}/a b.log.xz' | flarelog view - shows it" in done.stderr.decode()


def test_a_reader_that_has_seen_enough_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"line\n" * 2_000_000)
    command = " ".join((*FLARELOG, "view", str(tmp_path / "a.log")))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"], capture_output=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (b"line\n141\n", b"")


def test_a_full_disk_is_a_sentence() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*FLARELOG, "view"], input=b"x\n", stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"flarelog: cannot write: No space left on device\n")


def test_lines_of_a_pipe_come_at_once() -> None:
    with subprocess.Popen([*FLARELOG, "view"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as viewer:
        assert viewer.stdin is not None
        assert viewer.stdout is not None
        os.set_blocking(viewer.stdout.fileno(), False)
        viewer.stdin.write(b"first\nhalf a line")
        viewer.stdin.flush()
        until(lambda: viewer.stdout is not None and viewer.stdout.read() == b"first\n", "the first line is shown")
        viewer.stdin.write(b", and the rest\n")
        viewer.stdin.close()
        os.set_blocking(viewer.stdout.fileno(), True)
        assert viewer.stdout.read() == b"half a line, and the rest\n"


class Terminal:
    """A command in a pseudo-terminal of 60 columns and 20 rows, and its output."""

    def __init__(self, *arguments: str, stdin: int | None = None, **env: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(sys.path), "TERM": "xterm", **env}
        self.process = subprocess.Popen(
            [*FLARELOG, "view", *arguments], stdin=slave if stdin is None else stdin, stdout=slave, stderr=slave,
            env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(self.master, False)
        self.seen = b""

    def read(self) -> bytes:
        try:
            self.seen += os.read(self.master, 1 << 20)
        except (BlockingIOError, OSError):
            pass
        return self.seen

    def ended(self) -> int:
        def over() -> bool:
            self.read()
            return self.process.poll() is not None

        until(over, lambda: f"the command has ended: {self.seen!r}")
        self.read()
        os.close(self.master)
        return self.process.returncode


def test_a_terminal_shows_a_bar_that_moves_and_then_its_last_state() -> None:
    reading, writing = os.pipe()
    terminal = Terminal(stdin=reading)
    os.close(reading)
    os.write(writing, b"\x1b[32mstart\x1b[0m\n\rtrain:  10%|#         |")
    until(lambda: b"\x1b[32mstart\x1b[0m\r\ntrain:  10%" in terminal.read(), "the line is shown and the bar is drawn")
    os.write(writing, b"\rtrain:  20%|##        |")
    until(lambda: b"\r\x1b[Jtrain:  20%" in terminal.read(), "it is drawn again in its place")
    os.write(writing, b"\rtrain: 100%|##########|\nend\n")
    os.close(writing)
    assert terminal.ended() == 0
    shown = terminal.seen.split(b"\x1b[J")[-1] or terminal.seen.split(b"\x1b[J")[-2]
    assert shown == b"train: 100%|##########|\r\nend\r\n"


def test_ctrl_c_leaves_a_tidy_terminal() -> None:
    reading, writing = os.pipe()
    terminal = Terminal(stdin=reading)
    os.write(writing, b"\rtrain:  10%|#         |")
    until(lambda: b"train:  10%" in terminal.read(), "the bar is drawn")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert terminal.seen.endswith(b"\r\x1b[J")
    assert b"Traceback" not in terminal.seen


def test_no_color_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\x1b[31mred\x1b[0m\n")
    terminal = Terminal(str(tmp_path / "a.log"), NO_COLOR="1")
    assert terminal.ended() == 0
    assert b"\x1b[31m" not in terminal.seen


@pytest.mark.soak
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """The file has one endless line, and an endless bar."""
    (tmp_path / "a.log").write_bytes(b"x" * (32 << 20) + b"\n" + b"\r50%|##|" * (1 << 20))
    script = f"""if 1:
        import os, sys
        command = [*{FLARELOG!r}, "view", {str(tmp_path / "a.log")!r}]
        pid = os.spawnv(os.P_NOWAIT, sys.executable, command)
        _, status, used = os.wait4(pid, 0)
        print(used.ru_maxrss, file=sys.stderr)
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0
    assert int(done.stderr) < 100 << 10
    assert b"..TRUNCATED\n" in done.stdout


def test_a_pattern_is_looked_for_behind_what_is_shown_of_a_line(place: Place) -> None:
    append(place.log, b"a" * 100 + b" NEEDLE\n" + b"b" * 70_000 + b" NEEDLE\n")
    shown = place.call("view", str(place.log), "-i", "NEEDLE", "--max-line", "20")
    assert shown.printed == "a" * 9 + "..TRUNCATED\n"
    assert "1 line longer than 65,536 characters did not match in that part" in shown.said
    assert len(place.call("view", str(place.log), "-i", "NEEDLE", "--max-line", "99999").printed.splitlines()) == 2


def test_a_date_with_one_order_decides_for_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("05/11/2025 08:00:00 a\n" + "05/11/2025 09:00:00 b\n" * 5000 + "13/11/2025 08:00:00 c\n")
    first = view(path, "-t").stdout.decode().splitlines()[0]
    assert first == "2025-11-05T08:00:00Z 05/11/2025 08:00:00 a"
    said = view(path, "-t", "--dates", "month-first").stdout.decode().splitlines()[0]
    assert said == "2025-05-11T08:00:00Z 05/11/2025 08:00:00 a"


def test_the_last_change_of_a_file_stands_for_the_arrival_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("1286536309.586 921 TCP_MISS/200\n1286536310.100 3 TCP_HIT/200\nOct 10 08:00:00 host x\n")
    os.utime(path, (1286712000, 1286712000))
    shown = [line[:19] for line in view(path, "-t").stdout.decode().splitlines()]
    assert shown == ["2010-10-08T11:11:49", "2010-10-08T11:11:50", "2010-10-10T08:00:00"]
