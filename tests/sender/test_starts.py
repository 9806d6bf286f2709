"""The order of two sidecars of one machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from flarelog.sender import starts

TICK = 10_000_000  # ns, at 100 ticks a second


def stat(number: int, name: str, ticks: int) -> bytes:
    """A process's line in /proc."""
    fields = ["S", "1", *["0"] * 17, str(ticks), "1000", "200"]
    return f"{number} ({name}) {' '.join(fields)}\n".encode()


@pytest.mark.parametrize("name", ["flarelog", "a b", "a) S 1 (b", ")", "\n"])
def test_the_start_is_found_after_any_name(name: str) -> None:
    assert starts.started(stat(7, name, 123), 100) == 123 * TICK + 7


def test_of_two_that_start_in_one_tick_one_is_the_later_for_every_receiver() -> None:
    earlier, later, next_ = stat(7, "a", 123), stat(8, "b", 123), stat(1, "c", 124)
    found = [starts.started(one, 100) for one in (earlier, later, next_)]
    assert found == sorted(set(found))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="another system")
def test_the_start_of_a_process_does_not_depend_on_the_time_that_its_imports_take() -> None:
    ask = "from flarelog.sender import starts; print(starts.of_process().ns)"
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    process = subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True)
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    said, _ = process.communicate()
    assert before - TICK <= int(said) <= after + TICK


def test_the_time_at_which_a_sidecar_is_asked_for_is_later_than_the_start_of_its_process() -> None:
    process, asked = starts.of_process(), starts.now()
    if process is not None:
        assert asked is not None
        assert asked.is_after(process)
        assert not process.is_after(starts.of_process()), "each look finds the same time"
