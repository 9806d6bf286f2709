"""A site's own choice whether its logs are streamed, and how long jobs are kept."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidOption, NotAllowed
from flarelog.integrations.jobs import Consent, Jobs
from flarelog.model import Action
from flarelog.policy import Identity

SITES = {name: Identity("certificate", name) for name in ("willing", "unwilling")}
POLICY = Consent(allowed=lambda site: site == "willing")


def test_a_site_that_does_not_allow_it_pushes_nothing() -> None:
    with pytest.raises(NotAllowed, match="unwilling does not allow log streaming"):
        POLICY.allows(SITES["unwilling"], Action.PUSH, run="job-1", site="unwilling")
    POLICY.allows(SITES["unwilling"], Action.LIST, run="job-1", site="unwilling")  # the list is empty


def test_a_site_that_does_pushes_as_itself_and_as_nobody_else() -> None:
    POLICY.allows(SITES["willing"], Action.PUSH, run="job-1", site="willing")
    with pytest.raises(NotAllowed, match="may not push as"):
        POLICY.allows(SITES["unwilling"], Action.PUSH, run="job-1", site="willing")


@pytest.mark.parametrize("days", [-1.0, 0.0, float("nan")])
def test_days_that_make_no_sense(days: float) -> None:
    with pytest.raises(InvalidOption, match=r"^keep_days must be a positive number of days"):
        Jobs("jobs", lambda run, streams: None, days)
