"""Which logs repeat another one, by NVFlare's layout, and which only seem to."""

from __future__ import annotations

import pytest

from flarelog.model import StreamId, StreamInfo
from flarelog.repeats import copies, left_out
from tests.rows import together


@together(
    ("logs", "repeated"),
    [
        pytest.param(
            ["a/error_log.txt", "a/log.json", "a/log.txt", "a/log_fl.txt"],
            ["a/error_log.txt", "a/log.json", "a/log_fl.txt"],
            id="the-four-logs-of-nvflare",
        ),
        pytest.param(["a/log.txt", "a/log_error.txt"], ["a/log_error.txt"], id="and-its-earlier-name"),
        pytest.param(["a/x/log.json", "a/x/log.txt"], ["a/x/log.json"], id="in-a-directory"),
        pytest.param(["a/log.json", "a/error_log.txt"], [], id="no-log-txt"),
        pytest.param(["a/log.json", "b/log.txt"], [], id="a-log-txt-of-another-site"),
        pytest.param(["a/x/log.json", "a/log.txt", "a/y/log.txt"], [], id="or-of-another-directory"),
        pytest.param(["a/log.txt", "a/train.json", "a/log.jsonl", "a/my_log.json"], [], id="other-names"),
        pytest.param(["a/empty/log.txt", "a/empty/log.json"], [], id="an-empty-log-has-no-copy"),
    ],
)
def test_a_copy_is_beside_its_log_txt(logs: list[str], repeated: list[str]) -> None:
    infos = [
        StreamInfo(StreamId("run", *log.split("/", 1)), 0, 0 if log.endswith("empty/log.txt") else 9, 0, True)
        for log in logs
    ]
    assert sorted(stream.key.removeprefix("run/") for stream in copies(infos)) == repeated


@together(
    ("names", "sentence"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["log.json"], "log.json repeats lines of log.txt and is left out", id="one"),
        pytest.param(
            ["x/log_fl.txt", "log_fl.txt", "log.json", "error_log.txt"],
            "log.json, error_log.txt and log_fl.txt repeat lines of log.txt and are left out",
            id="each-name-once",
        ),
    ],
)
def test_people_read_which_logs_are_left_out(names: list[str], sentence: str) -> None:
    assert left_out(StreamId("run", "a", name) for name in names) == sentence
