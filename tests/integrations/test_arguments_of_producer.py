"""What a program may give to a producer, and what it is told of what makes no sense."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidOption
from flarelog.integrations.producer import Producer
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
