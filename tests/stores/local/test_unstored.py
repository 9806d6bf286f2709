"""The note of unopened logs has a limit, and notes of earlier versions are read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flarelog.lifecycle import RunState
from flarelog.stores.local import lines
from flarelog.stores.local.layout import UNSTORED, record_name
from flarelog.stores.local.notes import LIMIT
from flarelog.stores.local.store import LocalStore
from tests.missing import unopened

WHY = "too many"


def test_a_note_that_has_become_too_long_has_the_latest_logs(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            for turn in range(60):
                found = {f"{'n' * 190}-{turn:02}{n:02}.log": WHY for n in range(100)}
                assert await unopened(store, "run-1", "site-1", found)
            assert (tmp_path / "run-1" / record_name("site-1", UNSTORED)).stat().st_size <= LIMIT
            assert {info.stream for info in await store.unstored("run-1")} >= {
                info.stream for info in await store.unstored() if info.stream.log in found
            }
            assert len(await store.unstored("run-1")) > 100

    asyncio.run(go())


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            sizes = set()
            for _ in range(3):
                assert await unopened(store, "run-1", "site-1", {"a.log": WHY})
                sizes.add((tmp_path / "run-1" / record_name("site-1", UNSTORED)).stat().st_size)
            assert len(sizes) == 1

    asyncio.run(go())


def test_of_an_earlier_version_the_logs_are_read_that_have_a_name(tmp_path: Path) -> None:
    denied = "cannot be read: Permission denied"
    note: list[dict[str, object]] = [
        {"t": "unstored", "why": denied, "place": "here", "logs": ["a.log", "b.log", "c%20d.log"]},
        {"t": "unstored", "why": "cannot be listed: Permission denied", "place": "here", "logs": ["d/"]},
        {"t": "unstored", "why": "cannot be read: 200, which", "place": "here", "logs": ["*"], "apart": True},
        {"t": "readable", "place": "here", "logs": ["b.log"]},
    ]

    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            (tmp_path / "run-1" / record_name("site-1", UNSTORED)).write_bytes(b"".join(map(lines.line, note)))
            found = [(info.stream.log, info.unstored) for info in await store.unstored("run-1")]
            assert found == [("a.log", denied), ("c%20d.log", denied)]

    asyncio.run(go())
