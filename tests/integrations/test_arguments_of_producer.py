"""The producer's arguments for programs; errors use the names of the API."""

from __future__ import annotations

from typing import Any

import pytest

from flarelog.bus import Notice
from flarelog.errors import InvalidOption
from flarelog.integrations.producer import Producer
from flarelog.lifecycle import Event
from flarelog.sources.files.patterns import SourceOptions


def source(**given: object) -> SourceOptions:
    made = Producer("127.0.0.1:1", "site-1", "job", **given)  # type: ignore[arg-type]
    return made._source


def test_one_pattern_need_not_be_a_list() -> None:
    assert source(include="*.log") == source(include=["*.log"])
    assert source(exclude="*.csv") == source(exclude=["*.csv"])
    assert source(redact="all") == source(redact=["all"])


def test_what_no_pattern_is_named() -> None:
    with pytest.raises(InvalidOption, match="the redaction 'some' is unknown"):
        source(redact="some")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"receiver": []}, "receiver is empty: name at least one, as HOST:PORT"),
        ({"root": None}, "root must be the path of a directory, not None"),
        ({"root": ""}, "root must be the path of a directory, not ''"),
        ({"join_timeout": -1}, "join_timeout must be a number of seconds from 0.001 to 4294967, not -1"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Producer(**{"receiver": "127.0.0.1:1", "site": "site-1", "root": "job", **given})
    assert str(refused.value) == sentence


@pytest.mark.parametrize("run", ["a b", 7])
def test_a_run_whose_name_is_wrong_is_told_once(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer("127.0.0.1:1", "site-1", "job")
    producer._background = background = object()  # type: ignore[assignment]
    for event in (Event.ABOUT_TO_START_RUN, Event.START_RUN, Event.ABOUT_TO_END_RUN, Event.END_RUN):
        producer._on(Notice(event, run))
    assert producer._background is background
    (said,) = [record.getMessage() for record in caplog.records]
    assert "the run's name" in said
    assert said.endswith("; the run continues without its logs")
