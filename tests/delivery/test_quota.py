"""How much a receiver takes, and its refusals beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields

import pytest

from flarelog.cli import serve
from flarelog.delivery.quota import MIN_WINDOW, Limits, Quota, share
from flarelog.errors import Full, InvalidOption
from flarelog.model import StreamId

A, B = StreamId("run-1", "site-1", "a.log"), StreamId("run-1", "site-1", "b.log")
OTHER_SITE, OTHER_RUN = StreamId("run-1", "site-2", "a.log"), StreamId("run-2", "site-1", "a.log")


def counted(quota: Quota, *streams: tuple[StreamId, int]) -> Quota:
    """*quota*, after the store has listed *streams* of run-1."""
    with quota.count("run-1") as found:
        for stream, size in streams:
            quota.found(stream, size)
            found.add(stream)
    return quota


@contextmanager
def opened(quota: Quota, stream: StreamId) -> Iterator[None]:
    quota.opens(stream)
    try:
        yield
    finally:
        quota.closes(stream)


def test_no_site_takes_the_last_places_though_it_has_many_runs() -> None:
    quota, greedy = Quota(Limits(max_streams=1000, max_site_streams=500)), list[StreamId]()
    for number in range(910):
        greedy.append(StreamId(f"run-{number % 7}", "greedy", f"{number}.log"))
        quota.opens(greedy[-1])
    with pytest.raises(Full, match=r"910 streams of site greedy are open in all runs, and the last 90 of 1,000 places"):
        quota.opens(StreamId("run-1", "greedy", "one-more.log"))
    for number in range(8):
        quota.opens(StreamId("run-1", f"site-{number}", "a.log"))
    for stream in greedy:
        quota.closes(stream)
    assert [*quota._open_of] == [f"site-{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("limits", "stream", "sentence"),
    [
        pytest.param(
            Limits(max_site_bytes=100),
            B,
            "100 bytes of site site-1 in run run-1 are stored, and 100 is the limit: remove old logs,"
            " or start the receiver with a higher --max-site-bytes",
            id="bytes-of-a-site",
        ),
        pytest.param(
            Limits(max_run_bytes=100),
            OTHER_SITE,
            "100 bytes of run run-1 are stored, and 100 is the limit: remove old logs, or start the"
            " receiver with a higher --max-run-bytes",
            id="bytes-of-a-run",
        ),
    ],
)
def test_no_byte_is_taken_once_a_limit_is_reached(limits: Limits, stream: StreamId, sentence: str) -> None:
    quota = Quota(limits)
    quota.take(A, 99)
    quota.take(stream, 1)
    for full in (A, stream):
        assert not quota.has_room(full)
        with pytest.raises(Full) as raised:
            quota.take(full, 1)
        assert str(raised.value) == sentence
    quota.take(OTHER_RUN, 100)


def test_a_limit_in_bytes_is_exceeded_by_less_than_one_chunk() -> None:
    quota, taken = Quota(Limits(max_run_bytes=1000)), 0
    with pytest.raises(Full):  # noqa: PT012  which chunk is one too many is the point
        for n in range(100):
            quota.take((A, B, OTHER_SITE)[n % 3], 64)
            taken += 64
    assert 1000 <= taken < 1000 + 64


@pytest.mark.parametrize(
    ("limits", "stream", "sentence"),
    [
        pytest.param(
            Limits(max_site_streams=1),
            B,
            "1 stream of site site-1 in run run-1 is open, and 1 is the limit: wait until one ends, or start"
            " the receiver with a higher --max-site-streams",
            id="of-a-site",
        ),
        pytest.param(
            Limits(max_streams=1),
            OTHER_RUN,
            "1 stream is open, and 1 is the limit: wait until one ends, or start the receiver with a higher"
            " --max-streams",
            id="in-all",
        ),
    ],
)
def test_one_stream_too_many_may_open_when_another_was_closed(limits: Limits, stream: StreamId, sentence: str) -> None:
    quota = Quota(limits)
    with opened(quota, A):
        with pytest.raises(Full) as raised, opened(quota, stream):
            pass
        assert str(raised.value) == sentence
    with opened(quota, stream), pytest.raises(Full), opened(quota, A):
        pass


def test_a_producer_that_returns_before_its_old_call_has_ended_is_one_stream() -> None:
    quota = Quota(Limits(max_streams=1))
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(opened(quota, A))
        second.enter_context(opened(quota, A))
        first.close()
        with pytest.raises(Full), opened(quota, B):
            pass


def test_what_the_store_holds_counts_after_a_restart() -> None:
    quota = counted(Quota(Limits(max_site_bytes=100)), (A, 60), (B, 40))
    assert not quota.has_room(A)
    assert quota.has_room(OTHER_SITE)


def test_what_the_store_holds_counts_though_its_streams_are_opened_all_at_once() -> None:
    quota = Quota(Limits(max_site_bytes=100))
    with opened(quota, A), opened(quota, B):  # both before the first count
        counted(quota, (A, 60), (B, 60))
        quota.holds(A, 60)  # as A enters
        with pytest.raises(Full, match="120 bytes of site site-1"):
            quota.take(A, 1)


def test_what_was_removed_from_the_store_makes_room() -> None:
    quota = counted(Quota(Limits(max_run_bytes=100)), (A, 60), (B, 40))
    assert counted(quota, (B, 40)).has_room(B)
    quota.take(B, 60)
    assert not quota.has_room(B)


def test_counting_anew_believes_an_open_stream_and_not_a_list_that_is_older() -> None:
    quota = Quota(Limits(max_run_bytes=100))
    with opened(quota, A):
        quota.holds(A, 50)
        quota.take(A, 50)
        assert not counted(quota, (A, 50)).has_room(A)
        assert not counted(quota).has_room(A)


def test_bytes_that_were_taken_but_not_stored_are_given_back() -> None:
    quota = Quota(Limits(max_run_bytes=100))
    quota.take(A, 100)
    quota.holds(A, 10)
    assert quota.has_room(A)


@pytest.mark.parametrize(
    "name", ["max_run_bytes", "max_site_bytes", "max_streams", "max_site_streams", "max_in_flight"]
)
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} must be at least 1, not 0"):
        Limits(**{name: 0})


def test_the_more_streams_send_the_smaller_their_windows() -> None:
    assert share(64 << 20, 0) == share(64 << 20, 1) == 64 << 20
    assert share(64 << 20, 64) == 1 << 20
    assert share(64 << 20, 100_000) == MIN_WINDOW


def test_marks_of_a_sites_open_logs_are_bounded_together_and_given_back() -> None:
    quota = Quota(Limits(max_site_journal_bytes=100))
    with opened(quota, A), opened(quota, B):
        quota.note(A, 60)
        quota.note(B, 60)
        with pytest.raises(Full, match="--max-site-journal-bytes"):
            quota.note(A, 1)
        quota.note(OTHER_SITE, 1)
    with opened(quota, A):
        quota.note(A, 60)


def test_each_limit_has_an_option_with_its_default() -> None:
    options = {option.name: option for option in serve.command.params}
    for limit in fields(Limits):
        assert limit.name in options, f"flarelog serve has no --{limit.name.replace('_', '-')}"
        assert limit.default is None or options[limit.name].default == limit.default
