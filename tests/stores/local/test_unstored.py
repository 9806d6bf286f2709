"""The record of logs of which nothing is stored: it has a limit, and says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flarelog.lifecycle import RunState
from flarelog.model import OTHERS
from flarelog.stores.local.store import LocalStore
from flarelog.stores.local.unstored import LIMIT, name_of

WHY = "cannot be read: Permission denied"


def test_a_record_that_names_fewer_logs_says_that_there_are_others(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            for turn in range(60):
                found = {f"{'n' * 190}-{turn:02}{n:02}.log": WHY for n in range(100)}
                assert await store.never_stored("run-1", "site-1", found, "here")
            assert (tmp_path / "run-1" / name_of("site-1")).stat().st_size <= LIMIT
            assert [info.unstored for info in await store.unstored("run-1") if info.about == OTHERS] == [WHY]

    asyncio.run(go())


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            sizes = set()
            for _ in range(3):
                assert await store.never_stored("run-1", "site-1", {"a.log": WHY}, "here")
                sizes.add((tmp_path / "run-1" / name_of("site-1")).stat().st_size)
            assert len(sizes) == 1

    asyncio.run(go())
