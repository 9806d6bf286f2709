"""Containers whose room and order are fair by owner, such as the site that an entry comes from.

Laws that hold here: an owner that fills a container loses its own entries, and waits behind its own entries; every
operation costs the same, however many entries and owners there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from typing import Generic, TypeVar

from flarelog.model import StreamId

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def site_of(stream: StreamId) -> str:
    """The owner of what is kept for *stream*: its site, whose runs share one room."""
    return stream.site


class FairMap(MutableMapping[K, V]):
    """A mapping of at most *room* entries. When it is full, the owner with the most entries loses its oldest one.
    *each*: most entries of one owner; *dropped*: called with each entry that was lost.
    """

    def __init__(
        self,
        room: int,
        owner: Callable[[K], Hashable],
        each: int | None = None,
        dropped: Callable[[K, V], None] = lambda key, value: None,
    ) -> None:
        self._room, self._owner, self._dropped = room, owner, dropped
        self._each = room if each is None else min(each, room)
        self._of: dict[Hashable, dict[K, V]] = {}  # by owner; the oldest entry first
        self._sized: dict[int, dict[Hashable, None]] = {}  # the owners with so many entries
        self._count = self._most = 0  # entries in all, and of the largest owner

    def of(self, owner: Hashable) -> Mapping[K, V]:
        """The entries of *owner*."""
        return self._of.get(owner, {})

    def owners(self) -> list[Hashable]:
        return list(self._of)

    def __getitem__(self, key: K) -> V:
        return self._of[self._owner(key)][key]

    def __contains__(self, key: object) -> bool:
        return key in self._of.get(self._owner(key), ())  # type: ignore[arg-type]  # as a dict would

    def __setitem__(self, key: K, value: V) -> None:
        """Set *key*, which becomes the newest entry of its owner."""
        owner = self._owner(key)
        mine = self._of.get(owner, {})
        if key in mine:
            del mine[key]
            mine[key] = value
            return
        if len(mine) >= self._each:
            self._drop(owner)
        elif self._count >= self._room:
            self._drop(next(iter(self._sized[self._most])))
        mine = self._of.setdefault(owner, {})
        mine[key] = value
        self._count += 1
        self._resized(owner, len(mine) - 1, len(mine))

    def __delitem__(self, key: K) -> None:
        owner = self._owner(key)
        mine = self._of[owner]
        del mine[key]
        self._count -= 1
        if not mine:
            del self._of[owner]
        self._resized(owner, len(mine) + 1, len(mine))

    def __iter__(self) -> Iterator[K]:
        for mine in self._of.values():
            yield from mine

    def __len__(self) -> int:
        return self._count

    def _drop(self, owner: Hashable) -> None:
        key, value = next(iter(self._of[owner].items()))
        del self[key]
        self._dropped(key, value)

    def _resized(self, owner: Hashable, before: int, now: int) -> None:
        if before:
            those = self._sized[before]
            del those[owner]
            if not those:
                del self._sized[before]
        if now:
            self._sized.setdefault(now, {})[owner] = None
        # A size changes by one, so the largest owner has either *now* entries or as many as before.
        if now > self._most or (before == self._most and before not in self._sized):
            self._most = now


class FairQueue(Generic[K]):
    """A queue without duplicates, which serves its owners in turn, and the items of each in their order."""

    def __init__(self, owner: Callable[[K], Hashable]) -> None:
        self._owner = owner
        self._of: dict[Hashable, dict[K, None]] = {}  # by owner, in the order in which they are served
        self._count = 0

    def add(self, item: K) -> None:
        """Add *item* unless it is in the queue."""
        mine = self._of.setdefault(self._owner(item), {})
        if item not in mine:
            mine[item] = None
            self._count += 1

    def discard(self, item: K) -> None:
        owner = self._owner(item)
        mine = self._of.get(owner, {})
        if item in mine:
            del mine[item]
            self._count -= 1
            if not mine:
                del self._of[owner]

    def pop(self) -> K:
        """Remove and return the first item of the owner whose turn it is. Raises StopIteration if there is none."""
        owner = next(iter(self._of))
        mine = self._of.pop(owner)
        item = next(iter(mine))
        del mine[item]
        self._count -= 1
        if mine:
            self._of[owner] = mine  # after the others
        return item

    def move_to(self, other: FairQueue[K]) -> None:
        """Move all items to the end of *other*."""
        while self:
            other.add(self.pop())

    def __contains__(self, item: K) -> bool:
        return item in self._of.get(self._owner(item), ())

    def __len__(self) -> int:
        return self._count
