"""The copies of a node's containers: which are made, and what is known of them."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flarelog.errors import FlarelogError
from flarelog.model import Gap
from flarelog.sources.kubelet import mirror as mirrors
from flarelog.sources.kubelet.mirror import Mirror
from tests.sources.containers.node import Pod, Receiver, finding
from tests.sources.kubelet.test_copy import Files


@contextmanager
def mirrored(
    tmp_path: Path, wanted: Callable[[str], bool] = lambda directory: True, server: Files | None = None
) -> Iterator[Mirror]:
    (tmp_path / "pods").mkdir(exist_ok=True)
    mirror = Mirror(server or Files(tmp_path), wanted, str(tmp_path))
    mirror.drain()  # so that a look starts no copying of later bytes
    try:
        yield mirror
    finally:
        shutil.rmtree(Path(mirror.root).parent, ignore_errors=True)


def look(mirror: Mirror) -> None:
    assert asyncio.run(mirror._look_and_add()) is None


def directory_of(pod: Pod) -> str:
    return str(pod.directory.relative_to(pod.root))


def test_once_nothing_is_sent_before_all_of_it_is_copied_and_known_to_be_whole(tmp_path: Path) -> None:
    with mirrored(tmp_path) as mirror:
        pod, found = Pod(tmp_path / "pods"), list[tuple[bytes, bool]]()
        pod.write(b"line\n" * 1000)

        class Sender:
            async def run(self) -> int:
                copied = Path(mirror.root, directory_of(pod), "0.log").read_bytes()
                found.append((copied, mirror.seen(directory_of(pod)) > -math.inf))
                return 0

            def drain(self) -> None: ...

        assert asyncio.run(mirror.run([Sender()], once=True)) == [0]
        assert found == [(bytes(pod.written), True)]
        Path(mirror.root).parent.mkdir()  # for the end of the block


def test_only_a_container_that_came_after_the_first_look_is_new(tmp_path: Path) -> None:
    with mirrored(tmp_path) as mirror:
        older = Pod(tmp_path / "pods", uid="1" * 8)
        older.write(b"line\n")
        look(mirror)
        newer = Pod(tmp_path / "pods", uid="2" * 8)
        newer.write(b"line\n")
        for _ in range(2):
            look(mirror)
            assert mirror.came(directory_of(newer))
            assert not mirror.came(directory_of(older))


def test_a_container_that_was_there_and_was_not_wanted_is_not_new(tmp_path: Path) -> None:
    labelled = False
    with mirrored(tmp_path, lambda directory: labelled) as mirror:
        pod = Pod(tmp_path / "pods")
        pod.write(b"line\n")
        look(mirror)
        labelled = True
        look(mirror)
        assert Path(mirror.root, directory_of(pod), "0.log").exists()
        assert not mirror.came(directory_of(pod))


class Quiet:
    """A sender of nothing."""

    async def run(self) -> int:
        return 0

    def drain(self) -> None: ...


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no later answer."""
    monkeypatch.setattr(mirrors, "ANSWERS_WITHIN", 0.0)


def run(mirror: Mirror) -> list[int]:
    """The exit codes of what is sent once."""
    mirror._draining.clear()
    return asyncio.run(mirror.run([Quiet()], once=True))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("what", ["listing", "file", "pod"])
def test_once_does_not_end_well_without_a_container_that_could_not_be_read(tmp_path: Path, what: str) -> None:
    server, read, unread = Files(tmp_path), Pod(tmp_path / "pods", uid="1" * 8), Pod(tmp_path / "pods", uid="2" * 8)
    path = {"listing": unread.directory, "file": unread.current, "pod": unread.directory.parent}[what]
    server.refused.add(str(path.relative_to(tmp_path)))
    for pod in (read, unread):
        pod.write(b"line\n")
    with mirrored(tmp_path, server=server) as mirror:
        assert run(mirror) == [0, 7]


@pytest.mark.usefixtures("at_once")
def test_once_says_why_no_file_could_be_read_though_it_is_listed(tmp_path: Path) -> None:
    server, pod = Files(tmp_path), Pod(tmp_path / "pods")
    pod.write(b"line\n")
    server.refused.add(str(pod.current.relative_to(tmp_path)))
    with mirrored(tmp_path, server=server) as mirror, pytest.raises(FlarelogError, match=r"0\.log with 500"):
        run(mirror)


def test_no_container_waits_for_the_first_copy_of_another(tmp_path: Path) -> None:
    class Held(Files):
        """Gives the log of one container only after ``free`` is set."""

        def __init__(self, root: Path, held: Path) -> None:
            super().__init__(root)
            self._held, self.free = str(held.relative_to(root)), asyncio.Event()

        async def piece(self, path: str, begin: int, length: int) -> tuple[bytes, int] | None:
            if path == self._held:
                await self.free.wait()
            return await super().piece(path, begin, length)

    long, short = (Pod(tmp_path / "pods", uid=digit * 8) for digit in "12")
    for pod in (long, short):
        pod.write(b"line\n")
    server = Held(tmp_path, long.current)

    async def looks(mirror: Mirror) -> None:
        later = Pod(tmp_path / "pods", uid="3" * 8)
        later.write(b"line\n")
        await mirror._look()  # the container that came later is found in spite of the long one
        while not {directory_of(short), directory_of(later)} <= mirror._copies.keys():
            await asyncio.sleep(0)
        assert directory_of(long) not in mirror._copies
        server.free.set()
        await mirror._look_and_add()
        assert directory_of(long) in mirror._copies

    with mirrored(tmp_path, server=server) as mirror:
        asyncio.run(looks(mirror))


def test_a_container_is_blind_from_a_look_that_fails_to_one_that_does_not(tmp_path: Path) -> None:
    server, pod = Files(tmp_path), Pod(tmp_path / "pods")
    pod.write(b"line\n")
    directory, file = directory_of(pod), str(pod.current.relative_to(tmp_path))
    with mirrored(tmp_path, server=server) as mirror:
        look(mirror)
        assert not mirror.blind(directory)
        for refused, blind in (({file}, True), (set[str](), False)):
            server.refused = refused
            asyncio.run(mirror._update(directory, mirror._copies[directory]))
            assert bool(mirror.blind(directory)) is blind


def test_a_container_of_a_pod_that_could_not_be_listed_at_first_is_not_new_and_none_is_gone(tmp_path: Path) -> None:
    server = Files(tmp_path)
    pods = [Pod(tmp_path / "pods", uid=digit * 8) for digit in "12"]
    for pod in pods:
        pod.write(b"line\n")
    with mirrored(tmp_path, server=server) as mirror:
        refused = str(pods[0].directory.parent.relative_to(tmp_path))
        for now in ({refused}, set[str](), {refused}):
            server.refused = now
            assert (asyncio.run(mirror._look_and_add()) is not None) is bool(now)
            assert not any(mirror.came(directory_of(pod)) for pod in pods)
        assert all(Path(mirror.root, directory_of(pod), "0.log").exists() for pod in pods)


def test_what_may_be_missing_before_a_copy_is_a_gap_of_the_log(tmp_path: Path) -> None:
    pod, receiver = Pod(tmp_path / "pods"), Receiver()

    def copy() -> None:
        asyncio.run(mirror._to_the_end(directory_of(pod), mirror._copies[directory_of(pod)]))

    pod.write(b"first\n")
    with mirrored(tmp_path) as mirror, finding(Path(mirror.root), copies=mirror) as finder:
        look(mirror)
        rotated = pod.rotate()
        copy()
        receiver.take(finder)
        rotated.unlink()
        pod.write(b"removed\n")
        pod.rotate().unlink()
        pod.write(b"last\n")
        copy()
        receiver.take(finder, 100.0)
    assert receiver.data(pod) == b"first\nlast\n"
    (gap,) = [mark for mark in receiver.marks(pod) if isinstance(mark, Gap)]
    assert gap.offset == len(b"first\n")


def test_rotated_files_may_be_missing_where_a_container_came_and_was_rotated_before_its_first_listing(
    tmp_path: Path,
) -> None:
    for rotated, before in ((1, False), (2, False), (2, True)):
        root = tmp_path / f"{rotated}-{before}"
        root.mkdir()
        with mirrored(root) as mirror, finding(Path(mirror.root), copies=mirror) as finder:
            if not before:
                look(mirror)
            pod, receiver = Pod(root / "pods"), Receiver()
            for number in range(rotated):
                pod.write(b"line %d\n" % number)
                pod.rotate()
            look(mirror)
            receiver.take(finder)
            assert receiver.data(pod) == pod.written
            gaps = [mark for mark in receiver.marks(pod) if isinstance(mark, Gap)]
            assert len(gaps) == (rotated == 2 and not before)
