"""The sentence for a command's end: it gives the known facts and no others."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from flarelog.exit_marks import Exit
from flarelog.values import changed
from tests.rows import together

ENDED = Exit(0, 0, "aa", started=1_000, ended=13_500)
KILLED = replace(ENDED, signal=signal.SIGKILL)


@together(
    ("how", "sentence"),
    [
        pytest.param(ENDED, "exit code 0 after 12.5 s", id="well"),
        pytest.param(replace(ENDED, status=137), "exit code 137 after 12.5 s", id="137-is-a-code-and-nothing-else"),
        pytest.param(KILLED, "killed by SIGKILL after 12.5 s", id="killed"),
        pytest.param(
            replace(KILLED, oom_before=2, oom_after=3, oom_within=400, oom="likely"),
            "killed by SIGKILL after 12.5 s; the cgroup's OOM counter rose from 2 to 3 within 0.4 s before: likely OOM",
            id="likely",
        ),
        pytest.param(
            replace(ENDED, status=137, cause="Evicted"),
            "exit code 137 after 12.5 s; Kubernetes ended the pod: Evicted",
            id="evicted",
        ),
        pytest.param(
            replace(KILLED, oom="certain"),
            "killed by SIGKILL after 12.5 s; the kernel killed this process because memory ran out: OOM",
            id="certain",
        ),
        pytest.param(
            replace(ENDED, status=1, oom_before=0, oom_after=1, oom="others"),
            "exit code 1 after 12.5 s; the cgroup's OOM counter rose from 0 to 1 while it ran:"
            " the kernel killed another process",
            id="another-was-killed",
        ),
        pytest.param(
            replace(KILLED, oom="none", oom_before=3, oom_after=3), "killed by SIGKILL after 12.5 s", id="none"
        ),
        pytest.param(
            replace(ENDED, signal=signal.SIGSEGV, core=True), "killed by SIGSEGV, core dumped after 12.5 s", id="core"
        ),
        pytest.param(replace(ENDED, signal=99, ended=0), "killed by signal 99", id="a-signal-without-a-name"),
        pytest.param(replace(ENDED, ended=1_000 + 100_000), "exit code 0 after 100 s", id="seconds"),
        pytest.param(replace(ENDED, ended=1_000 + 600_000), "exit code 0 after 10 min", id="ten-minutes"),
        pytest.param(replace(ENDED, ended=1_000 + 65_000 * 60), "exit code 0 after 65 min", id="minutes"),
        pytest.param(replace(ENDED, ended=1_000 + 7_500_000 * 3), "exit code 0 after 6 h 15 min", id="hours"),
        pytest.param(replace(ENDED, started=14_000), "exit code 0", id="a-clock-that-was-set-back"),
        pytest.param(replace(ENDED, ended=1 << 62), "exit code 0", id="a-time-outside-the-calendar"),
        pytest.param(
            replace(KILLED, oom_before=2, oom_after=3, oom_within=1 << 62, oom="likely"),
            "killed by SIGKILL after 12.5 s; the cgroup's OOM counter rose from 2 to 3 within 0.0 s before: likely OOM",
            id="an-age-of-a-million-years",
        ),
    ],
)
def test_sentence(how: Exit, sentence: str) -> None:
    assert how.sentence == sentence


@pytest.mark.parametrize("name", ["started", "ended", "clock", "at", "user_cpu", "sys_cpu", "oom_within"])
def test_a_time_outside_the_calendar_is_unknown(name: str) -> None:
    """A site may send any number, and no reader has a word for it."""
    ended = Exit(0, 0, "aa")
    assert getattr(changed(ended, **{name: 1 << 62}), name) == 0
    assert getattr(changed(ended, **{name: 253_402_300_799_999}), name) == 253_402_300_799_999
    assert Exit(0, 0, "aa", ended=1 << 62, clock=1 << 62).when == 0


def test_an_end_that_was_known_late_is_placed_after_the_last_byte() -> None:
    late = replace(ENDED, offset=9, until=4)
    assert (late.placed.offset, late.placed.until) == (4, -1)
    assert replace(ENDED, offset=9, until=12).placed.offset == 9, "it is not trusted"
