"""When a heartbeat is due, and when silence is a timeout."""

from __future__ import annotations

import pytest

from flarelog.delivery.liveness import HEARTBEAT, IDLE_TIMEOUT, Liveness
from flarelog.errors import InvalidOption


@pytest.mark.parametrize(
    ("sent", "heard", "now", "heartbeat_in", "timeout_in"),
    [
        pytest.param(100.0, 100.0, 100.0, 10.0, 60.0, id="at-the-beginning-all-is-far"),
        pytest.param(100.0, 100.0, 110.0, 0.0, 50.0, id="a-quiet-interval-makes-a-heartbeat-due"),
        pytest.param(100.0, 100.0, 115.0, 0.0, 45.0, id="and-it-stays-due"),
        pytest.param(108.0, 100.0, 110.0, 8.0, 50.0, id="what-is-sent-puts-the-heartbeat-off"),
        pytest.param(100.0, 108.0, 110.0, 0.0, 58.0, id="what-is-heard-puts-the-timeout-off"),
        pytest.param(159.0, 100.0, 160.0, 9.0, 0.0, id="sending-is-not-hearing"),
        pytest.param(100.0, 100.0, 900.0, 0.0, 0.0, id="nothing-is-due-before-now"),
    ],
)
def test_what_is_due(sent: float, heard: float, now: float, heartbeat_in: float, timeout_in: float) -> None:
    watch = Liveness(100.0, interval=10.0, timeout=60.0)
    watch.sent(sent)
    watch.heard(heard)
    assert watch.heartbeat_in(now) == heartbeat_in
    assert watch.timeout_in(now) == timeout_in
    assert watch.silent_for(now) == now - heard


def test_by_default_a_heartbeat_may_be_lost_without_a_timeout() -> None:
    assert 2 * HEARTBEAT < IDLE_TIMEOUT


@pytest.mark.parametrize(("interval", "timeout"), [(10.0, 10.0), (10.0, 5.0), (0.0, 5.0), (-1.0, 5.0)])
def test_a_timeout_must_leave_room_for_a_heartbeat(interval: float, timeout: float) -> None:
    with pytest.raises(InvalidOption, match="must be longer than the heartbeat interval"):
        Liveness(0.0, interval=interval, timeout=timeout)
