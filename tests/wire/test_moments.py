"""The history of a run over the wire: complete, in bounded messages, between versions."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.exit_marks import Exit
from flarelog.model import Attributes, Ended, Gap, Generation, Health
from flarelog.stores.moments import HAPPENINGS, Happening, Moment
from flarelog.v1 import log_pb2 as pb
from flarelog.wire import listing
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.timeline import (
    MOST_POINTS,
    Times,
    decode_moments,
    decode_timeline,
    encode_moments,
    encode_timeline,
    moments_in_messages,
)
from tests.often import often

times = st.integers(1, 1 << 50)
names = st.text("abc019_-", min_size=1, max_size=12)
texts = st.text(max_size=40).filter(lambda text: text.isprintable())
marks = st.one_of(
    st.builds(Gap, times, st.integers(0, 9), times, texts),
    st.builds(Ended, times, st.integers(0, 9), texts),
    st.builds(Generation, times, st.integers(0, 9), texts, times, texts),
    st.builds(Attributes, times, st.integers(0, 9), texts),
)
plain = st.builds(Moment, times, st.sampled_from(["begun", "grown", "sealed"]), st.just("site-1"), names, times)
marked = st.builds(
    lambda at, log, mark: Moment(at, type(mark).__name__.lower(), "site-1", log, mark.offset, mark), times, names, marks
)
happened = st.builds(
    lambda at, what, why, count, logs, since: Moment(
        at, what, "site-1", happening=Happening(at, what, why, count, tuple(logs), since)
    ),
    *(times, st.sampled_from(HAPPENINGS), texts, st.integers(1, 10_000), st.lists(names, max_size=16), times),
)
healths = st.builds(
    Health,
    **{one.name: st.none() | st.integers(0, 1 << 40) for one in fields(Health) if one.name != "unread"},
    unread=st.lists(texts, max_size=3).map(tuple),
)
fared = st.builds(lambda at, health: Moment(at, "health", "site-1", health=health), times, healths)
of_run = st.builds(lambda at: Moment(at, "run", text="running"), times)


def key(one: Moment) -> str:
    return repr((one.at, one.what, one.log, one.length, one.mark, one.happening, one.text, one.health))


@given(st.one_of(st.lists(st.one_of(plain, marked, happened, fared), max_size=30), st.lists(of_run, max_size=3)))
def test_what_was_said_is_heard(moments: list[Moment]) -> None:
    heard = [one for message in moments_in_messages(moments) for one in decode_moments(encode_moments(message))]
    assert sorted(heard, key=key) == sorted(
        [
            one if one.what not in ("begun",) else Moment(one.at, "begun", one.site, one.log, one.length)
            for one in moments
        ],
        key=key,
    )


def test_an_end_of_a_command_is_heard_with_its_evidence() -> None:
    end = Exit(9, 0, "ab12", signal=9, started=5, ended=6, oom_before=0, oom_after=1, oom="certain")
    told = Moment(7, "exit", "site-1", "log.txt", 9, end)
    assert decode_moments(encode_moments([told])) == [told]


def test_messages_are_bounded() -> None:
    many = [Moment(1, "gap", "site-1", "a.log", 1, Gap(1, 0, 1, "x" * 1024)) for _ in range(2000)]
    many += [Moment(number, "grown", "site-1", "a.log", number) for number in range(often(16_000, 40_000))]
    messages = [encode_moments(message) for message in moments_in_messages(many)]
    assert max(map(len, messages)) < 512 << 10
    assert sum(len(decode_moments(message)) for message in messages) == len(many)


@pytest.mark.parametrize(
    ("message", "known"),
    [
        pytest.param(pb.Moments(site="a", moments=[pb.Moment(at_ms=1, what="melted")]), [], id="a-later-kind"),
        pytest.param(pb.Moments(moments=[pb.Moment(at_ms=1, what="left")]), [], id="of-no-site"),
        pytest.param(
            pb.Moments(site="a", moments=[pb.Moment(at_ms=1, mark=pb.Mark()), pb.Moment(at_ms=2, what="begun")]),
            ["begun"],
            id="a-mark-of-a-later-kind",
        ),
    ],
)
def test_what_a_later_version_tells_is_passed_over(message: Any, known: list[str]) -> None:
    assert [one.what for one in decode_moments(message.SerializeToString())] == known


def test_times_without_lengths_are_malformed() -> None:
    with pytest.raises(Malformed, match="not as many"):
        decode_moments(pb.Moments(site="a", log="b", grown_ms=[1, 2], lengths=[1]).SerializeToString())


def test_what_is_asked_for_is_heard() -> None:
    asked = Times("run-1", "site-1", 40)
    assert decode_timeline(encode_timeline(asked)) == asked
    assert decode_timeline(encode_timeline(Times("r", "", 1 << 31))).points == MOST_POINTS


class Receiver:
    """Answers Timeline with *messages*, repeated for ever if *endless*."""

    def __init__(self, *messages: bytes, endless: bool = False) -> None:
        self._messages, self._endless = list(messages), endless

    def unary_stream(self, method: str, request_serializer: Any) -> Any:
        assert method.endswith("/Timeline")
        return lambda asked: self

    async def read(self) -> Any:
        if self._endless:
            return self._messages[0]
        return self._messages.pop(0) if self._messages else grpc.aio.EOF

    def cancel(self) -> None:
        pass


def told(receiver: Receiver, site: str = "") -> list[Moment]:
    channel: Any = receiver
    return asyncio.run(listing.timeline(channel, Times("run-1", site), 10))


def test_moments_of_all_messages_are_in_the_order_of_time_and_of_the_site_that_was_asked_for() -> None:
    messages = [
        encode_moments([Moment(5, "begun", "site-2", "a")]),
        encode_moments([Moment(9, "begun", "site-1", "a"), Moment(3, "grown", "site-1", "a", 4)]),
        encode_moments([Moment(4, "run", text="running")]),
    ]
    assert [one.at for one in told(Receiver(*messages))] == [3, 4, 5, 9]
    assert [one.at for one in told(Receiver(*messages), "site-1")] == [3, 4, 9]


def test_a_receiver_that_never_comes_to_an_end_is_not_listened_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_LISTED", 10_000)
    with pytest.raises(Malformed, match="the most that a reader accepts"):
        told(Receiver(encode_moments([Moment(5, "begun", "site-2", "a")]), endless=True))
