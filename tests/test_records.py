"""Sentences about runs and streams."""

from __future__ import annotations

import pytest

from flarelog.model import StreamId, StreamInfo
from flarelog.receiver.phases import QUIET_AFTER
from flarelog.records import unstored_sentences
from flarelog.viewers.standings import Leads, reason_lines


def unstored(log: str, why: str) -> StreamInfo:
    return StreamInfo(StreamId("run-1", "s1", log), 0, 0, 0, False, unstored=why)


NAMED = "run-1/s1/a/b.log cannot be stored: a part of its name is a log"


@pytest.mark.parametrize(
    ("infos", "sentence", "line"),
    [
        pytest.param(
            [unstored("a/b.log", NAMED)],
            f"run-1/s1: nothing is stored of 1 log: {NAMED}",
            f"not stored: {NAMED}",
            id="a-reason-that-names-the-log",
        ),
        pytest.param(
            [unstored("a", "too many")],
            "run-1/s1: nothing is stored of 1 log: too many (a)",
            "not stored: too many (run-1/s1/a)",
            id="one-that-does-not",
        ),
        pytest.param(
            [unstored("a", NAMED)],
            f"run-1/s1: nothing is stored of 1 log: {NAMED} (a)",
            f"not stored: {NAMED} (run-1/s1/a)",
            id="one-that-names-another",
        ),
        pytest.param(
            [unstored("a", "too many"), unstored("b", "too many")],
            "run-1/s1: nothing is stored of 2 logs: too many (a, b)",
            "not stored: too many (run-1/s1/a, run-1/s1/b)",
            id="two-logs",
        ),
        pytest.param(
            [unstored(log, f"run-1/s1/{log} could not be written: it is full") for log in ("a", "b")],
            "run-1/s1: nothing is stored of 2 logs: could not be written: it is full (a, b)",
            "not stored: could not be written: it is full (run-1/s1/a, run-1/s1/b)",
            id="two-whose-reasons-begin-with-their-names",
        ),
    ],
)
def test_why_nothing_is_stored_names_each_log_once(infos: list[StreamInfo], sentence: str, line: str) -> None:
    assert unstored_sentences(infos) == [sentence]
    assert reason_lines(infos, QUIET_AFTER, Leads()) == [line]
