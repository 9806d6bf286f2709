"""The copies of a node's containers: which are made, and what is known of them."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flarelog.sources.kubelet.mirror import Mirror
from tests.sources.containers.node import Pod
from tests.sources.kubelet.test_copy import Files


@contextmanager
def mirrored(tmp_path: Path, wanted: Callable[[str], bool] = lambda directory: True) -> Iterator[Mirror]:
    (tmp_path / "pods").mkdir(exist_ok=True)
    mirror = Mirror(Files(tmp_path), wanted, str(tmp_path))
    mirror.drain()  # so that a look starts no copying of later bytes
    try:
        yield mirror
    finally:
        shutil.rmtree(Path(mirror.root).parent)


def look(mirror: Mirror) -> None:
    assert asyncio.run(mirror._look()) is None


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
