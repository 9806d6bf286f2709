"""The hit next to a place, in the page's own code: it is certain, or the page learns what to search for it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flarelog.viewers.web.files import files
from tests.rows import together

NODE = shutil.which("node")
ASKED = """
import { Hits } from "./hits.mjs";
const { order, logs, listed, place, direction } = JSON.parse(process.argv[2]);
const hits = new Hits(order, listed ? [] : null);
for (const [log, { at, searched }] of Object.entries(logs)) {
  const part = hits.part({ site: "s", log });
  hits.add(part, at.map(([offset, time]) => ({ offset, end: offset + 1, time })));
  for (const [from, to] of searched) part.cover(from, to ?? Infinity);
}
const of = place.of && { site: "s", log: place.of };
const { hit, lacks, at } = hits.beside({ on: true, ...place, of }, direction);
const unknown = { lacks: lacks?.map(({ log }) => log) ?? "all", at };
const said = hit === undefined ? unknown : { hit: hit && [hit.log, hit.offset] };
console.log(JSON.stringify({ ...said, all: hits.all.map(({ log, offset }) => log + offset), whole: hits.whole }));
"""
pytestmark = pytest.mark.skipif(NODE is None, reason="no node is installed")

A = {"at": [[10, 1000], [20, 2000], [30, 3000]], "searched": [[0, None]]}
B = {"at": [[5, 1500], [6, None], [7, 2500]], "searched": [[0, None]]}
NOT_TO_THE_END = {"at": [[10, 1000], [20, 2000]], "searched": [[0, 25]]}
IN_THE_MIDDLE = {"at": [[20, 2000]], "searched": [[15, 25]]}
UNKNOWN: dict[str, Any] = {"at": [], "searched": []}
NOTHING: dict[str, Any] = {"at": [], "searched": [[0, None]]}


def asked(tmp_path: Path, **question: Any) -> dict[str, Any]:
    (tmp_path / "hits.mjs").write_bytes(files()["hits.js"].data)
    (tmp_path / "asked.mjs").write_text(ASKED)
    told = json.dumps({"order": "log", "listed": True, "direction": 1, **question})
    done = subprocess.run((str(NODE), str(tmp_path / "asked.mjs"), told), capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@together(
    ("logs", "place", "said"),
    [
        pytest.param({"a": A}, {"of": "a", "at": 10}, {"hit": ["a", 20]}, id="the-next-one"),
        pytest.param({"a": A}, {"of": "a", "at": 10, "on": False}, {"hit": ["a", 10]}, id="the-one-at-the-place"),
        pytest.param({"a": A}, {"of": "a", "at": 30}, {"hit": ["a", 10]}, id="the-first-after-the-last"),
        pytest.param({"a": A}, {"of": "a", "at": 10, "back": True}, {"hit": ["a", 30]}, id="the-last-before-the-first"),
        pytest.param({"a": A, "b": B}, {"of": "a", "at": 30}, {"hit": ["b", 5]}, id="then-the-next-log"),
        pytest.param({"a": A, "b": B}, {"of": "b", "at": 7}, {"hit": ["a", 10]}, id="then-the-first-log"),
        pytest.param({"b": A, "a": B}, {"of": "b", "at": 30}, {"hit": ["a", 5]}, id="logs-by-their-first-hits"),
        pytest.param({"a": A, "b": NOTHING}, {"of": "b", "at": 9}, {"hit": ["a", 10]}, id="from-a-log-without-hits"),
        pytest.param({"a": NOTHING}, {"of": "a", "at": 3}, {"hit": None}, id="no-hit-at-all"),
        pytest.param({"a": NOT_TO_THE_END}, {"of": "a", "at": 10}, {"hit": ["a", 20]}, id="known-before-the-end"),
        pytest.param({"a": NOT_TO_THE_END}, {"of": "a", "at": 20}, {"lacks": ["a"], "at": 25}, id="unknown-behind"),
        pytest.param({"a": NOT_TO_THE_END}, {"of": "a", "at": 90}, {"lacks": ["a"], "at": 90}, id="an-unknown-place"),
        pytest.param(
            {"a": IN_THE_MIDDLE}, {"of": "a", "at": 20, "back": True}, {"lacks": ["a"], "at": 15}, id="before"
        ),
        pytest.param({"a": A, "b": UNKNOWN}, {"of": "a", "at": 20}, {"hit": ["a", 30]}, id="another-log-is-not-needed"),
        pytest.param({"a": A, "b": UNKNOWN}, {"of": "a", "at": 30}, {"lacks": ["b"]}, id="another-log-is-needed"),
    ],
)
def test_hits_of_a_log_come_before_those_of_the_others(
    logs: dict[str, Any], place: dict[str, Any], said: dict[str, Any], tmp_path: Path
) -> None:
    found = asked(tmp_path, logs=logs, place=place, direction=-1 if place.get("back") else 1)
    assert {name: found.get(name) for name in said} == said


@together(
    ("logs", "place", "said"),
    [
        pytest.param({"a": A, "b": B}, {"of": None, "at": 0}, {"hit": ["a", 10]}, id="the-first-of-all"),
        pytest.param({"a": A, "b": B}, {"of": "a", "at": 10}, {"hit": ["b", 5]}, id="another-log"),
        pytest.param({"a": A, "b": B}, {"of": "b", "at": 5}, {"hit": ["b", 6]}, id="one-without-a-time"),
        pytest.param({"a": A, "b": B}, {"of": "b", "at": 6}, {"hit": ["a", 20]}, id="then-by-time"),
        pytest.param({"a": A, "b": B}, {"of": "a", "at": 30}, {"hit": ["a", 10]}, id="the-first-after-the-last"),
        pytest.param({"a": A, "b": B}, {"of": "a", "at": 10, "back": True}, {"hit": ["a", 30]}, id="the-last-of-all"),
        pytest.param({"a": A, "b": NOT_TO_THE_END}, {"of": "a", "at": 10}, {"hit": ["b", 10]}, id="one-is-certain"),
        pytest.param({"a": A, "b": NOT_TO_THE_END}, {"of": "b", "at": 20}, {"lacks": ["b"]}, id="one-is-not"),
        pytest.param({"a": A, "b": UNKNOWN}, {"of": "a", "at": 10}, {"lacks": ["b"]}, id="an-unknown-log"),
    ],
)
def test_hits_of_all_logs_come_by_their_times(
    logs: dict[str, Any], place: dict[str, Any], said: dict[str, Any], tmp_path: Path
) -> None:
    found = asked(tmp_path, order="time", logs=logs, place=place, direction=-1 if place.get("back") else 1)
    assert {name: found.get(name) for name in said} == said


def test_the_list_is_by_time_and_a_date_in_a_text_moves_no_other_hit(tmp_path: Path) -> None:
    odd = {"at": [[1, 1100], [2, 9e12], [3, 1200], [4, None]], "searched": [[0, None]]}
    found = asked(tmp_path, logs={"a": A, "b": B, "c": odd}, place={"of": "a", "at": 0})
    assert found["all"] == ["a10", "c1", "c2", "c3", "c4", "b5", "b6", "a20", "b7", "a30"]
    assert found["whole"]
    assert asked(tmp_path, listed=False, logs={"a": A}, place={"of": "a", "at": 30}) | {"all": 0} == {
        "lacks": "all",
        "all": 0,
        "whole": False,
    }
