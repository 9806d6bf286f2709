"""What the end of one run means for the other runs of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from flarelog.errors import CannotConnect, FlarelogError, ReceiverNotReady, TimedOut
from flarelog.model import StreamId
from flarelog.sender.agent import Agent, AgentOptions
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome, StreamOutcome
from flarelog.sources.base import Wanted
from flarelog.sources.files.patterns import SourceOptions

UNKNOWN = ReceiverNotReady("the run is still unknown", offset=0)


def outcome(error: FlarelogError | None = None, log: FlarelogError | None = None) -> Outcome:
    return Outcome((StreamOutcome(StreamId("run-1", "site", "log.txt"), 0, None, 0, 0, 0, 0, log),), (), error)


@pytest.mark.parametrize(
    ("how", "goes_on"),
    [
        pytest.param(outcome(log=UNKNOWN), True, id="a-run-that-is-not-announced"),
        pytest.param(outcome(), True, id="a-run-that-is-stored"),
        pytest.param(outcome(CannotConnect("no receiver answered")), False, id="no-receiver"),
        pytest.param(outcome(TimedOut("nothing was acknowledged")), False, id="a-receiver-that-stores-nothing"),
    ],
)
def test_only_a_receiver_that_does_not_answer_ends_the_other_runs(
    tmp_path: Path, mocker: MockerFixture, how: Outcome, goes_on: bool
) -> None:
    def sidecar(run: str, source: Wanted) -> SidecarOptions:
        assert isinstance(source, SourceOptions)
        return SidecarOptions("127.0.0.1:1", run, "site", source, once=True)

    agent = Agent(SourceOptions(str(tmp_path)), AgentOptions(), sidecar)
    agent._runs = mocker.Mock(sending=0, left=1)
    agent._end("run-1", how)
    assert agent._over() is not goes_on
