"""The default run of commands that are given none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from flarelog.cli import main
from flarelog.cli.there import chosen
from flarelog.errors import NotFound
from flarelog.model import RunInfo, StreamId
from flarelog.stores.local.store import LocalStore

OLD, NEW, STAMPLESS = RunInfo("run-10", begun=5, grown=90), RunInfo("run-9", begun=7, grown=8), RunInfo("x", grown=6)


def test_the_only_run_needs_no_name() -> None:
    assert chosen([OLD], "here", latest=False) == "run-10"


@pytest.mark.parametrize(
    ("runs", "latest"), [([OLD, NEW], "run-9"), ([OLD, STAMPLESS], "x"), ([RunInfo("a-2"), RunInfo("a-10")], "a-10")]
)
def test_the_latest_run_is_the_one_that_began_last(runs: list[RunInfo], latest: str) -> None:
    assert chosen(runs, "here", latest=True) == latest


def test_the_run_of_test_records_is_not_meant() -> None:
    tested = RunInfo("flarelog-doctor", begun=99)
    assert chosen([OLD, tested], "here", latest=False) == "run-10"
    assert chosen([OLD, NEW, tested], "here", latest=True) == "run-9"
    assert chosen([tested], "here", latest=False) == "flarelog-doctor"


def test_of_several_runs_one_is_to_be_named() -> None:
    with pytest.raises(click.UsageError, match="here has 2 runs, run-9, run-10: name one, or give --latest"):
        chosen([OLD, NEW], "here", latest=False)
    many = [RunInfo(f"run-{n}", begun=n) for n in range(1, 8)]
    with pytest.raises(click.UsageError, match="7 runs, run-7, run-6, run-5, run-4, run-3 and 2 more: name one"):
        chosen(many, "here", latest=False)


def test_no_run_at_all() -> None:
    with pytest.raises(NotFound, match="here has no run"):
        chosen([], "here", latest=True)


@pytest.mark.parametrize(
    "command",
    ["logs", "status", "findings", "report -o -", "streams", "runs", "verify", "rm --yes", "logs --first-error"],
)
def test_every_command_says_the_same_of_a_run_that_is_not_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    store = str(tmp_path / "logs")
    asyncio.run(with_a_log(store))
    name, *options = command.split()
    form = ["--format", "md"] if name == "report" else []
    assert ends([name, "exp-24", "--store", store, *options, *form]) == 3
    assert capfd.readouterr().err == f"flarelog: {store} has no run exp-24: did you mean exp-42?\n"


@pytest.mark.parametrize("command", ["logs", "rm --yes", "status", "findings"])
def test_a_site_that_is_not_removed_is_told_as_one_that_is_not_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    store = str(tmp_path / "logs")
    asyncio.run(with_a_log(store))
    assert ends([*command.split(), "exp-42", "--site", "site2", "--store", store]) == 3
    told = f"flarelog: run exp-42 at {store} has no site site2 (it has site-2): did you mean site-2?\n"
    assert capfd.readouterr().err == told


def ends(args: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(args)
    return ended.value.code


async def with_a_log(root: str) -> None:
    async with LocalStore(root, "memory") as store:
        appender = await store.appender(StreamId("exp-42", "site-2", "log.txt"), b"producer")
        await appender.append(0, b"hello\n")
        await appender.close()
