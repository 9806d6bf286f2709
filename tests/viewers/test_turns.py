"""Streams take turns, whatever the bytes of another stream cost."""

from __future__ import annotations

import pytest

from flarelog.viewers.turns import ENOUGH, FIRST, LARGEST, SMALLEST, TURN, Turns

SLOW = 1e-6  # seconds a byte; the law allows half of it


def shown(turns: Turns[str, str], costs: dict[str, float], most: int = 10_000) -> list[tuple[str, int, bytes | str]]:
    found: list[tuple[str, int, bytes | str]] = []
    while turns and len(found) < most:
        taken = turns.take()
        assert taken is not None
        source, number, what = taken
        size = len(what) if isinstance(what, bytes) else 0
        turns.used(source, size, size * costs.get(source, 0.0))
        found.append((source, number, bytes(what) if isinstance(what, bytes) else str(what)))
    return found


def test_a_stream_is_shown_in_its_own_order_and_whole() -> None:
    turns: Turns[str, str] = Turns()
    data = bytes(range(256)) * 1000
    turns.add("a", 7, data)
    turns.add("a", 0, "a mark")
    turns.add("a", 7 + len(data), b"end")
    *pieces, mark, end = shown(turns, {"a": SLOW})
    assert b"".join(what for _, _, what in pieces if isinstance(what, bytes)) == data
    assert [number for _, number, _ in pieces] == [
        7 + sum(len(what) for _, _, what in pieces[:at]) for at in range(len(pieces))
    ]
    assert (mark, end) == (("a", 0, "a mark"), ("a", 7 + len(data), b"end"))
    assert not turns


@pytest.mark.parametrize("many", [1, 40])
def test_a_line_waits_for_one_slice_of_what_costs_much_however_many_do(many: int) -> None:
    turns: Turns[str, str] = Turns()
    costs = {f"evil-{number}": SLOW for number in range(many)}
    turns.add("honest", 0, b"first\n")
    for source in costs:
        turns.add(source, 0, b"x" * (1 << 20))
    shown(turns, costs, 3 * many)
    for at in range(6, 600, 6):
        turns.add("honest", at, b"a line")
        assert [source for source, _, _ in shown(turns, costs, 1)] == ["honest"]
        (source, _, what), *_ = shown(turns, costs, 1)
        assert source in costs
        assert len(what) * SLOW <= 2 * TURN


def test_who_was_quiet_has_saved_no_time() -> None:
    turns: Turns[str, str] = Turns()
    turns.add("late", 0, b"x")
    shown(turns, {"late": SLOW})
    turns.add("busy", 0, b"x" * (1 << 20))
    shown(turns, {"busy": SLOW}, 100)
    turns.add("late", 1, b"x" * (1 << 20))
    first = [source for source, _, _ in shown(turns, {"late": SLOW, "busy": SLOW}, 100)]
    assert 40 < first.count("busy") < 60


def test_slices_grow_where_they_cost_little_and_shrink_where_they_cost_much() -> None:
    turns: Turns[str, str] = Turns()
    turns.add("a", 0, b"x" * (1 << 20))
    sizes = [len(what) for _, _, what in shown(turns, {"a": 1e-9})]
    assert sizes[:5] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, LARGEST]
    turns.add("a", 0, b"x" * (1 << 20))
    assert [len(what) for _, _, what in shown(turns, {"a": 1e-3})][2:4] == [SMALLEST, SMALLEST]


def test_of_each_stream_a_little_waits() -> None:
    turns: Turns[str, str] = Turns()
    assert turns.has_room("a")
    turns.add("a", 0, b"x" * ENOUGH)
    assert not turns.has_room("a")
    assert turns.has_room("b")
    assert turns.waits("a")
    shown(turns, {})
    assert turns.has_room("a")
    assert not turns.waits("a")
