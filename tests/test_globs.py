"""One pattern language for files, sites, logs and ranks."""

from __future__ import annotations

import pytest

from flarelog import globs
from flarelog.errors import InvalidOption
from flarelog.lines.ranks import known, rank_map
from flarelog.model import StreamId, StreamInfo
from flarelog.sources.files.patterns import SourceOptions
from flarelog.viewers.selection import Selection
from tests.rows import together

TABLE = [
    pytest.param("log.txt", "log.txt", True, id="a-name"),
    pytest.param("log.txt", "rank-0/log.txt", True, id="a-name-at-any-depth"),
    pytest.param("*.log", "logs/a.log", True, id="a-star-at-any-depth"),
    pytest.param("logs/*.log", "logs/a.log", True, id="a-path"),
    pytest.param("logs/*.log", "logs/deep/a.log", False, id="a-star-stays-within-a-part"),
    pytest.param("logs/*.log", "more/logs/a.log", False, id="a-path-is-the-whole-of-it"),
    pytest.param("logs/**", "logs/deep/a.log", True, id="all-below"),
    pytest.param("logs/**/*.log", "logs/a.log", True, id="any-number-of-directories-none"),
    pytest.param("logs/**/*.log", "logs/a/b/c.log", True, id="any-number-of-directories-two"),
    pytest.param("**/rank-[0-3]/*", "x/rank-3/a.log", True, id="some"),
    pytest.param("**/rank-[!0-3]/*", "x/rank-3/a.log", False, id="none-of-some"),
    pytest.param("rank-?.log", "rank-10.log", False, id="one-character"),
    pytest.param("Log.txt", "log.txt", False, id="letters-are-compared-as-they-are"),
]


@together(("pattern", "name", "matches"), TABLE)
def test_what_include_means_log_means_and_the_rank_map_means(pattern: str, name: str, matches: bool) -> None:
    stream = StreamId("run-1", "site-1", name)
    assert SourceOptions("root", (pattern,)).matches(name) is matches
    assert Selection("run-1", logs=(pattern,)).has(stream) is matches
    mapping = f"site-1/{pattern}=7" if "/" in pattern else f"{pattern}=7"
    (stretch,) = known(StreamInfo(stream, 0, 9, 0, False), rank_map([mapping]))
    assert (stretch.how == "rank map") is matches


@together(
    ("pattern", "code"),
    [("", 2), ("/logs/*", 2), ("[z-a]", 78), ("a[", 78), ("[", 78), ("]", 78), ("a]b", 78), ("[]", 78)],
)
def test_a_pattern_that_makes_no_sense_is_refused_wherever_it_is_said(pattern: str, code: int) -> None:
    for say in (
        lambda: SourceOptions("root", (pattern,)),
        lambda: Selection("run-1", sites=(pattern,)),
        lambda: Selection("run-1", logs=(pattern,)),
        lambda: rank_map([f"{pattern}=7"]),
    ):
        with pytest.raises(InvalidOption) as refused:
            say()
        assert refused.value.exit_code == code


def test_who_may_do_what_does_not_hang_on_the_last_part_of_a_name() -> None:
    assert globs.any_of(("admin",), "evil/admin")
    assert not globs.whole(("admin",), "evil/admin")
    assert globs.whole(("[z-a]", "ad*"), "admin")
    assert not globs.whole(("[z-a]",), "admin")
