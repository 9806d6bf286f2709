"""Any message: it round-trips, fields of later versions are ignored, and a cut message is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.errors import InvalidName
from flarelog.model import (
    MAX_OFFSET,
    UNREAD,
    Activity,
    Chunk,
    Code,
    Codec,
    Ended,
    Gap,
    Generation,
    Health,
    News,
    Open,
    Packed,
    Receipt,
    Reply,
    State,
    StreamId,
    StreamInfo,
)
from flarelog.render.sieve import Sieve
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.lists import MOST_TIMES, Listing, decode_info, decode_list, encode_info, encode_list
from flarelog.wire.codec.reads import Wanted, decode_piece, decode_read, encode_piece, encode_read, read_request
from flarelog.wire.codec.replies import encode_reply
from flarelog.wire.codec.runs import decode_run, encode_run
from tests.messages import decode_reply, decode_request, encode_request
from tests.often import tried

offsets = st.integers(0, MAX_OFFSET)
numbers = st.integers(0, 2**64 - 1)
words = st.integers(0, 2**32 - 1)
texts = st.text(max_size=60).filter(lambda text: text.isprintable())
names = st.text("abcXYZ019_-", min_size=1, max_size=20)
streams = st.builds(StreamId, names, names, st.lists(names, min_size=1, max_size=3).map("/".join))
marks = st.one_of(
    st.builds(Generation, offsets, words, texts, offsets, texts, words, words, texts),
    st.builds(Ended, offsets, words, texts),
    st.builds(Gap, offsets, words, offsets, texts),
)
thousandths = st.integers(0, 1 << 40).map(lambda number: number / 1000)
activities = st.builds(Activity, words, st.integers(0, 1 << 31).map(lambda number: number / 1000), thousandths)
healths = st.builds(
    Health,
    **{
        one.name: st.none() | (thousandths if one.name in Health.FRACTIONS else offsets)
        for one in fields(Health)
        if one.name != "unread"
    },
    unread=st.lists(texts, max_size=UNREAD).map(tuple),
)
news = st.builds(News, offsets, offsets, st.none() | activities, st.none() | healths)
states = st.builds(
    State,
    linked=st.booleans(),
    grown=st.none() | thousandths,
    end=offsets,
    activity=st.none() | activities,
    health=st.none() | healths,
)
requests = st.one_of(
    news,
    st.builds(Open, streams, st.binary(max_size=70), words, texts),
    st.builds(Chunk, offsets, st.binary(max_size=200), words),
    st.builds(Packed, offsets, st.binary(max_size=200), words, st.sampled_from(Codec), words),
    st.tuples(words, marks),
    st.builds(Receipt, offsets, words, words),
)
replies = st.builds(
    Reply,
    *(st.sampled_from(Code), offsets, words, words, st.binary(max_size=20), words, texts, st.booleans()),
    idle_timeout=st.integers(0, 10_000).map(float),
    window=words,
    codecs=st.sampled_from([(), tuple(Codec)]),
)
infos = st.tuples(
    st.builds(
        StreamInfo,
        streams,
        offsets,
        offsets,
        words,
        st.booleans(),
        st.lists(marks, max_size=4).map(tuple),
        state=st.none() | states,
    ),
    words,
)
sieves = st.builds(
    Sieve,
    st.lists(st.binary(min_size=2, max_size=64), min_size=1, max_size=16).map(tuple),
    st.booleans(),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
)
Coded = tuple[st.SearchStrategy[Any], Callable[[Any], bytes], Callable[[bytes], Any]]
MESSAGES: dict[str, Coded] = {
    "request": (requests, encode_request, decode_request),
    "reply": (replies, encode_reply, decode_reply),
    "info": (infos, encode_info, decode_info),
    "read": (
        st.builds(
            Wanted,
            *(streams, offsets, st.booleans(), st.none() | offsets, st.none() | sieves, offsets),
            st.none() | st.integers(0, 2**32 - 1),
        ),
        encode_read,
        lambda raw: read_request(decode_read(raw)),
    ),
    "piece": (st.tuples(offsets, st.binary(max_size=99) | marks), encode_piece, decode_piece),
    "list": (
        st.builds(
            Listing,
            names,
            names,
            st.booleans(),
            st.tuples(names, names, names),
            st.integers(0, 2**32 - 1),
            times=st.lists(offsets, max_size=MOST_TIMES).map(tuple),
            within=words,
        ),
        encode_list,
        decode_list,
    ),
    "run": (names, encode_run, decode_run),
}
LATER = b"\x98\x06\x07"  # field 99, which no version has yet

any_message = pytest.mark.parametrize(("values", "encode", "decode"), MESSAGES.values(), ids=MESSAGES)


@any_message
def test_what_was_said_is_heard_and_what_a_later_version_says_besides_is_passed_over(
    values: st.SearchStrategy[Any], encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
) -> None:
    @tried(12, 60)
    @given(values)
    def holds(value: Any) -> None:
        raw = encode(value)
        assert decode(raw) == value
        assert decode(raw + LATER) == value
        assert decode(LATER + raw) == value

    holds()


@any_message
def test_a_part_of_a_message_or_one_that_is_spoilt_is_heard_or_refused(
    values: st.SearchStrategy[Any], encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
) -> None:
    @tried(12, 60)
    @given(values, st.integers(0, 300), st.binary(max_size=5))
    def holds(value: Any, at: int, spoilt: bytes) -> None:
        raw = encode(value)
        for part in (raw[:at], raw[at:], raw[:at] + spoilt + raw[at + len(spoilt) :]):
            with contextlib.suppress(Malformed, InvalidName):
                decode(part)

    holds()
