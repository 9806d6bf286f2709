"""What a sidecar's end says of it."""

from __future__ import annotations

import pytest

from flarelog.errors import FAILED, GAPS, NOT_FOUND, OK, TIMEOUT, FlarelogError, NotFound, StreamRejected, TimedOut
from flarelog.model import StreamId
from flarelog.sidecar import Outcome, StreamOutcome


def stream(gaps: int = 0, error: FlarelogError | None = None, log: str = "log.txt") -> StreamOutcome:
    return StreamOutcome(StreamId("run-1", "site-1", log), 0, None, 0, 0, 1, gaps, error)


REJECTED = StreamRejected("no", offset=0)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        pytest.param(Outcome((), ()), OK, id="nothing-to-send"),
        pytest.param(Outcome((stream(), stream()), ()), OK, id="everything-is-stored"),
        pytest.param(Outcome((stream(), stream(gaps=1)), ()), GAPS, id="a-known-loss"),
        pytest.param(Outcome((stream(),), ("a name",)), FAILED, id="a-file-that-could-not-be-sent"),
        pytest.param(Outcome((stream(gaps=1), stream(error=REJECTED)), ()), FAILED, id="an-error-is-worse-than-a-gap"),
        pytest.param(Outcome((stream(gaps=1),), ("a name",)), FAILED, id="and-so-is-a-file-that-could-not-be-sent"),
        pytest.param(Outcome((), (), NotFound("no root")), NOT_FOUND, id="the-whole-ended-early"),
        pytest.param(Outcome((stream(),), (), TimedOut("late")), TIMEOUT, id="the-drain-took-too-long"),
    ],
)
def test_a_sidecars_exit_code(outcome: Outcome, code: int) -> None:
    assert outcome.exit_code == code


def test_a_later_look_at_the_same_logs_has_the_last_word_on_those_that_it_opened() -> None:
    first = Outcome((stream(), stream(log="other.txt", gaps=1)), ())
    later = Outcome((stream(error=REJECTED),), ())
    assert first.exit_code == GAPS
    assert first.then(later).exit_code == FAILED
    assert [(one.stream.log, one.gaps) for one in first.then(later).streams] == [("log.txt", 0), ("other.txt", 1)]
    assert later.then(first).exit_code == GAPS
