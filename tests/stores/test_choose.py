"""Which directories are stores."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from flarelog.errors import NotFound
from flarelog.model import StreamId
from flarelog.stores.choose import there
from flarelog.stores.local.store import LocalStore
from tests.contracts.store import A

STREAM = StreamId("run-1", "site-1", "log.txt")


async def opened(root: Path, *, stores: bool) -> None:
    async with LocalStore(root) as store:
        if stores:
            appender = await store.appender(STREAM, A)
            await appender.append(0, b"line\n")


def test_a_directory_without_a_trace_of_a_receiver_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store at"):
        there(tmp_path / "nowhere")
    with pytest.raises(NotFound, match="is no store: no receiver has stored anything there"):
        there(tmp_path)
    (tmp_path / "run-1" / "site-1").mkdir(parents=True)
    (tmp_path / "run-1" / "site-1" / "log.txt").write_text("a sidecar's root\n")
    with pytest.raises(NotFound, match="is no store"):
        there(tmp_path)


def test_a_store_is_one_before_its_first_run_and_as_a_copy(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path / "new", stores=False))
    assert there(tmp_path / "new") == tmp_path / "new"
    asyncio.run(opened(tmp_path / "old", stores=True))
    shutil.copytree(tmp_path / "old" / STREAM.run, tmp_path / "copy" / STREAM.run)  # the copy has no lock file
    there(tmp_path / "copy")


def test_the_directory_above_a_store_is_none(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path / "lib" / "logs", stores=True))
    with pytest.raises(NotFound, match="is no store"):
        there(tmp_path / "lib")
    with pytest.raises(NotFound, match="is no store"):
        there(tmp_path)
