"""The delay of answers to strangers, the rate of reported refusals, and failed connections."""

from __future__ import annotations

import pytest

from flarelog.security.refusals import (
    FORGIVEN,
    LONGEST_WAIT,
    MAX_ADDRESSES,
    MAX_KINDS,
    MAX_PEERS,
    MINUTE,
    SAID_A_MINUTE,
    UNSETTLED,
    Arrivals,
    Repetitions,
    Waits,
    address_of,
)
from tests.rows import together


@together(
    ("peer", "address"),
    [
        pytest.param("ipv4:192.0.2.7:4721", "192.0.2.7", id="ipv4"),
        pytest.param("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4721", "2001:db8:1:2::/64", id="ipv6-as-grpc-writes-it"),
        pytest.param("ipv6:[2001:db8:1:2::9]:4721", "2001:db8:1:2::/64", id="one-network-is-one-peer"),
        pytest.param("ipv6:%5Bfe80::1%25eth0%5D:4721", "fe80::/64", id="with-a-zone"),
        pytest.param("ipv6:%5B::ffff:192.0.2.7%5D:4721", "192.0.2.7", id="ipv4-in-ipv6"),
        pytest.param("unix:/run/x", "unix:/run/x", id="a-socket"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_where_a_peer_is(peer: str, address: str) -> None:
    assert address_of(peer) == address


def test_each_failure_waits_longer_up_to_a_bound_and_only_for_its_own_address() -> None:
    waits = Waits()
    seconds = [waits.failed("a", now=float(n)) for n in range(20)]
    assert [count for count, _ in seconds] == list(range(1, 21))
    assert [wait for _, wait in seconds[:4]] == [0.1, 0.2, 0.4, 0.8]
    assert max(wait for _, wait in seconds) == seconds[-1][1] == LONGEST_WAIT
    assert waits.failed("b", now=20.0) == (1, 0.1)


def test_an_address_is_forgiven_after_a_while_without_failures() -> None:
    waits = Waits()
    waits.failed("a", now=0.0)
    assert waits.failed("a", now=FORGIVEN - 1)[0] == 2
    assert waits.failed("a", now=2 * FORGIVEN - 1)[0] == 1


def test_the_addresses_that_are_remembered_are_bounded_and_the_quietest_goes_first() -> None:
    waits = Waits()
    for n in range(MAX_ADDRESSES):
        waits.failed(f"a{n}", now=0.0)
    waits.failed("a0", now=1.0)
    waits.failed("one more", now=1.0)
    assert len(waits._failures) == MAX_ADDRESSES
    assert waits.failed("a0", now=2.0)[0] == 3
    assert waits.failed("a1", now=2.0)[0] == 1


def test_the_same_is_said_some_times_a_minute_and_then_counted_while_nothing_else_is_lost() -> None:
    refusals = Repetitions("others")
    assert [refusals.says("a", now=n / 10) for n in range(30)] == [True] * SAID_A_MINUTE + [False] * (
        30 - SAID_A_MINUTE
    )
    assert refusals.says("b", now=3.0)
    assert refusals.over(now=MINUTE - 1) == []
    assert refusals.over(now=MINUTE) == [("a", 30 - SAID_A_MINUTE)]
    assert refusals.over(now=MINUTE) == []
    assert refusals.says("a", now=MINUTE), "the next minute has a count of its own"


def test_what_was_not_said_is_counted_at_the_end_though_the_minute_is_not_over() -> None:
    refusals = Repetitions("others")
    for _ in range(SAID_A_MINUTE + 3):
        refusals.says("a", now=0.0)
    assert refusals.over(now=1.0, at_once=True) == [("a", 3)]


def test_however_many_kinds_there_are_the_lines_are_bounded() -> None:
    refusals = Repetitions("others")
    said = sum(refusals.says(f"kind {n}", now=0.0) for n in range(10 * MAX_KINDS))
    assert said == MAX_KINDS + SAID_A_MINUTE
    assert refusals.over(now=MINUTE) == [("others", 9 * MAX_KINDS - SAID_A_MINUTE)]


def told(arrivals: Arrivals, connections: int, begin: int, seconds: int) -> list[int]:
    """The reports of *seconds* looks, one a second from *begin* on."""
    return [more for n in range(begin, begin + seconds) if (more := arrivals.lost(connections, now=float(n)))]


def test_connections_that_come_to_no_call_are_told_once_a_minute() -> None:
    arrivals = Arrivals()
    assert told(arrivals, 3, 0, UNSETTLED - 1) == []
    assert told(arrivals, 3, UNSETTLED - 1, 100) == [3]
    assert told(arrivals, 5, 200, 20) == [2]
    assert told(arrivals, 6, 220, 30) == [], "within a minute of the last time"
    assert told(arrivals, 6, 250, 30) == [1]


def test_connections_that_come_to_calls_are_not_told_though_some_are_always_on_their_way() -> None:
    arrivals = Arrivals()
    for second in range(300):
        for n in range(5):
            arrivals.called(f"ipv4:192.0.2.1:{5 * second + n}")
        arrivals.called("ipv4:192.0.2.1:0")
        on_its_way = 2 if second % 3 else 0
        assert arrivals.lost(5 * (second + 1) + on_its_way, now=float(second)) == 0


def test_a_late_call_takes_its_connection_back() -> None:
    arrivals = Arrivals()
    assert told(arrivals, 1, 0, 60) == [1]
    arrivals.called("ipv4:192.0.2.1:1")
    assert told(arrivals, 1, 60, 60) == []
    assert told(arrivals, 2, 120, 60) == [1]


def test_the_peers_that_are_remembered_are_bounded() -> None:
    arrivals = Arrivals()
    for n in range(MAX_PEERS + 5):
        arrivals.called(f"peer {n}")
    assert len(arrivals._peers) == MAX_PEERS
