"""A site's own choice whether its logs are streamed, and how long jobs are kept."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidOption, NotAllowed
from flarelog.integrations.jobs import Consent, JobReceiver
from flarelog.model import Action
from flarelog.policy import Identity
from flarelog.security.guard import Guard

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


# --- whose runs an admin sees

ADMINS = {name: Identity("certificate", name, nvflare_role="project_admin") for name in ("ann", "bob")}
SHOWN = {"ann": {"run-a", "run-both"}, "bob": {"run-b", "run-both"}}
STUDIES = Consent(shows=lambda admin, run: run in SHOWN[admin])
OF_A_RUN = [Action.READ, Action.FINDINGS, Action.LIST, Action.LIST_RUNS, Action.GET_RUN, Action.TIMELINE]


@pytest.mark.parametrize("action", OF_A_RUN)
@pytest.mark.parametrize("admin", ADMINS)
def test_an_admin_sees_the_runs_that_the_framework_shows_him_and_no_other(admin: str, action: Action) -> None:
    runs = ("run-a", "run-b", "run-both", "no-such-run")
    seen = {run for run in runs if STUDIES.permits(ADMINS[admin], action, run=run, site="site-1")}
    assert seen == SHOWN[admin]


@pytest.mark.parametrize("action", [Action.LIST, Action.LIST_RUNS])
@pytest.mark.parametrize("run", ["", None])
def test_an_admin_may_ask_for_a_list_of_all_runs_whose_entries_are_then_filtered(
    action: Action, run: str | None
) -> None:
    STUDIES.allows(ADMINS["ann"], action, run=run)


def test_a_refusal_does_not_say_whether_there_is_such_a_run() -> None:
    said = []
    for run in ("run-b", "run-x"):
        with pytest.raises(NotAllowed) as refused:
            STUDIES.allows(ADMINS["ann"], Action.READ, run=run, site="site-1")
        said.append(str(refused.value).replace(run, ""))
    assert said[0] == said[1]


def test_a_run_that_is_hidden_while_it_is_read_ends_the_read() -> None:
    shown = {"run-a"}
    guard = Guard(Consent(shows=lambda admin, run: run in shown))
    guard.still(ADMINS["ann"], Action.READ, "ipv4:192.0.2.1:1", "run-a", "site-1")
    shown.clear()
    with pytest.raises(NotAllowed):
        guard.still(ADMINS["ann"], Action.READ, "ipv4:192.0.2.1:1", "run-a", "site-1")


@pytest.mark.parametrize("action", [Action.PUSH, Action.START_RUN, Action.END_RUN, Action.DELETE])
def test_an_admin_changes_nothing(action: Action) -> None:
    assert not STUDIES.permits(ADMINS["ann"], action, run="run-a", site="ann")


def test_only_an_admins_certificate_is_asked_about() -> None:
    for identity in (Identity("certificate", "ann"), Identity("token", "ann", nvflare_role="lead")):
        assert not STUDIES.permits(identity, Action.READ, run="run-a", site="site-1")


@pytest.mark.parametrize("days", [-1.0, 0.0, float("nan")])
def test_days_that_make_no_sense(days: float) -> None:
    with pytest.raises(InvalidOption, match=r"^keep_days must be a positive number of days"):
        JobReceiver("store", "jobs", listen="127.0.0.1:0", tls=None, keep_days=days)
