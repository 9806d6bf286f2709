"""Modules that a reader does not import before its first output: each took a measured share of its start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.harness.places import Place, append

# A command that takes half a second, as any does on a slow machine, tunes its memory: it has shown something by then.
CODE = """\
import contextlib, sys
from flarelog.cli import main, tuning
tuning.tune_memory = lambda: None
with contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print()
print(*sys.modules)
"""
COUNTING = """\
import contextlib, gc
before = sum(each["collections"] for each in gc.get_stats())
from flarelog.__main__ import main
with contextlib.suppress(SystemExit):
    main()
print(sum(each["collections"] for each in gc.get_stats()) - before)
"""
CLASSES = """\
import contextlib, dataclasses
made, make = [], dataclasses.make_dataclass
dataclasses.make_dataclass = lambda name, *how, **more: made.append(name) or make(name, *how, **more)
from flarelog.__main__ import main
with contextlib.suppress(SystemExit):
    main()
print()
print(*made)
"""
STANDARD = {"json", "random", "shlex", "ctypes", "tempfile", "multiprocessing", "http", "sqlite3"}
OTHERS = {
    *("tenacity", "cryptography", "aiohttp", "flarelog.detect.table", "flarelog.receiver.states"),
    *("flarelog.receiver.server", "flarelog.stores.local.store", "flarelog.cli.runs"),
}
OF_NO_LISTING = {
    *("isal", "shutil", "click.shell_completion", "flarelog.detect.base", "flarelog.viewers.origin"),
    *("flarelog.render.rows", "flarelog.stores.moments", "flarelog.wire.codec.reads", "flarelog.cli.streams"),
}
OF_NO_READER = {
    *("isal", "shutil", "click.shell_completion", "flarelog.detect.base", "flarelog.viewers.missing"),
    *("flarelog.stores.fares", "flarelog.render.sieving", "flarelog.wire.several", "flarelog.wire.codec.timeline"),
}
OF_A_RUN = {"asyncio", "grpc", "google.protobuf", "flarelog.model", "flarelog.client", "flarelog.cli.asked"}


def imported(*arguments: str) -> set[str]:
    """The modules that a command has imported when it has printed something and ended."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    shown, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    assert shown.strip()
    return set(modules.split())


@pytest.mark.parametrize(
    ("command", "late"),
    [
        pytest.param(
            ["status", "run-1"], OF_NO_LISTING | {"flarelog.viewers.console", "flarelog.viewers.follow"}, id="status"
        ),
        pytest.param(
            ["follow", "run-1"], OF_NO_READER | {"flarelog.viewers.batch", "flarelog.cli.status"}, id="follow"
        ),
        pytest.param(["logs", "run-1"], {"flarelog.cli.status"}, id="logs"),
    ],
)
def test_a_reader_of_a_receiver(place: Place, command: Sequence[str], late: set[str]) -> None:
    receiver = place.serve()
    append(place.log, b"2026-11-20 08:00:00 INFO one\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    assert place.call("run-end", "run-1", "--receiver", receiver.address).ends() == 0
    found = imported(*command, "--receiver", receiver.address)
    assert "grpc" in found
    assert found & (STANDARD | OTHERS | late) == set()


@pytest.mark.parametrize(
    "command",
    [
        "status",
        pytest.param("streams", marks=pytest.mark.soak),
        "logs",
        "follow",
        pytest.param("runs", marks=pytest.mark.soak),
        pytest.param("findings", marks=pytest.mark.soak),
    ],
)
def test_a_reader_of_a_store_needs_no_grpc(place: Place, command: str) -> None:
    receiver = place.serve()
    append(place.log, b"2026-11-20 08:00:00 INFO one\nRuntimeError: CUDA out of memory.\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    assert place.call("run-end", "run-1", "--receiver", receiver.address).ends() == 0
    receiver.stop()
    run = [] if command == "runs" else ["run-1"]
    found = imported(command, *run, "--store", str(receiver.store))
    assert found & {"grpc", "google.protobuf", "flarelog.client", "flarelog.wire.codec.base"} == set()


def test_a_reader_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("2026-11-20 08:00:00 INFO one\n")
    assert imported("view", str(tmp_path / "log.txt")) & (STANDARD | OTHERS | OF_A_RUN) == set()


def test_nobody_looks_for_garbage_before_the_first_output(place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"2026-11-20 08:00:00 INFO one\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    command = [sys.executable, "-c", COUNTING, "status", "run-1", "--receiver", receiver.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 5


@pytest.mark.parametrize("command", ["status", "follow"])
def test_no_class_is_made_for_the_fields_of_a_value(place: Place, command: str) -> None:
    receiver = place.serve()
    append(place.log, b"2026-11-20 08:00:00 INFO one\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    assert place.call("run-end", "run-1", "--receiver", receiver.address).ends() == 0
    asked = [sys.executable, "-c", CLASSES, command, "run-1", "--receiver", receiver.address]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip("\n").count("\n") > 0
    assert done.stdout.split("\n")[-2] == ""
