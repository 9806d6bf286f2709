"""The ranks of real processes: their environments' ranks are stored with their logs, and again after a
gang's restart.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import Place, Receiver, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/fdinfo").is_dir(), reason="run it on Linux: it needs /proc")

# As under torchrun: a launcher without a rank, and a process for each rank.
LAUNCHER = """
import os, subprocess, sys
first, size, world, *paths = sys.argv[1:]
workers = []
for local, path in enumerate(paths):
    env = dict(os.environ, RANK=str(int(first) + local), LOCAL_RANK=str(local), GROUP_RANK="1",
               WORLD_SIZE=world, LOCAL_WORLD_SIZE=size)
    out = open(path, "ab")
    code = "import sys, time; print('rank here', flush=True); sys.stdin.read()"
    workers.append(subprocess.Popen([sys.executable, "-c", code], env=env, stdout=out))
for worker in workers:
    worker.wait()
"""


class Gang:
    """Processes that live until they are ended."""

    def __init__(self) -> None:
        self._launchers: list[subprocess.Popen[bytes]] = []

    def start(self, first: int, *paths: Path, world: int = 16) -> subprocess.Popen[bytes]:
        arguments = (str(first), str(len(paths)), str(world), *map(str, paths))
        launcher = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *arguments], stdin=subprocess.PIPE, start_new_session=True
        )
        self._launchers.append(launcher)
        return launcher

    def end(self) -> None:
        for launcher in self._launchers:
            if launcher.poll() is None:
                os.killpg(launcher.pid, signal.SIGKILL)
            launcher.communicate()


@pytest.fixture
def gang() -> Iterator[Gang]:
    made = Gang()
    yield made
    made.end()


def attributes(receiver: Receiver, log: str) -> list[dict[str, Any]]:
    record = receiver.place.streams("--store", str(receiver.store)).get(f"site-1/{log}", {})
    return [{name: value for name, value in one.items() if name != "offset"} for one in record.get("attributes", [])]


def learns(receiver: Receiver, log: str, *wanted: dict[str, Any]) -> None:
    until(
        lambda: receiver.file(log).exists() and attributes(receiver, log) == list(wanted),
        lambda: f"{log} has {wanted}, not {attributes(receiver, log)}",
    )


def rank(number: int, local: int) -> dict[str, str]:
    return {"rank": str(number), "local-rank": str(local), "group-rank": "1", "world-size": "16"}


def test_the_ranks_of_those_who_write_are_stored_with_their_logs(place: Place, gang: Gang) -> None:
    receiver = place.serve()
    gang.start(8, place.root / "a.log", place.root / "b.log")
    (place.root / "c.log").write_bytes(b"of nobody\n")
    sidecar = place.sidecar(receiver)
    learns(receiver, "a.log", rank(8, 0))
    learns(receiver, "b.log", rank(9, 1))
    assert attributes(receiver, "c.log") == []
    sidecar.stop()
    assert place.sidecar(receiver).process.poll() is None  # the next sidecar resumes, and does not repeat the rank
    receiver.gets(b"rank here\n", "a.log")
    learns(receiver, "a.log", rank(8, 0))


@pytest.mark.soak
def test_a_gang_that_is_restarted_is_resolved_anew(place: Place, gang: Gang) -> None:
    receiver = place.serve()
    place.sidecar(receiver)
    gang.start(8, place.log)
    learns(receiver, "app.log", rank(8, 0))
    gang.end()
    gang.start(3, place.log)  # it appends to the same file
    learns(receiver, "app.log", rank(8, 0), rank(3, 0))
    receiver.gets(b"rank here\n" * 2)


def test_one_file_of_a_whole_machine(place: Place, gang: Gang) -> None:
    receiver = place.serve()
    place.sidecar(receiver)
    gang.start(8, place.log, place.log)
    learns(receiver, "app.log", {"ranks": "0=8+1=9", "group-rank": "1", "world-size": "16"})


def test_nobody_is_asked_where_that_is_not_wanted(place: Place, gang: Gang) -> None:
    receiver = place.serve()
    quiet, asking = place.root / "quiet", place.root / "asking"
    for directory in (quiet, asking):
        directory.mkdir()
        gang.start(8, directory / "a.log")
    place.sidecar(receiver, "--no-ranks", root=quiet, site="site-2")
    place.sidecar(receiver, root=asking)
    receiver.gets(b"rank here\n", "a.log", "site-2")
    learns(receiver, "a.log", rank(8, 0))
    assert receiver.streams()["site-2/a.log"]["attributes"] == []


def test_follow_waits_for_ranks_and_shows_the_first_the_last_and_what_goes_wrong(place: Place, gang: Gang) -> None:
    receiver = place.serve()
    place.sidecar(receiver)
    paths = [place.root / f"{name}.txt" for name in "abc"]
    for path in paths:
        path.write_bytes(b"before anybody is known\n")
    receiver.gets(b"before anybody is known\n", "b.txt")
    following = place.start("follow", "run-1", "--receiver", receiver.address, "--ranks", "first,last", "--no-notes")
    jsons = place.start("follow", "run-1", "--receiver", receiver.address, "--rank", "1", "--no-notes", "-o", "json")
    gang.start(0, *paths, world=3)
    learns(receiver, "b.txt", rank(1, 1) | {"world-size": "3"})
    with open(paths[1], "ab") as middle:
        middle.write(b"step 1\nTraceback (most recent call last):\n  File\nValueError: no\nstep 2\n")
    until(lambda: "ValueError" in following.printed, lambda: f"the error is shown: {following.printed}")
    assert place.call("run-end", "run-1", "--receiver", receiver.address).ends() == 0
    assert (following.ends(), jsons.ends()) == (0, 0)
    shown = [line.split(" │ ") for line in following.printed.splitlines()]
    texts = ["before anybody is known", "rank here"]
    assert [text for name, text in shown if name == "site-1/a.txt"] == texts
    assert [text for name, text in shown if name == "site-1/c.txt"] == texts
    assert [text for name, text in shown if name == "site-1/b.txt"] == [
        *("Traceback (most recent call last):", "  File", "ValueError: no")
    ]
    assert {(record["log"], record["rank"]) for record in jsons.records()} == {("b.txt", 1)}
    assert len(jsons.records()) == 7
