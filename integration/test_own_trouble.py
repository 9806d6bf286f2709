"""An error inside a sidecar with one log affects that log alone; the tests inject the errors."""

from __future__ import annotations

import sys

import pytest

from integration.harness.places import RUN, SITE, Place, Program, Receiver, append, lines, until

DATA, MORE = lines(1000), lines(1000, 1000)
MISTAKE = """
import sys
from flarelog.cli import main
from flarelog.sender.log import Log
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.tail import Tail

def wrong(kind, name, log_of, when=lambda *_: True):
    right = getattr(kind, name)
    def done(self, *args):
        if log_of(self, *args) == "bad.log" and when(self, *args):
            raise {error}
        return right(self, *args)
    setattr(kind, name, done)

{place}
main(prog_name="flarelog")
"""
A_BUG, THE_DISK = 'ZeroDivisionError("a bug")', 'OSError(5, "Input/output error")'
NEXT = 'wrong(Tail, "next", lambda self, *_: self.log, lambda self, offset, *_: offset > 0)'
LOOK = 'wrong(Tail, "look", lambda self, *_: self.log)'
BEAT = 'wrong(Log, "beat", lambda self: self.stream.log)'
MEET = """
from flarelog.sources.files.strangers import Strangers
wrong(Strangers, "_meet", lambda self, path, *_: path)
"""
RESUME = 'wrong(Tail, "resume", lambda self, *_: self.log)'


def mistaken(place: Place, receiver: Receiver, where: str, *args: str, error: str = A_BUG) -> Program:
    """A sidecar that fails at bad.log in the place *where*."""
    command = (sys.executable, "-c", MISTAKE.format(place=where, error=error))
    return place.sidecar(receiver, *args, plain=command)


@pytest.fixture
def receiver(place: Place) -> Receiver:
    append(place.root / "bad.log", DATA)
    append(place.root / "good.log", DATA)
    return place.serve()


def test_a_bug_in_one_log_is_said_once_and_the_others_are_sent_to_their_end(place: Place, receiver: Receiver) -> None:
    sidecar = mistaken(place, receiver, NEXT, "--once")
    assert sidecar.ends() == 1, sidecar.talk()
    assert sidecar.said.count("Traceback") == 1
    assert sidecar.said.count(f"ERROR sidecar: {RUN}/{SITE}/bad.log") == 1
    assert "ZeroDivisionError: a bug" in sidecar.said
    streams = receiver.streams()
    assert streams[f"{SITE}/good.log"]["sealed"]
    assert not streams[f"{SITE}/bad.log"]["sealed"]
    assert receiver.stored("good.log") == DATA


@pytest.mark.parametrize(
    ("where", "error", "code"),
    [
        pytest.param(NEXT, A_BUG, 1, id="reading"),
        pytest.param(LOOK, A_BUG, 1, id="looking"),
        pytest.param(LOOK, THE_DISK, 0, id="looking-at-a-disk-that-fails", marks=pytest.mark.soak),
        pytest.param(MEET, A_BUG, 1, id="meeting"),
        pytest.param(RESUME, A_BUG, 1, id="taking-up"),
        pytest.param(RESUME, THE_DISK, 1, id="taking-up-from-a-disk-that-fails", marks=pytest.mark.soak),
    ],
)
def test_a_log_with_trouble_of_its_own_holds_no_other_up(
    place: Place, receiver: Receiver, where: str, error: str, code: int
) -> None:
    assert place.once(receiver).ends() == 0  # so that there is a stream to resume
    sidecar = mistaken(place, receiver, where, error=error)
    append(place.root / "good.log", MORE)
    receiver.gets(DATA + MORE, "good.log")
    append(place.root / "late.log", DATA)
    receiver.gets(DATA, "late.log")
    until(lambda: "bad.log" in sidecar.said, "the trouble is said")
    assert sidecar.stop() == code, sidecar.talk()
    assert sidecar.said.count("Traceback") == (error == A_BUG)
    streams = receiver.streams()
    assert [streams[f"{SITE}/{log}"]["sealed"] for log in ("good.log", "late.log")] == [True, True]


def test_a_bug_in_a_heartbeat_ends_its_own_log(place: Place) -> None:
    append(place.root / "bad.log", DATA)
    append(place.root / "good.log", DATA)
    receiver = place.serve("--idle-timeout", "1")
    sidecar = mistaken(place, receiver, BEAT)
    receiver.gets(DATA, "good.log")
    until(lambda: f"ERROR sidecar: {RUN}/{SITE}/bad.log" in sidecar.said, "the trouble is said")
    append(place.root / "good.log", MORE)
    receiver.gets(DATA + MORE, "good.log")
    assert sidecar.stop() == 1
    assert sidecar.said.count("Traceback") == 1


def test_a_bug_in_the_delivery_to_one_receiver_ends_no_other(place: Place, receiver: Receiver) -> None:
    other = place.serve(store=place.directory / "other")
    where = f"""
from flarelog.sender.link import Link
wrong(Link, "record", lambda self, *_: "bad.log" if self._options.receiver == {other.address!r} else "")
"""
    sidecar = mistaken(place, receiver, where, "--receiver", other.address, "--once")
    assert sidecar.ends() == 1
    assert sidecar.said.count("Traceback") == 1
    assert [stream["sealed"] for stream in receiver.streams().values()] == [True, True]
