"""Containers' logs on a node, sent by an agent: through rotations, compression, restarts and kills, byte for byte.

The node is a directory with a writer that does what the kubelet does; ``make kubernetes`` runs the real one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
    assert program.stop() == 0, program.talk()
    for pod in pods:
        receiver.holds(bytes(pod.written), pod.log, run="exp-1")
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


@pytest.mark.parametrize("option", [("--start-at", "end"), ("--ignore-older", "60")], ids=["start-at", "ignore-older"])
def test_options_that_would_leave_out_a_part_are_refused(place: Place, option: tuple[str, str]) -> None:
    receiver = place.serve()
    program = agent(place, receiver, *option)
    assert program.ends() == 2
    assert f"{option[0]} is for files" in program.talk()
