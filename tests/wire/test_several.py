"""Messages with several streams: each part round-trips by itself, and an error in one affects no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.model import Chunk, Code, Codec, Leave, News, Open, Receipt, Reply, StreamId
from flarelog.v1 import log_pb2 as pb
from flarelog.wire import several
from flarelog.wire.codec.base import MAX_MESSAGE, Malformed
from flarelog.wire.codec.fields import varint
from flarelog.wire.codec.push import Request, Said, decode_said
from flarelog.wire.codec.replies import encode_reply

OPEN = Open(StreamId("run", "site", "log.txt"), b"x" * 16)
THINGS = st.one_of(
    st.builds(Chunk, st.integers(0, 1 << 40), st.binary(max_size=300), st.integers(0, (1 << 32) - 1)),
    st.just(OPEN),
    st.just(Leave()),
    st.builds(News, st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
    st.builds(Receipt, st.integers(0, 1 << 40), st.integers(0, (1 << 32) - 1), st.integers(0, 1000)),
)
SAID = st.lists(st.tuples(st.integers(1, 1 << 20), THINGS), min_size=1, max_size=30)


def decoded(messages: Sequence[bytes]) -> list[Said]:
    return [decode_said(said) for raw in messages for _, said in several.requests(raw)]


@given(SAID)
def test_what_is_said_is_heard_in_its_order(said: list[tuple[int, Request]]) -> None:
    batch = several.Batch()
    for number, request in said:
        batch.add(number, request)
    (message,) = batch.messages()
    assert decoded([message]) == said


@given(SAID)
def test_from_each_request_on_it_is_a_message_too(said: list[tuple[int, Request]]) -> None:
    batch = several.Batch()
    for number, request in said:
        batch.add(number, request)
    (raw,) = batch.messages()
    for at, (begin, _) in enumerate(several.requests(raw)):
        assert decoded([raw[begin:]]) == said[at:]


@given(SAID)
def test_the_generated_code_reads_it(said: list[tuple[int, Request]]) -> None:
    batch = several.Batch()
    for number, request in said:
        batch.add(number, request)
    (raw,) = batch.messages()
    message = pb.PushRequest.FromString(raw)
    numbers = [one.number for one in message.several] if len(said) > 1 else [message.number]
    assert numbers == [number for number, _ in said]


def test_no_message_is_too_large_or_says_too_much() -> None:
    batch = several.Batch()
    for number in range(1, 12):
        batch.add(number, Chunk(0, bytes(1 << 20), 0))
    for number in range(2500):
        batch.add(100 + number, Leave())
    messages = list(batch.messages())
    assert max(map(len, messages)) <= MAX_MESSAGE
    assert max(len(list(several.requests(raw))) for raw in messages) <= several.MOST
    assert len(decoded(messages)) == 2511


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x5a\x00" * (several.MOST + 1), id="too-often"),
        pytest.param(b"\x5a\x00\x48\x01", id="something-beside-it"),
        pytest.param(b"\x5a\x05\x00", id="cut-off"),
        pytest.param(b"\x5a", id="begun"),
        pytest.param(b"\x5a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="a-length-beyond-all"),
    ],
)
def test_what_is_none_is_refused_before_any_of_it_is_taken(raw: bytes) -> None:
    with pytest.raises(Malformed):
        list(several.requests(raw))


def test_several_within_several_say_nothing() -> None:
    inner = b"\x5a\x02\x5a\x00"
    (only,) = [said for _, said in several.requests(inner)]
    with pytest.raises(Malformed, match="has no content"):
        decode_said(only)


def test_a_message_that_says_one_thing_very_often_is_not_parsed() -> None:
    with pytest.raises(Malformed, match="more than 64 fields"):
        decode_said(b"\x48\x01" + b"\x5a\x00" * 10_000)
    with pytest.raises(Malformed, match="fields"):
        several.decode_replies(b"\x82\x01\x00" * 10_000)
    nested = b"\x82\x01\x00" * 3000
    with pytest.raises(Malformed, match="more than 64 fields"):
        several.decode_replies(b"\x82\x01" + varint(len(nested)) + nested)


CODES = st.sampled_from([Code.OK, Code.SEALED, Code.PAUSE, Code.GOING_AWAY])


@given(
    st.lists(
        st.builds(
            Reply,
            CODES,
            st.integers(0, 1 << 40),
            st.integers(0, (1 << 32) - 1),
            st.integers(0, 1000),
            incarnation=st.just(b"12345678"),
            epoch=st.integers(0, 5),
            reason=st.sampled_from(["", "the disk is full"]),
            idle_timeout=st.just(60.0),
            window=st.sampled_from([65536, 1 << 20]),
            number=st.integers(1, 1000),
            codecs=st.just((Codec.ZSTD,)),
            pace=st.just(0.05),
            call_window=st.just(1 << 20),
        ),
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
)
def test_replies_are_heard_as_if_each_had_come_alone(replies: list[Reply], ending: bool) -> None:
    if ending:
        replies = [replace(reply, ending=True) for reply in replies]
    assert several.decode_replies(several.encode_replies(replies)) == replies
    assert [one for raw in several.encode_all(replies) for one in several.decode_replies(raw)] == replies


def test_a_reply_of_the_call_alone_is_one() -> None:
    (reply,) = several.decode_replies(encode_reply(Reply(Code.OK, call_window=5)))
    assert (reply.number, reply.call_window) == (0, 5)


def test_replies_with_long_reasons_are_several_messages() -> None:
    replies = [Reply(Code.PAUSE, reason="x" * 2000, number=number) for number in range(1, 3000)]
    messages = list(several.encode_all(replies))
    assert max(map(len, messages)) < MAX_MESSAGE // 4
    assert [one for raw in messages for one in several.decode_replies(raw)] == replies
