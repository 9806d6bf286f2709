"""An agent that reads a kubelet's file server, while that does not answer: what it could not read gets no receipt."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from integration.harness.kubelet import SILENT, Faults, kubelet_of
from integration.harness.places import SITE, Place, Program, Receiver, until
from integration.test_containers import container_lines
from tests.sources.containers.node import Pod

LISTING = "^/logs/pods/$"


@contextmanager
def reading(place: Place, receiver: Receiver, faults: Faults, *args: str) -> Iterator[Program]:
    place.root.mkdir(exist_ok=True)
    with kubelet_of(place.directory / "kubelet", place.root, faults) as options:
        where = ("--receiver", receiver.address, "--site", SITE, "--source", "kubelet")
        yield place.start("agent", *where, *options, *args)


@pytest.mark.parametrize("fault", [500, SILENT], ids=["error", "silence"])
def test_a_log_that_could_not_be_read_at_the_end_gets_no_receipt(place: Place, fault: int) -> None:
    receiver, faults = place.serve(), Faults()
    pod = Pod(place.root)
    pod.write(container_lines(0, 5))
    with reading(place, receiver, faults) as program:
        until(lambda: receiver.stored(pod.log, run="ns") == pod.written, program.talk)
        faults["."] = fault
        pod.write(container_lines(5, 5))
        assert program.stop() == 7, program.talk()
    (record,) = receiver.streams("ns").values()
    assert not record["sealed"], record
    assert "later bytes may be missing: the kubelet" in program.said, program.talk()
    assert "all of it is stored" not in program.said
    with reading(place, receiver, Faults(), "--once") as program:
        assert program.ends() == 0, program.talk()
    receiver.holds(bytes(pod.written), pod.log, run="ns")


@pytest.mark.parametrize("fault", [500, SILENT], ids=["error", "silence"])
def test_an_agent_that_could_not_list_the_pods_at_the_end_does_not_end_well(place: Place, fault: int) -> None:
    receiver, faults = place.serve(), Faults()
    pod = Pod(place.root)
    pod.write(container_lines(0, 5))
    with reading(place, receiver, faults) as program:
        until(lambda: receiver.stored(pod.log, run="ns") == pod.written, program.talk)
        faults[LISTING] = fault
        Pod(place.root, name="new", uid="2" * 8).write(container_lines(5, 5))
        assert program.stop() == 7, program.talk()
    assert "logs of containers may be missing: the kubelet" in program.said


def test_an_agent_whose_kubelet_never_answered_does_not_end_well(place: Place) -> None:
    receiver = place.serve()
    with reading(place, receiver, Faults({".": 500})) as program:
        program.says("with 500")
        assert program.stop() == 1, program.talk()


@pytest.mark.parametrize("fault", [503, SILENT], ids=["error", "silence"])
def test_a_log_is_not_idle_while_its_kubelet_is_away(place: Place, fault: int) -> None:
    receiver, faults = place.serve(), Faults()
    pod = Pod(place.root)
    pod.write(container_lines(0, 5))
    with reading(place, receiver, faults, "--idle", "10") as program:
        until(lambda: receiver.stored(pod.log, run="ns") == pod.written, program.talk)
        faults["."] = fault
        time.sleep(13)
        assert not any(record["sealed"] for record in receiver.streams("ns").values()), program.talk()
        pod.write(container_lines(5, 5))
        shutil.rmtree(pod.directory.parent)
        faults.clear()
        until(lambda: [one["sealed"] for one in receiver.streams("ns").values()] == [True], program.talk)
        (record,) = receiver.streams("ns").values()
        assert "was not seen" in record["incomplete"], record
        assert program.stop() == 6, program.talk()
