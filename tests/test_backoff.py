"""The growth of delays between retries."""

from __future__ import annotations

import pytest
from tenacity import AsyncRetrying, RetryCallState, wait_exponential

from flarelog.backoff import delay


@pytest.mark.parametrize(("first", "longest"), [(0.1, 5.0), (0.2, 2.0), (5.0, 600.0)])
def test_delays_are_those_of_tenacity(first: float, longest: float) -> None:
    wait = wait_exponential(first, longest)
    state = RetryCallState(AsyncRetrying(), None, (), {})
    for failures in range(20):
        state.attempt_number = failures + 1
        assert delay(failures, first, longest) == pytest.approx(wait(state))


def test_any_number_of_failures_has_a_delay() -> None:
    assert delay(10**9, 0.1, 5.0) == 5.0
