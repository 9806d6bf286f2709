"""The table of ``flarelog status`` on terminals of any width."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from flarelog.cli import main, status
from flarelog.cli.options import Access, Place
from flarelog.cli.status import fitting
from flarelog.lifecycle import RunState
from flarelog.model import Receipt, StreamId
from flarelog.security.tls import Tls
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from tests.rows import together

HEAD = ("SITE", "LOG", "STATE", "BYTES", "BYTES/S", "LAG", "CLOCK", "GAPS")
ROWS = [
    HEAD,
    ("site-1", "rank-0/training-of-the-large-model.log", "quiet 42 s", "1,234,567", "0", "0", "+3 ms", "2"),
    ("site-22", "log.txt", "ended: receipt", "3", "-", "-", "-", "10"),
]


@together("columns", [24, 40, 60, 80, 100, 200, None])
def test_state_and_gaps_stay_and_no_row_is_wider_than_the_terminal(columns: int | None) -> None:
    found = fitting(ROWS, columns)
    assert found[0].split()[0] == "SITE"
    assert "STATE" in found[0]
    assert found[0].endswith("GAPS")
    assert [line.split()[-1] for line in found[1:]] == ["2", "10"]
    assert columns is None or columns < 40 or max(map(len, found)) < columns


def test_what_is_needed_least_goes_first_and_then_the_middle_of_names() -> None:
    assert fitting(ROWS, None)[0].split() == list(HEAD)
    assert fitting(ROWS, 101)[0].split() == [*HEAD[:6], "GAPS"]
    assert fitting(ROWS, 40) == [
        "SITE     LOG       STATE           GAPS",
        "site-1   ran….log  quiet 42 s         2",
        "site-22  log.txt   ended: receipt    10",
    ]


def test_no_stream_is_no_row() -> None:
    assert fitting([], 40) == []


def test_a_command_below_the_table_can_be_read_to_its_end_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(status, "terminal_size", lambda: os.terminal_size((40, 24)))
    sentence = "findings: 1 finding may be a cause: it is disk.full in a/log.txt (flarelog findings job-1 --store logs)"
    row = "oslo  log.txt  " + 30 * "x"
    count = status.draw([row, sentence], 0)
    drawn = capsys.readouterr().out.replace("\x1b[K", "").replace("\x1b[J", "").removeprefix("\r").splitlines()
    assert (count, drawn[0]) == (len(drawn), row[:39])
    assert " ".join(line.strip() for line in drawn[1:]) == sentence
    assert max(map(len, drawn)) < 40


def test_a_receiver_that_stood_still_is_watched_on_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [0.0], list[float]()

    async def look() -> status.Found:
        clock[0] += 8.0  # seconds that the receiver takes to answer
        return status.Found([], "ended" if slept else "running")

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("asyncio.sleep", sleep)
    place = Place(None, "127.0.0.1:1", Access(partial(Tls)))
    asyncio.run(status._watch(status._Asked("run", (), 5.0, False), look, 2.0, place))
    assert slept == [status.PAUSE]


def test_who_stops_watching_leaves_no_question_behind() -> None:
    """A pending request would run over a closed connection and fail with a traceback."""
    left = []

    async def watched() -> None:
        asks = asyncio.Event()

        async def look() -> status.Found:
            asks.set()
            try:
                await asyncio.Event().wait()
                raise AssertionError
            finally:
                left.append("ended")

        place = Place(None, "127.0.0.1:1", Access(partial(Tls)))
        watching = asyncio.ensure_future(status._watch(status._Asked("run", (), 5.0, False), look, 1.0, place))
        await asks.wait()
        watching.cancel()
        await asyncio.wait((watching,))
        assert watching.cancelled()
        assert left == ["ended"]

    asyncio.run(watched())


@pytest.mark.parametrize("words", [[], ["--site", "site-1"], ["--site", "site-2"]])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_run_is_called_what_the_list_of_runs_calls_it(
    words: list[str], sealed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            await set_run(store, "run-1", RunState.RUNNING)
            for site in ("site-1", "site-2"):
                appender = await store.appender(StreamId("run-1", site, "log.txt"), b"producer")
                if sealed or site == "site-1":
                    await appender.seal(Receipt(0, 0, 0))
                await appender.close()

    asyncio.run(fill())
    main(["runs", "--store", str(tmp_path)], standalone_mode=False)
    main(["status", "run-1", *words, "--store", str(tmp_path)], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    said = "sealed" if sealed else "open"
    assert lines[1].split()[1] == said
    assert lines[2].startswith(f"run-1 {said}: ")
