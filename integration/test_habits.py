"""Habits of other log tools' users, with a real receiver."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from integration.harness.places import FLARELOG, RUN, Place, Program, Receiver, append, environment, until

TEXT = b"""INFO began
WARNING slow [1]
  of disk 7
ERROR broken
INFO went on
"""


@pytest.fixture
def held(place: Place) -> Receiver:
    """A receiver with two runs: site-2 and site-10 of exp-42, and the later run-1."""
    receiver = place.serve()
    for site, run in (("site-10", "exp-42"), ("site-2", "exp-42"), ("site-1", RUN)):
        root = place.directory / f"of-{site}"
        root.mkdir()
        (root / "log.txt").write_bytes(TEXT)
        sidecar = place.sidecar(receiver, "--once", root=root, site=site, run=run)
        assert sidecar.ends() == 0, sidecar.talk()
    return receiver


def shown(receiver: Receiver, *args: str, store: bool = False) -> Program:
    where = ("--store", str(receiver.store)) if store else ("--receiver", receiver.address)
    return receiver.place.call(*args, *where)


def test_logs_f_is_follow(place: Place) -> None:
    receiver = place.serve()
    place.log.write_bytes(b"one\n")
    sidecar = place.sidecar(receiver)
    receiver.gets(b"one\n")
    reader = place.start("logs", "-f", RUN, "--receiver", receiver.address, "--notes", "off")
    until(lambda: "one" in reader.printed, lambda: reader.talk())
    append(place.log, b"two\n")
    until(lambda: "two" in reader.printed, lambda: reader.talk())
    place.call("run-end", RUN, "--receiver", receiver.address)
    assert reader.ends() == 0
    assert sidecar.ends() == 0


UNKNOWN = (
    *(("streams", "exp-24"), ("runs", "exp-24"), ("status", "exp-24"), ("findings", "exp-24")),
    ("report", "exp-24", "-o", "-", "--format", "md"),
)


@pytest.mark.parametrize("store", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["receiver", "store"])
def test_a_name_that_was_meant_otherwise(held: Receiver, store: bool) -> None:
    where = str(held.store) if store else held.address
    for args, sentence in (
        (("logs", "exp-24"), f"{where} has no run exp-24: did you mean exp-42?"),
        (("logs", "exp-42", "--site", "site2"), f"run exp-42 at {where} has no site site2 (it has site-2, site-10):"),
        (("logs", RUN, "--log", "logs.txt"), f"run {RUN} at {where} has no log logs.txt (it has log.txt): did you"),
        (
            ("status", "exp-42", "--site", "site22"),
            f"run exp-42 at {where} has no site site22 (it has site-2, site-10):",
        ),
        *((asked, f"{where} has no run exp-24: did you mean exp-42?") for asked in UNKNOWN),
        *([] if store else [(("run-end", "exp-24"), f"{where} has no run exp-24: did you mean exp-42?")]),
    ):
        program = shown(held, *args, store=store)
        assert program.ends() == 3
        assert program.sentence().startswith(f"flarelog: {sentence}")
    reader = held.place.start("follow", "exp-24", *(("--store", where) if store else ("--receiver", where)))
    reader.says(f"{where} has no run exp-24 yet: waiting (did you mean exp-42?)")


@pytest.mark.parametrize("store", [pytest.param(False, marks=pytest.mark.soak), True], ids=["receiver", "store"])
def test_a_run_without_its_name(held: Receiver, store: bool) -> None:
    program = shown(held, "logs", store=store)
    assert program.ends() == 2
    assert f"has 2 runs, {RUN}, exp-42: name one, or give --latest" in program.said
    latest = shown(held, "logs", "--latest", "-n", "1", "--notes", "off", store=store)
    assert (latest.ends(), latest.printed) == (0, "INFO went on\n")
    assert shown(held, "rm", "exp-42", "--yes").ends() == 0
    only = shown(held, "logs", "-n", "1", "--notes", "off", store=store)
    assert (only.ends(), only.printed) == (0, latest.printed)


def test_plain_text_any_case_and_levels(held: Receiver) -> None:
    for args, texts in (
        (("-F", "-i", "[1]"), ["WARNING slow [1]"]),
        (("--ignore-case", "-i", "broken|SLOW"), ["WARNING slow [1]", "ERROR broken"]),
        (("--level", "warning"), ["WARNING slow [1]", "  of disk 7", "ERROR broken"]),
        (("--level", "error"), ["ERROR broken"]),
    ):
        program = shown(held, "logs", RUN, "--notes", "off", "--prefix", "off", *args)
        assert program.printed.splitlines() == texts, args


def test_numbers_in_names_are_in_their_order(held: Receiver) -> None:
    for command in ("streams", "logs"):
        printed = shown(held, command, "exp-42").printed
        assert 0 <= printed.index("site-2") < printed.index("site-10"), command

    def in_order() -> bool:
        printed = shown(held, "status", "exp-42").printed
        return 0 <= printed.index("site-2") < printed.index("site-10")

    until(in_order, "no site is in more trouble than the other, once both were searched")


def screen(columns: int, *args: str, **variables: str) -> list[str]:
    """The output on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {name: value for name, value in environment().items() if name not in ("COLUMNS", "LINES", "PAGER")}
    env |= variables
    with subprocess.Popen((*FLARELOG, *args), stdin=theirs, stdout=theirs, stderr=theirs, env=env) as shell:
        os.close(theirs)
        found = b""
        try:
            while piece := os.read(ours, 65536):
                found += piece
        except OSError:  # the command has ended
            pass
    os.close(ours)
    assert shell.returncode == 0, found
    lines = found.decode().replace("\r\n", "\n").splitlines()
    return [line for line in lines if "does not answer yet" not in line]  # on a loaded machine


@pytest.mark.parametrize("columns", [40, pytest.param(80, marks=pytest.mark.soak), 200])
def test_the_table_of_states_fits_its_terminal(held: Receiver, columns: int) -> None:
    _, head, *rows = screen(columns, "status", "exp-42", "--receiver", held.address)
    assert (head.split()[:3], head.split()[-1]) == (["SITE", "LOG", "STATE"], "GAPS"), [_, head, *rows]
    assert ("CLOCK" in head) == (columns > 40)
    assert [row.split()[0] for row in rows] == ["site-2", "site-10"]
    assert max(map(len, [head, *rows])) < columns


def test_a_view_has_a_pager_on_a_terminal(place: Place) -> None:
    place.log.write_bytes(TEXT)
    said = ("--color", "never", "-n", "1", str(place.log))
    mark = {"PAGER": "sed 's/^/paged: /'"}
    assert screen(80, "view", *said, **mark) == ["paged: INFO went on"]
    for others in (("--no-pager", *said), ("--pager", "off", *said), ("--bars", "live", *said)):
        assert screen(80, "view", *others, **mark) == ["INFO went on"]
    place.log.write_bytes(TEXT * 100_000)
    assert screen(80, "view", "--color", "never", str(place.log), PAGER="head -n 1") == ["INFO began"]


def test_lines_since_a_time_of_the_day(place: Place) -> None:
    place.log.write_bytes(b"2001-01-01T00:00:00Z old\n2099-01-01T00:00:00Z new\n")
    for since in ("yesterday", "13:50", "90", "now"):
        assert place.call("view", str(place.log), "--since", since).printed == "2099-01-01T00:00:00Z new\n"


def test_a_run_by_the_name_of_its_job(held: Receiver) -> None:
    root = held.place.directory / "of-job"
    root.mkdir()
    for name in ("a.log", "b.log"):
        (root / name).write_bytes(b"of a job\n")
    sidecar = held.place.sidecar(held, "--once", "--job-name", "mnist, 50%", root=root, site="site-9", run="3f2a-77")
    assert sidecar.ends() == 0, sidecar.talk()
    rows = {row.split()[0]: row for row in shown(held, "runs").printed.splitlines()}
    assert rows["RUN"].split()[:3] == ["RUN", "JOB", "STATE"]
    assert "mnist, 50%" in rows["3f2a-77"]
    for args in (["logs"], ["status"], ["streams"], ["findings"]):
        program = shown(held, *args, "mnist, 50%")
        assert program.ends() == (3 if args == ["findings"] else 0), program.talk()
        assert program.said.startswith("note: the run is 3f2a-77\n")
    assert shown(held, "run-end", "mnist, 50%").ends() == 3
