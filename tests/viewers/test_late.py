"""The times of lines that were sent late, for the lane of their site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC
from typing import Any, cast

import pytest

from flarelog.errors import Unavailable
from flarelog.lines.times import SECOND, shown
from flarelog.lines.zones import Stamps
from flarelog.model import StreamId, StreamInfo
from flarelog.receiver.phases import spoken
from flarelog.stores.moments import LEFT, RESUMED, Happening, Moment
from flarelog.viewers.lanes import lanes_of
from flarelog.viewers.late import Late, late_lines
from flarelog.viewers.origin import Origin

BEGIN = 1_795_420_800  # seconds since 1970
HOUR = 3600


class Logs:
    """An origin with *logs*, by site; it counts what is read."""

    def __init__(self, logs: dict[str, bytes]) -> None:
        self.logs, self.read = logs, 0

    async def find(self, stream: StreamId, begin: int, *_: Any, stop: int, **__: Any) -> AsyncGenerator[Any, None]:
        if not self.logs[stream.site]:
            raise Unavailable("it is away")
        self.read += stop - begin
        yield begin, self.logs[stream.site][begin:stop]


def lines(begin: float, count: int) -> bytes:
    return b"".join(f"{shown(round((begin + n) * SECOND))[:23]} INFO step\n".encode() for n in range(count))


def late(
    logs: dict[str, bytes], arrived: int, grown: int, ahead: float = 0.0, moments: Sequence[Moment] = ()
) -> tuple[dict[str, list[Late]], int]:
    origin = Logs(logs)
    infos = [
        StreamInfo(
            StreamId("run-1", site, "a.log"), 0, len(data) or 9, 0, False, begun=1000 * arrived, grown=1000 * grown
        )
        for site, data in logs.items()
    ]
    stamps = late_lines(
        cast(Origin, origin),
        infos,
        lambda stream: Stamps(UTC, arrived * SECOND),
        lambda _: round(ahead * SECOND),
        moments,
        lanes_of(moments).lanes,
    )
    return asyncio.run(stamps), origin.read


@pytest.mark.parametrize(
    ("data", "arrived", "grown", "since", "until"),
    [
        pytest.param(lines(BEGIN, 9), BEGIN + HOUR, BEGIN + HOUR, BEGIN, BEGIN + 8, id="all-of-it"),
        pytest.param(
            lines(BEGIN, 9) + lines(BEGIN + 2 * HOUR, 1), BEGIN + HOUR, BEGIN + 2 * HOUR, BEGIN, 0, id="its-first-part"
        ),
        pytest.param(lines(BEGIN, 9), BEGIN, BEGIN + 9, None, None, id="none-of-it"),
        pytest.param(lines(BEGIN, 1) + b"more\n", BEGIN + 59, BEGIN + 59, None, None, id="a-little"),
        pytest.param(b"no time\n" * 9, BEGIN + HOUR, BEGIN + HOUR, None, None, id="no-line-has-a-time"),
        pytest.param(b"", BEGIN + HOUR, BEGIN + HOUR, None, None, id="it-cannot-be-read"),
    ],
)
def test_lines_are_late_if_they_arrived_a_minute_after_their_time(
    data: bytes, arrived: int, grown: int, since: int | None, until: int | None
) -> None:
    found, _ = late({"a": data}, arrived, grown)
    said = f"sent {spoken(arrived - (since or 0))} late"
    assert found == ({} if since is None else {"a": [Late(1000 * since, 1000 * (until or 0), 0, said)]})


def test_a_site_whose_clock_is_behind_sent_nothing_late() -> None:
    assert late({"a": lines(BEGIN - HOUR, 3)}, BEGIN, BEGIN, ahead=-HOUR)[0] == {}


def test_of_a_large_log_two_pieces_are_read() -> None:
    found, read = late({"a": lines(BEGIN, 50_000)}, BEGIN + 20 * HOUR, BEGIN + 20 * HOUR)
    assert found == {"a": [Late(1000 * BEGIN, 1000 * (BEGIN + 49_999), 0, "sent 20 h late")]}
    assert read == 16 << 10


LINE = len(lines(BEGIN, 1))


def came(second: int, count: int) -> Moment:
    return Moment(1000 * (BEGIN + second), "grown", "a", "a.log", length=count * LINE)


def away(second: int, what: str) -> Moment:
    at = 1000 * (BEGIN + second)
    return Moment(at, what, "a", happening=Happening(at, what, logs=("a.log",)))


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        pytest.param(
            [came(60, 60), away(60, LEFT), away(660, RESUMED), came(661, 661), came(700, 700)],
            [Late(1000 * (BEGIN + 61), 1000 * (BEGIN + 660), 1000 * (BEGIN + 661), "sent 10 min late")],
            id="after-a-lost-link",
        ),
        pytest.param(
            [came(60, 60), away(60, LEFT), came(661, 661), came(700, 700)],
            [Late(1000 * (BEGIN + 61), 1000 * (BEGIN + 661), 1000 * (BEGIN + 661), "sent 10 min late")],
            id="its-bytes-end-the-outage",
        ),
        pytest.param(
            [came(60, 60), away(60, LEFT), away(110, RESUMED), came(111, 111), came(700, 700)], None, id="a-short-one"
        ),
        pytest.param([came(60, 60), came(661, 661), came(700, 700)], None, id="a-site-that-was-quiet"),
        pytest.param([came(60, 60), away(60, LEFT), away(660, RESUMED)], None, id="nothing-came-later"),
    ],
)
def test_what_waited_for_the_end_of_an_outage_was_sent_late(moments: list[Moment], expected: list[Late] | None) -> None:
    found, _ = late({"a": lines(BEGIN, 700)}, BEGIN, BEGIN + 700, moments=moments)
    assert found == ({} if expected is None else {"a": expected})


def test_a_site_that_wrote_nothing_while_it_was_away_sent_nothing_late() -> None:
    data = lines(BEGIN, 60) + lines(BEGIN + 655, 60)
    moments = [came(60, 60), away(60, LEFT), away(660, RESUMED), came(661, 66), came(715, 120)]
    assert late({"a": data}, BEGIN, BEGIN + 715, moments=moments)[0] == {}


def test_the_end_is_that_of_the_last_line_in_any_log_of_the_site() -> None:
    logs = {"a/large.log": lines(BEGIN, 900), "a/small.log": lines(BEGIN + 880, 120)}
    found = several_logs(logs, dict.fromkeys(logs, BEGIN + 2 * HOUR))
    assert found["a"][0].until == 1000 * (BEGIN + 999)
    logs["a/live.log"] = lines(BEGIN + 3 * HOUR, 2)
    found = several_logs(logs, {**dict.fromkeys(logs, BEGIN + 2 * HOUR), "a/live.log": BEGIN + 3 * HOUR + 2})
    assert found["a"][0].until == 0


def test_a_site_that_came_later_than_the_others_says_by_how_much() -> None:
    arrived = {"a/x": BEGIN + HOUR, "b/x": BEGIN + HOUR + 3, "c/x": BEGIN + HOUR + 1, "d/x": BEGIN + HOUR + 1800}
    found = several_logs(dict.fromkeys(arrived, lines(BEGIN, 9)), arrived)
    assert {site: (one.said, one.later > 0) for site, (one,) in found.items()} == {
        "a": ("sent 1 h late", False),
        "b": ("sent 1 h late", False),
        "c": ("sent 1 h late", False),
        "d": ("sent 1 h 30 min late, 29 min later than other sites", True),
    }


def test_a_late_site_among_live_ones_is_later_than_those() -> None:
    arrived = {"a/x": BEGIN, "b/x": BEGIN + 1, "c/x": BEGIN + 600}
    assert several_logs(dict.fromkeys(arrived, lines(BEGIN, 9)), arrived)["c"][0].later == 599_500


def test_a_site_alone_is_later_than_none() -> None:
    assert several_logs({"a/x": lines(BEGIN, 9)}, {"a/x": BEGIN + HOUR})["a"][0].later == 0


def several_logs(logs: dict[str, bytes], arrived: dict[str, int]) -> dict[str, list[Late]]:
    class Several(Logs):
        async def find(self, stream: StreamId, begin: int, *_: Any, stop: int, **__: Any) -> AsyncGenerator[Any, None]:
            yield begin, self.logs[f"{stream.site}/{stream.log}"][begin:stop]

    infos = [
        StreamInfo(StreamId("run-1", *name.split("/")), 0, len(data), 0, False, begun=1000 * at, grown=1000 * at)
        for name, data, at in ((name, logs[name], arrived[name]) for name in logs)
    ]
    stamps = late_lines(cast(Origin, Several(logs)), infos, lambda _: Stamps(UTC, BEGIN * SECOND), lambda _: 0)
    return asyncio.run(stamps)
