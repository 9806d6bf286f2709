"""The ranks that write a file are read from /proc: here from a directory with its layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flarelog.sources.files.openers import Inode
from flarelog.sources.files.writers import alive, who_writes, words_of
from flarelog.wire.codec.base import MAX_TEXT


class Proc:
    """A /proc in a directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.files = root / "proc", root / "files"
        self.root.mkdir()
        self.files.mkdir()

    def file(self, name: str) -> Path:
        path = self.files / name
        path.touch()
        return path

    def process(
        self,
        pid: int,
        *written: Path,
        parent: int = 1,
        group: int = 0,
        used: int = 0,
        state: str = "S",
        flags: int = os.O_WRONLY,
        started: int = 7,
        **env: Any,
    ) -> None:
        base = self.root / str(pid)
        (base / "fd").mkdir(parents=True)
        (base / "fdinfo").mkdir()
        for number, path in enumerate(written):
            (base / "fd" / str(number)).symlink_to(path)
            (base / "fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t0{flags | os.O_APPEND:o}\nmnt_id:\t27\n")
        (base / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in env.items()))
        self.stat(pid, f"{state} {parent} {group} {'0 ' * 8}{used} 3 {'0 ' * 6}{started} 0")

    def stat(self, pid: int, said: str) -> None:
        (self.root / str(pid) / "stat").write_text(f"{pid} (a ) b) {said}\n")

    def words(self, *paths: Path) -> list[str]:
        found = who_writes({inode(path): path.name for path in paths}, str(self.root))
        return [found[inode(path)].words if inode(path) in found else "" for path in paths]


def inode(path: Path) -> Inode:
    status = path.stat()
    return status.st_dev, status.st_ino


def worker(local: int, size: int = 2, group: int = 1) -> dict[str, Any]:
    return {"RANK": group * size + local, "LOCAL_RANK": local, "GROUP_RANK": group, "WORLD_SIZE": 16,
            "LOCAL_WORLD_SIZE": size, "SECRET": "hunter2"}  # fmt: skip


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_each_worker_writes_its_own_file(proc: Proc) -> None:
    files = [proc.file("0.log"), proc.file("1.log")]
    proc.process(10, *files)  # the launcher and a worker's child have the files open as well
    for local, path in enumerate(files):
        proc.process(11 + local, path, parent=10, **worker(local))
        proc.process(21 + local, path, parent=11 + local, **worker(local))
    assert proc.words(*files) == [
        "rank:2,local-rank:0,group-rank:1,world-size:16",
        "rank:3,local-rank:1,group-rank:1,world-size:16",
    ]


def test_all_workers_write_one_file(proc: Proc) -> None:
    path = proc.file("node.log")
    for local in range(2):
        proc.process(11 + local, path, parent=10, **worker(local))
    assert proc.words(path) == ["ranks:0=2+1=3,group-rank:1,world-size:16"]


def test_a_launcher_writes_what_its_workers_say(proc: Proc) -> None:
    path = proc.file("node.log")
    proc.process(9, path)  # for example tee
    proc.process(10, path, RANK=1)  # a scheduler numbered the machines
    for local in range(2):
        proc.process(11 + local, parent=10, **worker(local))
    assert proc.words(path) == ["ranks:0=2+1=3,group-rank:1,world-size:16"]


def test_nothing_is_known_before_all_workers_are_there(proc: Proc) -> None:
    path = proc.file("node.log")
    proc.process(11, path, parent=10, **worker(0))
    assert proc.words(path) == [""]
    proc.process(12, path, parent=10, **worker(1))
    assert proc.words(path) == ["ranks:0=2+1=3,group-rank:1,world-size:16"]


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"RANK": "1"},
        {"LOCAL_RANK": "1"},
        {"RANK": "one", "LOCAL_RANK": "0"},
        {"RANK": "-1", "LOCAL_RANK": "0"},
        {"RANK": "12345678", "LOCAL_RANK": "0"},
        {"XRANK": "1", "LOCAL_RANK": "0"},
    ],
)
def test_what_is_no_gang_has_no_rank(proc: Proc, env: dict[str, Any]) -> None:
    path = proc.file("a.log")
    proc.process(11, path, **env)
    assert proc.words(path) == [""]


def test_who_only_reads_a_file_or_writes_another_says_nothing_of_it(proc: Proc) -> None:
    path, other = proc.file("a.log"), proc.file("b.log")
    (proc.files / "sub").mkdir()
    alike = proc.file("sub/a.log")
    proc.process(11, path, flags=os.O_RDONLY, RANK=1, LOCAL_RANK=1)
    proc.process(12, other, alike, RANK=2, LOCAL_RANK=2)
    assert proc.words(path, alike) == ["", "rank:2,local-rank:2"]


def test_workers_of_two_launchers_in_one_file_cannot_be_told_apart(proc: Proc) -> None:
    path = proc.file("a.log")
    proc.process(11, path, parent=10, **worker(0, 1, 0))
    proc.process(12, path, parent=20, **worker(0, 1, 1))
    assert proc.words(path) == [""]


def test_processes_that_end_meanwhile_or_are_somebody_else_s_are_passed_over(proc: Proc) -> None:
    path = proc.file("a.log")
    (proc.root / "13").mkdir()
    proc.process(14, path, RANK=1, LOCAL_RANK=1)
    for name in ("environ", "stat"):
        (proc.root / "14" / name).unlink()
    proc.process(15, proc.files / "gone", RANK=1, LOCAL_RANK=1)
    (proc.root / "15" / "fdinfo" / "0").write_text("flags:\n")
    assert proc.words(path) == [""]
    assert who_writes({(1, 2): "x"}, str(proc.root / "none")) == {}


def test_a_pid_that_is_used_again_is_another_process(proc: Proc) -> None:
    proc.process(11, started=7)
    assert alive({(11, 7)}, str(proc.root))
    assert not alive({(11, 8), (12, 7)}, str(proc.root))


@pytest.mark.parametrize(("many", "known"), [(64, True), (65, False)])
def test_more_ranks_than_a_mark_can_name_are_not_told(many: int, known: bool) -> None:
    gang = [
        {b"RANK": 9_999_000 + n, b"LOCAL_RANK": n, b"GROUP_RANK": 9_999_999, b"WORLD_SIZE": 9_999_999}
        for n in range(many)
    ]
    words = words_of(gang)
    assert bool(words) is known
    assert len(words) <= MAX_TEXT


def test_nothing_but_the_four_numbers_is_kept(proc: Proc) -> None:
    path = proc.file("a.log")
    proc.process(11, path, **worker(0, 1))
    found = who_writes({inode(path): "a.log"}, str(proc.root))
    assert "hunter2" not in repr(found)


def test_to_a_writer_belong_its_children_and_its_pipeline(proc: Proc) -> None:
    path = proc.file("a.log")
    proc.process(5, group=5, used=1000)
    proc.process(10, group=10, parent=5, used=40)  # python train.py |
    proc.process(12, group=12, parent=10, used=300)  # a DataLoader's worker
    proc.process(11, path, group=10, parent=5, used=1)  # tee a.log
    proc.process(13, group=13, parent=11, used=7, state="Z")  # a zombie
    found = who_writes({inode(path): path.name}, str(proc.root))[inode(path)]
    assert found.writers == {(11, 7)}
    assert found.used == {(10, 7): 43, (11, 7): 4}, "CPU of user and system; tee has no children"


def test_a_program_that_has_flarelog_in_it_is_a_writer_and_a_sidecar_in_its_group_is_none(proc: Proc) -> None:
    mine, other = proc.file("mine.log"), proc.file("other.log")
    proc.process(os.getpid(), mine, group=10, used=4)
    proc.process(11, other, group=10, used=5)
    found = who_writes({inode(mine): mine.name, inode(other): other.name}, str(proc.root))
    assert found[inode(mine)].writers == {(os.getpid(), 7)}
    assert found[inode(other)].used == {(11, 7): 8}


def test_a_command_whose_output_another_process_writes_down_is_the_writer(proc: Proc) -> None:
    path = proc.file("stdout.log")
    proc.process(20, path, group=20, used=1)  # the spooler
    proc.process(30, group=30, used=500, started=9)
    proc.process(31, group=31, parent=30, used=50)
    files, command = {inode(path): path.name}, {inode(path): (30, 9)}
    found = who_writes(files, str(proc.root), command)[inode(path)]
    assert found.writers == {(30, 9)}
    assert found.used == {(30, 9): 503, (31, 7): 53}
    gone = who_writes(files, str(proc.root), {inode(path): (30, 8)})[inode(path)]
    assert not gone.writers | gone.used.keys(), "the pid was used again"


def test_what_a_command_left_behind_writes_its_output_on(proc: Proc) -> None:
    path = proc.file("stdout.log")
    proc.process(20, path, group=20)  # the spooler
    proc.process(31, group=30, used=50)
    proc.process(32, group=32, used=50)
    found = who_writes({inode(path): path.name}, str(proc.root), {inode(path): (30, 9)})[inode(path)]
    assert found.writers == found.used.keys() == {(31, 7)}


def test_a_process_that_writes_another_file_alone_writes_that_one_instead(proc: Proc) -> None:
    quiet, own, shared, others = (proc.file(name) for name in ("quiet.log", "own.log", "shared.log", "others.log"))
    proc.process(11, quiet, own, shared)
    proc.process(12, shared, others)
    growing = {inode(path): path.name for path in (own, shared, others, quiet)}
    found = who_writes({inode(quiet): quiet.name}, str(proc.root), growing=growing)
    assert list(found) == [inode(quiet)]
    assert found[inode(quiet)].others == (inode(own),)


def test_the_two_outputs_of_a_command_are_written_by_its_processes(proc: Proc) -> None:
    out, err = proc.file("stdout.log"), proc.file("stderr.log")
    proc.process(10, out, err)  # the spooler
    proc.process(11, started=7)
    commands = {inode(out): (11, 7), inode(err): (11, 7)}
    found = who_writes({inode(err): err.name}, str(proc.root), commands, {inode(out): out.name})
    assert found[inode(err)].others == (inode(out),)
    assert found[inode(err)].writers == {(11, 7)}
