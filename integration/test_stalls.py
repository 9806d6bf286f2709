"""A network that stops for longer than any timeout ends nothing: what it broke is tried again, and every byte comes."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pytest

from integration.harness.places import LOG, Place, append, lines
from integration.harness.stalls import Stalling
from tests.often import table

SHORT = "import flarelog.wire.heartbeat as h; h.REPLY_TIMEOUT = 1.5; "
RECEIVER = f"{SHORT} import flarelog.receiver.call as c; c.OPEN_TIMEOUT = 1.0; import flarelog.cli as f; f.main()"
SENDER = f"{SHORT} import flarelog.cli as f; f.main()"
STALL = 3.0  # seconds
FRAMES = range(1, 11)  # of a sidecar's two calls: the record's, and that of its two logs
LOGS = (LOG, "other.log")


@pytest.mark.parametrize(("way", "half"), table(["up", "down"], {"between-messages": False, "in-a-message": True}))
def test_a_stall_at_any_message_ends_no_log(place: Place, way: str, half: bool) -> None:
    written = {log: append(place.root / log, lines(200)) for log in LOGS}
    receiver = place.serve(plain=(sys.executable, "-c", RECEIVER))
    with ExitStack() as stack:
        links = [stack.enter_context(Stalling(receiver.address, way, nth, STALL, half=half)) for nth in FRAMES]
        sidecars = [
            place.sidecar(link.address, "--once", site=f"site-{nth}", plain=(sys.executable, "-c", SENDER))
            for nth, link in enumerate(links)
        ]
        assert [sidecar.ends() for sidecar in sidecars] == [0] * len(links)
        for nth, _ in enumerate(links):
            assert [receiver.stored(log, f"site-{nth}") for log in LOGS] == list(written.values()), nth
        assert sum(link.stalled for link in links) >= 3, "replies may share a message, but each call has some"


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_stall_at_any_message_leaves_no_run_of_an_agent_unsent(place: Place, way: str) -> None:
    runs = [f"run-{number}" for number in range(3)]
    for run in runs:
        (place.root / run).mkdir()
        append(place.root / run / LOG, lines(50))
    receiver = place.serve(plain=(sys.executable, "-c", RECEIVER))
    with ExitStack() as stack:
        links = [stack.enter_context(Stalling(receiver.address, way, nth, STALL)) for nth in FRAMES]
        agents = [
            place.start(
                *("agent", "--once", "--receiver", link.address, "--site", f"site-{nth}", "--root", str(place.root)),
                plain=(sys.executable, "-c", SENDER),
            )
            for nth, link in enumerate(links)
        ]
        assert [agent.ends() for agent in agents] == [0] * len(links)
        for nth, _ in enumerate(links):
            assert [receiver.stored(LOG, f"site-{nth}", run) for run in runs] == [lines(50)] * 3, nth
