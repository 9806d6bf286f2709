"""The message of a line that is an object of JSON."""

from __future__ import annotations

import json

import pytest

from flarelog.lines.messages import message_of
from tests.rows import together


@together(
    ("text", "message"),
    [
        ('{"level":"INFO","message":"round 1"}', "round 1"),
        ('{ "msg" : "a \\"b\\" \\\\" , "rank": 1 }', 'a "b" \\'),
        ('{"event": "begun", "msg": "the job begins"}', "the job begins"),
        ('{"event": "begun", "rank": 0}', "begun"),
        ('{"error": {"message": "inner"}, "msg": "outer"}', "outer"),
        ('{"tags": ["x", {"message": "inner"}], "@m": "outer"}', "outer"),
        ('{"text": "\\"message\\": \\"said\\" {", "message": "own"}', "own"),
        ('{"message": ""}', ""),
        ('{"error": {"message": "inner"}}', None),
        ('{"message": 5}', None),
        ('{"message": "no end}', None),
        ('{"message": "cut"} ..TRUNCATED', None),
        ('worker | {"message": "behind a name"}', None),
        ("{'message': 'of Python'}", None),
        ("", None),
    ],
)
def test_the_message_is_that_of_a_top_level_key(text: str, message: str | None) -> None:
    found = message_of(text)
    assert (None if found is None else json.loads(f'"{text[slice(*found)]}"')) == message


@pytest.mark.parametrize("text", ['{"a":{' + '"msg":"",' * 9000 + "}", '{"msg":1,' + '"\\"' * 30_000 + "}"])
def test_keys_that_are_none_of_the_line_s_own_are_looked_at_a_few_times(text: str) -> None:
    assert message_of(text) is None
