"""Which run is meant where none is named."""

from __future__ import annotations

import click
import pytest

from flarelog.cli.which import chosen
from flarelog.errors import NotFound
from flarelog.model import RunInfo

OLD, NEW, STAMPLESS = RunInfo("run-10", begun=5, grown=90), RunInfo("run-9", begun=7, grown=8), RunInfo("x", grown=6)


def test_the_only_run_needs_no_name() -> None:
    assert chosen([OLD], "here", latest=False) == "run-10"


@pytest.mark.parametrize(
    ("runs", "latest"), [([OLD, NEW], "run-9"), ([OLD, STAMPLESS], "x"), ([RunInfo("a-2"), RunInfo("a-10")], "a-10")]
)
def test_the_latest_run_is_the_one_that_began_last(runs: list[RunInfo], latest: str) -> None:
    assert chosen(runs, "here", latest=True) == latest


def test_of_several_runs_one_is_to_be_named() -> None:
    with pytest.raises(click.UsageError, match="here has 2 runs, run-9, run-10: name one, or give --latest"):
        chosen([OLD, NEW], "here", latest=False)
    many = [RunInfo(f"run-{n}", begun=n) for n in range(1, 8)]
    with pytest.raises(click.UsageError, match="7 runs, run-7, run-6, run-5, run-4, run-3 and 2 more: name one"):
        chosen(many, "here", latest=False)


def test_no_run_at_all() -> None:
    with pytest.raises(NotFound, match="here has no run"):
        chosen([], "here", latest=True)
