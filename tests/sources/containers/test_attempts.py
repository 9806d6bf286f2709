"""How the attempts of a container ended: each end stands after its attempt's last byte, whenever the API tells it."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

import pytest

from flarelog.kubernetes.pods import Ended
from flarelog.kubernetes.pods import Pod as Facts
from flarelog.model import Attributes, Gap, Generation
from flarelog.model import Ended as MarkOfEnd
from flarelog.render.edges import tears
from flarelog.sources.containers.copies import Copies
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.containers.runs import ContainerRuns
from flarelog.values import frozen
from tests.sources.containers.node import UID, Pod, Receiver, finding


class Api:
    """What the API has said of the one pod."""

    def __init__(self) -> None:
        self._facts: Facts | None = None
        self.version = 0
        self.listed = True

    def of(self, uid: str) -> Facts | None:
        return self._facts if uid == UID else None

    def says(self, *attempts: int, known: float = 0.0) -> None:
        """Attempt N has ended with exit code N."""
        ends = {
            ("main", n): Ended(f"containerd://{n + 1:0<64x}", n, "Error", 1000, 2000, known=known) for n in attempts
        }
        self.version += 1
        self._facts = Facts(UID, "ns", "web", "node-1", {}, "", {}, ends)


@frozen
class Copied(Copies):
    """Copies of files whose latest complete look began *at*."""

    at: list[float]
    lost: set[str] = field(default_factory=set)

    def seen(self, directory: str) -> float:
        return self.at[-1]

    def ending(self, path: str) -> str:
        return "unseen" if any(each.endswith(path) for each in self.lost) else ""


def ends(receiver: Receiver, pod: Pod) -> list[tuple[int, int]]:
    """(exit code, offset after the attempt's last byte) of each end in the record."""
    (info,) = receiver.record()
    return [(end.status, end.offset) for end in info.exits]


def test_an_end_that_is_known_at_once_is_reported_before_the_next_attempt(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    pod.write(b"zero\n")
    with finding(tmp_path, pods=api) as finder:
        receiver.take(finder)
        api.says(0)
        receiver.take(finder, 100.0)
        pod.restart()
        pod.write(b"one\n")
        receiver.take(finder, 200.0)
        api.says(0, 1)
        receiver.take(finder, 300.0)
    assert ends(receiver, pod) == [(0, 5), (1, 9)]
    assert [mark.until for mark in receiver.marks(pod) if hasattr(mark, "until")] == [-1, -1]


def test_an_end_that_is_known_late_is_reported_where_its_attempt_ended(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    with finding(tmp_path, pods=api) as finder:
        for attempt in range(4):
            pod.write(b"%d before the rotation\n" % attempt)
            pod.rotate()
            pod.write(b"%d\n" % attempt)
            receiver.take(finder, attempt * 100.0)
            pod.restart()
        pod.write(b"4\n")
        receiver.take(finder, 900.0)
        api.says(2, 3)
        receiver.take(finder, 1000.0)
        api.says(0, 1, 2, 3)
        receiver.take(finder, 1100.0)
    size = len(b"0 before the rotation\n0\n")
    assert ends(receiver, pod) == [(n, (n + 1) * size) for n in range(4)]
    assert receiver.data(pod) == pod.written


def test_an_end_comes_after_bytes_that_were_not_read_yet(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    pod.write(b"zero\n")
    with finding(tmp_path, pods=api) as finder:
        receiver.take(finder)
        pod.write(b"more\n")
        pod.restart()
        pod.write(b"one\n")
        api.says(0)
        receiver.take(finder, 100.0)
    assert ends(receiver, pod) == [(0, 10)]


def test_a_drain_reports_an_end_that_is_known_before_it_ends_the_log(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    api.says(0, 1)
    pod.write(b"zero\n")
    pod.restart()
    pod.write(b"one\n")
    with finding(tmp_path, pods=api) as finder:
        finder.drain(100.0)
        receiver.take_drained(finder, 100.0)
    assert ends(receiver, pod) == [(0, 5), (1, 9)]


def test_what_the_api_says_later_is_reported_to_a_receiver_that_has_all_bytes(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    pod.write(b"zero\n")
    with finding(tmp_path) as finder:
        receiver.take(finder)
    api.says(0)
    with finding(tmp_path, receiver.record(), pods=api) as finder:
        finder.drain(100.0)
        receiver.take_drained(finder, 100.0)
    assert ends(receiver, pod) == [(0, 5)]
    told = [mark.values for mark in receiver.marks(pod) if isinstance(mark, Attributes)]
    assert [values.get("k8s.node.name") for values in told] == [None, "node-1"]


def test_a_run_has_news_when_the_end_of_an_attempt_is_known_and_its_bytes_are(tmp_path: Path) -> None:
    pod, api, copied = Pod(tmp_path), Api(), Copied([10.0])
    pod.write(b"zero\n")
    runs = ContainerRuns(ContainerOptions(str(tmp_path), "cri", run_from="path:{run}/**", pods=api, copies=copied))

    def facts() -> int:
        found, _ = runs.look() or ({}, [])
        return found["ns"][1].facts

    assert (unknown := facts()) == 0
    api.says()
    assert (running := facts()) != unknown
    api.says(0, known=11.0)
    assert facts() == running
    copied.at.append(12.0)
    assert facts() not in (unknown, running)


def test_an_end_is_reported_once_over_restarts_of_the_agent_and_of_the_receiver(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    pod.write(b"zero\n")
    with finding(tmp_path, pods=api) as finder:
        receiver.take(finder)
        pod.restart()
        pod.write(b"one\n")
        receiver.take(finder, 100.0)
    before = receiver.record()
    pod.directory.joinpath("0.log").unlink()
    api.says(0)
    with finding(tmp_path, before, pods=api) as finder:
        receiver.take(finder, 200.0)
        assert ends(receiver, pod) == [(0, 5)]
        receiver.logs[pod.log].marks = list(before[0].marks)  # it had not stored the end
        finder.resume(receiver.record(), 300.0)
        receiver.take(finder, 300.0)
    with finding(tmp_path, receiver.record(), pods=api) as finder:
        receiver.take(finder, 400.0)
    assert ends(receiver, pod) == [(0, 5)]


def test_an_attempt_without_a_byte_ends_where_it_began_and_one_without_a_file_nowhere(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path, attempt=4), Receiver(), Api()
    pod.write(b"four\n")
    with finding(tmp_path, pods=api) as finder:
        receiver.take(finder)
        pod.restart()
        receiver.take(finder, 100.0)
        pod.restart()
        pod.write(b"six\n")
        receiver.take(finder, 200.0)
        api.says(3, 4, 5)
        receiver.take(finder, 300.0)
    assert ends(receiver, pod) == [(4, 5), (5, 5)]


def test_the_end_of_a_copied_attempt_waits_until_the_copy_is_known_to_be_whole(tmp_path: Path) -> None:
    pod, receiver, api, copied = Pod(tmp_path), Receiver(), Api(), Copied([0.0])
    pod.write(b"zero\n")
    with finding(tmp_path, pods=api, copies=copied) as finder:
        receiver.take(finder)
        api.says(0)
        receiver.take(finder, 100.0)
        assert ends(receiver, pod) == []
        pod.write(b"more\n")
        copied.at.append(101.0)
        receiver.take(finder, 200.0)
    assert ends(receiver, pod) == [(0, 10)]


@pytest.mark.parametrize("known", [False, True])
def test_the_rest_of_a_copy_is_lost_unless_its_attempts_end_is_reported(tmp_path: Path, known: bool) -> None:
    pod, receiver, api, copied = Pod(tmp_path), Receiver(), Api(), Copied([0.0])
    pod.write(b"zero\n")
    with finding(tmp_path, pods=api, copies=copied) as finder:
        api.says(*[0] * known)
        copied.at.append(200.0)
        receiver.take(finder, 100.0)
        copied.lost.add(str(pod.current))
        pod.current.unlink()
        pod.directory.rmdir()
        receiver.take(finder, 9000.0)
    assert len(ends(receiver, pod)) == known
    assert [mark.reason for mark in receiver.marks(pod) if isinstance(mark, MarkOfEnd)] == [
        "removed" if known else "unseen"
    ]


def gaps(receiver: Receiver, pod: Pod) -> list[tuple[int, int, str]]:
    return [(mark.offset, mark.length, mark.reason) for mark in receiver.marks(pod) if isinstance(mark, Gap)]


@pytest.mark.parametrize("redact", [(), ("tokens",)], ids=["raw", "redacted"])
@pytest.mark.parametrize("restarted", [False, True])
def test_attempts_whose_files_were_gone_before_they_were_seen_are_a_gap(
    tmp_path: Path, restarted: bool, redact: tuple[str, ...]
) -> None:
    pod, receiver = Pod(tmp_path, attempt=4), Receiver()
    pod.write(b"four\n")
    with finding(tmp_path, redact=redact) as finder:
        receiver.take(finder)
        pod.write(b"torn ")
        pod.attempt = 7
        pod.write(b"seven\n")
        if not restarted:
            receiver.take(finder, 100.0)
    for _ in range(2):
        with finding(tmp_path, receiver.record(), redact=redact) as finder:
            receiver.take(finder, 200.0)
    pod.current.with_name("4.log").unlink()
    pod.restart()
    pod.write(b"eight\n")
    with finding(tmp_path, receiver.record(), redact=redact) as finder:
        receiver.take(finder, 300.0)
        pod.restart()
        pod.write(b"nine\n")
        receiver.take(finder, 400.0)
    assert receiver.data(pod) == b"four\ntorn seven\neight\nnine\n"
    assert gaps(receiver, pod) == [(10, 0, "the logs of attempts 5 to 6 were gone before they could be read")]


@pytest.mark.parametrize("known", [False, True])
def test_an_attempt_whose_end_is_reported_lacks_no_rotated_file_though_its_copy_has_such_a_name(
    tmp_path: Path, known: bool
) -> None:
    pod, receiver, api, copied = Pod(tmp_path), Receiver(), Api(), Copied([0.0])
    pod.write(b"zero\n")
    with finding(tmp_path, pods=api, copies=copied) as finder:
        api.says(*[0] * known)
        copied.at.append(200.0)
        receiver.take(finder, 100.0)
        copied.lost.add("0.log.00000000-000000")
        pod.current.rename(f"{pod.current}.00000000-000000")
        pod.restart()
        pod.write(b"one\n")
        receiver.take(finder, 300.0)
    assert receiver.data(pod) == pod.written
    assert len(gaps(receiver, pod)) == (not known)


def test_attempts_that_are_gone_are_named_though_the_end_of_the_one_before_was_not_seen(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path, attempt=4), Receiver()
    pod.write(b"four\n")
    with finding(tmp_path) as finder:
        receiver.take(finder)
    pod.current.unlink()
    pod.attempt = 7
    pod.write(b"seven\n")
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder, 100.0)
    assert [mark.reason for mark in receiver.marks(pod) if isinstance(mark, MarkOfEnd)] == ["unseen"]
    assert gaps(receiver, pod) == [(5, 0, "the logs of attempts 5 to 6 were gone before they could be read")]


def test_what_the_api_forgets_changes_nothing(tmp_path: Path) -> None:
    pod, receiver, api = Pod(tmp_path), Receiver(), Api()
    pod.write(b"zero\n")
    api.says()
    with finding(tmp_path, pods=api) as finder:
        receiver.take(finder)
        before = list(receiver.marks(pod))
        api._facts = None
        api.version += 1
        receiver.take(finder, 100.0)
    assert receiver.marks(pod) == before


def test_a_record_that_an_attempt_left_unfinished_is_not_continued_by_the_next_attempt(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(b"2026-11-29T01:02:03.1Z stdout F one\n")
    pod.rotate()
    pod.write(b"2026-11-29T01:02:03.2Z stdout F torn")
    pod.attempt += 1
    pod.write(b"2026-11-29T01:02:04.1Z stdout F another\n")
    with finding(tmp_path) as finder:
        receiver.take(finder)
    assert [tears(mark) for mark in receiver.marks(pod) if isinstance(mark, Generation)] == [False, False, True]
    assert receiver.data(pod) == pod.written
