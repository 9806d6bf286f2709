"""Detection of hung workers: each worker sends a beat every second from its event loop.

Only time in which the watching process itself runs counts, so no worker counts as hung after the machine was suspended,
or all processes were stopped. If all workers are silent at once, none counts as hung: a restart would not help.
"""

from __future__ import annotations

from collections.abc import Iterable

EVERY = 1.0  # seconds between two beats, and between two checks
SILENT = 10.0  # seconds without a beat after which a worker is logged as silent
HUNG = 30.0  # seconds without a beat after which a worker is killed


class Pulses:
    """The beats of the workers *numbers*, from *now* on, in seconds of any clock."""

    def __init__(self, numbers: Iterable[int], now: float) -> None:
        self._silence = dict.fromkeys(numbers, 0.0)
        self._looked = now

    def beat(self, number: int) -> None:
        """Record a beat of worker *number*."""
        self._silence[number] = 0.0

    def look(self, now: float) -> tuple[list[int], list[int]]:
        """The workers that have just become silent, and those that hang, at *now*; called once a second."""
        passed = min(max(0.0, now - self._looked), 2 * EVERY)
        self._looked = now
        before = dict(self._silence)
        for number in before:
            self._silence[number] += passed
        if all(silence >= SILENT for silence in self._silence.values()):
            self._silence = dict.fromkeys(before, SILENT)  # then no single worker becomes silent
            return [], []
        silent = [number for number, silence in self._silence.items() if before[number] < SILENT <= silence]
        return silent, [number for number, silence in self._silence.items() if silence >= HUNG]
