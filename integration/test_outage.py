"""The screen of a terminal of any width while a receiver is away, and after its return; the footer has a row of its
own.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count

import pytest

from integration.harness.places import RUN, SITE, Place, environment, free_address, until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="install tmux: it is the terminal")

NUMBERS = count()


class Terminal:
    """A tmux of its own that runs flarelog with *args*."""

    def __init__(self, place: Place, columns: int, *args: str) -> None:
        self._server = f"flarelog-{place.directory.name}-{next(NUMBERS)}"
        command = [sys.executable, "-m", "flarelog", *args]
        size = ("-x", str(columns), "-y", "20")
        self._tmux("new-session", "-d", *size, *command, env=environment() | {"TERM": "xterm-256color"})

    def _tmux(self, *args: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(["tmux", "-L", self._server, *args], capture_output=True, text=True, check=False, env=env)
        return done.stdout

    def screen(self) -> list[str]:
        return [row for row in self._tmux("capture-pane", "-p").splitlines() if row.strip()]

    def last(self) -> str:
        return next(reversed(self.screen()), "")

    def end(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    made: list[Terminal] = []
    yield made
    for each in made:
        each.end()


@pytest.mark.parametrize(
    "columns", [40, pytest.param(80, marks=pytest.mark.soak), pytest.param(200, marks=pytest.mark.soak)]
)
def test_an_outage_shows(place: Place, terminals: list[Terminal], columns: int) -> None:
    receiver = place.serve(listen=free_address())
    place.sidecar(receiver)
    writing = "while sleep 0.2; do echo 'one more line, of a length that some terminals part'; done >> app.log"
    writer = subprocess.Popen(["sh", "-c", writing], cwd=place.root)
    try:
        until(lambda: receiver.file(site=SITE).exists(), "the log is there")
        follow = Terminal(place, columns, "follow", RUN, "--receiver", receiver.address, "--tail", "3")
        status = Terminal(place, columns, "status", RUN, "--receiver", receiver.address, "--watch")
        terminals += [follow, status]
        until(lambda: follow.last() == "1 site: 1 live", lambda: f"it is live: {follow.screen()}")
        until(lambda: "live" in status.last(), lambda: f"it is live: {status.screen()}")
        receiver.program.tell(signal.SIGKILL)
        receiver.program.ends()
        gone = "no connection for"
        until(lambda: follow.last().startswith(gone), lambda: f"follow says it: {follow.screen()}")
        until(lambda: "has not answered for" in status.screen()[0], lambda: f"status says it: {status.screen()}")
        assert not any("live" in row for row in status.screen())
        again = receiver.again()
        until(lambda: follow.last() == "1 site: 1 live", lambda: f"it is live again: {follow.screen()}")
        until(lambda: "live" in status.last(), lambda: f"it is live again: {status.screen()}")
        # The footer is on one row only.
        assert sum(bool(re.search(r"\d sites?: ", row)) for row in follow.screen()) == 1
    finally:
        writer.kill()
        writer.wait()
    again.stop()
