"""What a fault costs: the longest time for which a site's stored bytes stood still while it had written more."""

from __future__ import annotations

from collections.abc import Mapping


class Stalls:
    """Looks at written and stored bytes, by site; the caller gives the time, in seconds."""

    def __init__(self) -> None:
        self.stored: Mapping[str, int] = {}
        self._written: Mapping[str, int] = {}
        self._moved: dict[str, float] = {}  # when a site's bytes were last seen to grow, or to be complete
        self._longest: dict[str, float] = {}

    def begin(self) -> None:
        """Forget earlier stalls, except for those that still last."""
        self._longest = {}

    def saw(self, written: Mapping[str, int], stored: Mapping[str, int], now: float) -> None:
        for site, size in stored.items():
            since = self._moved.setdefault(site, now)
            if size > self.stored.get(site, -1) or size >= written[site]:
                self._moved[site] = now
            if size < written[site] or self.stored.get(site, 0) < self._written.get(site, 0):
                self._longest[site] = max(self._longest.get(site, 0.0), now - since)
        self._written, self.stored = written, stored

    def longest(self) -> dict[str, float]:
        """The longest stall of each site since ``begin``, in seconds."""
        return dict(self._longest)

    def total(self) -> tuple[int, int]:
        """How many bytes of all sites are written, and stored."""
        return sum(self._written.values()), sum(self.stored.values())
