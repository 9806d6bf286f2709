"""The logs of containers on a node: every byte once, in order, through rotations, compression and restarts."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from flarelog.checksum import EMPTY_DIGEST
from flarelog.kubernetes.pods import Pod as Facts
from flarelog.kubernetes.pods import pod_of as facts_of
from flarelog.model import Attributes, Ended, Gap, Generation, StreamId, StreamInfo, Unread, unread_at_end
from flarelog.sources.base import Finder
from flarelog.sources.containers.finder import Containers
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.containers.row import Row
from flarelog.sources.containers.runs import ContainerRuns
from flarelog.sources.containers.tail import ContainerTail
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.walk import listed
from flarelog.sources.files.watch import Change, What
from flarelog.values import changed as changed_info
from tests.contracts.finder import CONTRACT, World
from tests.sources.containers.node import UID, DockerContainer, Pod, Receiver, finding
from tests.sources.files.tailing import Stored
from tests.unprivileged import unprivileged


def pod_of(root: Path, log: str) -> Pod:
    """The container whose log has the place of *log* in the contract."""
    return Pod(root, "ns", log.replace("/", "-"), UID, "main")


class Named(Containers):
    """Containers whose logs have the contract's names."""

    def _theirs(self, name: str) -> str:
        return name.removeprefix("ns/").partition(f".{UID[:8]}/")[0].replace("-", "/")

    @property
    def logs(self) -> Mapping[str, ContainerTail]:
        return {self._theirs(name): tail for name, tail in super().logs.items()}

    async def watch(self, changed: Callable[[set[str]], float | None]) -> None:
        await super().watch(lambda names: changed(set(map(self._theirs, names))))

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        super().learn(list(map(self._ours, streams)), now)

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        super().resume(map(self._ours, streams), now)

    def drain(self, now: float) -> set[str]:
        return set(map(self._theirs, super().drain(now)))

    def _ours(self, info: StreamInfo) -> StreamInfo:
        name = pod_of(Path(self._wanted.root), info.stream.path).log
        return changed_info(info, stream=StreamId.of_file("run", "site", name))


class Node:
    """Containers as places for the logs of the contract."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, log: str, data: bytes) -> None:
        pod_of(self.root, log).write(data)

    @contextlib.contextmanager
    def finder(self) -> Iterator[Finder]:
        containers = Named(ContainerOptions(str(self.root), "cri"))
        try:
            yield containers
        finally:
            containers.close()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(check: Callable[[World], None], tmp_path: Path) -> None:
    check(Node(tmp_path))


def losses(receiver: Receiver, pod: Pod | DockerContainer) -> list[str]:
    """The gaps of the log of *pod*, and ends that were not seen."""
    gaps = [mark.reason for mark in receiver.marks(pod) if isinstance(mark, Gap)]
    return gaps + [mark.reason for mark in receiver.marks(pod) if isinstance(mark, Ended) and mark.reason == "unseen"]


def lines(first: int, count: int) -> bytes:
    return b"".join(b"2026-11-28T10:00:00.%09dZ stdout F line %d\n" % (at, at) for at in range(first, first + count))


def test_what_was_rotated_and_compressed_before_the_start_comes_first(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    for at in range(5):
        pod.write(lines(at * 10, 10))
        old = pod.rotate()
        if at < 3:
            pod.compress(old)
    pod.write(lines(50, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []
    paths = [os.path.basename(mark.path) for mark in receiver.marks(pod) if isinstance(mark, Generation)]
    assert paths == [*(f"0.log.20261128-00000{n}{'.gz' if n < 4 else ''}" for n in range(1, 6)), "0.log"]


def test_attempts_come_in_order_each_with_its_rotated_files(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    for attempt in range(12):
        pod.write(lines(attempt * 10, 5))
        pod.compress(pod.rotate())
        pod.write(lines(attempt * 10 + 5, 5))
        pod.restart()
    with finding(tmp_path) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == pod.written


def test_a_rotation_while_it_watches_costs_nothing_though_the_old_file_is_removed(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    with finding(tmp_path) as finder:
        for at in range(20):
            pod.write(lines(at * 10, 10))
            receiver.take(finder, at * 100.0)
            old = pod.rotate()
            pod.write(lines(at * 10 + 9, 1))
            finder.look(at * 100.0 + 50)
            pod.compress(old).unlink()
        receiver.take(finder, 9000.0)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


@pytest.mark.parametrize("redact", [(), ("tokens",)], ids=["raw", "redacted"])
def test_a_restarted_agent_goes_on_though_the_sent_files_are_compressed(tmp_path: Path, redact: tuple[str]) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    first = pod.rotate()
    pod.write(lines(10, 10))
    with finding(tmp_path, redact=redact) as finder:
        receiver.take(finder)
    pod.write(lines(20, 10))  # the rest of a file that was sent in part
    pod.compress(first)
    pod.compress(pod.rotate())
    pod.write(lines(30, 10))
    with finding(tmp_path, receiver.record(), redact=redact) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


@pytest.mark.parametrize("watched", [False, True], ids=["away", "watched"])
def test_no_byte_is_lost_or_repeated_though_the_nodes_clock_was_set_back(tmp_path: Path, watched: bool) -> None:
    pod, receiver = Pod(tmp_path), Receiver()

    def goes_back(finder: Containers | None = None) -> None:
        for at in range(2, 5):
            pod.write(lines(at * 10, 10))
            pod.rotate(day=20)
            if finder is not None:
                receiver.take(finder, at * 100.0)
        pod.write(lines(50, 10))

    pod.write(lines(0, 10))
    pod.rotate()
    pod.write(lines(10, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        if watched:
            goes_back(finder)
            receiver.take(finder, 900.0)
    if not watched:
        goes_back()
    for _ in range(2):
        with finding(tmp_path, receiver.record()) as finder:
            receiver.take(finder)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


def test_a_log_whose_name_is_cut_in_the_store_goes_on_after_a_restart(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path, name="p" * 210), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
    pod.write(lines(10, 10))

    def told() -> list[StreamInfo]:
        """The record as it comes from the receiver, which does not know the path."""
        return [changed_info(info, stream=changed_info(info.stream, original="")) for info in receiver.record()]

    with finding(tmp_path, told()) as finder:
        finder.resume(told(), 0.0)
        receiver.take(finder)
    assert receiver.data(pod) == pod.written


def test_a_file_that_is_gone_before_it_was_read_whole_is_a_loss(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
    pod.write(lines(10, 10))
    pod.rotate().unlink()
    pod.write(lines(20, 10))
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == lines(0, 10) + lines(20, 10)
    assert losses(receiver, pod) == ["unseen"]


REMOVED = "rotated files before {} may have been removed before they could be read"


@pytest.mark.parametrize("there", [False, True], ids=["removed", "kept"])
def test_files_removed_after_a_compressed_one_was_sent_are_a_loss(tmp_path: Path, there: bool) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    sent = pod.compress(pod.rotate())
    pod.current.unlink()
    with finding(tmp_path) as finder:
        receiver.take(finder)
    pod.write(lines(10, 10))
    lost = pod.compress(pod.rotate())
    pod.write(lines(20, 10))
    packed = pod.compress(pod.rotate())
    pod.write(lines(30, 10))
    if not there:
        sent.unlink()
        lost.unlink()
    for _ in range(2):
        with finding(tmp_path, receiver.record()) as finder:
            receiver.take(finder)
    assert receiver.data(pod) == (pod.written if there else lines(0, 10) + lines(20, 20))
    assert losses(receiver, pod) == ([] if there else [REMOVED.format(packed.name)])


def test_files_of_a_new_attempt_removed_while_away_are_a_loss(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
    pod.restart()
    pod.write(lines(10, 10))
    pod.rotate().unlink()
    pod.write(lines(20, 10))
    first = pod.rotate()
    pod.write(lines(30, 10))
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == lines(0, 10) + lines(20, 20)
    assert losses(receiver, pod) == [REMOVED.format(first.name)]


def test_files_removed_between_two_looks_are_a_loss(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        pod.rotate().unlink()
        pod.write(lines(10, 10))
        pod.rotate().unlink()
        pod.write(lines(20, 10))
        receiver.take(finder, 100.0)
        pod.restart()
        pod.write(lines(30, 10))
        receiver.take(finder, 200.0)
    assert receiver.data(pod) == lines(0, 10) + lines(20, 20)
    assert losses(receiver, pod) == [REMOVED.format("0.log")]


def slowly(monkeypatch: pytest.MonkeyPatch, directory: Path, meanwhile: Callable[[], object], times: int = 1) -> None:
    """During each of the next *times* listings of *directory*, after its names were read, *meanwhile* happens."""
    left = [meanwhile] * times

    def listing(of: str) -> list[os.DirEntry[str]]:
        names = listed(of)
        if left and of == str(directory):
            left.pop()()
        return names

    monkeypatch.setattr("flarelog.sources.containers.finder.listed", listing)


@pytest.mark.parametrize("times", [1, 3, 20])
@pytest.mark.parametrize("restarted", [False, True], ids=["watching", "restarted"])
def test_files_come_in_order_though_names_move_during_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool, times: int
) -> None:
    pod, receiver, at = Pod(tmp_path), Receiver(), iter(range(10, 10000, 10))

    def rotates() -> None:
        for _ in range(3):
            pod.rotate()
            pod.write(lines(next(at), 10))

    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        if not restarted:
            slowly(monkeypatch, pod.directory, rotates, times)
            receiver.take(finder, 100.0)
    if restarted:
        slowly(monkeypatch, pod.directory, rotates, times)
        with finding(tmp_path, receiver.record()) as finder:
            receiver.take(finder, 100.0)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


def test_a_known_file_that_a_listing_missed_is_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container, receiver = DockerContainer(tmp_path), Receiver()
    container.write(lines(0, 10))
    old = container.current.rename(f"{container.current}.1")
    container.write(lines(10, 10))
    hidden: list[str] = []
    monkeypatch.setattr(
        "flarelog.sources.containers.finder.listed",
        lambda of: [entry for entry in listed(of) if entry.name not in hidden],
    )
    with finding(tmp_path, layout="docker") as finder:
        receiver.take(finder)
        hidden.append(old.name)
        finder.look(100.0)
        finder.look(101.0)
        hidden.clear()
        receiver.take(finder, 200.0)
    assert receiver.data(container) == container.written


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("seen", [False, True], ids=["not-listed", "listed"])
def test_an_agent_that_takes_over_sends_nothing_again(tmp_path: Path, seen: bool, compressed: bool) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as first:
        receiver.take(first)
        with finding(tmp_path, receiver.record()) as second:
            for at in range(1, 4):
                old = pod.rotate()
                pod.write(lines(at * 10, 10))
                receiver.take(first, at * 100.0)
                if compressed:
                    pod.compress(old)
            pod.write(lines(40, 10))
            if seen:
                second.look(500.0)
            second.resume(receiver.record(), 500.0)
            receiver.take(second, 500.0)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


def test_an_agent_that_takes_over_keeps_the_order_of_files_that_are_gone(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as first:
        receiver.take(first)
        with finding(tmp_path, receiver.record()) as second:
            pod.rotate()
            pod.write(lines(10, 10))
            receiver.take(first, 100.0)
            pod.rotate()
            pod.write(lines(20, 10))
            second.look(100.0)
            pod.compress(pod.rotate()).unlink()
            pod.write(lines(30, 10))
            pod.rotate()
            pod.write(lines(40, 10))
            second.look(200.0)
            second.resume(receiver.record(), 200.0)
            receiver.take(second, 200.0)
    assert receiver.data(pod) == lines(0, 50)


def test_a_removed_pod_is_read_to_its_end(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        pod.write(lines(10, 10))
        pod.current.unlink()
        pod.directory.rmdir()
        pod.directory.parent.rmdir()
        receiver.take(finder, 100.0)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


def test_a_receiver_that_lost_bytes_gets_them_again_also_from_compressed_files(tmp_path: Path) -> None:
    pod, receiver, empty = Pod(tmp_path), Receiver(), Receiver()
    pod.write(lines(0, 10))
    pod.compress(pod.rotate())
    pod.write(lines(10, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        finder.resume([empty.logs.setdefault(pod.log, type(receiver.logs[pod.log])()).info(pod.log)], 100.0)
        empty.take(finder, 100.0)
    assert empty.data(pod) == pod.written


def test_a_drain_reads_all_that_waits(tmp_path: Path) -> None:
    pods = [Pod(tmp_path, name=f"web-{n}") for n in range(6)]
    receiver = Receiver()
    for pod in pods:
        for at in range(3):
            pod.write(lines(at * 10, 10))
            pod.compress(pod.rotate())
        pod.write(lines(30, 10))
    with finding(tmp_path) as finder:
        finder.drain(0.0)
        for _ in range(40):
            receiver.take(finder)
            finder.drain(0.0)
        assert finder.waiting == 0
        assert all(tail.drained(0.0) for tail in finder.logs.values())
    assert [receiver.data(pod) == pod.written for pod in pods] == [True] * 6


def test_a_directory_without_a_file_is_no_log_and_holds_up_no_drain(tmp_path: Path) -> None:
    empty, pod, receiver = Pod(tmp_path, name="empty"), Pod(tmp_path), Receiver()
    pod.write(lines(0, 1))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        assert set(finder.logs) == {pod.log}
        empty.directory.rmdir()
        receiver.take(finder, 100.0)
        finder.drain(200.0)
        receiver.take(finder, 200.0)
        assert all(tail.drained(200.0) for tail in finder.logs.values())


def test_the_writer_is_named_by_attributes(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(b"one\n")
    with finding(tmp_path) as finder:
        receiver.take(finder)
    values: dict[str, str] = {}
    for mark in receiver.marks(pod):
        values |= mark.values if isinstance(mark, Attributes) else {}
    assert values["k8s.pod.name"] == "web"
    assert values["k8s.container.name"] == "main"


def reports(pod: Pod, *changes: tuple[What, str, int]) -> list[Change]:
    """What the watch of the directory of *pod* reports."""
    return [Change(what, str(pod.directory), name, cookie) for what, name, cookie in changes]


def remove(pod: Pod) -> None:
    shutil.rmtree(pod.directory.parent)


NEW_ONE_LOST = "a newer file was removed before it could be read"


@pytest.mark.parametrize("ended", [False, True], ids=["goes-on", "was-read-to-its-end"])
@pytest.mark.parametrize("kind", ["attempt", "rotation", "deletion"])
def test_a_file_that_came_and_went_with_its_pod_is_a_loss(tmp_path: Path, kind: str, ended: bool) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        if ended:  # its file was removed a while before
            pod.current.unlink()
            receiver.take(finder, 1000.0)
        else:
            pod.write(lines(10, 10))
        remove(pod)
        deleted = [(What.DELETED, "0.log", 0), (What.DELETED, "1.log", 0)]
        seen = {
            "attempt": [(What.CREATED, "1.log", 0), (What.MODIFIED, "1.log", 0), *deleted],
            "rotation": [
                (What.MOVED_FROM, "0.log", 7),
                (What.MOVED_TO, "0.log.20261128-000001", 7),
                (What.CREATED, "0.log", 0),
                (What.CREATED, "0.log.20261128-000001.tmp", 0),
                (What.DELETED, "0.log.20261128-000001", 0),
                *deleted,
            ],
            "deletion": [(What.MODIFIED, "0.log", 0), *deleted],
        }[kind]
        finder._apply(reports(pod, *seen), 2000.0)
        receiver.take(finder, 2000.0)
    assert receiver.data(pod) == pod.written
    lost = [NEW_ONE_LOST if ended else "unseen"]
    assert losses(receiver, pod) == (lost if kind != "deletion" else [])


def test_a_drain_reports_a_file_that_came_and_went_just_before(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        remove(pod)
        finder._apply(reports(pod, (What.CREATED, "1.log", 0), (What.DELETED, "1.log", 0)), 50.0)
        finder.look(50.0)
        finder.drain(50.0)
        (tail,) = finder.logs.values()
        assert not tail.drained(50.0)
        stored = receiver.logs[pod.log]
        while (item := tail.next(stored.position, stored.marks_sent, 1 << 20, 50.0)) is not None:
            stored.sent.append(item)
        stored.arrive(len(stored.sent))
        assert tail.drained(50.0)
    assert losses(receiver, pod) == ["unseen"]


@pytest.mark.parametrize("kind", ["attempt", "rotation"])
def test_a_file_that_was_listed_and_went_with_its_pod_is_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        if kind == "rotation":
            pod.rotate()
        else:
            pod.restart()
        pod.write(lines(10, 10))
        open_file = SourceFile.open

        def late(*given: Any) -> SourceFile:
            remove(pod)
            return open_file(*given)

        monkeypatch.setattr(SourceFile, "open", late)
        receiver.take(finder, 100.0)
    assert receiver.data(pod) == lines(0, 10)
    assert losses(receiver, pod) == [NEW_ONE_LOST]


def test_files_that_are_rotated_and_compressed_while_their_reports_wait_are_no_loss(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        old = pod.rotate()
        pod.write(lines(10, 10))
        pod.compress(old)
        newer = pod.rotate()
        pod.compress(newer)
        pod.write(lines(20, 10))
        seen: list[tuple[What, str, int]] = []
        for cookie, name in ((1, old.name), (3, newer.name)):
            seen += [
                (What.MOVED_FROM, "0.log", cookie),
                (What.MOVED_TO, name, cookie),
                (What.CREATED, "0.log", 0),
                (What.MOVED_FROM, f"{name}.tmp", cookie + 1),
                (What.MOVED_TO, f"{name}.gz", cookie + 1),
                (What.DELETED, name, 0),
            ]
        finder._apply(reports(pod, *seen), 100.0)
        receiver.take(finder, 100.0)
        remove(pod)
        receiver.take(finder, 200.0)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


def test_a_link_is_not_followed_and_said(tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_bytes(b"secret\n")
    pod, receiver = Pod(tmp_path / "pods"), Receiver()
    pod.current.symlink_to(secret)
    with finding(tmp_path / "pods") as finder:
        receiver.take(finder)
        assert [str(pod.current) in one and "link" in one for one in finder.troubles] == [True]
    assert receiver.data(pod) == b""


def test_a_link_or_a_directory_that_is_gone_is_no_trouble_any_more(tmp_path: Path) -> None:
    pod, other = Pod(tmp_path), Pod(tmp_path, uid=f"{UID[:8]}-ffff-4c8e-9a6f-1e2d3c4b5a69")
    link = pod.directory / "1.log"
    link.symlink_to("nowhere")
    pod.write(b"one\n")
    other.write(b"two\n")
    with finding(tmp_path) as finder:
        assert sorted(finder.troubles) == [
            f"{link} cannot be read: it is a link; for Docker's own files use --source docker",
            f"{other.directory} cannot be read: the log of {pod.directory.relative_to(tmp_path)} has the same name,"
            f" {pod.log}",
        ]
        link.unlink()
        shutil.rmtree(other.directory)
        finder.look(1.0)
        assert not finder.troubles


def test_what_cannot_be_read_has_a_mark_in_its_log_and_is_a_gap_once_it_is_gone(tmp_path: Path) -> None:
    pod, link, damaged = (Pod(tmp_path, name=name) for name in ("denied", "link", "damaged"))
    twin = Pod(tmp_path, name="link", uid=f"{UID[:8]}-ffff-4c8e-9a6f-1e2d3c4b5a69")
    twin_log, receiver = f"{twin.directory.relative_to(tmp_path)}/.", Receiver()
    for each in (pod, link, damaged, twin):
        each.write(b"one\n")
    pod.current.chmod(0)
    linked = link.directory / "1.log"
    linked.symlink_to("0.log")
    packed = damaged.compress(damaged.rotate())
    packed.write_bytes(packed.read_bytes()[:-1])

    def told() -> dict[str, list[str | int]]:
        every = {name: receiver.logs[name].marks for name in (pod.log, link.log, damaged.log, twin_log)}
        return {
            name: [
                one.reason if isinstance(one, Unread) else one.length for one in marks if isinstance(one, Unread | Gap)
            ]
            for name, marks in every.items()
        }

    with unprivileged(), finding(tmp_path) as finder:
        receiver.take(finder)
        before = told()
        assert [reasons[0] for reasons in before.values()] == [
            "cannot be read: Permission denied",
            "cannot be read: it is a link; for Docker's own files use --source docker",
            "cannot be read: it ends within its content",
            f"cannot be read: the log of {link.directory.relative_to(tmp_path)} has the same name, {link.log}",
        ]
        for path in (pod.current, linked, packed):
            path.unlink()
        shutil.rmtree(twin.directory)
        receiver.take(finder, 100.0)
        assert told() == {
            name: [*before[name], *gap, ""] for name, gap in zip(before, ([4], [], [0], [0]), strict=True)
        }


def test_a_file_that_can_be_read_later_is_sent_also_by_a_later_agent(tmp_path: Path) -> None:
    pods, receiver = [Pod(tmp_path, name=name) for name in ("now", "later")], Receiver()
    for pod in pods:
        pod.write(b"one\n")
        pod.current.chmod(0)
    closed = Pod(tmp_path, name="closed")
    closed.write(b"two\n")
    closed.directory.parent.chmod(0)
    with unprivileged(), finding(tmp_path) as finder:
        receiver.take(finder)
        assert all(info.is_unread for info in receiver.record())
        pods[0].current.chmod(0o644)
        receiver.take(finder, 100.0)
    pods[1].current.chmod(0o644)
    closed.directory.parent.chmod(0o755)
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder, 200.0)
    assert [receiver.data(pod) for pod in (*pods, closed)] == [b"one\n", b"one\n", b"two\n"]
    assert not any(unread_at_end(info.marks) or info.gaps for info in receiver.record())


@pytest.mark.parametrize(("since", "gaps"), [(1, 1), (1 << 50, 0)], ids=["older", "newer"])
def test_a_file_that_is_older_than_all_that_are_there_and_was_not_read_is_a_gap(
    tmp_path: Path, since: int, gaps: int
) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(b"one\n")
    unread = Unread(0, EMPTY_DIGEST, "cannot be read: Permission denied", clock=since)
    receiver.logs[pod.log] = Stored(marks=[unread])
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == b"one\n"
    assert len(receiver.record()[0].gaps) == gaps
    assert receiver.record()[0].unread_rest == ""


def test_a_log_whose_rest_cannot_be_compared_stands_still_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(b"one\n")
    with finding(tmp_path) as finder:
        receiver.take(finder)
    pod.write(b"two\n")
    monkeypatch.setattr(Row, "settle", fails)
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder, 100.0)
        assert (receiver.data(pod), len(finder.troubles), finder.waiting) == (b"one\n", 1, 0)
        assert "cannot be compared" in receiver.record()[0].unread_rest
        finder.drain(200.0)
        assert finder.logs[pod.log].drained(200.0)
    monkeypatch.undo()
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder, 300.0)
        assert (receiver.data(pod), len(finder.troubles)) == (b"one\ntwo\n", 0)
    assert (receiver.record()[0].unread_rest, losses(receiver, pod)) == ("", [])


def fails(*args: object, **how: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_agent_that_looks_again_and_again_reports_a_link_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pod = Pod(tmp_path)
    pod.current.symlink_to(tmp_path / "nowhere")
    runs = ContainerRuns(ContainerOptions(str(tmp_path), "cri", run_from="path:{run}/**"))
    for _ in range(3):
        assert runs.look() == ({"ns": (ANY, ANY)}, [])
    assert caplog.text.count("cannot be read: it is a link") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"include": ("other/**",)},
            "no log of a container under ROOT is sent: options or the site's policy leave out 1 log",
        ),
        (
            {"run_from": "path:{run}-x/**"},
            "--run-from 'path:{run}-x/**' gives no run for any log, such as ns/web.6b2f7c1e/main.log",
        ),
    ],
    ids=["left-out", "no-run"],
)
def test_why_no_run_has_a_log_is_said(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    Pod(tmp_path).write(b"one\n")
    wanted = ContainerOptions(str(tmp_path), "cri", **{"run_from": "path:{run}/**"} | options)
    assert ContainerRuns(wanted).unmatched() == sentence.replace("ROOT", str(tmp_path))


class Says:
    """An API that says *facts* of each pod."""

    listed, version = True, 1

    def __init__(self, facts: Facts | None) -> None:
        self._facts = facts

    def of(self, uid: str) -> Facts | None:
        return self._facts


class Silent:
    """An API that does not answer."""

    listed, version = False, 0

    def of(self, uid: str) -> Facts | None:
        return None


def test_an_api_that_tells_no_run_because_it_does_not_answer_is_said(tmp_path: Path) -> None:
    Pod(tmp_path).write(b"one\n")
    wanted = ContainerOptions(str(tmp_path), "cri", run_from="label:team", pods=Silent())
    sentence = "the Kubernetes API, which --run-from 'label:team' asks, has not answered"
    assert ContainerRuns(wanted).unmatched() == sentence


class Names:
    """An API that has named the pods of *team*."""

    version = 0

    def __init__(self, *named: Pod, listed: bool = True) -> None:
        self.named, self.listed = list(named), listed

    def of(self, uid: str) -> Facts | None:
        pod = next((pod for pod in self.named if pod.uid == uid), None)
        return Facts(uid, "ns", pod.name, "", {"team": "blue"} if pod.name != "none" else {}, "", {}) if pod else None


@pytest.mark.parametrize("listed", [True, False])
def test_the_logs_of_pods_that_the_api_has_not_named_are_counted(tmp_path: Path, listed: bool) -> None:
    known, other, third, free = (
        Pod(tmp_path, name=name, uid=f"{n}b2f7c1e-0d43") for n, name in enumerate(("known", "other", "third", "none"))
    )
    for pod in (known, other, third, free):
        pod.write(b"one\n")
    api = Names(known, free, listed=listed)
    runs = ContainerRuns(ContainerOptions(str(tmp_path), "cri", run_from="label:team", pods=api))
    assert runs.look() == ({"blue": (ANY, ANY)}, [])
    asked = "the Kubernetes API, which --run-from 'label:team' asks, has not"
    silent = f"{asked} answered"
    assert runs.unknown() == "2 logs were not sent, such as ns/other.1b2f7c1e/main.log: " + (
        f"{asked} named their pods" if listed else silent
    )
    api.named = [third]  # it forgets a pod that was deleted, whose files are still there
    runs.look()
    assert runs.unknown().endswith(f"{asked} named their pods" if listed else silent)
    api.named = [other, third]
    assert runs.look() == ({"blue": (ANY, ANY)}, [])
    assert (
        runs.unknown()
        == f"1 log was not sent, ns/none.3b2f7c1e/main.log: {silent if not listed else asked + ' named its pod'}"
    )


def test_a_damaged_compressed_file_is_said_and_holds_up_nothing(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 1000))
    packed = pod.compress(pod.rotate())
    packed.write_bytes(packed.read_bytes()[:-100])
    pod.write(lines(1000, 10))
    with finding(tmp_path) as finder:
        receiver.take(finder)
        assert [str(packed) in one for one in finder.troubles] == [True]
    assert receiver.data(pod) == lines(1000, 10)


def test_a_compressed_file_waits_until_there_is_room_for_it_and_others_go_on(tmp_path: Path) -> None:
    pod, other, receiver = Pod(tmp_path / "pods"), Pod(tmp_path / "pods", name="other"), Receiver()
    pod.write(lines(0, 1000))
    packed = pod.compress(pod.rotate())
    pod.write(lines(1000, 10))
    other.write(lines(0, 10))
    state = tmp_path / "state"
    state.touch()
    containers = Containers(ContainerOptions(str(tmp_path / "pods"), "cri"), state=str(state))
    with contextlib.closing(containers) as finder:
        finder.learn([], 0.0)
        receiver.take(finder)
        (trouble,) = finder.troubles
        assert trouble == f"{packed} cannot be unpacked in {state} yet: Not a directory"
        assert receiver.data(pod) == b""
        assert receiver.data(other) == other.written
        state.unlink()  # then it is made
        receiver.take(finder, 100.0)
        assert not finder.troubles
    assert receiver.data(pod) == pod.written


def test_a_large_compressed_file_is_unpacked_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flarelog.sources.containers.finder.SLICE", 3000)
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 1000))
    pod.compress(pod.rotate())
    pod.write(lines(1000, 10))
    with finding(tmp_path) as finder:
        looks = 0
        while finder.waiting:
            finder.look(0.0)
            looks += 1
        assert looks >= len(pod.written) // 3000 - 2
        receiver.take(finder)
    assert receiver.data(pod) == pod.written


def test_dockers_files_are_read_in_order_though_each_rotation_renames_all(tmp_path: Path) -> None:
    container, receiver = DockerContainer(tmp_path), Receiver()
    for at in range(3):
        container.write(lines(at * 10, 10))
        container.rotate(5)
    container.write(lines(30, 10))
    for start in range(3):
        with finding(tmp_path, receiver.record(), layout="docker") as finder:
            for at in range(3):
                receiver.take(finder, at * 100.0)
                container.write(lines(100 * start + at * 10, 10))
                if at:
                    finder.look(at * 100.0 + 50)
                container.rotate(5)
            receiver.take(finder, 9000.0)
        container.write(lines(1000 + start, 1))
        container.rotate(5)
    with finding(tmp_path, receiver.record(), layout="docker") as finder:
        receiver.take(finder)
    assert receiver.data(container) == container.written
    assert losses(receiver, container) == []


def test_dockers_files_removed_after_a_compressed_one_was_sent_are_a_loss(tmp_path: Path) -> None:
    container, receiver = DockerContainer(tmp_path), Receiver()
    container.write(lines(0, 10))
    container.rotate(3)
    container.current.unlink()
    with finding(tmp_path, layout="docker") as finder:
        receiver.take(finder)
    for at in range(1, 4):
        container.write(lines(at * 10, 10))
        container.rotate(3)
    with finding(tmp_path, receiver.record(), layout="docker") as finder:
        receiver.take(finder)
    assert receiver.data(container) == lines(0, 10) + lines(20, 20)
    assert losses(receiver, container) == [REMOVED.format(f"{container.current.name}.2.gz")]


@pytest.mark.parametrize("attempt", [1, 3])
def test_attempts_that_were_gone_before_the_first_look_are_a_gap_if_the_container_came_meanwhile(
    tmp_path: Path, attempt: int
) -> None:
    receiver = Receiver()
    with finding(tmp_path, since=1) as finder:
        pod = Pod(tmp_path, attempt=attempt)
        pod.write(b"what is left\n")
        receiver.take(finder)
    gone = (
        "the log of attempt 0 was gone before it"
        if attempt == 1
        else "the logs of attempts 0 to 2 were gone before they"
    )
    gap, *others = receiver.marks(pod)
    assert gap == Gap(0, EMPTY_DIGEST, 0, f"{gone} could be read")
    assert not any(isinstance(mark, Gap) for mark in others)
    with finding(tmp_path, receiver.record()) as finder:
        receiver.take(finder)
    assert [mark for mark in receiver.marks(pod) if isinstance(mark, Gap)] == [gap]
    assert receiver.data(pod) == b"what is left\n"


@pytest.mark.parametrize("came", [False, True])
def test_rotated_files_may_be_missing_where_a_container_came_unseen(tmp_path: Path, came: bool) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    rotated = list[Path]()
    for at in range(0, 40, 10):
        pod.write(lines(at, 10))
        rotated.append(pod.rotate())
    for gone in rotated[:2]:
        gone.unlink()
    with finding(tmp_path, since=1 if came else 0) as finder:
        receiver.take(finder)
    assert losses(receiver, pod) == ([REMOVED.format(rotated[2].name)] if came else [])


def test_a_container_that_was_rotated_once_before_the_first_look_is_whole(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    pod.rotate()
    pod.write(lines(10, 10))
    with finding(tmp_path, since=1) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == pod.written
    assert losses(receiver, pod) == []


def test_a_file_that_was_listed_and_went_before_it_could_be_opened_is_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, receiver = Pod(tmp_path), Receiver()
    pod.write(lines(0, 10))
    oldest = pod.rotate()
    pod.write(lines(10, 10))
    kept = pod.rotate()
    pod.write(lines(20, 10))
    opened = SourceFile.open

    def removed(root: str, path: str, now: float) -> SourceFile:
        oldest.unlink(missing_ok=True)
        return opened(root, path, now)

    monkeypatch.setattr(SourceFile, "open", removed)
    with finding(tmp_path) as finder:
        receiver.take(finder)
    assert receiver.data(pod) == lines(10, 20)
    assert losses(receiver, pod) == [REMOVED.format(kept.name)]


def test_a_container_that_was_there_before_the_agent_is_taken_as_it_is(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path, attempt=3), Receiver()
    pod.write(b"what is left\n")
    with finding(tmp_path) as finder:
        receiver.take(finder)
    assert not any(isinstance(mark, Gap) for mark in receiver.marks(pod))


@pytest.mark.parametrize(
    ("phase", "there", "goes_on"),
    [
        ("Running", True, True),
        ("Succeeded", True, False),
        ("Failed", True, False),
        ("", True, True),
        ("", False, False),
    ],
)
def test_an_agent_that_leaves_does_not_end_the_log_of_a_container_that_may_go_on(
    tmp_path: Path, phase: str, there: bool, goes_on: bool
) -> None:
    pod = Pod(tmp_path)
    pod.write(b"so far\n")
    facts = facts_of({"metadata": {"uid": UID}, "status": {"phase": phase}}) if phase else None
    with finding(tmp_path, pods=Says(facts)) as finder:
        Receiver().take(finder)
        tail = finder.logs[pod.log]
        if not there:
            shutil.rmtree(pod.directory.parent)
        finder.leave()
        finder.drain(0.0)
        assert tail.goes_on is goes_on
