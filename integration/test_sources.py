"""A sidecar sends the logs of any kind of finder: here logs in memory, to a real receiver."""

from __future__ import annotations

import asyncio

import pytest

from flarelog.sender import sidecar
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome
from integration.harness.places import RUN, SITE, Place, lines
from tests.sources import memory

DATA, MORE = lines(1000), lines(1000, 1000)


def test_logs_of_another_kind_are_sent_until_their_finder_says_that_nothing_more_comes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process resumes at the receiver's record, and does not reopen whole logs."""
    receiver = place.serve()
    monkeypatch.setattr(sidecar, "finder", lambda wanted, **_: memory.MemoryFinder(wanted))

    async def send(*logs: tuple[str, bytes], again: bool = False) -> Outcome:
        wanted.finished = False
        one = sidecar.Sidecar(SidecarOptions(receiver.address, RUN, SITE, wanted, once=again, again=again))
        running = asyncio.create_task(one.run())
        for log, data in logs:
            wanted.write(log, data)
            await asyncio.to_thread(receiver.gets, wanted.data(log), log)
        wanted.finish()
        return await running

    wanted = memory.Place()
    outcome = asyncio.run(send(("stdout", DATA), ("stderr", b"oh\n"), ("stdout", MORE)))
    assert (outcome.exit_code, [one.receipt is not None for one in outcome.streams]) == (0, [True, True])
    wanted.write("stdout", b"late\n")
    again = asyncio.run(send(again=True))
    assert [(one.stream.log, one.committed) for one in again.streams] == [("stdout", len(DATA + MORE) + 5)]
    assert receiver.stored("stdout") == DATA + MORE + b"late\n"
    assert receiver.stored("stderr") == b"oh\n"
