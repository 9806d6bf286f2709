"""What flarelog says: who speaks, and of many logs one line."""

from __future__ import annotations

import io
import logging

from flarelog.talk import MINUTE, MOST, Gathered, Talk, each


def record(text: str, kind: str = "") -> logging.LogRecord:
    made = logging.LogRecord("flarelog", logging.INFO, "", 0, text, None, None)
    vars(made).update(each(kind) if kind else {})
    return made


def test_of_many_records_in_a_minute_the_first_few_are_said_and_the_others_counted() -> None:
    gathered = Gathered()
    assert sum(gathered.says("are open", 5.0 + n / 100) for n in range(1000)) == MOST
    assert gathered.says("are sealed", 20.0)
    assert gathered.due == 5.0 + MINUTE
    assert [gathered.over(now) for now in (64.9, 65.0)] == [False, True]
    assert gathered.rest() == [f"{1000 - MOST} more logs are open"]
    assert gathered.says("are open", 70.0)
    assert gathered.due is None


def test_few_records_are_all_said() -> None:
    gathered = Gathered()
    assert all(gathered.says("are open", 5.0) for _ in range(MOST))
    assert gathered.due is None
    assert gathered.rest() == []


def said(count: int, **how: bool) -> list[str]:
    out = io.StringIO()
    talk = Talk("sidecar", **how)
    talk.setStream(out)
    for n in range(count):
        talk.handle(record(f"log {n} is open", "are open"))
    talk.handle(record("another thing"))
    talk.close()
    return [line.split(" ", 1)[1] for line in out.getvalue().splitlines()]


def test_a_line_begins_with_who_speaks_and_what_was_held_back_is_said_at_the_end() -> None:
    named = [f"INFO sidecar: log {n} is open" for n in range(30)]
    assert said(3) == [*named[:3], "INFO sidecar: another thing"]
    assert said(30) == [*named[:MOST], "INFO sidecar: another thing", "INFO sidecar: 20 more logs are open"]
    assert said(30, all_of_them=True) == [*named, "INFO sidecar: another thing"]
