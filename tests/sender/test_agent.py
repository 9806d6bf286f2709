"""What the end of one run means for the other runs of an agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest
from pytest_mock import MockerFixture

from flarelog.completeness import Completeness
from flarelog.errors import CannotConnect, FlarelogError, ReceiverNotReady, TimedOut
from flarelog.model import Started, StreamId
from flarelog.sender.agent import Agent, AgentOptions
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome, StreamOutcome
from flarelog.sender.runs import Steps
from flarelog.sources.base import Wanted
from flarelog.sources.files.patterns import SourceOptions

UNKNOWN = ReceiverNotReady("the run is still unknown", offset=0)


def outcome(error: FlarelogError | None = None, log: FlarelogError | None = None) -> Outcome:
    return Outcome(
        (StreamOutcome(StreamId("run-1", "site", "log.txt"), 0, None, 0, 0, 0, Completeness(), log),), (), error
    )


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


class Ends:
    """A sending that ends at once; *made* has the options of each one."""

    made: ClassVar[list[SidecarOptions]] = []

    def __init__(self, options: SidecarOptions, **_: object) -> None:
        self.made.append(options)

    async def run(self) -> Outcome:
        return outcome(TimedOut("nothing was acknowledged"))


def test_all_attempts_at_a_run_are_those_of_one_producer(tmp_path: Path, mocker: MockerFixture) -> None:
    """The receiver refuses the producers of a removed run, so that none of them brings it back."""
    mocker.patch("flarelog.sender.agent.Sending", Ends)
    source, began = SourceOptions(str(tmp_path)), Started("boot", 1)

    def sidecar(run: str, of_run: Wanted) -> SidecarOptions:
        assert isinstance(of_run, SourceOptions)
        return SidecarOptions("127.0.0.1:1", run, "site", of_run, started=began)

    async def go() -> None:
        agent = Agent(source, AgentOptions(), sidecar)
        mocker.patch.object(agent, "_connection", return_value=(mocker.Mock(), set()))
        for run in ("run-1", "run-1", "run-2"):
            agent._runs = mocker.Mock(look=mocker.Mock(return_value=Steps(live=[run])))
            agent._step({one: (source, mocker.Mock()) for one in ("run-1", "run-2")})
            await asyncio.gather(*agent._tasks.values())
        mocker.patch("flarelog.wire.listing.streams", return_value=[])
        agent._tasks["? run-1"] = asyncio.create_task(agent._ask("run-1", sidecar("run-1", source)))
        await agent._tasks["? run-1"]
        agent._runs = mocker.Mock(look=mocker.Mock(return_value=Steps(live=["run-1"])))
        agent._step({"run-1": (source, mocker.Mock())})
        await asyncio.gather(*agent._tasks.values())

    asyncio.run(go())
    first, second, other, back = Ends.made
    assert first.producer == second.producer != other.producer
    assert (first.started, second.started, other.started) == (began, began, began)
    assert back.producer != first.producer, "a run that is taken back has another producer"
    assert back.started != began
