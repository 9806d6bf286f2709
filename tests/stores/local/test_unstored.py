"""The note of unopened logs has a limit, and what it cannot name is skipped."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flarelog.lifecycle import RunState
from flarelog.stores import lines
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from flarelog.stores.unopened import UNSTORED
from flarelog.stores.unopened import unopened as found_in
from tests.missing import unopened

WHY = "too many"
NOTE = Path("run-1", ".site-1.unstored")


def test_a_note_that_has_become_too_long_has_the_latest_logs(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await set_run(store, "run-1", RunState.RUNNING)
            for turn in range(60):
                found = {f"{'n' * 190}-{turn:02}{n:02}.log": WHY for n in range(100)}
                assert await unopened(store, "run-1", "site-1", found)
                assert (tmp_path / NOTE).stat().st_size <= UNSTORED.limit
            known = {info.stream.log for info in await found_in(store, "run-1")}
            assert known > found.keys()

    asyncio.run(go())


def test_logs_without_a_valid_name_are_skipped(tmp_path: Path) -> None:
    note: list[dict[str, object]] = [
        {"t": "unstored", "why": WHY, "logs": ["a.log", "c%20d.log"]},
        {"t": "unstored", "why": WHY, "logs": ["d/", "../e", "*"]},
        {"t": "unstored", "why": 7, "logs": ["f.log"]},
        {"t": "another", "why": WHY, "logs": ["g.log"]},
    ]

    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await set_run(store, "run-1", RunState.RUNNING)
            (tmp_path / NOTE).write_bytes(b"".join(map(lines.line, note)))
            found = [(info.stream.log, info.unstored) for info in await found_in(store, "run-1")]
            assert found == [("a.log", WHY), ("c%20d.log", WHY)]

    asyncio.run(go())
