"""Curves over HTTP: what is read of a log, at first and as it grows, and what an answer has."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from flarelog.lines.metrics import BUCKETS, Values
from flarelog.model import StreamId, StreamInfo
from flarelog.stores import choose
from flarelog.viewers.origin import gathered
from flarelog.viewers.web import curves as curves_module
from flarelog.viewers.web.curves import (
    FIRST,
    GROWN,
    HEIGHT,
    SHOWN,
    STRETCH,
    curves_record,
    fairly,
    points,
    stretches,
    words,
)
from tests.rows import rows
from tests.viewers.web.test_archive import with_client

LINE = b"2026-11-28 08:00:00 INFO step %06d loss=%.4f\n"


class Logs:
    """A store whose logs grow."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def add(self, data: bytes, site: str = "site-1", log: str = "train.log") -> None:
        async with choose.store(self.root, "memory") as held:
            appender = await held.appender(StreamId("run-1", site, log), b"producer")
            await appender.append(appender.committed, data)
            await appender.sync()
            await appender.close()


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Logs:
    monkeypatch.setattr("flarelog.viewers.web.answers.FRESH", 0.0)
    monkeypatch.setattr(curves_module, "AGAIN", 0.0)
    return Logs(tmp_path / "store")


async def asked(client: Any, metric: str = "", begins: str = "") -> Any:
    """The answer once all is read; the words of the first curve *begin* so: a list of logs is some milliseconds old."""
    while True:
        answer = (await client.get(f"/api/curves?run=run-1&metric={metric}")).json()
        if not answer.pop("reading") and (answer["curves"] or [{"words": ""}])[0]["words"].startswith(begins):
            return answer
        await asyncio.sleep(0.01)


def test_the_curves_of_a_metric_have_one_scale_and_grow(logs: Logs) -> None:
    asyncio.run(logs.add(b"loss 2.0 accuracy=0.1\nloss 1.0\nloss 0."))
    asyncio.run(logs.add(b"loss nan\n", "site-2"))
    asyncio.run(logs.add(b"hello\n", "site-3"))

    async def play(client: Any) -> None:
        found = await asked(client)
        assert (found["metrics"], found["metric"], found["left"]) == (["loss", "accuracy"], "loss", 0)
        first, second = found["curves"]
        assert (first["site"], first["log"], first["words"]) == ("site-1", "train.log", "last 1, least 1, greatest 2")
        assert [one for one in first["points"] if one is not None] == [HEIGHT, 0]
        assert (second["points"], second["words"]) == ([-1], "last nan, 1 of 1 value is not a number")
        assert (await asked(client, "accuracy"))["curves"][0]["words"] == "last 0.1, least 0.1, greatest 0.1"
        assert (await asked(client, "other"))["metric"] == "loss"
        await logs.add(b"5\n")
        assert (await asked(client, begins="last 0.5"))["curves"][0]["words"] == "last 0.5, least 0.5, greatest 2"

    with_client(logs, play)  # type: ignore[arg-type]  # it has a root as well


def test_a_large_log_is_sampled_and_read_on_as_it_grows(logs: Logs) -> None:
    count = 4 * FIRST // len(LINE % (0, 0.0))
    asyncio.run(logs.add(b"".join(LINE % (n, 9.0 - 8.0 * n / count) for n in range(count))))

    async def play(client: Any) -> None:
        (one,) = (await asked(client))["curves"]
        steps = [step for step in one["points"] if step is not None]
        assert (steps[0], steps[-1], len(steps) >= 8, len(one["points"]) <= BUCKETS) == (HEIGHT, 0, True, True)
        assert steps == sorted(steps, reverse=True)
        await logs.add(LINE % (count, math.nan))
        (one,) = (await asked(client, begins="last nan"))["curves"]
        assert one["points"][-1] == -1
        assert one["words"].endswith("; from samples of a large log")

    with_client(logs, play)  # type: ignore[arg-type]


def test_a_curve_does_not_depend_on_who_looked_when(logs: Logs) -> None:
    lines = [LINE % (n, 9.0 - n / 1000) for n in range(5000)]
    assert 2 * GROWN < sum(map(len, lines[1000:])) < FIRST
    asyncio.run(logs.add(b"".join(lines[:1000])))
    found: list[Any] = []

    async def play(client: Any) -> None:
        found.append((await asked(client, begins="last 8.001"))["curves"])
        await logs.add(b"".join(lines[1000:]))
        found.append((await asked(client, begins="last 4.001"))["curves"])

    with_client(logs, play)  # type: ignore[arg-type]

    async def later(client: Any) -> None:
        assert (await asked(client))["curves"] == found[-1]

    with_client(logs, later)  # type: ignore[arg-type]


def test_a_line_without_an_end_costs_its_size_once(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    async def counted(*args: Any) -> bytes:
        data = await gathered(*args)
        read.append(len(data))
        return data

    monkeypatch.setattr(curves_module, "gathered", counted)
    asyncio.run(logs.add(b"x"))

    async def play(client: Any) -> None:
        for _ in range(20):
            await logs.add(b"x" * STRETCH)
            assert (await asked(client))["metrics"] == []
        assert sum(read) <= 3 * 20 * STRETCH
        await logs.add(b"\nloss 0.5\n")
        assert (await asked(client, begins="last 0.5"))["metrics"] == ["loss"]

    with_client(logs, play)  # type: ignore[arg-type]


def test_a_log_that_grows_fast_does_not_keep_others_waiting(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves_module, "AT_ONCE", 1)
    for site in ("a", "b"):
        asyncio.run(logs.add(b"loss 0.5\n", site))

    async def play(client: Any) -> None:
        sites: set[str] = set()
        while sites != {"a", "b"}:
            answer = (await client.get("/api/curves?run=run-1")).json()
            sites |= {one["site"] for one in answer["curves"]}
            await logs.add(b"loss 0.5\n", "a")

    with_client(logs, play)  # type: ignore[arg-type]


@rows(
    [
        (0, 0),
        (0, FIRST),
        (5, GROWN + 5),
        (0, FIRST + 1),
        (5, FIRST + 6),
        (0, 10**12),
        (7, 10**12),
        (10**9, 10**9 + 9 * GROWN),
    ]
)
def test_what_is_read_is_bounded_and_ends_at_the_end(place: tuple[int, int]) -> None:
    found = stretches(*place)
    assert sum(end - begin for begin, end in found) <= FIRST
    assert (found[0][0], found[-1][1]) == place
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))


@rows(
    [
        ([1.0, None, 2.0, math.nan, -math.inf], (1.0, 2.0), [0, None, HEIGHT, -1, -1]),
        ([5.0, 5.0], (5.0, 5.0), [HEIGHT // 2] * 2),
        ([-1.7e308, 0.0, 1.7e308], (-1.7e308, 1.7e308), [0, HEIGHT // 2, HEIGHT]),
        ([math.nan], (math.inf, -math.inf), [-1]),
    ]
)
def test_points_are_steps(case: Any) -> None:
    values, (least, most), steps = case
    assert points(values, least, most) == steps


def test_each_site_has_its_turn() -> None:
    names = ["a/1", "a/2", "a/3", "b/1", "c/1", "c/2", "d/1"]
    infos = [StreamInfo(StreamId("run-1", *name.split("/")), 0, name != "d/1", 0, True) for name in names]
    found = [f"{info.stream.site}/{info.stream.log}" for info in fairly(infos)]
    assert found == ["a/1", "b/1", "c/1", "a/2", "c/2", "a/3"]


def test_an_answer_is_bounded() -> None:
    values = Values()
    for n in range(1000):
        values.add(n, 1e-300 * n)
    curve = values.curve
    found = {StreamId("run-1", f"site-{n}", "log.txt"): {f"loss{k}": curve for k in range(24)} for n in range(1000)}
    record = curves_record(found, "")
    assert (len(record["curves"]), record["left"], len(record["metrics"])) == (SHOWN, 1000 - SHOWN, 20)
    assert len(json.dumps(record)) < 64 << 10
    assert words(curve) == "last 9.99e-298, least 0, greatest 9.99e-298"
