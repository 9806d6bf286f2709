"""The contract of origins, over a receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from flarelog.client import Client
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.origin import ReceiverOrigin
from integration.harness.places import new_place
from tests.contracts.origin import CONTRACT, Fact, fill


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with new_place() as place:

        async def filled() -> None:
            async with LocalStore(place.directory / "logs", "memory") as store:
                await fill(store)

        asyncio.run(filled())
        yield place.serve(store=place.directory / "logs").address


@pytest.mark.parametrize("fact", CONTRACT, ids=lambda each: each.__name__)
def test_contract(fact: Fact, address: str) -> None:
    async def check() -> None:
        async with ReceiverOrigin(address, lambda: Client(address)) as origin:
            await fact(origin)

    asyncio.run(check())
