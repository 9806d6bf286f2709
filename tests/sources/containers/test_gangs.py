"""The ranks of containers, from the environments of their processes: here from a directory with the layout of /proc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flarelog.kubernetes.pods import Pod
from flarelog.lines.ranks import known
from flarelog.model import Attributes, StreamId, StreamInfo
from flarelog.sources.containers.gangs import HOLD, MOST, Gangs, gangs
from tests.sources.containers.node import DockerContainer, Receiver, finding
from tests.sources.containers.node import Pod as Written
from tests.sources.files.test_writers import Proc, worker

ONE, TWO = "a1" * 32, "b2" * 32


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def process(
    proc: Proc, pid: int, identity: str, slice_: str = "/kubepods.slice/cri-containerd-{}.scope", **how: Any
) -> None:
    proc.process(pid, **how)
    (proc.root / str(pid) / "cgroup").write_text(f"0::{slice_.format(identity)}\n")


def look(known: Gangs, proc: Proc, now: float) -> None:
    due = known.due(now, str(proc.root))
    known.learn(due, gangs(due, str(proc.root)), now)


def test_the_ranks_of_a_container_are_those_of_its_own_processes(proc: Proc) -> None:
    process(proc, 10, ONE, parent=1)  # the launcher
    for local in range(2):
        process(proc, 11 + local, ONE, "/k8s.io/{}", parent=10, **worker(local))
        process(proc, 21 + local, TWO, "/../pod7/{}", parent=1, **worker(0, size=1, group=7 + local))
    found = gangs([ONE, TWO], str(proc.root))
    assert found[ONE][0] == "ranks:0=2+1=3,group-rank:1,world-size:16"
    assert found[TWO][0] == ""  # two ranks that are the local rank 0: of what, nobody knows
    assert gangs([TWO, "c" * 64], str(proc.root)).keys() == {TWO}


def test_the_label_is_held_back_while_ranks_may_come_and_taken_where_they_do_not(proc: Proc) -> None:
    known = Gangs()
    assert known.words(ONE) == known.words(TWO) == ""
    process(proc, 10, ONE)  # it waits for other machines
    look(known, proc, 0.0)
    assert (known.words(ONE), known.words(TWO)) == ("", None)  # the other one cannot be seen
    before = known.version
    for second in range(1, int(HOLD)):
        look(known, proc, float(second))
    assert (known.words(ONE), known.version) == ("", before)
    command = proc.root / "10" / "cmdline"
    command.write_bytes(b"/usr/bin/python3\0/usr/local/bin/torchrun\0--nnodes=16\0train.py\0")
    look(known, proc, 200.0)
    assert (known.words(ONE), known.version) == ("", before)
    command.write_bytes(b"python3\0train.py\0")
    look(known, proc, 300.0)
    assert (known.words(ONE), known.version) == (None, before + 1)


def test_a_restarted_gang_has_its_old_ranks_until_the_new_ones_are_known(proc: Proc) -> None:
    known = Gangs()
    known.words(ONE)
    process(proc, 10, ONE)
    process(proc, 11, ONE, parent=10, **worker(0, size=1, group=9))
    look(known, proc, 0.0)
    first = known.words(ONE)
    assert first == "rank:9,local-rank:0,group-rank:9,world-size:16"
    for path in sorted((proc.root / "11").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (proc.root / "11").rmdir()
    look(known, proc, 10.0)
    assert known.words(ONE) == first
    process(proc, 12, ONE, parent=10, **worker(0, size=1, group=15))
    look(known, proc, 20.0)
    assert known.words(ONE) == "rank:15,local-rank:0,group-rank:15,world-size:16"


def test_only_the_latest_containers_are_remembered() -> None:
    known = Gangs()
    for number in range(MOST + 10):
        known.words(f"{number:064x}")
    assert len(known.due(0.0)) == MOST


class Api:
    """What an API says of one pod."""

    def __init__(self, pod: Pod | None = None) -> None:
        self.pod, self.version = pod, 0

    def of(self, uid: str) -> Pod | None:
        return self.pod

    def says(self, pod: Pod) -> None:
        self.pod, self.version = pod, self.version + 1


def test_each_attempt_has_the_ranks_of_its_own_processes(tmp_path: Path, proc: Proc) -> None:
    node = tmp_path / "node"
    node.mkdir()
    log, found = Written(node), Gangs()
    log.write(b"one\n")
    label = {"main": "rank:4,rank-from:batch.kubernetes.io/job-completion-index"}

    def pod(*identities: str) -> Pod:
        ids = {("main", attempt): f"containerd://{identity}" for attempt, identity in enumerate(identities)}
        return Pod(log.uid, "ns", "web", "", {}, "", {}, ids=ids, attempts={"main": len(ids) - 1}, ranks=label)

    api, receiver = Api(pod(ONE)), Receiver()
    with finding(node, pods=api, gangs=found) as finder:
        receiver.take(finder)
        assert "rank" not in told(receiver, log)[-1]
        process(proc, 11, ONE, **worker(0, size=1, group=9))
        look(found, proc, 0.0)
        receiver.take(finder)
        log.restart()
        log.write(b"two\n")
        api.says(pod(ONE, TWO))
        receiver.take(finder)
        process(proc, 12, TWO, **worker(0, size=1, group=2))
        look(found, proc, 1.0)
        receiver.take(finder)
    stretches = known(StreamInfo(StreamId("ns", "node", log.log), 0, 8, 0, False, tuple(receiver.marks(log))))
    assert [(one.start, one.rank, one.how) for one in stretches] == [(0, 9, "environment"), (4, 2, "environment")]
    assert [one["container.id"] for one in told(receiver, log)] == [ONE, ONE, TWO, TWO]
    assert [one["k8s.container.restart_count"] for one in told(receiver, log)] == ["0", "0", "1", "1"]


def test_dockers_directories_tell_the_id_of_a_container(tmp_path: Path, proc: Proc) -> None:
    node, found, receiver = tmp_path / "node", Gangs(), Receiver()
    container = DockerContainer(node, id=ONE)
    container.write(b"{}\n")
    process(proc, 11, ONE, "/docker/{}", **worker(0, size=1, group=9))
    with finding(node, layout="docker", gangs=found) as finder:
        receiver.take(finder)
        look(found, proc, 0.0)
        receiver.take(finder)
    values = [mark.values for mark in receiver.marks(container) if isinstance(mark, Attributes) and not mark.zone]
    assert [(one.get("rank"), one["container.id"]) for one in values] == [(None, ONE), ("9", ONE)]


def told(receiver: Receiver, log: Written) -> list[dict[str, str]]:
    return [mark.values for mark in receiver.marks(log) if isinstance(mark, Attributes) and not mark.zone]
