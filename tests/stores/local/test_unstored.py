"""The record of logs without stored bytes has a limit, and tells when it is reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flarelog.lifecycle import RunState
from flarelog.model import OTHERS, unnamed
from flarelog.stores.local import lines
from flarelog.stores.local.layout import UNSTORED, record_name
from flarelog.stores.local.notes import LIMIT
from flarelog.stores.local.store import LocalStore
from flarelog.stores.local.unstored import recorded
from tests.missing import never_stored

WHY = "cannot be read: Permission denied"


def test_a_record_that_names_fewer_logs_says_that_there_are_others(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            for turn in range(60):
                found = {f"{'n' * 190}-{turn:02}{n:02}.log": WHY for n in range(100)}
                assert await never_stored(store, "run-1", "site-1", found, "here")
            assert (tmp_path / "run-1" / record_name("site-1", UNSTORED)).stat().st_size <= LIMIT
            assert [info.unstored for info in await store.unstored("run-1") if info.about == OTHERS] == [WHY]

    asyncio.run(go())


def test_a_record_that_names_fewer_logs_still_says_how_many_had_no_name(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            for turn in range(60):
                found = {f"{'n' * 190}-{turn:02}{n:02}.log": WHY for n in range(100)}
                for place in ("here", "there"):
                    assert await never_stored(store, "run-1", "site-1", {**found, OTHERS: unnamed(300)}, place)
        async with LocalStore(tmp_path) as store:
            assert (tmp_path / "run-1" / record_name("site-1", UNSTORED)).stat().st_size <= LIMIT
            told = [info.unstored for info in await store.unstored("run-1") if info.about == OTHERS]
            assert told == [unnamed(600)]

    asyncio.run(go())


def unstored(count: int, place: str, **more: object) -> dict[str, object]:
    return {"t": "unstored", "why": unnamed(count), "place": place, "logs": [OTHERS], **more}


BACK = {"t": "readable", "logs": [OTHERS]}


@pytest.mark.parametrize(
    ("records", "left"),
    [
        pytest.param([unstored(200, "here"), unstored(300, "there")], [300], id="of-an-earlier-version-the-last-word"),
        pytest.param([unstored(200, "here"), unstored(300, "there"), BACK], [], id="which-was-taken-back"),
        pytest.param(
            [unstored(200, "here"), unstored(300, "there"), unstored(20, "here", apart=True)],
            [20, 300],
            id="and-one-of-a-later-version",
        ),
        pytest.param(
            [unstored(n, f"place-{n}", apart=True) for n in (1, 2, 3)] + [{**BACK, "place": "place-2", "apart": True}],
            [1, 3],
            id="three-places-and-one-has-none-any-more",
        ),
    ],
)
def test_how_many_files_have_no_name_is_read_as_it_was_meant(records: list[dict[str, object]], left: list[int]) -> None:
    found = recorded(b"".join(map(lines.line, records)))
    assert sorted(reason.why for reason in found.values()) == sorted(map(unnamed, left))


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            sizes = set()
            for _ in range(3):
                assert await never_stored(store, "run-1", "site-1", {"a.log": WHY}, "here")
                sizes.add((tmp_path / "run-1" / record_name("site-1", UNSTORED)).stat().st_size)
            assert len(sizes) == 1

    asyncio.run(go())
