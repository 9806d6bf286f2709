"""Messages of flarelog: their prefix, and one line for many logs."""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence

import pytest

from flarelog.talk import MINUTE, MOST, Each, Gathered, Talk, each, info_each
from tests.rows import together


def record(text: str, kind: str = "", log: str = "", level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("flarelog", level, "", 0, text, None, None)
    vars(made).update(each(kind, log) if kind else {})
    return made


def test_of_many_records_in_a_minute_the_first_few_are_said_and_the_others_counted() -> None:
    gathered = Gathered()
    assert sum(gathered.says(Each("are open", f"{n}.log"), 5.0 + n / 100) for n in range(1000)) == MOST
    assert gathered.says(Each("are sealed", "1.log"), 20.0)
    assert gathered.due == 5.0 + MINUTE
    assert [gathered.over(now) for now in (64.9, 65.0)] == [False, True]
    assert gathered.rest() == [(logging.INFO, f"{1000 - MOST} more logs are open")]
    assert gathered.says(Each("are open", "1.log"), 70.0)
    assert gathered.due is None


@together(
    ("kind", "logs", "rest"),
    [
        pytest.param("are open", range(MOST + 1), "1 more log is open", id="one"),
        pytest.param("have gaps", range(MOST + 1), "1 more log has gaps", id="one-that-has"),
        pytest.param("have gaps", range(MOST + 2), "2 more logs have gaps", id="two"),
        pytest.param(
            "are open",
            [0] * (MOST + 29),
            "29 more lines of logs that are open are left out",
            id="the-same-log-each-time",
        ),
        pytest.param(
            "have gaps",
            [0] * (MOST + 1),
            "1 more line of logs that have gaps is left out",
            id="one-line-of-the-same-log",
        ),
        pytest.param(
            "are open",
            [*range(MOST), 0, 88, 88, 99],
            "2 more logs are open; 2 more lines of logs that are open are left out",
            id="others-beside",
        ),
    ],
)
def test_logs_are_counted_and_not_what_is_said_of_them(kind: str, logs: Sequence[int], rest: str) -> None:
    gathered = Gathered()
    assert sum(gathered.says(Each(kind, f"{log}.log"), 5.0) for log in logs) == MOST
    assert [sentence for _, sentence in gathered.rest()] == [rest]


def test_few_records_are_all_said() -> None:
    gathered = Gathered()
    assert all(gathered.says(Each("are open", f"{n}.log"), 5.0) for n in range(MOST))
    assert gathered.due is None
    assert gathered.rest() == []


def said(count: int, level: int = logging.INFO, **how: bool) -> list[str]:
    out = io.StringIO()
    talk = Talk("sidecar", **how)
    talk.setStream(out)
    for n in range(count):
        talk.handle(record(f"log {n} is open", "are open", f"{n}.log", level))
    talk.handle(record("another thing"))
    talk.close()
    return [line.split(" ", 1)[1] for line in out.getvalue().splitlines()]


def test_a_line_begins_with_who_speaks_and_what_was_held_back_is_said_at_the_end() -> None:
    named = [f"INFO sidecar: log {n} is open" for n in range(30)]
    assert said(3) == [*named[:3], "INFO sidecar: another thing"]
    assert said(30) == [*named[:MOST], "INFO sidecar: another thing", "INFO sidecar: 20 more logs are open"]
    assert said(30, all_of_them=True) == [*named, "INFO sidecar: another thing"]


def test_the_rest_of_warnings_is_a_warning() -> None:
    assert said(MOST + 2, logging.WARNING)[-1] == "WARNING sidecar: 2 more logs are open"


def test_what_was_held_back_and_is_not_true_any_more_is_not_said() -> None:
    gathered = Gathered()
    for n in range(MOST + 3):
        gathered.says(Each("cannot be sent", f"{n}.log"), 5.0)
    for n in (0, MOST, MOST + 2):
        gathered.says(Each("are sent after all", f"{n}.log", ends="cannot be sent"), 6.0)
    assert [sentence for _, sentence in gathered.rest()] == ["1 more log cannot be sent"]
    for n in range(MOST + 1):
        gathered.says(Each("cannot be sent", f"{n}.log"), 7.0)
    gathered.says(Each("are sent after all", f"{MOST}.log", ends="cannot be sent"), 8.0)
    assert gathered.rest() == []


@pytest.mark.parametrize("beside", [False, True])
def test_a_record_that_nobody_sees_is_not_made(beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, out = logging.getLogger("flarelog"), io.StringIO()
    talk, other = Talk("sidecar"), logging.StreamHandler(seen := io.StringIO())
    talk.setStream(out)
    monkeypatch.setattr(ours, "handlers", [talk, other] if beside else [talk])
    monkeypatch.setattr(ours, "propagate", False)

    log, made = logging.getLogger("flarelog.a-room"), list[logging.LogRecord]()

    def note(record: logging.LogRecord) -> bool:
        made.append(record)
        return True

    log.setLevel(logging.INFO)
    monkeypatch.setattr(log, "filters", [note])
    for n in range(30):
        info_each(log, "are open", f"{n}.log", "log %d is open", n)
    talk.flush_rest()
    lines = out.getvalue().splitlines()
    assert (len(lines), lines[-1].endswith("INFO sidecar: 20 more logs are open")) == (MOST + 1, True)
    assert len(made) == (30 if beside else MOST)
    assert seen.getvalue().splitlines() == ([f"log {n} is open" for n in range(30)] if beside else [])
