"""How long to wait before the next attempt: exponentially longer with each failure in a row, up to a bound.

The numbers are those of tenacity's ``wait_exponential``; a delivery decides without importing a library, which takes
11 ms, and a sidecar that never fails never waits for it. Chance is added by who waits, where many wait for one.
"""

from __future__ import annotations

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between two attempts of a reader


def delay(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after an attempt that has failed after so many *failures* in a row: *first* seconds after one
    with none before it, twice as many after each further one, and never more than *longest*.
    """
    return min(first * 2.0 ** min(failures, 60), longest)
