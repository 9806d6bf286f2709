"""The files under a root as a finder."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from flarelog.model import SPOOL, Ended, Generation, Mark, State, StreamId, StreamInfo
from flarelog.sources.base import Finder
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.finder import Files
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.watch import PollWatch
from tests.contracts.finder import CONTRACT, PATIENCE, World


class Directory:
    """Files in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, log: str, data: bytes) -> None:
        path = self.root / log
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            file.write(data)

    @contextlib.contextmanager
    def finder(self) -> Iterator[Finder]:
        files = Files(SourceOptions(str(self.root)))
        try:
            yield files
        finally:
            files.close()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(check: Callable[[World], None], tmp_path: Path) -> None:
    check(Directory(tmp_path))


def test_a_root_is_missing_until_it_was_there(tmp_path: Path) -> None:
    place = Directory(tmp_path / "root")
    with place.finder() as finder:
        finder.learn([], 0.0)
        assert finder.missing == f"the root {tmp_path / 'root'}"
        place.write("a.log", b"one\n")
        finder.drain(0.0)
        assert finder.missing == ""


def held(log: str, *more: Mark, linked: bool | None = False, sealed: bool = False, notes: str = "") -> StreamInfo:
    """The receiver's record of a log of one file."""
    begin = Generation(0, 0, log, 0, "1:2:3", notes=notes)
    return StreamInfo(StreamId("run", "site", log), 0, 4, 0, sealed, (begin, *more), state=State(linked))


def test_a_log_that_was_deleted_while_nobody_watched_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = Directory(tmp_path)
    place.write("here.log", b"one\n")
    record = [
        held("gone.log"),
        held("here.log"),
        held("ended.log", Ended(4, 0, "removed")),
        held("sealed.log", sealed=True),
        held("of-another.log", linked=True),
        held("unknown.log", linked=None),
        held("of-a-command.log", notes=f"{SPOOL}:token:0"),
        held("model.pt"),
        StreamInfo(StreamId("run", "site", "opened.log"), 0, 0, 0, False, state=State(False)),
        StreamInfo(StreamId("run", "site", "opened-by-another.log"), 0, 0, 0, False, state=State(True)),
    ]
    with place.finder() as finder:
        finder.learn(record, 0.0)
        assert not finder.troubles
    why = "bytes of it and no end, no sidecar sends it, and there is no file"
    assert caplog.messages == [
        f"gone.log is not sent: the receiver holds 4 {why} {tmp_path}/gone.log",
        f"opened.log is not sent: the receiver holds 0 {why} {tmp_path}/opened.log",
    ]


def test_a_look_that_fails_is_said_once_and_the_next_one_does_better(
    tmp_path: Path, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    place = Directory(tmp_path)
    usual, failures = Discovery.look, [ZeroDivisionError("a bug"), ZeroDivisionError("a bug")]

    def look(self: Discovery, now: float) -> set[str]:
        if failures:
            raise failures.pop()
        return usual(self, now)

    mocker.patch.object(Discovery, "look", look)

    async def until_found(finder: Finder) -> None:
        found = asyncio.Event()

        def changed(logs: set[str]) -> None:
            if logs:
                found.set()
            else:
                place.write("a.log", b"x")

        watching = asyncio.create_task(finder.watch(changed))
        async with asyncio.timeout(PATIENCE):
            await found.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    watch = PollWatch()
    watch.slow_poll = 0.02
    finder = Files(SourceOptions(str(tmp_path)), watch=watch)
    with contextlib.closing(finder), caplog.at_level(logging.ERROR):
        asyncio.run(until_found(finder))
        assert list(finder.troubles) == ["the search for files failed: ZeroDivisionError('a bug')"]
        assert "a.log" in finder.logs
    assert [record.exc_info is not None for record in caplog.records] == [True]
