"""``flarelog findings`` of real programs with real failures, and its output where nothing is found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import CONFIGURATION, NOT_FOUND, OK
from integration.harness.mounts import tmpfs
from integration.harness.places import RUN, Place, Program, append
from tests.often import each

PYTHON = sys.executable
SEGFAULT = f"{PYTHON} -X faulthandler -c 'import ctypes; print(1, flush=True); ctypes.string_at(0)'"
CHAIN = """
try:
    open("/nowhere/file")
except OSError as error:
    raise RuntimeError("no checkpoint") from error
"""
PROGRAMS = {
    "segfault": (SEGFAULT, "crash.segfault"),
    "shell": (f"sh -c '{PYTHON} -c \"import os; os.kill(os.getpid(), 9)\"; exit 3'", "host.killed"),
    "full-disk": (f'{PYTHON} -c \'f = open("/dev/full", "w"); f.write("x"); f.close()\'', "disk.full"),
    "memory": (f"ulimit -v 2000000; {PYTHON} -c 'bytearray(1 << 33)'", "host.memory"),
    "module": (f"{PYTHON} -c 'import no_such_package'", "python.module"),
    "port": (
        f'{PYTHON} -c \'import socket; a = socket.socket(); a.bind(("127.0.0.1", 0)); b = socket.socket();'
        " b.bind(a.getsockname())'",
        "port.in-use",
    ),
    "abort": (f"{PYTHON} -X faulthandler -c 'import os; os.abort()'", "crash.signal"),
    "refused": (
        f'{PYTHON} -c \'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); a = s.getsockname(); s.close();'
        " socket.create_connection(a)'",
        "net.unreachable",
    ),
    "name": (f"{PYTHON} -c 'import socket; socket.getaddrinfo(\"no-such-host.invalid\", 80)'", "net.dns"),
}


def ran(place: Place, command: str, *, run: str = RUN) -> str:
    """Run *command* in a shell below ``flarelog run``; return the address of the receiver with its output."""
    receiver = place.serve()
    place.call(
        "run", "--run", run, "--site", "site-1", "--receiver", receiver.address, "--copy", "off",
        "--spool", str(place.directory / "spool"), "--", "bash", "-c",
        command,
    )  # fmt: skip
    return receiver.address


def findings(place: Place, address: str, *more: str, run: str = RUN) -> tuple[Program, list[dict[str, Any]]]:
    program = place.call("findings", run, "--receiver", address, "-o", "json", *more)
    return program, [json.loads(line) for line in program.printed.splitlines()]


@pytest.mark.parametrize("name", each(PROGRAMS, "segfault", "shell"))
def test_a_program_that_fails_is_found(place: Place, name: str) -> None:
    command, signature = PROGRAMS[name]
    address = ran(place, command)
    program, found = findings(place, address, "--roots")
    assert found, program.talk()
    assert found[0]["event_name"] == signature, found


def test_a_chain_of_exceptions_is_one_finding(place: Place, tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(CHAIN)
    address = ran(place, f"{PYTHON} {tmp_path}/chain.py")
    _, found = findings(place, address)
    assert [each["event_name"] for each in found] == ["fs.missing", "exit.code"]
    assert found[0]["exception.type"] == "RuntimeError"
    facts = {
        "cause": "FileNotFoundError",
        "at": f"{tmp_path}/chain.py:5",
        "stopped": "the program",
        "path": "/nowhere/file",
    }
    assert found[0]["facts"] == facts
    assert found[1]["role"] == "symptom"


def test_what_a_program_reports_that_ends_well_is_no_root(place: Place) -> None:
    code = "import traceback\ntry: 1 / 0\nexcept Exception: traceback.print_exc()"
    address = ran(place, f"{PYTHON} -c '{code}'")
    program, found = findings(place, address)
    assert [(each["event_name"], each["role"]) for each in found] == [("python.traceback", "symptom")], program.talk()


def test_a_disk_that_is_full_is_found(place: Place, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "size=64k") as small:
        address = ran(place, f"cp /bin/bash {small}/")
        _, found = findings(place, address)
        assert [each["event_name"] for each in found] == ["disk.full", "exit.code"]


def test_a_run_without_trouble_ends_with_3_and_says_in_what_it_looked(place: Place) -> None:
    address = ran(place, "echo step 1; echo loss 0.5")
    program, found = findings(place, address)
    assert (found, program.process.returncode) == ([], NOT_FOUND)
    assert f"no known trouble was found in 2 logs of run {RUN}" in program.talk()


def test_the_table_says_what_the_earliest_root_means(place: Place) -> None:
    address = ran(place, PROGRAMS["module"][0])
    program = place.call("findings", RUN, "--receiver", address)
    assert program.process.returncode == OK
    assert program.printed.splitlines()[0].split()[:3] == ["ROLE", "SEVERITY", "TIME"]
    assert "the earliest root is python.module in site-1/stderr.log" in program.talk()
    assert "Install it in the environment" in program.talk()


def test_a_store_tells_the_same_as_its_receiver(place: Place) -> None:
    address = ran(place, PROGRAMS["module"][0])
    _, found = findings(place, address)
    local = place.call("findings", RUN, "--store", str(place.directory / "store"), "-o", "json")
    assert [json.loads(line) for line in local.printed.splitlines()] == found


def test_hostile_text_reaches_no_terminal(place: Place) -> None:
    address = ran(place, r"printf 'RuntimeError: CUDA out of memory \033]0;owned\007 \342\200\256 \033[2J\n'")
    program = place.call("findings", RUN, "--receiver", address)
    assert "cuda.oom" in program.printed
    assert not set(program.printed + program.said) & set("\x1b\x07\u202e")


def test_rules_that_make_no_sense_end_with_78(place: Place, tmp_path: Path) -> None:
    address = ran(place, "echo fetch took 120 s")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "slow"\nliteral = 7\n')
    program = place.call("findings", RUN, "--receiver", address, "--rules", str(rules))
    assert program.process.returncode == CONFIGURATION
    assert "rules.toml, line 3, column 11" in program.talk()
    rules.write_text('[[rule]]\nid = "slow"\nliteral = "fetch took"\n')
    _, found = findings(place, address, "--rules", str(rules))
    assert [each["event_name"] for each in found] == ["slow"]


def test_the_first_error_is_the_earliest_cause(place: Place) -> None:
    """An earlier ERROR line of another site is a cause only where no better one is known."""
    receiver = place.serve()
    for site, text in (
        ("site-1", "2026-11-20 08:00:01 ERROR try again\n"),
        ("site-2", "2026-11-20 08:00:02 step 1\nRuntimeError: CUDA out of memory\n2026-11-20 08:00:03 step 2\n"),
    ):
        root = place.directory / site
        root.mkdir()
        (root / "log.txt").write_text(text)
        sent = place.call("sidecar", "--root", str(root), "--run", RUN, "--site", site, "--receiver", receiver.address,
                          "--once")  # fmt: skip
        assert sent.process.returncode == OK, sent.talk()
    place.call("run-end", RUN, "--receiver", receiver.address)
    for command in ("logs", "follow"):
        first = place.call(command, RUN, "--receiver", receiver.address, "--first-error")
        assert first.printed.splitlines() == [
            "site-2/log.txt │ 2026-11-20 08:00:02 step 1",
            "site-2/log.txt │ RuntimeError: CUDA out of memory",
            "site-2/log.txt │ 2026-11-20 08:00:03 step 2",
        ]
        assert "the earliest finding that may be the cause: cuda.oom" in first.said
        own = place.call(command, RUN, "--receiver", receiver.address, "--first-error", "-i", "ERROR")
        assert own.printed == "site-1/log.txt │ 2026-11-20 08:00:01 ERROR try again\n"
    one = place.call("logs", RUN, "--receiver", receiver.address, "--first-error", "--site", "site-1")
    assert one.printed == "site-1/log.txt │ 2026-11-20 08:00:01 ERROR try again\n"
    assert "the earliest finding that may be the cause: log.error" in one.said  # because no better cause is known


@pytest.mark.parametrize("command", [("findings",), pytest.param(("logs", "--first-error"), marks=pytest.mark.soak)])
def test_who_searches_for_long_says_what_it_waits_for(place: Place, command: tuple[str, ...]) -> None:
    append(place.log, b"".join(b"2026-11-20 08:00:00 ERROR step %d failed\n" % n for n in range(40_000)))
    receiver = place.serve("--findings", "off")
    assert place.once(receiver).process.returncode == 0
    name, *options = command
    found = place.start(name, RUN, *options, "--store", str(receiver.store))
    found.says(f"flarelog: reading the logs of run {RUN}")
    found.kill()


def test_the_first_error_is_found_behind_what_is_shown_of_a_line(place: Place) -> None:
    append(place.log, b"2026-11-20 08:00:00 a long name ERROR lost\n")
    receiver = place.serve("--findings", "off")
    assert place.once(receiver).process.returncode == 0
    found = place.call("logs", RUN, "--store", str(receiver.store), "--first-error", "--max-line", "24")
    assert found.ends() == OK, found.talk()
    assert "2026-11-20 08..TRUNCATED" in found.printed
