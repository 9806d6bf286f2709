"""The files under a root as a finder."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

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

    finder = Files(SourceOptions(str(tmp_path)), watch=PollWatch())
    with contextlib.closing(finder), caplog.at_level(logging.ERROR):
        asyncio.run(until_found(finder))
        assert list(finder.troubles) == ["the search for files failed: ZeroDivisionError('a bug')"]
        assert "a.log" in finder.logs
    assert [record.exc_info is not None for record in caplog.records] == [True]
