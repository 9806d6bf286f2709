"""The contract of origins, over a store and over the fake of the viewers' tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from flarelog.stores.local.store import LocalStore
from flarelog.viewers.origin import Origin, StoreOrigin
from tests.contracts.origin import CONTRACT, LOGS, MARKS, SEALED, Fact, fill
from tests.viewers.held import Held


async def stored(directory: Path) -> Origin:
    async with LocalStore(directory, "memory") as store:
        await fill(store)
    return StoreOrigin(directory)


async def held(directory: Path) -> Origin:
    return Held(LOGS, sealed=(SEALED,), marks=MARKS)


@pytest.mark.parametrize("world", [stored, held])
@pytest.mark.parametrize("fact", CONTRACT, ids=lambda each: each.__name__)
def test_contract(fact: Fact, world: Callable[[Path], Awaitable[Origin]], tmp_path: Path) -> None:
    async def check() -> None:
        async with await world(tmp_path) as origin:
            await fact(origin)

    asyncio.run(check())
