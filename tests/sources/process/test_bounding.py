"""torchrun's files of each rank are emptied when they become too large, and no other files are."""

from __future__ import annotations

import os
from pathlib import Path

from flarelog.sources.process.bounding import EVERY, LEAST, Bounding, bounding


def filled(path: Path, size: int) -> Path:
    """A file that takes so many bytes on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return path


def test_what_is_too_large_is_emptied_and_its_writer_goes_on(tmp_path: Path) -> None:
    large, small = filled(tmp_path / "a/attempt_0/0/stdout.log", LEAST + 8192), filled(tmp_path / "b", 8192)
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    with large.open("r+b") as writer:
        writer.seek(0, os.SEEK_END)
        one = Bounding(str(tmp_path), 1, 5.0)
        assert one.due == 5.0 + EVERY
        one.look(7.0)
        assert one.due == 7.0 + EVERY
        assert (large.stat().st_size, small.stat().st_size, sparse.stat().st_size) == (0, 8192, 1 << 40)
        writer.write(b"more")
    one.look(8.0)
    assert large.stat().st_size == LEAST + 8192 + 4
    assert large.stat().st_blocks * 512 <= 8192


def test_neither_a_link_nor_what_is_not_there_is_touched(tmp_path: Path) -> None:
    outside = filled(tmp_path / "theirs", LEAST + 8192)
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "link").symlink_to(outside)
    (tmp_path / "ranks" / "there").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "ranks" / "pipe")
    Bounding(str(tmp_path / "ranks"), 1, 0.0).look(1.0)
    Bounding(str(tmp_path / "gone"), 1, 0.0).look(1.0)
    assert outside.stat().st_size == LEAST + 8192


def test_only_a_directory_that_flarelog_chose_is_bounded() -> None:
    def bounded(directory: str, root: str | None) -> bool:
        return bounding({"PET_LOG_DIR": directory} if directory else {}, root, 1, 0.0) is not None

    assert bounded("/spool/job/ranks", "/spool/job")
    assert bounded("/spool/job/deep/ranks", "/spool/job")
    assert not bounded("/home/me/ranks", "/spool/job")
    assert not bounded("/spool/job-2/ranks", "/spool/job")
    assert not bounded("/spool/job/logs", "/spool/job")
    assert not bounded("", "/spool/job")
    assert not bounded("/spool/job/ranks", None)
