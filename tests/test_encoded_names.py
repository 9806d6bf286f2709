"""The names of logs and runs whose files and directories have any name: one to one, checked, and shown."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.errors import InvalidName
from flarelog.model import Generation, StreamId, StreamInfo
from flarelog.names import (
    MAX_LOG,
    MAX_PART,
    beside,
    found_in,
    given_run,
    is_cut,
    log_name,
    log_of,
    path_of,
    run_name,
    run_of,
    shown,
)
from tests.often import often
from tests.rows import together

ODD = [
    pytest.param("lr=0.01,momentum=0.9", "lr%3D0.01%2Cmomentum%3D0.9", id="ray-tune"),
    pytest.param(
        "run_id=manual__2026-01-01T00:00:00+00:00", "run_id%3Dmanual__2026-01-01T00%3A00%3A00%2B00%3A00", id="airflow"
    ),
    pytest.param("a b", "a%20b", id="a-blank"),
    pytest.param("a%20b", "a%2520b", id="a-percent-sign"),
    pytest.param("%252e%252e", "%25252e%25252e", id="encoded-twice"),
    pytest.param("\u8bad\u7ec3.log", "%E8%AE%AD%E7%BB%83.log", id="chinese"),
    pytest.param("a\udcff\udc80.log", "a%FF%80.log", id="no-utf-8"),
    pytest.param("\x1b[2J\u202e\n", "%1B%5B2J%E2%80%AE%0A", id="control-characters"),
    pytest.param(".a.journal", "%2Ea.journal", id="the-stores-own"),
    pytest.param("d/.A.Journal.new/x", "d/%2EA.Journal.new/x", id="a-directory-with-the-stores-own-name"),
    pytest.param(".hidden", ".hidden", id="hidden"),
]


@pytest.mark.parametrize(("path", "log"), ODD)
def test_the_log_of_a_file_of_any_name(path: str, log: str) -> None:
    assert log_of(path) == log == log_name(log)
    assert path_of(log) == path
    assert StreamId.given("run-1", "site-1", log).log == log
    assert StreamId.given("run-1", "site-1", path).log in (log, path)  # a%20b is also how the store names another file


@pytest.mark.parametrize(("path", "last"), [("a/b.log", "b.log"), ("a/b c", "b%20c"), (f"a/{'b' * 199}", "")])
def test_a_name_that_is_taken_has_another_one(path: str, last: str) -> None:
    log = beside(path)
    assert (log[:2], log.rpartition("-")[2], log_name(log), is_cut(log)) == ("%-", last, log, True)
    assert (found_in([path], log), found_in(["other"], log)) == (path, "")


@together(
    "log",
    [
        *("%41", "a%2eb", "%2E", "%2E%2E", "%2e%2e%2f", "a%2Fb", "a%00b", "%e8%ae%ad", "%", "a%", "%zz", "%2"),
        *(f"a%-{'0' * 32}-b", f"{'a' * 120}%-{'0' * 32}-b", f"{'a' * 120}%-{'0' * 31}G-{'b' * 40}"),
        *(f"{'a' * 120}%-{'0' * 32}-%61{'b' * 37}", f"%-{'0' * 32}-%61", f"a/b/%-{'0' * 32}-/c", f"%-{'0' * 32}-/a/b"),
        *(f".{'a' * 119}%-{'0' * 32}-{'b' * 32}.journal", f"%2E{'a' * 117}%-{'0' * 32}-{'b' * 40}", "%20" * 67),
    ],
)
def test_a_name_that_no_file_gets_is_refused(log: str) -> None:
    with pytest.raises(InvalidName):
        log_name(log)


LONG = [
    pytest.param("\u8bad" * 85, id="a-part-of-255-bytes"),
    pytest.param(f"{'p' * 120}_{'n' * 40}_main-{'a' * 64}.log", id="a-container"),
    pytest.param("/".join(f"d{n}" for n in range(30)), id="too-deep"),
    pytest.param("/".join("\u00e9" * 30 for _ in range(14)), id="too-long-in-all"),
    pytest.param(f".{'a' * 250}.journal", id="the-stores-own"),
    pytest.param("\udcff" * 200, id="no-utf-8"),
    pytest.param("\n\x01" * 127, id="control-characters"),
]


@pytest.mark.parametrize("path", LONG)
def test_a_long_name_is_cut_and_carries_a_hash(path: str) -> None:
    log = log_of(path)
    assert log_name(log) == log
    assert is_cut(log)
    assert log_of(path) == log
    assert log_of(f"{path}x") != log != log_of(f"x{path}")
    assert StreamId.of_file("run-1", "site-1", path).path == path
    told = StreamInfo(StreamId("run-1", "site-1", log), 0, 0, 0, False, (Generation(0, 0, path, 0, "1:2:3"),))
    assert told.stream.path == path
    lie = StreamInfo(StreamId("run-1", "site-1", log), 0, 0, 0, False, (Generation(0, 0, f"{path}x", 0, "1:2:3"),))
    assert lie.stream.original == ""
    assert path.startswith(lie.stream.path.partition("%-")[0])


def test_long_names_that_begin_and_end_alike_are_those_of_two_logs() -> None:
    logs = [log_of(f"{'n' * 150}{sign}{'n' * 100}") for sign in "xy"]
    assert logs[0] != logs[1]
    deep = [log_of(f"a/{'d/' * 20}{sign}/b.log") for sign in "xy"]
    assert deep[0] != deep[1]


PART = st.binary(min_size=1, max_size=255).filter(lambda raw: not {0, 0x2F} & {*raw} and raw not in (b".", b".."))
PATH = st.lists(
    st.one_of(PART, st.text("ab.%2E-journl ", min_size=1, max_size=12).map(str.encode)), min_size=1, max_size=20
)


def fit(parts: list[bytes]) -> bool:
    return not any(part in (b".", b"..") for part in parts)


@settings(max_examples=often(200, 5000), deadline=None)
@given(PATH.filter(fit))
def test_each_path_has_one_name_and_each_name_one_path(parts: list[bytes]) -> None:
    path = os.fsdecode(b"/".join(parts))
    log = log_of(path)
    assert log_name(log) == log
    assert re.fullmatch("[A-Za-z0-9._%/-]+", log)
    assert len(log) <= MAX_LOG
    assert all(0 < len(part) <= MAX_PART and not part.endswith("%") for part in log.split("/"))
    if not is_cut(log):
        assert path_of(log) == path
    if log != path:
        assert log_of(log) != log  # an encoded name is another path's


@settings(max_examples=often(200, 5000), deadline=None)
@given(st.text("a%-2E0F/.", min_size=1, max_size=30))
def test_a_valid_name_is_the_name_of_its_path(log: str) -> None:
    try:
        log_name(log)
    except InvalidName:
        return
    assert is_cut(log) or log_of(path_of(log)) == log


@together("path", ["", "/etc/passwd", "a//b", "../a", "a/../b", "./a", f"../{'a/' * 30}b", "a/\x00", "\ud800"])
def test_a_path_that_no_file_has_below_a_root_names_no_log(path: str) -> None:
    with pytest.raises(InvalidName):
        log_of(path)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param("a\x1b[2J", r"a\x1b[2J", id="an-escape-sequence"),
        pytest.param("a\u202egol.exe", r"a\u202egol.exe", id="a-change-of-direction"),
        pytest.param("a\udcff", r"a\xff", id="a-byte-that-is-no-utf-8"),
        pytest.param("\u8bad\u7ec3 1.log", "\u8bad\u7ec3 1.log", id="text"),
    ],
)
def test_a_reader_sees_the_name_of_the_file_without_control_characters(path: str, shown: str) -> None:
    stream = StreamId.of_file("run-1", "site-1", path)
    assert stream.name == shown
    assert str(stream) == f"run-1/site-1/{shown}"
    assert stream.fields["log"] == shown
    assert stream.fields["stored_as"] == stream.log
    assert StreamId("run-1", "site-1", stream.log) == stream


@pytest.mark.parametrize(
    ("directory", "run"),
    [
        pytest.param(
            "run_id=manual__2026-01-01T00:00:00+00:00",
            "run_id%3Dmanual__2026-01-01T00%3A00%3A00%2B00%3A00",
            id="airflow",
        ),
        pytest.param(".hidden", "%2Ehidden", id="hidden"),
        pytest.param("a%20b", "a%2520b", id="a-percent-sign"),
        pytest.param("job-1", "job-1", id="plain"),
    ],
)
def test_the_run_of_a_directory_of_any_name(directory: str, run: str) -> None:
    assert run_of(directory) == run == run_name(run)
    assert path_of(run) == shown(run) == directory
    assert given_run(run) == run


@together("run", ["", "..", "a/b", ".a", "%2E", "%2E.", "%41", "%2F", "a b", f"a%-{'0' * 32}-b", "%20" * 43])
def test_a_name_that_no_run_has_is_refused(run: str) -> None:
    with pytest.raises(InvalidName):
        run_name(run)


@settings(max_examples=often(200, 5000), deadline=None)
@given(PART)
def test_each_directory_is_a_run_of_its_own(raw: bytes) -> None:
    directory = os.fsdecode(raw)
    run = run_of(directory)
    assert run_name(run) == run
    assert re.fullmatch("[A-Za-z0-9_%-][A-Za-z0-9._%-]{0,127}", run)
    assert is_cut(run) or path_of(run) == directory
