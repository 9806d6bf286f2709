"""The contract of sources over files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flarelog.model import StreamInfo
from flarelog.sources.base import Source
from tests.contracts.source import CONTRACT, World
from tests.sources.files.tailing import Site, Stored

LOG = "rank-0/log.txt"


class Files:
    """A log in a file that a rename rotates."""

    def __init__(self, root: Path) -> None:
        self.site = Site(root)

    @property
    def now(self) -> float:
        return self.site.now

    @now.setter
    def now(self, now: float) -> None:
        self.site.now = now

    def write(self, data: bytes) -> None:
        self.site.append(LOG, data)

    def begin_anew(self) -> None:
        self.site.rename(LOG, f"{LOG}.1")

    def lose(self) -> None:
        self.site.truncate(LOG)

    def source(self) -> Source:
        self.site.look()
        return self.site.discovery.tails[LOG]

    def resume(self, record: StreamInfo) -> None:
        self.site.discovery.resume([record], self.now)

    def restart(self, record: StreamInfo) -> None:
        self.site.stored = {LOG: _Held(record)}
        self.site.restart()


class _Held(Stored):
    def __init__(self, record: StreamInfo) -> None:
        super().__init__()
        self.record = record

    def info(self, log: str) -> StreamInfo:
        return self.record


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    files.site.close()


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(check: Callable[[World], None], world: Files) -> None:
    check(world)
