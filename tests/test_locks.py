"""The holder of a file's lock, and the fallback on file systems without locks or with those of NFS."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import pytest

from flarelog import locks
from flarelog.cli.ready import ready_file
from flarelog.errors import NotAllowed
from flarelog.sources.process.names import hold
from flarelog.stores.local import lock as of_a_store
from flarelog.stores.local.store import LocalStore


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system like Lustre, mounted without locks."""

    def refused(fd: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refused)


@pytest.fixture
def nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS maps flock(2) to fcntl(2), whose locks need the file open for writing if exclusive, for reading if shared."""
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == (os.O_RDONLY if operation & fcntl.LOCK_EX else os.O_WRONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize(
    ("theirs", "shared", "is_"),
    [
        pytest.param(None, False, True, id="nobody-has-it"),
        pytest.param(False, False, False, id="one-has-it"),
        pytest.param(False, True, False, id="one-has-it-and-is-asked-about"),
        pytest.param(True, True, True, id="two-share-it"),
        pytest.param(True, False, False, id="it-is-shared"),
    ],
)
def test_a_lock_is_had_by_one_or_shared(tmp_path: Path, theirs: bool | None, shared: bool, is_: bool) -> None:
    with open(tmp_path / "a", "w+b") as first, open(tmp_path / "a", "r+b") as second:
        if theirs is not None:
            assert locks.take(first.fileno(), shared=theirs)
        assert locks.take(second.fileno(), shared=shared) is is_


@pytest.mark.usefixtures("without_locks")
def test_without_locks_nobody_can_tell(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w+b") as file:
        assert locks.take(file.fileno()) is None


@pytest.mark.usefixtures("without_locks")
def test_a_ready_file_without_locks_is_replaced_by_the_next_server(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_text("127.0.0.1:1\n")
    with ready_file(str(path)) as write:
        assert not path.exists()
        write("127.0.0.1:2", "")
        assert path.read_text() == "127.0.0.1:2\n"


@pytest.mark.usefixtures("without_locks")
def test_a_command_without_locks_has_the_name_that_it_asked_for(tmp_path: Path) -> None:
    for _ in range(2):
        assert hold(str(tmp_path), "a", apart=False, logs=lambda named: [named]).log == "a"


@pytest.mark.usefixtures("without_locks")
def test_a_store_without_locks_is_not_written_and_nobody_is_accused(tmp_path: Path) -> None:
    async def opened() -> None:
        async with LocalStore(tmp_path / "store"):
            pass

    with pytest.raises(NotAllowed, match=f"the store {tmp_path}/store is on a file system without locks, "):
        asyncio.run(opened())
    assert of_a_store.is_taken(tmp_path / "store"), "another machine may have it"


@pytest.mark.usefixtures("nfs")
def test_on_nfs_the_ready_file_of_a_server_that_lives_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    with ready_file(str(path)) as write:
        write("127.0.0.1:1", "")
        with ready_file(str(path)):
            assert path.read_text() == "127.0.0.1:1\n"


@pytest.mark.usefixtures("nfs")
def test_on_nfs_a_name_is_held_and_a_store_is_taken(tmp_path: Path) -> None:
    async def opened() -> None:
        async with LocalStore(tmp_path / "store"):
            assert of_a_store.is_taken(tmp_path / "store")
        assert not of_a_store.is_taken(tmp_path / "store")

    asyncio.run(opened())
    held = [hold(str(tmp_path), "a", apart=False, logs=lambda named: [named]) for _ in range(2)]
    assert [place.log for place in held] == ["a", "a-2"]
    for place in held:
        os.close(place.lock)
