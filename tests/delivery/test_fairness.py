"""What one owner puts into a fair container costs other owners neither their entries nor their turns."""

from __future__ import annotations

import random

import pytest

from flarelog.delivery.fairness import FairMap, FairQueue


def first(key: tuple[str, int]) -> str:
    return key[0]


def test_an_owner_that_fills_a_map_loses_its_own_oldest_entries() -> None:
    lost: list[tuple[str, int]] = []
    found = FairMap[tuple[str, int], int](10, first, dropped=lambda key, value: lost.append(key))
    for number in range(3):
        found["quiet", number] = number
    for number in range(100):
        found["loud", number] = number
    assert [*found.of("quiet")] == [("quiet", number) for number in range(3)]
    assert [*found.of("loud")] == [("loud", number) for number in range(93, 100)]
    assert lost == [("loud", number) for number in range(93)]


def test_a_newcomer_gets_room_in_a_full_map() -> None:
    found = FairMap[tuple[str, int], int](10, first)
    for number in range(50):
        found["loud", number] = number
    for number in range(3):
        found[f"new-{number}", 0] = number
    assert len(found) == 10
    assert all((f"new-{number}", 0) in found for number in range(3))


def test_an_entry_that_is_set_again_is_the_newest() -> None:
    found = FairMap[tuple[str, int], int](2, first)
    found["a", 0], found["a", 1] = 0, 1
    found["a", 0] = 2
    found["a", 2] = 3
    assert dict(found) == {("a", 0): 2, ("a", 2): 3}


def test_one_owner_has_at_most_its_share() -> None:
    found = FairMap[tuple[str, int], int](10, first, each=2)
    for number in range(5):
        found["a", number] = number
    assert [*found] == [("a", 3), ("a", 4)]


@pytest.mark.parametrize("seed", range(20))
def test_a_fair_map_is_a_mapping_whose_largest_owner_gives_way(seed: int) -> None:
    choose, room = random.Random(seed), 12
    found, model = FairMap[tuple[str, int], int](room, first), dict[tuple[str, int], int]()
    for number in range(500):
        key = choose.choice("abcde"), choose.randrange(9)
        if choose.random() < 0.3:
            assert found.pop(key, None) == model.pop(key, None)
        else:
            sizes = {owner: len(found.of(owner)) for owner in found.owners()}
            before = model.pop(key, None)
            model[key] = found[key] = number
            if before is None and sum(sizes.values()) >= room:
                (lost,) = model.keys() - set(found)
                assert sizes[lost[0]] == max(sizes.values())
                assert lost == next(one for one in model if one[0] == lost[0]), "the oldest of its owner"
                del model[lost]
        assert dict(found) == model
        assert len(found) == len(model)


def test_a_queue_serves_owners_in_turn_and_each_item_once() -> None:
    queue = FairQueue[tuple[str, int]](first)
    for number in (*range(1000), *range(1000)):
        queue.add(("loud", number))
    queue.add(("quiet", 0))
    queue.discard(("loud", 1))
    queue.discard(("nobody", 1))
    assert len(queue) == 1000
    assert [queue.pop() for _ in range(3)] == [("loud", 0), ("quiet", 0), ("loud", 2)]
    assert ("loud", 3) in queue
    assert ("loud", 2) not in queue
