"""The connections of a port: their age and their callers."""

from __future__ import annotations

import os

from flarelog.security.certificate import Presented
from flarelog.security.connections import Connections, aging, place_of, shut
from tests.rows import together

ONE, TWO = Presented(b"one"), Presented(b"two")


def test_a_connection_is_as_old_as_its_first_call() -> None:
    those = Connections(10)
    first = those.called("ipv4:192.0.2.1:1", ONE, 5.0)
    assert those.called("ipv4:192.0.2.1:1", ONE, 9.0) is first
    assert first.since == 5.0
    assert those.get("ipv4:192.0.2.1:1") is first
    assert those.of(ONE) == ["ipv4:192.0.2.1:1"]
    other = those.called("ipv4:192.0.2.1:1", TWO, 11.0)  # the port was reused
    assert (other.since, those.of(ONE), those.shown()) == (11.0, [], [TWO])


def test_no_more_are_remembered_than_there_may_be() -> None:
    those = Connections(3)
    for n in range(10):
        those.called(f"ipv4:192.0.2.1:{n}", ONE if n % 2 else TWO, float(n))
    assert those.addresses() == [f"ipv4:192.0.2.1:{n}" for n in (7, 8, 9)]
    assert those.of(ONE) == ["ipv4:192.0.2.1:7", "ipv4:192.0.2.1:9"]


def test_calls_move_after_grpc_has_said_so_and_before_it_ends_them() -> None:
    options = {name: value / 1000 for name, value in aging(3600.0)}
    age, grace = options["grpc.max_connection_age_ms"], options["grpc.max_connection_age_grace_ms"]
    those = Connections(3)
    moves_at = those.called("a", ONE, 100.0).moves_at(3600.0)
    assert 100 + age * 1.1 < moves_at < 100 + age * 0.9 + grace - 10
    those.forget_older(3600.0, moves_at)
    assert those.get("a") is not None
    those.forget_older(3600.0, moves_at + 100)
    assert those.get("a") is None


@together(
    ("peer", "place"),
    [
        ("ipv4:127.0.0.1:4721", ("127.0.0.1", 4721)),
        ("ipv6:[::1]:4721", ("::1", 4721)),
        ("ipv6:%5B::1%5D:4721", ("::1", 4721)),
        ("ipv6:[::ffff:192.0.2.1]:5", ("192.0.2.1", 5)),
        ("ipv6:[fe80::1%25eth0]:5", ("fe80::1", 5)),
        ("unix:", None),
        ("", None),
        ("ipv4:x:1", None),
    ],
)
def test_where_a_peer_is(peer: str, place: tuple[str, int] | None) -> None:
    assert place_of(peer) == place


def test_a_look_for_connections_leaves_no_descriptor_of_its_own_open() -> None:
    before = os.listdir("/proc/self/fd")  # a socket to another port, or no socket at all
    assert shut(1, lambda place: True) == 0
    assert os.listdir("/proc/self/fd") == before
