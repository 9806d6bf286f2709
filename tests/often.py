"""How much is tried of what has no end: little in each run of the tests, all of it in ``make soak``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SOAK = "FLARELOG_SOAK" in os.environ


def often(usual: int, soak: int) -> int:
    """How many examples, executions or steps are tried."""
    return soak if SOAK else usual


def tried(usual: int, soak: int) -> settings:
    """A property that is tried with so many examples, the same ones each time."""
    count = often(usual, soak)
    checks = list(HealthCheck)
    return settings(deadline=None, database=None, derandomize=True, max_examples=count, suppress_health_check=checks)
