"""Containers' logs on a node, sent by an agent: through rotations, compression, restarts and kills, byte for byte.

The node is a directory with a writer that does what the kubelet does; ``make kubernetes`` runs the real one.
"""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.harness.api import api_of
from integration.harness.places import SITE, Place, Program, Receiver, until
from tests.sources.containers.node import DockerContainer, Pod

SECONDS = 6.0


def agent(place: Place, receiver: Receiver, *args: str, source: str = "cri") -> Program:
    where = ("--receiver", receiver.address, "--site", SITE, "--root", str(place.root))
    return place.start("agent", "--source", source, *where, *args)


def container_lines(first: int, count: int) -> bytes:
    line = b"2026-11-28T10:00:%02d.%09dZ %s F step %d loss=0.5\n"
    numbers = range(first, first + count)
    return b"".join(line % (at // 1000 % 60, at, (b"stdout", b"stderr")[at % 5 == 0], at) for at in numbers)


@contextmanager
def busy(pods: list[Pod], seed: int) -> Iterator[None]:
    """Let *pods* write, rotate, compress and restart while the block runs, and *SECONDS* at least."""

    def write(pod: Pod, chance: random.Random) -> None:
        count, rotated, due = 0, list[Path](), 0.0
        while not over.is_set():
            pod.write(container_lines(count, 50))
            count += 50
            over.wait(0.01)
            if time.monotonic() < due:
                continue
            due = time.monotonic() + chance.uniform(0.3, 0.6)
            if chance.random() < 0.2:
                pod.restart()
                continue
            rotated.append(pod.rotate())
            if len(rotated) > 1:
                pod.compress(rotated[-2])

    over = threading.Event()
    writers = [threading.Thread(target=write, args=(pod, random.Random(seed + at))) for at, pod in enumerate(pods)]
    until_then = time.monotonic() + SECONDS
    for writer in writers:
        writer.start()
    try:
        yield
        time.sleep(max(0.0, until_then - time.monotonic()))
    finally:
        over.set()
        for writer in writers:
            writer.join()


def test_every_byte_of_all_pods_arrives_though_the_agent_comes_late_and_is_killed(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    pods = [Pod(place.root, namespace="exp-1", name=f"worker-{at}") for at in range(3)]
    with busy(pods, seed=7):
        time.sleep(2)
        for _ in range(2):
            killed = agent(place, receiver)
            time.sleep(1.5)
            killed.kill()
        program = agent(place, receiver)
    for pod in pods:
        until(lambda pod=pod: receiver.stored(pod.log, run="exp-1") == pod.written, f"{pod.log} is stored")  # type: ignore[misc]
    code = program.stop()
    # Of an attempt that began and was rotated while no agent ran, nobody can know whether it had earlier files.
    gaps = [gap["reason"] for record in receiver.streams("exp-1").values() for gap in record["gaps"]]
    assert all("may have been removed before they could be read" in reason for reason in gaps), gaps
    assert code == (6 if gaps else 0), program.talk()
    for pod in pods:
        receiver.holds(bytes(pod.written), pod.log, run="exp-1", sealed=False)
    shown = place.call("logs", "exp-1", "--receiver", receiver.address, "--pod", "worker-0", "--notes", "off")
    steps = [int(line.split()[-2]) for line in shown.printed.splitlines()]
    assert steps == list(range(len(steps)))


def test_each_pod_may_be_a_run_of_its_own_and_another_namespace_stays_out(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    job, other = Pod(place.root, name="job-1"), Pod(place.root, namespace="kube-system", name="proxy")
    job.write(container_lines(0, 10))
    other.write(container_lines(0, 10))
    program = agent(place, receiver, "--run-from", "path:*/{run}/**", "--include", "ns/**", "--once")
    assert program.ends() == 0, program.talk()
    run = f"job-1.{job.uid[:8]}"
    receiver.holds(bytes(job.written), job.log, run=run)
    assert not receiver.stored(other.log, run=f"proxy.{other.uid[:8]}")


def test_dockers_files_arrive_too(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    container = DockerContainer(place.root)
    for at in range(4):
        container.write(b'{"log":"line %d\\n","stream":"stdout","time":"2026-11-28T10:00:0%d.1Z"}\n' % (at, at))
        container.rotate(5)
    program = agent(place, receiver, "--once", source="docker")
    assert program.ends() == 0, program.talk()
    run = container.log.partition("/")[0]
    receiver.holds(bytes(container.written), container.log, run=run)
    shown = place.call("logs", run, "--receiver", receiver.address, "--notes", "off")
    assert [line.split()[-1] for line in shown.printed.splitlines()] == ["0", "1", "2", "3"]


def a_link(root: Path) -> tuple[Pod, str, str, int]:
    """A pod of whose logs one is a link, that, what readers say of it, and the exit code once it is gone."""
    pod = Pod(root)
    pod.write(container_lines(0, 3))
    (pod.directory / "1.log").symlink_to("/etc/hostname")
    return pod, f"{pod.directory.relative_to(root)}/1.log", f"more of {pod.log} cannot be read: it is a link", 0


def one_name_for_two(root: Path) -> tuple[Pod, str, str, int]:
    """The same for a pod, and the directory of another one whose UID begins as its own does."""
    pod, other = Pod(root), Pod(root, uid="6b2f7c1e-ffff-4c8e-9a6f-1e2d3c4b5a69")
    pod.write(container_lines(0, 3))
    other.write(container_lines(3, 3))
    return pod, (name := str(other.directory.relative_to(root))), f"{name} cannot be read: the log of", 7


@pytest.mark.parametrize("made", [a_link, one_name_for_two])
def test_readers_learn_of_a_log_that_cannot_be_sent(
    made: Callable[[Path], tuple[Pod, str, str, int]], place: Place
) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    pod, name, why, then = made(place.root)
    program = agent(place, receiver, "--once")
    assert program.ends() == 1, program.talk()
    receiver.holds(bytes(pod.written), pod.log, run=pod.namespace)
    shown = place.call("status", pod.namespace, "--receiver", receiver.address, "--exit-status")
    assert shown.ends() == 7, shown.talk()
    assert why in shown.talk()
    (place.root / name).unlink() if name.endswith(".log") else shutil.rmtree(place.root / name)
    pod.write(container_lines(6, 1))
    assert agent(place, receiver, "--once").ends() == 0
    shown = place.call("status", pod.namespace, "--receiver", receiver.address, "--exit-status")
    assert shown.ends() == then, shown.talk()


def test_readers_learn_of_a_log_whose_rest_cannot_be_compared(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    pod = Pod(place.root)
    pod.write(container_lines(0, 5))
    assert agent(place, receiver, "--once").ends() == 0
    pod.write(container_lines(5, 5))
    pod.compress(pod.rotate())
    pod.write(container_lines(10, 5))
    program = agent(place, receiver, "--once", "--state", "/proc")  # where nothing can be unpacked
    assert program.ends() == 1, program.talk()
    shown = place.call("status", pod.namespace, "--receiver", receiver.address, "--exit-status")
    assert shown.ends() == 7, shown.talk()
    assert "cannot be compared" in shown.talk()
    assert agent(place, receiver, "--once").ends() == 0
    receiver.holds(bytes(pod.written), pod.log, run=pod.namespace)
    shown = place.call("status", pod.namespace, "--receiver", receiver.address, "--exit-status")
    assert shown.ends() == 0, shown.talk()


def test_once_waits_for_the_api_that_tells_the_runs(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    pod = Pod(place.root)
    pod.write(container_lines(0, 5))
    facts = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": {"team": "blue"}}
    with api_of(place.directory / "api", {"metadata": facts}, late=2.0) as options:
        program = agent(place, receiver, "--once", "--run-from", "label:team", *options)
        assert program.ends() == 0, program.talk()
    receiver.holds(bytes(pod.written), pod.log, run="blue")


@pytest.mark.parametrize("option", [("--start-at", "end"), ("--ignore-older", "60")], ids=["start-at", "ignore-older"])
def test_options_that_would_leave_out_a_part_are_refused(place: Place, option: tuple[str, str]) -> None:
    receiver = place.serve()
    program = agent(place, receiver, *option)
    assert program.ends() == 2
    assert f"{option[0]} is for files" in program.talk()


def test_pods_are_chosen_over_all_runs_and_told_apart_and_new_ones_come_by_themselves(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    where = ("--receiver", receiver.address, "--notes", "off")
    web = [Pod(place.root, namespace=name, name="web") for name in ("red", "blue")]
    other = Pod(place.root, namespace="red", name="db")
    for at, pod in enumerate((*web, other)):
        pod.write(container_lines(at, 1))
    program = agent(place, receiver)
    console = place.start("follow", "pod/web", *where)
    until(lambda: steps(console) == [0, 1], console.talk)
    late = Pod(place.root, namespace="red", name="web", uid="0c5026fc-92b5-4a8b-9b2f-5b1f6a1d2c3e")  # recreated
    late.write(container_lines(3, 1))
    until(lambda: steps(console) == [0, 1, 3], console.talk)
    web[0].restart()
    web[0].write(container_lines(4, 1))
    until(lambda: steps(console) == [0, 1, 3, 4], console.talk)
    green = Pod(place.root, namespace="green", name="web")  # of a run that was not there
    green.write(container_lines(5, 1))
    until(lambda: steps(console) == [0, 1, 3, 4, 5], console.talk)
    assert {line.partition(" ")[0] for line in console.printed.splitlines()} == {
        f"{SITE}/{pod.log}" for pod in (*web, late, green)
    }
    assert steps(place.call("logs", "pod/web", *where)) == [0, 1, 3, 4, 5]
    assert steps(place.call("logs", "po/w*", "--namespace", "red", *where)) == [0, 3, 4]
    assert steps(place.call("logs", "red", "--attr", "k8s.pod.name=web", "-i", "step [34]", *where)) == [3, 4]
    assert steps(place.call("logs", "--attr", f"k8s.pod.uid={late.uid}", *where)) == [3]
    assert steps(place.call("logs", "pod/web", "--store", str(receiver.store), "--notes", "off")) == [0, 1, 3, 4, 5]
    assert program.stop() == 0, program.talk()
    console.tell(signal.SIGINT)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("pod/wep",), 3, "has no pod wep (it has db, web): did you mean web?"),
        (("red", "--pod", "wep"), 3, "has no pod wep (it has db, web): did you mean web?"),
        (("red", "--namespace", "rad"), 3, "has no namespace rad (it has red): did you mean red?"),
        (
            ("red", "-l", "app=x"),
            3,
            "has no label app=x: no log has the label app; agents pass on those of --pod-label",
        ),
        (("-l", "app!=x"), 2, "-l cannot choose by 'app!=x': not all labels of a pod are passed on"),
        (("pods/web", "--latest"), 2, "pods/web is looked for in all: leave out one"),
        (("pod/green/web",), 3, "has no namespace green (it has blue, red)"),
        (("jop/web",), 2, "did you mean job/web?"),
    ],
    ids=["pod", "pods", "namespace", "label", "not-equal", "latest", "namespace-of-pod", "kind"],
)
def test_what_cannot_be_found_is_one_sentence(place: Place, words: tuple[str, ...], code: int, sentence: str) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    for namespace, name in (("red", "web"), ("blue", "web"), ("red", "db")):
        Pod(place.root, namespace=namespace, name=name).write(container_lines(0, 1))
    assert agent(place, receiver, "--once").ends() == 0
    asked = place.call("logs", *words, "--receiver", receiver.address)
    assert asked.ends() == code, asked.talk()
    assert asked.said.strip().endswith(sentence), asked.talk()


def test_the_first_error_and_the_findings_of_a_pod_are_those_of_all_runs_that_have_it(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    where = ("--receiver", receiver.address)
    web = [Pod(place.root, namespace=name, name="web") for name in ("red", "blue")]
    for pod, minute, other in zip(web, (5, 2), ("disk", "nan"), strict=True):
        pod.write(container_lines(0, 1))
        pod.write(
            b"2026-11-28T10:0%d:00.1Z stderr F RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n" % minute
        )
        pod.write(b"2026-11-28T10:0%d:01.1Z stderr F ERROR %s\n" % (minute, other.encode()))
    fine = Pod(place.root, namespace="red", name="fine")
    fine.write(container_lines(0, 1))
    assert agent(place, receiver, "--once").ends() == 0
    for at in (where, ("--store", str(receiver.store))):
        first = place.call("logs", "pod/web", "--first-error", *at)
        assert first.ends() == 0, first.talk()
        assert [word for word in ("nan", "disk") if f"ERROR {word}" in first.printed] == ["nan"], first.talk()
        assert "flarelog findings pod/web" in first.said, first.said
        assert "logs blue" in first.said, first.said  # its place
        found = place.call("findings", "po/web", *at)
        assert found.ends() == 0, found.talk()
        rows = [line.split() for line in found.printed.splitlines()[1:]]
        ooms = [row for row in rows if "cuda.oom" in row]
        assert [(row[0], row[3].partition("/")[0]) for row in ooms] == [("root", "blue"), ("root", "red")], found.talk()
        alone = place.call("findings", "-l", "app=x", *at)
        assert (alone.ends(), "no log has the label app" in alone.said) == (3, True), alone.talk()
        none = place.call("findings", "red", "--pod", "fine", *at)
        assert (none.ends(), "no known trouble was found in 1 log of run red" in none.said) == (3, True), none.talk()
        none = place.call("logs", "pod/red/fine", "--first-error", *at)
        assert (none.ends(), "no error was found in 1 log of pod/red/fine" in none.said) == (3, True), none.talk()
    follow = place.call("follow", "pod/web", "--first-error", *where)
    assert (follow.ends(), "ERROR nan" in follow.printed) == (0, True), follow.talk()
    # Another agent calls the runs otherwise: each log is then in two runs under one name.
    assert agent(place, receiver, "--once", "--run-from", "path:*/{run}.*/**").ends() == 0
    found = place.call("findings", "pod/web", *where)
    runs = [line.split()[3].partition("/")[0] for line in found.printed.splitlines() if "cuda.oom" in line]
    assert sorted(runs) == ["blue", "red", "web", "web"], found.talk()
    report = place.call("report", "pod/web", "-o", "x.html", *where)
    assert (report.ends(), "only logs, follow and findings take KIND/NAME" in report.said) == (2, True), report.talk()


def test_the_log_of_a_pod_that_went_while_no_agent_ran_is_closed_without_a_receipt(place: Place) -> None:
    """Only time can close it: another agent of the site, on another node, may have its files."""
    receiver = place.serve("--idle-timeout", "2")
    place.root.mkdir(exist_ok=True)
    gone, stays = Pod(place.root, name="gone"), Pod(place.root, name="stays")
    for pod in (gone, stays):
        pod.write(container_lines(0, 5))
    killed = agent(place, receiver)
    until(lambda: receiver.stored(gone.log, run="ns") == gone.written, killed.talk)
    killed.kill()
    shutil.rmtree(gone.directory.parent)
    program = agent(place, receiver)
    where = ("status", "ns", "--receiver", receiver.address)

    def said() -> str:
        asked = place.call(*where)
        asked.ends()
        return asked.printed

    until(lambda: "it has no receipt, so its last bytes may be missing" in said(), said)
    shutil.rmtree(stays.directory.parent)
    assert program.stop() == 0, program.talk()
    records = receiver.streams("ns")
    assert {one["log"]: one["sealed"] for one in records.values()} == {gone.log: False, stays.log: True}
    assert place.call(*where, "--exit-status").ends() == 7


def test_an_agent_that_is_stopped_gives_no_receipt_for_a_container_that_may_go_on(place: Place) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    goes_on, goes = Pod(place.root, name="goes-on"), Pod(place.root, name="goes")
    for pod in (goes_on, goes):
        pod.write(container_lines(0, 5))
    first = agent(place, receiver)
    until(lambda: receiver.stored(goes.log, run="ns") == goes.written, first.talk)
    assert first.stop() == 0, first.talk()
    assert "run ns: all of it so far is stored; 2 logs may go on" in first.said
    for pod in (goes_on, goes):
        pod.write(container_lines(5, 9))
    shutil.rmtree(goes.directory.parent)  # with bytes that nobody has read
    following = agent(place, receiver, "--idle", "2")
    until(lambda: "all of it is stored" in following.said, following.talk)
    assert following.stop() == 0, following.talk()
    receiver.holds(bytes(goes_on.written), goes_on.log, run="ns")
    receiver.holds(container_lines(0, 5), goes.log, run="ns", sealed=False)


def terminated(identity: str, code: int, second: int) -> dict[str, Any]:
    at = f"2026-11-28T10:00:{second:02d}Z"
    return {
        "terminated": {"exitCode": code, "containerID": f"containerd://{identity}", "startedAt": at, "finishedAt": at}
    }


@pytest.mark.parametrize("codes", [(1, 0), (0, 2)], ids=["the-restart-succeeds", "the-restart-fails"])
def test_a_restart_decides_how_a_log_ended(place: Place, codes: tuple[int, int]) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    pod = Pod(place.root)
    pod.write(container_lines(0, 5))
    pod.restart()
    pod.write(container_lines(5, 5))
    status = {"name": "main", "restartCount": 1, "containerID": "containerd://b", "image": "x"}
    before, now = terminated("a" * 64, codes[0], 3), terminated("b" * 64, codes[1], 9)
    facts = {
        "metadata": {"name": pod.name, "namespace": "ns", "uid": pod.uid, "labels": {"job-name": "train"}},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [status | {"state": now, "lastState": before}]},
    }
    where = ("train", "--receiver", receiver.address)

    def called(*args: str) -> str:
        asked = place.call(*args)
        asked.ends()
        return asked.printed

    with api_of(place.directory / "api", facts) as options:
        program = agent(place, receiver, "--run-from", "job", *options)
        until(lambda: called("streams", "--json", *where).count('"sentence"') == 2, program.talk)
        assert program.stop() == 0, program.talk()
    (record,) = place.call("streams", "--json", *where).records()
    assert [end["code"] for end in record["exits"]] == [*codes]
    failed = bool(codes[1])
    (run,) = place.call("runs", "--json", *where).records()
    assert run["failed"] == failed
    assert ("1 failed" in called("status", *where)) is failed
    said = called("report", "-o", "-", "--format", "md", *where).replace("\\", "")
    assert "ended: exit code 1" not in said
    assert ("ended: exit code 2" in said) is failed, said
    page = called("report", "-o", "-", "--format", "html", *where)
    # With its detail, in the legend, and as the last end of all.
    assert ("exit code 1 after 0.0 s; the container was restarted" in page) is not failed, page
    assert ("a container was restarted" in page) is not failed, page
    assert ("a command failed" in page) is failed, page


def steps(program: Program) -> list[int]:
    return [int(line.split()[-2]) for line in program.printed.splitlines()]
