"""The activity of a silent log's writers: whether they live and compute, and since when they are idle."""

from __future__ import annotations

import os

from flarelog.model import Activity
from flarelog.sources.files.activity import TELL_EVERY, Fares, Process
from flarelog.sources.files.sockets import Waits

ME: Process = (10, 100)
SECOND = os.sysconf("SC_CLK_TCK")  # clock ticks of one CPU second


class Looked:
    """Looks at the processes of one file, 10 seconds apart."""

    def __init__(self) -> None:
        self.gpu: float | None = None
        self.fares, self.now = Fares(lambda pids: self.gpu), 1000.0

    def look(self, used: dict[Process, float], *writers: Process, after: float = 10.0) -> Activity | None:
        """Look again *after* seconds later. *used*: CPU seconds of each process since its start."""
        self.now += after
        ticks = {process: round(seconds * SECOND) for process, seconds in used.items()}
        return self.fares.look(frozenset(writers or (set(used) & {ME})), ticks, self.now)


def test_one_look_says_nothing() -> None:
    assert Looked().look({ME: 5.0}) is None


def test_who_uses_the_cpu_computes() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    assert looked.look({ME: 10.0}) == Activity(1, 0.5)


def test_who_uses_none_is_idle_since_the_look_before() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    assert looked.look({ME: 5.05}) == Activity(1, 0.005, 10.0)
    assert looked.look({ME: 5.05}) == Activity(1, 0.005, 10.0), "nothing new is told so soon"
    assert looked.look({ME: 5.05}, after=TELL_EVERY) == Activity(1, 0.0, 20.0 + TELL_EVERY)


def test_who_uses_a_gpu_computes() -> None:
    looked = Looked()
    looked.gpu = 40.0
    looked.look({ME: 5.0})
    assert looked.look({ME: 5.0}) == Activity(1, 0.0, gpu=40.0)
    looked.gpu = 0.0
    assert looked.look({ME: 5.0}) == Activity(1, 0.0, 10.0, gpu=0.0)
    assert looked.look({ME: 10.0}) == Activity(1, 0.5, gpu=0.0)


def test_what_changes_is_told_at_once() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    looked.look({ME: 5.0})
    assert looked.look({ME: 9.0}) == Activity(1, 0.4)
    assert looked.look({ME: 9.0}) == Activity(1, 0.0, 10.0), "it counts from when it last computed"


def test_a_child_that_began_since_computes_for_its_parent() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    assert looked.look({ME: 5.0, (11, 200): 3.0}) == Activity(2, 0.3)


def test_an_older_process_that_joined_has_not_computed_since() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    assert looked.look({ME: 5.0, (9, 50): 3000.0}) == Activity(2, 0.0, 10.0)


def test_a_process_that_ended_takes_nothing_back() -> None:
    looked = Looked()
    looked.look({ME: 5.0, (11, 200): 300.0})
    assert looked.look({ME: 5.0}) == Activity(1, 0.0, 10.0)


def test_writers_that_were_seen_twice_and_are_not_there_have_ended() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    looked.look({ME: 9.0})
    assert looked.look({}) == Activity(0)


def test_a_writer_that_was_seen_once_may_open_the_log_for_each_line() -> None:
    looked = Looked()
    for started in range(5):
        assert looked.look({(10, started): 1.0}, (10, started)) is None
        assert looked.look({}) is None


def test_a_log_that_has_grown_is_looked_at_anew() -> None:
    looked = Looked()
    looked.look({ME: 5.0})
    looked.look({ME: 5.0})
    looked.fares.moved()
    assert looked.look({ME: 5.0}) is None
    assert looked.look({ME: 5.0}) == Activity(1, 0.0, 10.0)


def test_what_shows_that_idle_processes_do_not_hang_is_told_at_once_and_with_them_alone() -> None:
    fares, shown = Fares(lambda pids: None), Waits("[::]:80", "10.0.0.5:443")
    looks = [fares.look(frozenset({ME}), {ME: 500}, now, writes, waits) for now, writes, waits in (
        (0.0, "b.log", shown), (10.0, "", Waits()), (20.0, "", shown), (30.0, "b.log", shown)
    )]  # fmt: skip
    assert looks[:2] == [None, Activity(1, 0.0, 10.0)]
    assert looks[2] == Activity(1, 0.0, 20.0, None, "", "[::]:80", "10.0.0.5:443")
    assert looks[3] == Activity(1, 0.0, 30.0, None, "b.log", "[::]:80", "10.0.0.5:443")
    busy = fares.look(frozenset({ME}), {ME: 500 + 10 * SECOND}, 40.0, "b.log", shown)
    assert busy == Activity(1, 1.0)
