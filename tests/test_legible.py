"""A peer's text never reaches a user raw: each text of the contract in both directions, and messages to a log."""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import grpc
import pytest

from flarelog.errors import FlarelogError
from flarelog.model import Ended, Gap, Generation, Mark, StreamId
from flarelog.stores import lines, marks
from flarelog.stores.local import journal
from flarelog.talk import LONGEST, OneLine, one_line, worth_saying
from flarelog.v1 import log_pb2 as pb
from flarelog.wire import several, statuses
from flarelog.wire.codec.base import MAJOR, MAX_TEXT
from flarelog.wire.codec.findings import decode_asked, decode_found
from flarelog.wire.codec.lists import decode_info, decode_list
from flarelog.wire.codec.reads import decode_piece, decode_read, read_request
from flarelog.wire.codec.runs import decode_list_runs, decode_receiver, decode_remove, decode_run, decode_run_info
from flarelog.wire.codec.timeline import decode_moments, decode_timeline
from tests.hostile_text import FORGED, HOSTILE, HUGE, Path, called, is_name, message_of, messages, spoil, texts
from tests.messages import decode_request
from tests.rows import rows

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "PushRequest": lambda raw: [decode_request(said) for _, said in several.requests(raw)],
    "Reply": several.decode_replies,
    "ReadRequest": lambda raw: read_request(decode_read(raw)),
    "ReadResponse": decode_piece,
    "ListRequest": decode_list,
    "StreamInfo": decode_info,
    "RunRequest": decode_run,
    "RunResponse": decode_receiver,
    "ListRunsRequest": decode_list_runs,
    "RunInfo": decode_run_info,
    "RemoveRunRequest": decode_remove,
    "TimelineRequest": decode_timeline,
    "Moments": decode_moments,
    "FindingsRequest": decode_asked,
    "Found": decode_found,
}
WITHOUT_TEXT = {"RemoveRunResponse"}
STREAM = pb.StreamId(run="run-1", site="site-1", log="app.log")
FIELDS = [path for one in messages() for path in texts(one)]


def valid(path: Path) -> Any:
    """A message with valid names, in which the text at *path* may be spoilt."""
    made: Any = getattr(pb, message_of(path))()
    names = {field.name for field in made.DESCRIPTOR.fields}
    if "stream" in names:
        made.stream.CopyFrom(STREAM)
    if "run" in names:
        made.run = "run-1"
    if isinstance(made, pb.Reply):
        made.code = pb.REJECTED
    if isinstance(made, pb.Moments):
        made.site = "site-1"
        made.moments.add(what="left")
    if isinstance(made, pb.PushRequest):
        one = made.several.add() if path[0].name == "several" else made
        if "open" in [field.name for field in path]:
            one.open.stream.CopyFrom(STREAM)
            one.open.version.major = MAJOR
    return made


def strings(value: Any) -> Iterator[str]:
    """All texts within *value*."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from strings(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from strings(one)


@rows(FIELDS, lambda path: f"{message_of(path)}.{called(path)}")
def test_no_text_of_a_peer_is_taken_in_as_it_is(path: Path) -> None:
    for text in (HOSTILE, "\x1b" * HUGE, "x" * HUGE):
        taken_in(path, text)


def taken_in(path: Path, text: str) -> None:
    message = valid(path)
    spoil(message, path, text)
    try:
        found = DECODERS[message_of(path)](message.SerializeToString())
    except FlarelogError as error:
        assert is_name(path) or len(text) > MAX_TEXT
        found = str(error)
    for one in strings(found):
        assert one.isprintable()
        assert len(one) <= 2 * MAX_TEXT


def test_each_message_of_the_contract_has_a_decoder_here() -> None:
    there = {one.name for one in messages()}
    assert there == DECODERS.keys() | WITHOUT_TEXT
    assert {one.name for one in messages() if not list(texts(one))} == WITHOUT_TEXT
    assert len(FIELDS) > 20


@rows(itertools.product(grpc.StatusCode, [HOSTILE, HOSTILE + "x" * HUGE, "\x1b" * HUGE, ""]), lambda row: row[0])
def test_what_a_receiver_says_with_a_status_is_one_line(row: tuple[grpc.StatusCode, str]) -> None:
    status, details = row
    nothing = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(status, nothing, nothing, details=details)
    sentence = str(statuses.error_of(error, "127.0.0.1:4721"))
    assert sentence.isprintable()
    assert len(sentence) < 3 * MAX_TEXT


@pytest.mark.parametrize(
    "mark",
    [Generation(0, 0, HOSTILE, 0, HOSTILE, 0, 0, HOSTILE), Ended(0, 0, HOSTILE), Gap(0, 0, 1, HOSTILE)],
    ids=["generation", "ended", "gap"],
)
def test_what_an_earlier_version_wrote_down_is_given_out_legibly(mark: Mark) -> None:
    replayed = journal.Journal()
    for raw in (journal.stream_line(StreamId("run-1", "site-1", "app.log")), marks.mark_line(0, mark)):
        for record in lines.records(raw):
            assert record is not None
            replayed.apply(record)
    assert replayed.marks
    assert all(text.isprintable() for text in strings(tuple(replayed.marks)))


# --- messages to a log


def record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("flarelog.x", logging.WARNING, "x.py", 1, message, arguments, more.get("exc_info"))


def failed(sentence: str) -> Any:
    try:
        raise ValueError(sentence)
    except ValueError:
        return sys.exc_info()


def test_a_record_is_one_line_whatever_got_into_it() -> None:
    said = OneLine().format(record("%s is refused: %s", "site-1", HOSTILE))
    assert said.isprintable()
    assert said[:2] == "20"
    assert " WARNING site-1 is refused: begin\\n" in said
    assert len(OneLine().format(record("%s", "x" * HUGE))) <= LONGEST


def test_a_traceback_has_no_line_that_looks_like_a_record() -> None:
    first, *others = OneLine().format(record("it failed", exc_info=failed(HOSTILE))).split("\n")
    assert first.endswith("WARNING it failed")
    assert len(others) > 3
    assert all(line.isprintable() and line.startswith("  ") for line in others)
    assert sum(FORGED in line for line in others) > 0


def test_an_audit_line_is_what_it_was() -> None:
    said = json.dumps({"identity": HOSTILE, "run": "größe", "address": "x" * 4000})
    assert OneLine().format(record("allowed %s", said)).endswith(f"allowed {said}")


def test_handlers_of_others_get_a_legible_record_and_the_first_one_stays() -> None:
    before = record("%s", HOSTILE)
    assert logging.Formatter().format(one_line(before)).isprintable()
    assert before.getMessage() == HOSTILE


@pytest.mark.parametrize(
    ("name", "message", "said"),
    [
        pytest.param(
            "grpc._cython.cygrpc", "ExecuteBatchError raised in core by servicer method [/x]", False, id="left"
        ),
        pytest.param("grpc._cython.cygrpc", "Unexpected [KeyError] raised by servicer method [/x]", True, id="a-bug"),
        pytest.param("flarelog.receiver.server", "ExecuteBatchError raised in core", True, id="flarelog-s-own"),
    ],
)
def test_a_peer_that_leaves_is_no_trouble_and_a_bug_is(name: str, message: str, said: bool) -> None:
    assert worth_saying(logging.LogRecord(name, logging.ERROR, "", 0, message, None, None)) is said
