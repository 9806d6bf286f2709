"""The contract over each sink, and over a sink of another program."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import NotFound
from flarelog.model import StreamId
from flarelog.sinks.mirror import Mirror
from flarelog.stores.base import Bytes, Store
from tests.contracts.sink import CONTRACT, Destination, Fact
from tests.stored import TemporaryStore
from tests.windowed import WindowedStore


class Directory:
    """The place where a mirror writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for run in ("run-1", "run-2"):
            (root / run).mkdir()

    def sink(self) -> Mirror:
        return Mirror(self.root)

    def holds(self, stream: StreamId) -> bytes | None:
        path = self.root / str(stream)
        return path.read_bytes() if path.exists() else None

    def spoil(self, stream: StreamId, data: bytes) -> None:
        path = self.root / str(stream)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def refuse(self, run: str) -> None:
        shutil.rmtree(self.root / run)


class Kept:
    """The memory of another machine."""

    def __init__(self, root: Path) -> None:
        self.logs: dict[StreamId, bytes] = {}
        self.refused: set[str] = set()

    def sink(self) -> KeptSink:
        return KeptSink(self)

    def holds(self, stream: StreamId) -> bytes | None:
        return self.logs.get(stream)

    def spoil(self, stream: StreamId, data: bytes) -> None:
        self.logs[stream] = data

    def refuse(self, run: str) -> None:
        self.refused.add(run)


class KeptSink:
    def __init__(self, there: Kept) -> None:
        self.there = there

    def place(self, stream: StreamId) -> str:
        return f"memory/{stream}"

    def copy(self, stream: StreamId) -> KeptCopy:
        if stream.run in self.there.refused:
            raise NotFound(f"nobody wants {stream.run}")
        return KeptCopy(self.there, stream)


class KeptCopy:
    def __init__(self, there: Kept, stream: StreamId) -> None:
        self.there, self.stream = there, stream

    async def held(self) -> tuple[int, int]:
        data = self.there.logs.get(self.stream, b"")
        return len(data), extend(EMPTY_DIGEST, data)

    async def write(self, begin: int, end: int, read: Bytes) -> None:
        await asyncio.sleep(0)
        data = self.there.logs.get(self.stream, b"")[:begin]
        while len(data) < end:
            data += read(end - len(data), len(data))
        self.there.logs[self.stream] = data

    def close(self) -> None:
        pass


@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__.replace("_", "-")) for check in CONTRACT])
@pytest.mark.parametrize("make", [Directory, Kept], ids=["mirror", "memory"])
@pytest.mark.parametrize("of", [TemporaryStore, WindowedStore], ids=["whole", "in-windows"])
def test_contract(of: Callable[[], Store], make: Callable[[Path], Destination], check: Fact, tmp_path: Path) -> None:
    async def go() -> None:
        async with asyncio.timeout(20.0), of() as store:
            await check(make(tmp_path), store)

    asyncio.run(go())
