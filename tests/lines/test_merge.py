"""Several logs in one order: by time, held back for a bound, tracebacks whole."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.lines.line import Line
from flarelog.lines.merge import NEXT, Blocks, LiveKeys, LivePlaces, Merge, StoredKeys, StoredPlaces, by_time
from flarelog.lines.times import SECOND
from flarelog.lines.tracebacks import before_traceback
from tests.annotated import annotated
from tests.often import tried
from tests.rows import together

NOON = 1_795_176_000  # 2026-11-20T12:00:00Z
BEGINS = "Traceback (most recent call last):"


def line(text: str, at: float | None = None) -> Line:
    return Line(0, 0, text, "", None if at is None else NOON * SECOND + int(at * SECOND))


def texts(found: list[tuple[str, Line | None]]) -> list[str]:
    return [each.text for _, each in found if each is not None]


class Live(Merge[str]):
    """A merge of live logs, whose lines come when they are added."""

    def __init__(self, most: int = 100_000) -> None:
        super().__init__(2.0, most=most)
        self._come = 0.0
        self._of: defaultdict[str, LivePlaces] = defaultdict(lambda: LivePlaces(lambda: int(self._come * SECOND)))

    def add(self, source: str, lines: Iterable[Line | None], now: float) -> None:
        self._come = now
        super().add(source, self._of[source].feed([one for one in lines if one is not None]), now)


def stored(logs: Mapping[str, Iterable[Sequence[Line]]]) -> list[tuple[str, Line]]:
    """The lines of complete *logs*, each in batches, in their order."""

    def placed(batches: Iterable[Sequence[Line]]) -> Iterator[list[Line]]:
        places = StoredPlaces()
        yield from map(places.feed, batches)
        yield places.feed((), over=True)

    found = by_time({name: placed(batches) for name, batches in logs.items()})
    return [(name, one) for name, block in found for one in block]


def test_files_are_merged_by_the_stamps_of_their_lines() -> None:
    first = annotated([line("2026-11-20 12:00:01 a1"), line("  of a1"), line("2026-11-20 12:00:04 a4")])
    second = annotated([line("unstamped"), line("2026-11-20T12:00:02Z b2"), line("2026-11-20T12:00:01.5Z late")])
    logs: dict[str, list[list[Line]]] = {"a": [first], "b": [second]}
    found = [each.text.split()[-1] for _, each in stored(logs)]
    assert found == ["unstamped", "a1", "a1", "b2", "late", "a4"]


@together("seed", range(20))
def test_blocks_are_the_lines_in_the_order_in_which_each_would_go_by_itself(seed: int) -> None:
    """The order does not depend on the batches; times repeat, are missing, and come late."""
    rng = random.Random(seed)
    logs = {
        name: [line(f"{name}{number}", rng.choice((None, number // 3, number // 3 - 2))) for number in range(60)]
        for name in "abc"
    }
    logs["d"] = []
    keyed = []
    for order, (name, lines) in enumerate(logs.items()):
        times = accumulate([-1 if one.time is None else one.time for one in lines], max)
        keyed += [(time, order, number, name, one) for number, (time, one) in enumerate(zip(times, lines, strict=True))]
    batches = {}
    for name, lines in logs.items():
        edges = sorted(rng.choices(range(61), k=rng.randrange(6)))
        batches[name] = [lines[begin:end] for begin, end in pairwise([0, *edges, 60])]
    found = stored(batches)
    assert found == [(name, one) for _, _, _, name, one in sorted(keyed, key=lambda each: each[:3])]


def test_what_stands_for_hidden_lines_goes_with_the_line_behind_it() -> None:
    logs: dict[str, list[list[Line | None]]] = {
        "a": [[line("a1", 1), None, line("a5", 5)], [None, line("a6", 6)]],
        "b": [[line("b2", 2), None, line("b5", 5), line("b7", 7)]],
    }
    shown = ["a1", "b2", "--", "a5", "--", "b5", "--", "a6", "b7"]
    found = [each.text if each is not None else "--" for _, block in by_time(logs) for each in block]
    assert found == shown
    merge: Merge[str] = Merge(2.0)
    for name, batches in logs.items():
        for batch in batches:
            merge.add(name, batch, NOON + 8)
    assert ["--" if each is None else each.text for _, each in merge.close()] == shown


def test_lines_are_put_in_order_within_the_hold() -> None:
    merge = Live()
    merge.add("a", [line("3", 3)], NOON + 3.5)
    merge.add("b", [line("2", 2)], NOON + 4.0)
    assert merge.release(NOON + 5.4) == []
    assert texts(merge.release(NOON + 5.5)) == ["2", "3"]
    assert merge.close() == []


def test_a_silent_log_stalls_nobody_and_a_late_line_comes_at_once() -> None:
    merge = Live()
    merge.add("silent", [line("1", 1)], NOON + 1)
    merge.add("a", [line("2", 2)], NOON + 2)
    assert texts(merge.release(NOON + 4)) == ["1", "2"]
    merge.add("silent", [line("0", 0)], NOON + 9)
    merge.add("a", [line("9", 9)], NOON + 9)
    assert texts(merge.release(NOON + 11)) == ["0", "9"]


def test_a_clock_that_is_ahead_is_found_out() -> None:
    """The clock is an hour ahead: uncorrected, every line of its log would come after all others."""
    merge = Live()
    for second in range(4):
        merge.add("ahead", [line(f"x{second}", 3600 + second)], NOON + second + 0.1)
        merge.add("right", [line(f"y{second}", second + 0.2)], NOON + second + 0.3)
    assert texts(merge.close()) == ["x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3"]


def test_one_time_in_the_far_future_moves_no_other_line() -> None:
    """A line may tell when a certificate expires; a clock is ahead if line after line says so."""
    merge = Live()
    for second in range(4):
        merge.add("a", [line(f"x{second}", 1e8 if second == 1 else second)], NOON + second + 0.1)
        merge.add("b", [line(f"y{second}", second + 0.2)], NOON + second + 0.3)
    assert texts(merge.close()) == ["x0", "x1", "y0", "y1", "x2", "y2", "x3", "y3"]
    logs = {
        "a": [[line(f"x{second}", 1e8 if second == 1 else second) for second in range(4)]],
        "b": [[line(f"y{second}", second + 0.2) for second in range(4)]],
    }
    found = [each.text for _, each in stored(logs)]
    assert found == ["x0", "x1", "y0", "y1", "x2", "y2", "x3", "y3"]


@pytest.mark.parametrize("odd", [{1, 2}, {0}, {0, 1, 2}])
def test_some_times_in_the_far_future_move_no_other_line(odd: set[int]) -> None:
    logs = {
        "a": [[line(f"x{second}", 1e8 + second if second in odd else second) for second in range(9)]],
        "b": [[line(f"y{second}", second + 0.2) for second in range(9)]],
    }
    found = [each.text for _, each in stored(logs)]
    right = [text for text in found if int(text[1]) not in odd]
    assert right == [f"{log}{second}" for second in range(9) if second not in odd for log in "xy"]


def test_a_clock_that_is_set_right_is_believed_again() -> None:
    merge = Live()
    for second in range(9):
        merge.add("set", [line(f"x{second}", (1e6 if second < 3 else 0) + second)], NOON + second + 0.1)
        merge.add("right", [line(f"y{second}", second + 0.2)], NOON + second + 0.3)
    found = texts(merge.close())
    assert found[-8:] == ["x5", "y5", "x6", "y6", "x7", "y7", "x8", "y8"]


def test_a_clock_that_is_days_ahead_is_believed_from_its_second_line_on() -> None:
    merge = Live()
    for second in range(4):
        merge.add("ahead", [line(f"x{second}", 1e6 + second)], NOON + second + 0.1)
        merge.add("right", [line(f"y{second}", second + 0.2)], NOON + second + 0.3)
    assert texts(merge.close()) == ["x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3"]


@pytest.mark.parametrize("odd", [1, 2, 3, 8])
def test_an_old_date_soon_behind_the_beginning_moves_no_other_line(odd: int) -> None:
    logs = {
        "a": [[line(f"x{second}", 5e8 if second == odd else 1e9 + second) for second in range(9)]],
        "b": [[line(f"y{second}", 1e9 + second) for second in range(9)]],
    }
    found = [each.text for _, each in stored(logs)]
    right = [f"{log}{second}" for second in range(9) for log in "xy"]
    right.remove(f"x{odd}")
    right.insert(right.index(f"x{odd - 1}") + 1, f"x{odd}")  # its line goes with the one before it
    assert found == right


def test_a_log_that_leaps_ahead_for_good_keeps_its_times() -> None:
    logs = {"a": [[line("x0", 0), line("x1", 1e5), line("x2", 1e5 + 1)]], "b": [[line("y0", 1), line("y1", 1e5 + 0.5)]]}
    assert [each.text for _, each in stored(logs)] == ["x0", "y0", "x1", "y1", "x2"]


def test_what_belongs_to_a_line_stays_behind_it() -> None:
    merge = Live()
    merge.add("a", [line("error", 1), line("  File"), line("ValueError")], NOON + 2)
    merge.add("b", [line("same time", 1), line("later", 1.5)], NOON + 2)
    assert texts(merge.close()) == ["error", "  File", "ValueError", "same time", "later"]


def test_what_is_held_is_bounded() -> None:
    merge = Live(most=10)
    merge.add("a", [line(str(at), at) for at in range(15)], NOON + 20)
    assert texts(merge.release(NOON + 20)) == ["0", "1", "2", "3", "4"]


@tried(60, 200)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.none() | st.floats(-5, 50), st.floats(0, 1)),
        max_size=40,
    )
)
def test_nothing_is_lost_reordered_within_its_log_or_held_too_long(
    arrivals: list[tuple[str, float | None, float]],
) -> None:
    merge = Live()
    now, arrived, found = float(NOON), defaultdict[str, list[str]](list), []
    when: dict[str, float] = {}
    for number, (source, time, step) in enumerate(arrivals):
        now += step
        merge.add(source, [line(str(number), time)], now)
        arrived[source].append(str(number))
        when[str(number)] = now
        found += merge.release(now)
        held = set(when) - set(texts(found))
        assert all(when[text] > now - 2.0 for text in held)
    found += merge.close()
    for source, sent in arrived.items():
        assert [each.text for of, each in found if of == source and each is not None] == sent


TRACEBACK = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 8, in step
[rank1]:     raise KeyError(batch)
[rank1]: KeyError: 3
[rank1]:
[rank1]: During handling of the above exception, another exception occurred:
[rank1]:
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 9, in main
[rank1]: RuntimeError: CUDA error
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""


SENT = """\
Traceback (most recent call last):
  File "pool.py", line 4, in load
ValueError: bad
\"\"\"

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 9, in main
ValueError: bad
"""


@pytest.mark.parametrize("block", [TRACEBACK, GROUP, SENT], ids=["chained-with-a-prefix", "group", "sent-by-a-pool"])
def test_a_traceback_is_one_block(block: str) -> None:
    blocks, wanted = Blocks(), block.splitlines()
    given = annotated(line(text) for text in ["before", *wanted, "after", "after"])
    found = [[each.text for each in one if each] for each in given for one in blocks.feed([each])]
    found += [[each.text for each in one if each] for one in blocks.settle()]
    assert found == [["before"], wanted, ["after"], ["after"]]


@together("block", [TRACEBACK, GROUP], ids=["chained-with-a-prefix", "group"])
@together("other", ["loss: 0.5", "done", "step 2", ""])
def test_a_line_of_a_containers_other_stream_does_not_end_a_block(other: str, block: str) -> None:
    begun = [Line(n, n + 1, text, "stderr") for n, text in enumerate(block.splitlines())]
    between = Line(9, 9, other, "stdout")
    *given, last = annotated([*begun[:2], between, begun[2], between, *begun[3:], between])
    blocks = Blocks()
    assert [*blocks.feed([*given, last]), *blocks.settle()] == [given, [last]]


def test_another_stream_is_held_for_some_lines_of_a_block_that_brings_nothing() -> None:
    begun, other = (
        [Line(n, n + 1, text, "stderr") for n, text in enumerate(TRACEBACK.splitlines())],
        Line(9, 9, "x", "stdout"),
    )
    blocks = Blocks()
    assert [len(block) for block in blocks.feed(annotated([*begun[:3], *[other] * 100]))] == [23, *[1] * 80]


@pytest.mark.parametrize("other", ["2026-11-20 08:00:03 INFO of another thread", "[INFO] x", "hello world"])
def test_a_line_that_is_no_exception_is_of_no_block(other: str) -> None:
    for begun in (TRACEBACK.splitlines()[:3], GROUP.splitlines()):
        prefix = begun[0].partition("Tr")[0] if begun[0].startswith("[") else ""
        blocks, given = Blocks(), annotated(line(text) for text in [*begun, prefix + other])
        found = [[each.text for each in one if each] for each in given for one in blocks.feed([each])]
        assert found == [begun, [prefix + other]]


def test_a_block_is_bounded_and_given_out_when_nothing_more_comes() -> None:
    blocks = Blocks()
    assert not list(blocks.feed(annotated([line(BEGINS), line("  File")])))
    assert [len(block) for block in blocks.settle()] == [2]
    endless = annotated([line(BEGINS), *[line("  File")] * 5000])
    assert max(len(block) for block in blocks.feed(endless)) == 1000


@together(
    ("text", "before"),
    [
        (BEGINS, ""),
        (f"[rank0]: {BEGINS}", "[rank0]: "),
        (f"[rank0]:   + Exception Group {BEGINS}", "[rank0]: "),
        (f"  |   | {BEGINS}", ""),
        (f"   | {BEGINS}", " "),
        (f"a  | b  + {BEGINS}", "a  | b"),
        (f"it was a {BEGINS} x", None),
        ("  \u256d\u2500\u2500\u2500 Traceback (most recent call last) \u2500\u256e", "  "),
        (f"  + Exception Group Exception Group {BEGINS}", "  + Exception Group "),
        ("Traceback (most recent call last)", None),
        ("", None),
    ],
)
def test_what_stands_before_a_traceback_is_the_writer_s(text: str, before: str | None) -> None:
    assert before_traceback(text) == before


def test_a_traceback_behind_many_rules_is_found_in_a_time_that_grows_with_their_number() -> None:
    """A pattern for any text before any number of rules once took minutes here."""
    rules = "  | " * 250_000
    assert before_traceback(f"{rules}x{BEGINS}") == f"{rules}x"
    assert before_traceback(rules + BEGINS) == ""


def test_a_line_behind_a_traceback_takes_no_time_for_what_stood_before_that() -> None:
    """The code once stripped two million blanks again for each line, which took minutes."""
    lines = [Line(0, 1, " " * (2 << 20) + BEGINS), *(Line(0, 1, "x") for _ in range(20_000))]
    blocks = Blocks()
    assert sum(len(block) for block in [*blocks.feed(annotated(lines)), *blocks.settle()]) == len(lines)


@together(
    ("times", "wanted"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, None, 3, None], [1, 1, 3, 3]),
        ([3, 1, 2, 4], [3, 3, 3, 4]),
        ([1, 73_000, 2, 3], [1, 1, 2, 3]),  # a date in a line's text
        ([1, 2, None, 73_000, None, 3], [1, 2, 2, 2, 2, 3]),
    ],
)
def test_a_log_that_is_read_as_it_grows_has_the_keys_of_the_stored_one(
    times: list[int | None], wanted: list[int]
) -> None:
    own = [None if time is None else time * SECOND for time in times]
    assert [key // SECOND for key in StoredKeys().feed(own, over=True)] == wanted
    live = LiveKeys()
    assert [live.of(time, 4 * SECOND) // SECOND for time in own] == wanted


def test_a_live_line_without_a_time_goes_where_it_is_seen() -> None:
    live = LiveKeys()
    found = [live.of(time, at * SECOND) // SECOND for time, at in ((None, 5), (3 * SECOND, 6), (None, 7), (None, 9))]
    assert found == [5, 3, 3, 9]


@together("size", [1, 7, 50, 99, 1000])
@together("odd", [0, 1, 40])
def test_the_batches_of_a_stored_log_do_not_decide_which_time_counts(size: int, odd: int) -> None:
    times = [(1e8 if at == odd else at) for at in range(150)]
    lines = [line(f"x{at}", time) for at, time in enumerate(times)]
    own = [lines[at : at + size] for at in range(0, len(lines), size)]
    logs = {"a": own, "b": [[line(f"y{at}", at + 0.5) for at in range(150)]]}
    right = [each.text for _, each in stored(logs) if each.text != f"x{odd}"]
    assert right == [f"{log}{at}" for at in range(150) for log in "xy" if (log, at) != ("x", odd)]


def test_a_line_waits_for_its_place_until_the_lines_that_decide_it_have_come() -> None:
    places = StoredPlaces()
    assert places.feed([line("first", 0)] * 50) == []
    assert len(places.feed([line("next", 1)] * NEXT)) == 50 + NEXT
    assert len(places.feed([line("leaps", 1e6), line("has no time")])) == 0
    assert [one.text for one in places.held] == ["leaps", "has no time"]
    assert [one.time for one in StoredPlaces().feed([line("goes on", 1)], over=True)] == [line("", 1).time]
    found = places.feed([line("goes back", 2)], over=True)
    assert [getattr(one, "said", one.time) for one in found] == [line("", 1).time] * 2 + [line("", 2).time]
    assert places.held == []


@pytest.mark.parametrize("left_out", [set(), {"x1"}, {"x0", "x1", "x3"}])
def test_a_line_of_a_live_log_that_is_left_out_moves_no_other_line(left_out: set[str]) -> None:
    """The third line has no time of its own, and the time before it does not count: it is far ahead."""
    now, merge = NOON * SECOND, Merge[str](2.0)
    given = {
        "b": [line("y0", -100), line("y1", -50)],
        "a": [line("x0", -90), line("x1", 1e8), line("x2"), line("x3", -20)],
    }
    for name, lines in given.items():
        merge.add(name, [one for one in LivePlaces(lambda: now).feed(lines) if one.text not in left_out], NOON)
    found = texts(merge.close())
    assert found == [text for text in ("y0", "x0", "x1", "x2", "y1", "x3") if text not in left_out]


def test_a_stored_log_is_waited_for_however_slowly_it_is_read() -> None:
    merge: Merge[str] = Merge(2.0, most=4)
    merge.wait_for("slow")
    merge.add("live", [line(str(at), at) for at in range(9)], NOON)
    assert (merge.full, merge.lacking, merge.release(NOON + 1000)) == (True, {"slow"}, [])
    merge.add("slow", [], NOON)
    assert merge.release(NOON + 1000) == []
    merge.add("slow", [line("2.5", 2.5)], NOON + 1000)
    assert texts(merge.release(NOON + 1000)) == ["0", "1", "2", "2.5"]
    assert merge.lacking == {"slow"}
    merge.wait_no_more("slow")
    assert texts(merge.release(NOON + 1000)) == ["3", "4", "5", "6", "7", "8"]
    merge.wait_for("slow")
    merge.add("live", [line("10", 10)], NOON)
    assert texts(merge.close()) == ["10"]
