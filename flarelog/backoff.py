"""How long to wait before the next attempt: exponentially longer with each failure in a row, up to a bound.

The numbers are those of tenacity's ``wait_exponential``. A delivery computes them without that library, whose import
takes 11 ms. The caller adds jitter where many clients wait for the same server.
"""

from __future__ import annotations

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between two attempts of a reader


def delay(failures: int, first: float, longest: float) -> float:
    """Seconds to wait before the next attempt: *first* seconds if *failures* is 0, doubled for each earlier failure in
    a row, and never more than *longest*.
    """
    return min(first * 2.0 ** min(failures, 60), longest)
