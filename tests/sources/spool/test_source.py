"""The contract of sources over what ``flarelog run`` captured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flarelog.sources.spool.tail import SpooledTail
from tests.contracts.source import CONTRACT, World
from tests.sources.process.test_segments import Spool
from tests.sources.test_files_source import LOG, Files


class Captured(Files):
    """A log of commands, one after the other."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.commands: list[Spool] = []
        self.path = root / LOG
        self.begin_anew()

    def write(self, data: bytes) -> None:
        self.commands[-1].say(data)

    def begin_anew(self) -> None:
        if self.commands:
            self.commands[-1].segments.close()
        self.commands.append(Spool(self.path, token=f"{len(self.commands):016x}"))

    def lose(self) -> None:
        os.truncate(self.path, 0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Captured]:
    captured = Captured(tmp_path)
    yield captured
    captured.site.close()
    for command in captured.commands:
        command.segments.close()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(check: Callable[[World], None], world: Captured) -> None:
    check(world)
    assert isinstance(world.source(), SpooledTail)
