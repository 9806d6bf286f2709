"""Several processes that are one receiver: a site's worker, a caller's forwarded identity, and merged lists."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from flarelog.errors import InvalidOption
from flarelog.policy import NOBODY, Identity, Role
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.workers.place import Place, check, divided, owner
from flarelog.receiver.workers.relay import Passed, merged, said_of, understood
from flarelog.security.certificate import Presented
from flarelog.security.connections import Connection
from flarelog.security.guard import identity_of
from tests.contexts import Bare

PLACE = Place(1, 3, "/run/flarelog", "00ff00ff00ff00ff", 7, whole_runs=False)


# --- the worker of a site


def test_each_site_of_each_run_belongs_to_one_worker() -> None:
    for run, site in (("run-1", "site-1"), ("run-2", "site-1"), ("r", "a.b_c-d")):
        at = [Place(n, 3, "", "", 0, False).mine(run, site) for n in range(3)]
        assert at.count(True) == 1
        assert at.index(True) == PLACE.owner(run, site)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_sites_are_spread(count: int) -> None:
    spread = Counter(owner("run-1", f"{n:x}-site", count) for n in range(800))
    assert max(spread.values()) < 1.35 * 800 / count
    assert min(spread.values()) > 0.65 * 800 / count


@pytest.mark.parametrize("names", ["site-{}", "{}", "hospital{:04}"])
def test_sites_that_are_numbered_are_spread_evenly_however_few_they_are(names: str) -> None:
    for run in ("run-1", "another"):
        assert {owner(run, names.format(n), 4) for n in range(1, 5)} == {0, 1, 2, 3}


def test_the_same_worker_in_each_process_and_after_each_start() -> None:
    assert [owner("run-1", f"site-{n}", 4) for n in range(8)] == [3, 0, 1, 2, 3, 0, 1, 2]
    assert [owner("run-1", site, 4) for site in ("north", "south", "a1b", "9" * 128)] == [1, 1, 3, 2]


def test_where_limits_are_of_a_run_all_its_sites_are_one_worker_s() -> None:
    place = Place(0, 4, "", "", 0, whole_runs=True)
    assert len({place.owner("run-1", f"{n}-site") for n in range(50)}) == 1
    assert len({place.owner(f"run-{n}", "site-1") for n in range(50)}) == 4


def test_a_place_is_said_in_one_line_and_understood() -> None:
    assert "\n" not in str(PLACE)
    assert Place.of(str(PLACE)) == PLACE


@pytest.mark.parametrize("count", [0, -1, 65])
def test_a_number_of_workers_that_makes_no_sense(count: int) -> None:
    with pytest.raises(InvalidOption, match="--workers must be a number from 1 to 64"):
        check(count)


def test_limits_of_all_peers_are_divided_and_those_of_one_are_not() -> None:
    options = ServerOptions(max_streams=7, max_connections=1, max_in_flight=1 << 20, max_site_bytes=100, max_runs=5)
    one = divided(options, 3)
    assert (one.max_streams, one.max_connections, one.max_in_flight) == (3, 1, 349526)
    assert (one.max_site_bytes, one.max_runs, one.max_sites) == (100, 5, options.max_sites)


@pytest.mark.parametrize(
    ("moves", "again"),
    [
        pytest.param(0, False, id="who-does-not-move-is-passed-on"),
        pytest.param(1, True, id="who-moves-is-told-to"),
        pytest.param(24, True, id="eight-times-as-often-as-there-are-workers"),
        pytest.param(25, False, id="then-he-is-passed-on"),
    ],
)
def test_a_producer_looks_for_its_worker_so_often(moves: int, again: bool) -> None:
    assert PLACE.lets_move(moves) is again


# --- the caller


@pytest.mark.parametrize(
    "identity",
    [
        NOBODY,
        Identity("certificate", "site-1", ("a.example", "x@y"), ("reader", "größer"), "lead"),
        Identity("token", token="t1", token_name="wall", role=Role.OPERATOR, runs=("a-*", "b")),
    ],
    ids=str,
)
def test_who_called_comes_through_as_he_was(identity: Identity) -> None:
    said = said_of(identity, "ipv6:[::1]:4711")
    assert json.loads(said)
    assert understood(said) == (identity, "ipv6:[::1]:4711", None)


def test_over_what_a_call_came_comes_through_as_well() -> None:
    connection = Connection("ipv4:192.0.2.1:5", Presented(b"a certificate", b"its chain"), 4711.5)
    said = said_of(Identity("certificate", "site-1"), connection.address, connection)
    assert understood(said)[2] == connection


class Context(Bare):
    """The gRPC context of a connection between two workers."""

    def peer(self) -> str:
        return "unix:"

    async def read(self) -> bytes:
        return b"read"

    async def write(self, reply: bytes) -> None: ...

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}


def test_a_call_that_was_passed_on_is_its_callers() -> None:
    context = Context()
    passed = Passed(context, Identity("certificate", "site-1"), "ipv4:192.0.2.1:5")
    assert identity_of(passed).common_name == "site-1"
    assert passed.peer() == "ipv4:192.0.2.1:5"
    assert asyncio.run(passed.read()) == b"read"


# --- lists


def test_lists_are_put_together_in_order_and_closed() -> None:
    closed: list[str] = []

    async def of(*names: str) -> AsyncGenerator[tuple[Any, Any], None]:
        try:
            for name in names:
                yield name[0], name
        finally:
            closed.append("".join(names))

    async def all_of(*lists: AsyncGenerator[tuple[Any, Any], None], most: int = 99) -> list[str]:
        found: list[str] = []
        parts = merged(*lists)
        async for _, name in parts:
            found.append(name)
            if len(found) == most:
                break
        await parts.aclose()
        return found

    # The parts of one stream have the same name and stay together.
    lists = ("a1", "a2", "d1"), (), ("b1", "c1", "c2", "e1")
    assert asyncio.run(all_of(*(of(*names) for names in lists))) == ["a1", "a2", "b1", "c1", "c2", "d1", "e1"]
    assert sorted(closed) == ["", "a1a2d1", "b1c1c2e1"]
    closed.clear()
    assert asyncio.run(all_of(of("a1", "c1"), of("b1"), most=2)) == ["a1", "b1"]
    assert sorted(closed) == ["a1c1", "b1"]
