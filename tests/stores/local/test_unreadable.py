"""What a store cannot read is named by every reader, and no log of it counts as complete."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flarelog.cli import main
from flarelog.errors import Full, Unavailable, Unreadable
from flarelog.model import Receipt, StreamId, StreamInfo
from flarelog.receiver.phases import Phase, present
from flarelog.stores.directory import Directory
from flarelog.stores.local.reader import LocalReader
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.health import unread
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.selection import Selection
from tests.contracts.store import A

READABLE = StreamId("r1", "s1", "a.log")
PLACES = {
    "the directory of a run": ("r1", "r1/-: its logs"),
    "the directory of a site": ("r1/s2", "r1/s2: its logs"),
    "a directory below a site": ("r1/s2/sub", "r1/s2: sub"),
    "a journal": ("r1/s2/.b.log.journal", "r1/s2: b.log"),
    "a log without a receipt": ("r1/s2/open.log", "r1/s2: open.log"),
    "the record of logs that are not stored": ("r1/.s2.unstored", "r1/s2: its logs"),
}


def run(go: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(go)


async def filled(root: Path) -> None:
    async with LocalStore(root, "memory") as store:
        for site, log in (("s1", "a.log"), ("s2", "b.log"), ("s2", "open.log"), ("s2", "sub/c.log")):
            appender = await store.appender(StreamId("r1", site, log), A)
            await appender.append(0, b"a line\n")
            if log != "open.log":
                await appender.sync()
                await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()
        (root / "r1/.s2.unstored").write_bytes(b"\n")


Denied = Callable[[str, int], None]


@pytest.fixture
def denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Denied]:
    """Makes a path of the store fail, whose permissions do not bind root."""

    def deny(below: str, code: int = errno.EACCES) -> None:
        path, open_, scandir, listdir = os.fspath(tmp_path / below), Directory.open, os.scandir, os.listdir

        def check(asked: Any, name: str = "") -> None:
            if os.fspath(asked) == path:
                raise OSError(code, os.strerror(code), name or path)

        def opened(self: Directory, name: str, flags: int) -> int:
            check(self.path / name, name)
            return open_(self, name, flags)

        def scanned(place: Any = ".") -> Any:
            check(place)
            return scandir(place)

        def listed(place: Any = ".") -> list[str]:
            if not isinstance(place, int):
                check(place)
            return listdir(place)

        monkeypatch.setattr(Directory, "open", opened)
        monkeypatch.setattr(os, "scandir", scanned)
        monkeypatch.setattr(os, "listdir", listed)

    run(filled(tmp_path))
    yield deny
    monkeypatch.undo()


async def of_store(root: Path) -> list[StreamInfo]:
    return [info for info in await StoreOrigin(root).streams("r1", unstored=True) if info.unstored]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO], ids=("permission", "disk"))
@pytest.mark.parametrize("place", PLACES)
def test_an_entry_names_it_and_the_path(place: str, code: int, tmp_path: Path, denied: Denied) -> None:
    path, named = PLACES[place]
    denied(path, code)
    (entry,) = run(of_store(tmp_path))
    assert unread([entry]) == [f"{named} cannot be read in the store: {os.strerror(code)} ({tmp_path / path})"]
    assert present(entry).phase is Phase.UNREAD
    (info,) = run(StoreOrigin(tmp_path).infos("r1"))
    assert info.unstored == 1


@pytest.mark.parametrize("place", PLACES)
def test_every_command_that_reads_names_it_and_none_succeeds(
    place: str, tmp_path: Path, denied: Denied, capfd: pytest.CaptureFixture[str]
) -> None:
    path, named = PLACES[place]
    denied(path, errno.EACCES)
    sentence = f"{named} cannot be read in the store"
    for words, code in (
        (("status", "r1", "--exit-status"), 7),
        (("streams", "r1"), 0),
        (("verify",), 1),
        (("verify", "r1"), 1),
        (("report", "r1", "-o", "-", "--format", "md"), 1),
        (("findings", "r1"), 1),
        (("logs", "r1", "--exit-status"), 1),
        (("logs", "r1", "-o", "raw"), 1),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--store", str(tmp_path)])
        said = "".join(capfd.readouterr())
        assert (ended.value.code or 0, sentence in said) == (code, True), (words, said)
    assert "empty" not in CliRunner().invoke(main, ["runs", "--store", str(tmp_path)]).output


def test_a_reader_who_asks_for_other_logs_is_not_concerned(tmp_path: Path, denied: Denied) -> None:
    denied("r1/s2/sub", errno.EACCES)
    (entry,) = run(of_store(tmp_path))
    assert Selection("r1", ("s2",), ("sub/*",)).lacks(entry)
    assert not Selection("r1", ("s2",), ("other/*.log",)).lacks(entry)
    assert not Selection("r1", ("s1",)).lacks(entry)


def test_all_logs_of_a_site_may_lie_in_its_directory(tmp_path: Path, denied: Denied) -> None:
    denied("r1/s2", errno.EACCES)
    (entry,) = run(of_store(tmp_path))
    assert Selection("r1", ("s2",), ("sub/*",)).lacks(entry)
    assert not Selection("r1", ("s1",)).lacks(entry)


def test_a_list_for_other_purposes_omits_it(tmp_path: Path, denied: Denied) -> None:
    async def listed() -> list[StreamId]:
        return [info.stream async for info in LocalReader(tmp_path).list("r1/")]

    denied("r1/s2", errno.EACCES)
    assert run(listed()) == [READABLE]


def test_its_stream_is_unreadable_and_not_missing(tmp_path: Path, denied: Denied) -> None:
    denied("r1/s2/.b.log.journal", errno.EACCES)
    with pytest.raises(Unreadable, match=r"Permission denied .*\.b\.log\.journal"):
        run(LocalReader(tmp_path).info(StreamId("r1", "s2", "b.log")))


@pytest.mark.parametrize("place", PLACES)
def test_a_reader_without_descriptors_reports_no_damage(place: str, tmp_path: Path, denied: Denied) -> None:
    denied(PLACES[place][0], errno.EMFILE)
    with pytest.raises(Full):
        run(of_store(tmp_path))


def test_an_unreadable_store_is_not_an_empty_one(tmp_path: Path, denied: Denied) -> None:
    denied("", errno.EACCES)
    with pytest.raises(Unavailable, match="Permission denied"):
        run(LocalReader(tmp_path).names())


def test_a_directory_that_is_no_streams_is_skipped(tmp_path: Path, denied: Denied) -> None:
    (tmp_path / "lost+found").mkdir()
    denied("lost+found", errno.EACCES)
    found = CliRunner().invoke(main, ["status", "--store", str(tmp_path)])
    assert "cannot be read" not in found.output


def test_a_receiver_logs_each_of_the_first_few_once(
    tmp_path: Path, denied: Denied, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            for _ in range(3):
                assert [info.stream async for info in store.list()] == [READABLE]

    denied("r1/s2", errno.EACCES)
    with caplog.at_level(logging.WARNING, "flarelog"):
        run(go())
    (message,) = caplog.messages
    assert str(tmp_path / "r1/s2") in message
