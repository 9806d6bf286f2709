"""Which worker of a receiver hangs: each says every second that its event loop runs.

Only time that passes for the process that listens counts: of a machine that was suspended, or of processes that were
stopped together, none hangs. Nor does one where all are silent at once: a single silent one is what somebody can mend.
"""

from __future__ import annotations

from collections.abc import Iterable

EVERY = 1.0  # seconds between two beats, and between two looks
SILENT = 10.0  # seconds without a beat after which it is said
HUNG = 30.0  # seconds without a beat after which a worker is ended


class Pulses:
    """Of the workers *numbers*, from *now* on, in seconds of any clock."""

    def __init__(self, numbers: Iterable[int], now: float) -> None:
        self._silence = dict.fromkeys(numbers, 0.0)
        self._looked = now

    def beat(self, number: int) -> None:
        """Worker *number* runs."""
        self._silence[number] = 0.0

    def look(self, now: float) -> tuple[list[int], list[int]]:
        """(those that have just become silent, those that hang) at *now*; to be asked every second."""
        passed = min(max(0.0, now - self._looked), 2 * EVERY)
        self._looked = now
        before = dict(self._silence)
        for number in before:
            self._silence[number] += passed
        if all(silence >= SILENT for silence in self._silence.values()):
            self._silence = dict.fromkeys(before, SILENT)  # none of them is told of alone
            return [], []
        silent = [number for number, silence in self._silence.items() if before[number] < SILENT <= silence]
        return silent, [number for number, silence in self._silence.items() if silence >= HUNG]
