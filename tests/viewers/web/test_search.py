"""The matches of a search, and the lines that it lets a receiver leave out."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import InvalidOption
from flarelog.lines.levels import Level
from flarelog.model import Buffer, StreamId
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.origin import Found, StoreOrigin
from flarelog.viewers.web.search import LONGEST, Latest, Query, Search
from flarelog.viewers.web.trouble import stamps_here
from flarelog.viewers.web.windows import Windows
from tests.rows import together


def query(*literals: str, regex: str = "", ignore: bool = False, level: Level | None = None) -> Query:
    return Query.of(literals, regex, ignore=ignore, level=level)


@together(
    ("asked", "line", "found"),
    [
        (query("loss"), "the loss is 1", True),
        (query("loss", "gain"), "the gain is 1", True),
        (query("loss"), "the LOSS is 1", False),
        (query("LOSS", ignore=True), "the loss is 1", True),
        (query(regex=r"loss \d+$"), "the loss 12", True),
        (query(regex=r"loss \d+$"), "the loss 12 x", False),
        (query(regex="LOSS", ignore=True), "the loss", True),
        (query(regex="(a+)+$"), "a" * 5000 + "b", False),
    ],
)
def test_lines_match(asked: Query, line: str, found: bool) -> None:
    assert (asked.matches(line), asked.exact) == (found, True)


def test_what_cannot_be_run_in_bounded_time_is_judged_by_the_browser() -> None:
    asked = query(regex=r"(?<=the )loss")
    assert (asked.exact, asked.matches("my loss"), asked.matches("gain")) == (False, True, False)
    for regex in (r"(?=a)a\1|", r"(x)\1", r"(?!a)"):
        with pytest.raises(InvalidOption):
            query(regex=regex)


@pytest.mark.parametrize(
    ("regex", "installed", "says"),
    [
        (r"\d+:\d+", False, "has, as in 'loss"),
        (r"(a)\1", True, "no backreferences"),
        ("x*", True, "the pattern 'x*' also matches the empty string"),
        (r"\p{L}x", True, "JavaScript and Python share"),
        ("(?<n>a)bb", False, "JavaScript and Python share"),
    ],
)
def test_a_pattern_that_cannot_be_run_is_told_so_that_somebody_in_a_browser_can_go_on(
    regex: str, installed: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidOption, match=re.escape(says)):
        query(regex=regex, ignore=True)


@together(
    ("asked", "kept"),
    [
        (query("loss"), (b"loss",)),
        (query("Loss", ignore=True), (b"loss",)),
        (query("x"), None),
        (query("gr\u00fc\u00df", ignore=True), None),
        (query("loss", level=Level.ERROR), None),
        (query(regex=r"loss \d"), (b"loss ",)),
    ],
)
def test_a_receiver_leaves_out_what_cannot_match(asked: Query, kept: tuple[bytes, ...] | None) -> None:
    assert (None if asked.keep is None else asked.keep.any_of) == kept


@pytest.mark.parametrize("regex", ["", "(", "x" * (LONGEST + 1), "(x{99}){99}"])
def test_what_is_no_search_is_a_sentence(regex: str) -> None:
    with pytest.raises(InvalidOption):
        query(regex=regex)


@together(
    ("most", "held", "kept", "full"),
    [
        (3, 100, ["b", "c", "d" * 9], True),
        (4, 100, ["a", "b", "c", "d" * 9], False),
        (4, 11, ["b", "c", "d" * 9], True),
        (4, 5, ["d" * 9], True),
    ],
)
def test_the_latest_hits_are_bounded_by_number_and_size(most: int, held: int, kept: list[str], full: bool) -> None:
    latest = Latest(most, held)
    made_room = [latest.add(hit) for hit in ("a", "b", "c", "d" * 9)]
    assert (list(latest.hits), any(made_room)) == (kept, full)


DAY = "2026-11-20 08:00:"
LOGS = {
    "a": f"{DAY}01 hit 1\nhit 2\n{DAY}03 other\n" + "x\n" * 10_000 + "hit 3\n",
    "b": f"{DAY}02 hit 4\n" * 3,
    "c": "hit 5\n",
}


class Reads(StoreOrigin):
    """Counts the requests for bytes, and the bytes."""

    requests = read = 0

    async def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
        Reads.requests += 1
        async for number, what in super().find(*args, **how):
            Reads.read += len(what) if isinstance(what, Buffer) else 0
            yield number, what


async def asked_for(directory: Path, question: Query, **how: Any) -> list[dict[str, Any]]:
    """The answer about LOGS. *how*: more of ``Search``'s options; *starts* by site."""
    async with LocalStore(directory, "memory") as store:
        for site, text in LOGS.items():
            appender = await store.appender(StreamId("run-1", site, "log.txt"), b"producer")
            await appender.append(0, text.encode())
            await appender.close()
    Reads.requests = Reads.read = 0
    async with Reads(directory) as origin:
        infos = await origin.streams("run-1")
        how["starts"] = {StreamId("run-1", site, "log.txt"): at for site, at in how.get("starts", {}).items()}
        search = Search(origin, infos, question, plain_of=Windows().plain, stamps=stamps_here(), **how)
        return [json.loads(line) async for line in search.said()]


def test_a_hit_has_the_time_of_its_line_or_of_a_line_above_it(tmp_path: Path) -> None:
    said = asyncio.run(asked_for(tmp_path, query("hit")))
    found = {text[-1]: key and key // 1000 % 60 for one in said for *_, text, key in one.get("hits", ())}
    assert found == {"1": 1, "2": 1, "3": 3, "4": 2, "5": None}


def test_all_hits_are_counted_whatever_the_limit(tmp_path: Path) -> None:
    said = asyncio.run(asked_for(tmp_path, query("hit"), limit=1, counts=True))
    counted = dict(one["counted"] for one in said if "counted" in one)
    assert counted == {k: LOGS[one["site"]].count("hit") for k, one in enumerate(said[0]["streams"])}
    assert not any("hits" in one or "rest" in one or one.get("capped") for one in said)


@pytest.mark.parametrize("counts", [False, True])
def test_a_small_log_is_searched_by_one_request(tmp_path: Path, counts: bool) -> None:
    said = asyncio.run(asked_for(tmp_path, query("other"), counts=counts))
    assert [one["hits"][0][1] for one in said if "hits" in one] == ([] if counts else [len(f"{DAY}01 hit 1\nhit 2\n")])
    assert (Reads.requests, Reads.read) == (len(LOGS), sum(map(len, LOGS.values())))


def test_the_time_of_a_hit_without_one_is_read_in_the_lines_above_it(tmp_path: Path) -> None:
    said = asyncio.run(asked_for(tmp_path, query("hit 2")))
    ((*_, key),) = [hit for one in said for hit in one.get("hits", ())]
    assert key // 1000 % 60 == 1
    assert Reads.read - sum(map(len, LOGS.values())) == LOGS["a"].index("hit 2")


@pytest.mark.parametrize("limit", [1, 2, 4, 7, 8])
def test_a_search_that_reached_its_limit_goes_on_where_it_ended(tmp_path: Path, limit: int) -> None:
    starts: dict[str, int] = {}
    found: set[tuple[str, int]] = set()
    rounds = 0
    while rounds == 0 or starts:
        store = tmp_path / str(rounds)
        store.mkdir()
        said = asyncio.run(
            asked_for(
                store, query("hit"), starts={**dict.fromkeys("abc", 1 << 40), **starts} if rounds else {}, limit=limit
            )
        )
        sites = [one["site"] for one in said[0]["streams"]]
        hits = [(sites[hit[0]], hit[1]) for one in said for hit in one.get("hits", ())]
        assert len(hits) == min(limit, 7 - len(found))
        assert not found & set(hits)
        found |= set(hits)
        starts = {sites[k]: at for one in said for k, at in one.get("rest", ())}
        rounds += 1
    assert rounds == -(-7 // limit)
    assert len(found) == 7


def test_a_log_with_many_hits_takes_no_room_from_the_others(tmp_path: Path) -> None:
    said = asyncio.run(asked_for(tmp_path, query("hit"), limit=6, each=2))
    hits = [text[-1] for one in said for *_, text, _ in one.get("hits", ())]
    assert sorted(hits) == ["1", "2", "4", "4", "5"]
    sites = [one["site"] for one in said[0]["streams"]]
    rest = {sites[k]: at for one in said for k, at in one.get("rest", ())}
    assert rest == {"a": LOGS["a"].index("hit 3"), "b": LOGS["b"].rindex(DAY)}


@together(
    ("field", "line", "found"),
    [
        ('"n": 1', '{"msg":"m","n":1}', True),
        ('"n": 1', '{"msg": "m", "n" : 1, "o": {"n": 2}}', True),
        ('"n": 1', '{"msg": "m", "n": 0, "o": {"n": 1}}', False),
        ('"n": 1', '{"msg": "m", "n": 10}', False),
        ('"n": 1', '{"msg": "m", "n": true}', False),
        ('"n": 1', '{"msg": "\\"n\\": 1"}', False),
        ('"n": 1', '{"msg": "m", "n": 1, "n": 2}', True),
        ('"n": 1', 'n: 1, and "n": 1}', False),
        ('"n": 1', "[" * 60_000, False),
        ('"s": "\\u00e9"', '{"s": "\u00e9"}', True),
        ('"o": {"a": 1, "b": []}', '{"o": {"b":[],"a":1}}', True),
        ('"o": {"a": 1}', '{"o": {"a": 1, "b": 2}}', False),
    ],
)
def test_a_field_is_that_of_the_object_itself(field: str, line: str, found: bool) -> None:
    assert Query.of_field(field, level=None).matches(line) == found


@together(
    ("field", "kept"),
    [
        ('"n": 1', {b'"n":1', b'"n": 1', b'"n" : 1', b'"n" :1'}),
        ('"x": "a b"', {b'"x":"a b"', b'"x": "a b"', b'"x" : "a b"', b'"x" :"a b"'}),
        ('"n": 1.50', {b'"n"'}),  # others may write 1.5
        ('"o": {"n": 1}', {b'"o"'}),
        ('"\u00e9": 1', None),
    ],
)
def test_a_receiver_leaves_out_lines_without_the_field(field: str, kept: set[bytes] | None) -> None:
    keep = Query.of_field(field, level=None).keep
    assert (None if keep is None else set(keep.any_of)) == kept
    assert Query.of_field(field, level=Level.ERROR).keep is None


@pytest.mark.parametrize("field", ["", "n: 1", '"n"', "}", '"n": 1, ', '"n": 1} {'])
def test_what_is_no_field_is_refused(field: str) -> None:
    with pytest.raises(InvalidOption, match="no field of JSON"):
        Query.of_field(field, level=None)
