"""The prefixes of several logs' lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.lines.sgr import plain
from flarelog.model import StreamId
from flarelog.viewers.console import Console, ConsoleOptions
from flarelog.viewers.display import ConsoleDisplay, prefixes
from flarelog.viewers.pipe import Pipe
from tests.rows import together


def streams(*names: str) -> list[StreamId]:
    return [StreamId("run-1", *name.split("/", 1)) for name in names]


@together(
    ("names", "shown"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["site-1/log.txt"], ["site-1/log.txt"], id="one-alone"),
        pytest.param(["site-1/log.txt", "site-2/log.txt"], ["site-1", "site-2"], id="the-same-log-of-each-site"),
        pytest.param(["site-1/a.log", "site-1/b.log"], ["a.log", "b.log"], id="logs-of-one-site"),
        pytest.param(["site-1/job/rank-0/log.txt", "site-1/job/rank-1/log.txt"], ["rank-0", "rank-1"], id="ranks"),
        pytest.param(["site-1/log.txt", "site-2/err.txt"], ["site-1/log.txt", "site-2/err.txt"], id="nothing-shared"),
        pytest.param(["site-1/a/log", "site-2/log"], ["site-1/a", "site-2"], id="of-different-depth"),
        pytest.param(["s/a", "s/a/a"], ["a", "a/a"], id="each-keeps-a-part"),
    ],
)
def test_names_without_what_all_share(names: list[str], shown: list[str]) -> None:
    assert list(prefixes(streams(*names)).values()) == shown


def test_names_are_in_one_column_and_colour_before_bars_too() -> None:
    written = bytearray()
    console = Console(Sink(written), ConsoleOptions(colour=True), lambda: (30, 10))
    display = ConsoleDisplay(console, Pipe(1), prefix=None, align=True, short=True, colour=True, live=True)
    one, two = streams("a/log.txt", "site-2/log.txt")
    display.known([one])
    assert display.before(one) == ""
    display.known([one, two])
    assert [plain(display.before(each)) for each in (one, two)] == ["a      │ ", "site-2 │ "]
    console.draw(lambda: [display.before(each) + "50%|" + "#" * 40 for each in (one, two)], 1.0)
    assert bytes(written).decode() == (
        f"\x1b[36ma     \x1b[0m │ 50%|{'#' * 16}\n\x1b[32msite-2\x1b[0m │ 50%|{'#' * 16}"
    )


class Sink:
    def __init__(self, written: bytearray) -> None:
        self._written = written

    def write(self, data: bytes, /) -> None:
        self._written += data

    def flush(self) -> None: ...


@given(st.sets(st.lists(st.sampled_from("ab"), min_size=2, max_size=5).map("/".join), min_size=2, max_size=5))
def test_no_two_names_are_alike(names: set[str]) -> None:
    found = list(prefixes(streams(*names)).values())
    assert len(set(found)) == len(names)
    assert all(found)
    assert sum(map(len, found)) <= sum(map(len, names))
