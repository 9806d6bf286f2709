"""Names map to paths and back, and a stream's marks describe its generations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flarelog.completeness import gap_sentence
from flarelog.errors import USAGE, InvalidName, InvalidOption
from flarelog.exit_marks import Exit
from flarelog.extents import Extent, extents
from flarelog.model import (
    RESTARTS,
    Attributes,
    Chunk,
    Ended,
    Gap,
    Generation,
    Mark,
    Redaction,
    RunInfo,
    StreamId,
    StreamInfo,
)
from flarelog.names import (
    MAX_LOG,
    MAX_NAME,
    MAX_PART,
    MAX_PARTS,
    is_loopback,
    log_name,
    parse_address,
    receiver_address,
    run_name,
    site_name,
)
from flarelog.records import stream_record
from tests.rows import together

STREAM = StreamId("run-1", "site-1", "log.txt")


def of_attempt(count: int, identity: str) -> Attributes:
    return Attributes(0, 0, f"{RESTARTS}:{count},container.id:{identity}")


GOOD, BAD = Exit(5, 0, "aaaa"), Exit(5, 0, "aaaa", 1)
AGAIN, AGAIN_BAD = Exit(9, 0, "bbbb"), Exit(9, 0, "bbbb", 2)
LOST = Exit(5, 0, "ffff", 137)
FIRST_ID, SECOND_ID = of_attempt(0, "aaaa-of-32"), of_attempt(1, "bbbb-of-32")


@pytest.mark.parametrize(
    ("marks", "failures"),
    [
        pytest.param((BAD, AGAIN), (BAD,), id="two-commands-of-which-each-counts"),
        pytest.param((FIRST_ID, BAD), (BAD,), id="an-attempt-that-failed"),
        pytest.param((FIRST_ID, BAD, SECOND_ID), (), id="the-next-attempt-runs"),
        pytest.param((FIRST_ID, SECOND_ID, replace(BAD, offset=9, until=5)), (), id="its-end-came-late"),
        pytest.param((FIRST_ID, BAD, SECOND_ID, AGAIN), (), id="the-restart-succeeded"),
        pytest.param((FIRST_ID, GOOD, SECOND_ID, AGAIN_BAD), (AGAIN_BAD,), id="the-restart-failed"),
        pytest.param((FIRST_ID, BAD, SECOND_ID, AGAIN_BAD), (AGAIN_BAD,), id="both-failed"),
        pytest.param((FIRST_ID, BAD, of_attempt(1, "")), (), id="the-next-attempt-has-no-id-yet"),
        pytest.param((of_attempt(2, "cccc"), FIRST_ID, BAD), (), id="attributes-of-an-older-attempt-came-last"),
        pytest.param((of_attempt(0, ""), BAD), (BAD,), id="its-id-was-never-known"),
        pytest.param((Attributes(5, 0, f"{RESTARTS}:0"), BAD), (BAD,), id="its-number-was-told-after-its-last-byte"),
        pytest.param((FIRST_ID, LOST), (LOST,), id="the-kubelet-lost-it"),
        pytest.param(
            (FIRST_ID, Attributes(5, 0, f"{RESTARTS}:1"), replace(LOST, offset=9, until=5)),
            (),
            id="the-attempt-after-the-lost-one-runs",
        ),
        pytest.param((Attributes(0, 0, f"{RESTARTS}:x,container.id:bbbb"), BAD), (BAD,), id="no-number"),
    ],
)
def test_a_restart_decides_anew_whether_a_container_failed(marks: tuple[Mark, ...], failures: tuple[Exit, ...]) -> None:
    found = StreamInfo(STREAM, 0, 9, 0, True, marks).failures
    assert [end.process for end in found] == [end.process for end in failures]


@together("check", [run_name, site_name])
@together("name", ["a", "run-1", "2024_06.final", "0", "A" * MAX_NAME, "a..b", "-"])
def test_a_name_of_a_run_or_a_site(check: Callable[[str], str], name: str) -> None:
    assert check(name) == name


@together("check", [run_name, site_name])
@together(
    ("name", "sentence"),
    [
        pytest.param("", "name is empty", id="empty"),
        pytest.param(".", "use a relative path", id="dot"),
        pytest.param("..", "use a relative path", id="dot-dot"),
        pytest.param(".lock", "must not begin with a dot", id="hidden"),
        pytest.param("a/b", "use only letters", id="slash"),
        pytest.param("/a", "use only letters", id="absolute"),
        pytest.param("a b", "use only letters", id="blank"),
        pytest.param("a\n", "use only letters", id="line-feed-at-the-end"),
        pytest.param("a\0", "use only letters", id="nul"),
        pytest.param("a\\b", "use only letters", id="backslash"),
        pytest.param("sité", "use only letters", id="not-ascii"),
        pytest.param("٣", "use only letters", id="a-digit-of-another-script"),
        pytest.param("A" * (MAX_NAME + 1), f"has {MAX_NAME + 1} characters; at most {MAX_NAME} are", id="over-long"),
    ],
)
def test_no_name_of_a_run_or_a_site(check: Callable[[str], str], name: str, sentence: str) -> None:
    with pytest.raises(InvalidName, match=sentence) as raised:
        check(name)
    assert raised.value.exit_code == USAGE
    assert len(str(raised.value)) < 250


@together(
    "name",
    [
        "log.txt",
        "rank-0/stderr.log",
        ".hidden",
        "a/.b/c",
        "a.journal",
        ".journal",
        "..a",
        "A" * MAX_PART,
        "/".join(["a" * 63] * MAX_PARTS),
    ],
)
def test_a_name_of_a_log(name: str) -> None:
    assert log_name(name) == name


@together(
    ("name", "sentence"),
    [
        pytest.param("", "name is empty", id="empty"),
        pytest.param("/etc/passwd", "is absolute", id="absolute"),
        pytest.param("a//b", "empty part", id="an-empty-part"),
        pytest.param("a/", "empty part", id="an-empty-part-at-the-end"),
        pytest.param("../a", "use a relative path", id="dot-dot-first"),
        pytest.param("a/../b", "use a relative path", id="dot-dot-within"),
        pytest.param("a/..", "use a relative path", id="dot-dot-last"),
        pytest.param("./a", "use a relative path", id="dot"),
        pytest.param("a/b c", "use only letters", id="blank"),
        pytest.param(
            "A" * (MAX_PART + 1),
            f"has a part of {MAX_PART + 1} characters; at most {MAX_PART} are",
            id="an-over-long-part",
        ),
        pytest.param("a" * 100 + ("/" + "a" * 100) * 10, f"at most {MAX_LOG}", id="over-long"),
        pytest.param("a/" * MAX_PARTS + "b", f"has {MAX_PARTS + 1} parts; at most {MAX_PARTS}", id="too-deep"),
        pytest.param(".log.txt.journal", "which the store uses for its own files", id="the-name-of-a-journal"),
        pytest.param("a/.b.journal", "which the store uses for its own files", id="the-name-of-a-journal-below"),
        pytest.param(".a.journal/b", "which the store uses for its own files", id="a-directory-named-as-a-journal"),
        pytest.param(".a.journal.new", "which the store uses for its own files", id="the-name-of-a-new-journal"),
        pytest.param(".a.quarantine.1", "which the store uses for its own files", id="the-name-of-what-is-set-aside"),
    ],
)
def test_no_name_of_a_log(name: str, sentence: str) -> None:
    with pytest.raises(InvalidName, match=sentence):
        log_name(name)
    with pytest.raises(InvalidName):
        StreamId("run-1", "site-1", name)


@pytest.mark.parametrize(("run", "site"), [("..", "site-1"), ("run-1", ".."), ("", "site-1"), ("run-1", "a/b")])
def test_a_stream_has_only_good_names(run: str, site: str) -> None:
    with pytest.raises(InvalidName):
        StreamId(run, site, "log.txt")


def test_a_chunk_ends_behind_its_data() -> None:
    assert (Chunk(7, b"abc", 0).end, Chunk(7, b"", 0).end) == (10, 7)


FIRST = Generation(0, 0, "log.txt", 0, "file-1")
LATER = Generation(30, 0, "log.txt", 5, "file-2")


@together(
    ("marks", "found"),
    [
        pytest.param([], [], id="no-marks-no-generations"),
        pytest.param([FIRST], [Extent(0, 100, "log.txt", 0, "file-1", None)], id="the-last-is-open"),
        pytest.param(
            [FIRST, Ended(100, 0, "removed")],
            [Extent(0, 100, "log.txt", 0, "file-1", "removed")],
            id="one-that-ended-says-why",
        ),
        pytest.param(
            [FIRST, Ended(30, 0, "truncated"), Gap(30, 0, 5, ""), LATER],
            [Extent(0, 30, "log.txt", 0, "file-1", "truncated"), Extent(30, 70, "log.txt", 5, "file-2", None)],
            id="the-next-begins-at-its-own-offset-in-the-source",
        ),
        pytest.param(
            [FIRST, LATER],
            [Extent(0, 30, "log.txt", 0, "file-1", "rotated"), Extent(30, 70, "log.txt", 5, "file-2", None)],
            id="one-that-was-overtaken-was-rotated",
        ),
        pytest.param(
            [FIRST, Gap(10, 0, 5, ""), Gap(20, 0, 0, "")],
            [Extent(0, 100, "log.txt", 0, "file-1", None)],
            id="a-gap-ends-nothing",
        ),
        pytest.param(
            [FIRST, Ended(0, 0, "removed"), LATER, Ended(30, 0, "removed")],
            [Extent(0, 0, "log.txt", 0, "file-1", "removed"), Extent(30, 0, "log.txt", 5, "file-2", "removed")],
            id="empty-ones-count",
        ),
    ],
)
def test_the_generations_of_a_stream(marks: list[Mark], found: list[Extent]) -> None:
    assert extents(marks, 100) == found


@together(
    ("marks", "count"),
    [
        pytest.param([], 0, id="no-marks"),
        pytest.param([FIRST, Ended(30, 0, "rotated"), LATER], 2, id="a-rotation"),
        pytest.param([FIRST, *4 * (Ended(30, 0, "truncated"), replace(FIRST, offset=30))], 5, id="four-truncations"),
        pytest.param([FIRST, LATER, replace(FIRST, offset=60), replace(LATER, offset=70)], 2, id="late-bytes"),
        pytest.param([FIRST, replace(FIRST, offset=30, source_offset=99)], 1, id="a-hole"),
        pytest.param(
            [FIRST, LATER, Ended(60, 0, "truncated"), replace(FIRST, offset=60)], 2, id="another-was-truncated"
        ),
    ],
)
def test_each_rotation_begins_another_generation(marks: list[Mark], count: int) -> None:
    assert StreamInfo(StreamId("run-1", "site-1", "log.txt"), 0, 100, 0, True, tuple(marks)).generations == count


def test_a_stream_as_scripts_see_it() -> None:
    gap = Gap(30, 0, 5, "truncated before they were read", at=1_795_363_719_123, clock=1_795_363_000_000)
    marks = (replace(FIRST, at=1), Ended(30, 0, "truncated"), gap, LATER)
    record = stream_record(StreamInfo(STREAM, 0, 100, 0xABC, True, marks))
    assert list(record) == [
        "run",
        "site",
        "log",
        "committed",
        "sealed",
        "incomplete",
        "digest",
        "generations",
        "attributes",
        "zone",
        "gaps",
        "exits",
        "notes",
        "redacted",
        "begun",
        "last_byte",
        "ended",
    ]
    assert (record["run"], record["site"], record["log"]) == ("run-1", "site-1", "log.txt")
    assert (record["committed"], record["sealed"], record["digest"]) == (100, True, "crc32:00000abc")
    assert record["redacted"] is None
    assert stream_record(StreamInfo(STREAM, 0, 100, 0xABC, True, marks, Redaction(2, 30)))["redacted"] == {
        "matches": 2,
        "bytes": 30,
    }
    assert record["gaps"] == [
        {
            "offset": 30,
            "length": 5,
            "reason": "truncated before they were read",
            "time": "2026-11-22T16:08:39.123Z",
            "site_time": "2026-11-22T15:56:40.000Z",
        }
    ]
    both: dict[str, Any] = {"path": "log.txt", "notes": [], "site_time": None}
    first = {"offset": 0, "length": 30, "source_offset": 0, "ended": "truncated", "identity": "file-1", **both}
    assert record["generations"] == [
        {**first, "time": "1970-01-01T00:00:00.001Z"},
        {"offset": 30, "length": 70, "source_offset": 5, "ended": None, "identity": "file-2", **both, "time": None},
    ]
    assert (record["begun"], record["last_byte"], record["ended"]) == (None, None, None)
    timed = stream_record(StreamInfo(STREAM, 0, 0, 0, True, begun=1000, grown=2001, ended=1 << 62))
    assert (timed["begun"], timed["last_byte"]) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.001Z")
    assert timed["ended"] is None  # no calendar has that date


@pytest.mark.parametrize("port", ["\N{ARABIC-INDIC DIGIT ONE}", "-1", "+1", ""])
def test_what_is_no_port_makes_no_address(port: str) -> None:
    with pytest.raises(InvalidOption, match="is not an address"):
        parse_address(f"127.0.0.1:{port}")


@together(
    ("address", "advice"),
    [
        ("fd77::1:4721", "an IPv6 address needs brackets and a port, as in [fd77::1]:4721"),
        ("4721", "it is a port alone: write HOST:PORT, as in 127.0.0.1:4721"),
        ("fd77::1", "an IPv6 address needs brackets and a port, as in [fd77::1]:4721"),
        ("::1:4721", "an IPv6 address needs brackets and a port, as in [::1]:4721"),
        ("[::1]", "an IPv6 address needs brackets and a port, as in [::1]:4721"),
        ("fe80::1%eth0:4721", "an IPv6 address needs brackets and a port, as in [fe80::1%eth0]:4721"),
        ("http://logs.example:4721", "leave out http://, as in logs.example:4721"),
        ("https://logs.example/", "leave out https://, as in logs.example:443"),
        ("grpc://logs.example", "leave out grpc://, as in logs.example:4721"),
        ("http://", "leave out http://"),
        ("logs.example", "write HOST:PORT, as in logs.example:4721"),
        ("logs example", "write HOST:PORT, as in 127.0.0.1:4721"),
        ("1:2:3", "write HOST:PORT, as in 127.0.0.1:4721"),
        ("", "write HOST:PORT, as in 127.0.0.1:4721"),
    ],
)
def test_what_is_no_address_is_refused_with_the_right_form(address: str, advice: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        receiver_address(address)
    assert str(refused.value) == f"'{address}' is not an address: {advice}"


def test_an_ipv6_address_may_have_a_zone() -> None:
    assert parse_address("[fe80::1%eth0]:4721") == ("[fe80::1%eth0]", 4721)


@together(
    ("host", "loopback"),
    [
        ("localhost", True), ("127.0.0.1", True), ("127.1", True), ("127.255.255.254", True), ("[::1]", True),
        ("[0:0:0:0:0:0:0:1]", True), ("[::ffff:127.0.0.1]", True), ("127.example.com", False), ("10.127.0.1", False),
        ("[::2]", False), ("[::]", False), ("localhost.example", False), ("[::ffff:10.0.0.1]", False),
    ],
)  # fmt: skip
def test_which_hosts_are_loopback_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


@pytest.mark.parametrize("port", ["9" * 5000, "65536", "99999"])
def test_a_port_that_is_out_of_range_is_told(port: str) -> None:
    with pytest.raises(InvalidOption, match="is out of range: give one from 1 to 65535, or 0 for any free port"):
        parse_address(f"127.0.0.1:{port}")
    with pytest.raises(InvalidOption, match=r"is out of range: give one from 1 to 65535$"):
        receiver_address(f"127.0.0.1:{port}")


@together(
    ("info", "live", "in_store"),
    [
        pytest.param(RunInfo("run-1", "running", 1, 2, open=1), "running", "open", id="one-is-sent"),
        pytest.param(RunInfo("run-1", "running", 1, 2, open=1, sealed=2), "running", "sealed", id="one-is-sent-again"),
        pytest.param(RunInfo("run-1", "running", 1, 2, sealed=1), "idle", "open", id="nobody-sends-it"),
        pytest.param(RunInfo("run-1", "running", 1, 2, sealed=2), "sealed", "sealed", id="all-have-a-receipt"),
        pytest.param(RunInfo("run-1", "", 1, 2, sealed=2), "sealed", "sealed", id="and-no-state-was-recorded"),
        pytest.param(RunInfo("run-1", "running"), "empty", "empty", id="its-only-site-was-removed"),
        pytest.param(RunInfo("run-1", "ending", 1, 1, open=1), "ending", "ending", id="somebody-ends-it"),
        pytest.param(RunInfo("run-1", "ended", 1, 1), "ended", "ended", id="somebody-has-ended-it"),
    ],
)
def test_what_is_said_of_a_runs_state(info: RunInfo, live: str, in_store: str) -> None:
    assert info.standing(live=True) == live
    assert replace(info, open=0).standing(live=False) == in_store


@pytest.mark.parametrize(
    ("length", "reason", "said"),
    [
        (
            1,
            "at least 1 bytes were truncated before they were read",
            "at least 1 byte was truncated before they were read",
        ),
        (12345, "12345 bytes were acknowledged, are lost", "12,345 bytes were acknowledged, are lost"),
        (1, "1 bytes of a file that is gone", "1 byte of a file that is gone"),
        (1, "11 bytes were sent", "1 byte is lost: 11 bytes were sent"),
        (0, "the file was truncated", "bytes of unknown number are lost: the file was truncated"),
    ],
)
def test_a_gap_says_its_length_once_and_in_english(length: int, reason: str, said: str) -> None:
    assert gap_sentence(Gap(0, 0, length, reason)) == said
