"""No bar overtakes text, whatever mix of the two a program writes. The judges are a model of the program, which records
its writes in order, and an emulator (pyte).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.lines.line import Line
from flarelog.lines.sgr import plain
from flarelog.render.container import Renderer
from flarelog.render.screen import Screen
from tests.often import tried
from tests.render.test_screen import BYTES, SAMPLES, on_a_terminal
from tests.rows import together

UP, WIPE = b"\x1b[A", b"\x1b[2K"
Op = tuple[str, int, int]


class Program:
    """Writes text, and draws bars below each other, each state with a number of its own.

    ``written`` lists its writes in the order of time: ("text", number), and ("bar", number).
    """

    def __init__(self, ops: Sequence[Op], bars: int, label: bytes) -> None:
        self.data, self.written = b"", list[tuple[str, int]]()
        self.bar_of: dict[int, int] = {}  # by number of a state
        self._bars, self._label, self._done = bars, label, [0] * bars
        for kind, which, more in ops:
            getattr(self, kind)(which % bars, more)

    def _said(self, text: bool) -> int:
        self.written.append(("text" if text else "bar", len(self.written)))
        return len(self.written) - 1

    def _text(self, more: int) -> bytes:
        return b"text %d; loss 0.5" % self._said(True) + (b" at %d%%" % more if more % 2 else b"")

    def _state(self, which: int, more: int) -> bytes:
        self._done[which] = (self._done[which] + more) % 101
        done = self._done[which]
        number = self._said(False)
        self.bar_of[number] = which
        return self._label % (which, done) + b"|%-10s| no %d." % (b"#" * (done // 10), number)


class Tqdm(Program):
    """Writes as tqdm does: the cursor stands on the first bar, with the others below it."""

    def draw(self, which: int, more: int) -> None:
        self.data += b"\n" * which + b"\r" + self._state(which, more) + UP * which

    def clear(self, which: int, more: int) -> None:
        self.data += b"\n" * which + b"\r" + b" " * 60 + b"\r" + UP * which

    def write(self, which: int, more: int) -> None:
        for bar in sorted(range(self._bars), reverse=bool(more % 2)):
            self.clear(bar, 0)
        self.data += self._text(more) + b"\n"
        for bar in range(which + 1):
            self.draw(bar, 0)

    def print(self, which: int, more: int) -> None:
        self.data += self._text(more) + b"\n"

    def end(self, which: int, more: int) -> None:
        self.draw(0, more)
        self.data += b"\n"


class Rich(Program):
    """Writes as rich does: each frame wipes out all bars from the bottom up, and text takes the place of the first."""

    drawn = False

    def _frame(self, text: bytes, more: int) -> None:
        wiped = (UP + WIPE) * self._bars if self.drawn else b""
        rows = [self._state(bar, more if bar == more % self._bars else 0) for bar in range(self._bars)]
        self.data += b"\r" + wiped + text + b"".join(row + b"\n" for row in rows)
        self.drawn = True

    def draw(self, which: int, more: int) -> None:
        self._frame(b"", more)

    def write(self, which: int, more: int) -> None:
        self._frame(self._text(more) + b"\n", more)

    def print(self, which: int, more: int) -> None:
        self.write(which, more)

    def clear(self, which: int, more: int) -> None:
        pass

    def end(self, which: int, more: int) -> None:
        self.draw(which, more)


KINDS = ("draw", "draw", "draw", "write", "print", "clear", "end")
OPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.integers(0, 40)), max_size=120)
LABELS = st.sampled_from([b"bar %d: %3d%%", b"%.0d%3d%%", b"worker-%d %3d/100 "])
PROGRAMS = st.builds(
    lambda kind, ops, bars, label: kind(ops, bars, label), st.sampled_from([Tqdm, Rich]), OPS,
                     st.integers(1, 3), LABELS)  # fmt: skip


def number_of(line: Line) -> int | None:
    found = re.search(r"text (\d+);", plain(line.text))
    return int(found[1]) if found else None


def state_of(line: Line) -> int | None:
    found = re.search(r"no (\d+)\.", plain(line.text))
    return int(found[1]) if found and number_of(line) is None else None


def judge(program: Program, shown: Sequence[Line]) -> None:
    texts = [number for line in shown if not line.bar and (number := number_of(line)) is not None]
    assert texts == [number for kind, number in program.written if kind == "text"]
    seen = -1
    for line in shown:
        number = number_of(line)
        seen = number if number is not None and not line.bar else seen
        if line.bar and (state := state_of(line)) is not None:
            before = [number for kind, number in program.written if kind == "text" and number < state]
            assert not before or seen >= before[-1], (line, seen)
    states = [state for line in shown if line.bar and (state := state_of(line)) is not None]
    for bar in set(program.bar_of.values()):
        own = [state for state in states if program.bar_of[state] == bar]
        assert own == sorted(own), "the states of one bar come in their order"


@tried(50, 1000)
@given(PROGRAMS, st.booleans())
def test_no_bar_overtakes_text(program: Program, steps: bool) -> None:
    screen = Screen(steps=steps)
    shown = screen.feed(program.data) + screen.close()
    judge(program, shown)
    ordinary = [line for line in shown if not line.bar]
    assert [line.offset for line in ordinary] == sorted(line.offset for line in ordinary)
    rows = iter(on_a_terminal(program.data))
    # The lines are in the terminal's order. The emulator drops blank rows at the end.
    assert all(text in rows for line in ordinary if (text := plain(line.text).rstrip()))


@tried(50, 1000)
@given(PROGRAMS, st.booleans(), st.lists(st.integers(0, 4000), max_size=12))
def test_no_bar_overtakes_text_while_it_is_followed(program: Program, steps: bool, looks: list[int]) -> None:
    """The screen gives out complete lines now and then, as a reader does in a pause of the log."""
    screen, shown = Screen(steps=steps), list[Line]()
    edges = sorted(min(look, len(program.data)) for look in looks)
    for begin, end in pairwise([0, *edges, len(program.data)]):
        shown += screen.feed(program.data[begin:end]) + screen.settle()
    judge(program, shown + screen.close())


@tried(40, 400)
@given(PROGRAMS, st.lists(st.integers(0, 4000), max_size=12), st.data())
def test_nor_the_text_of_the_other_stream_of_a_container(
    program: Program, looks: list[int], data: st.DataObject
) -> None:
    """Bars go to stderr and text to stdout, one record a flush."""
    pieces, numbers = [], iter(range(10**6))
    edges = sorted(min(look, len(program.data)) for look in looks)
    text = 0
    for begin, end in pairwise([0, *edges, len(program.data)]):
        *whole, last = program.data[begin:end].split(b"\n")
        pieces += [b"stderr F " + line for line in whole] + [b"stderr P " + last]
        text = next(numbers)
        pieces.append(b"stdout F out %d" % text)
    records = b"".join(b"2026-11-20T08:00:00Z " + piece + b"\n" for piece in pieces)
    renderer = Renderer("cri", steps=True)
    shown = renderer.feed(records) + renderer.close()
    judge(program, [line for line in shown if line.stream == "stderr"])
    out = [line for line in shown if line.stream == "stdout"]
    assert [int(line.text.split()[1]) for line in out] == list(range(text + 1))
    for at, line in enumerate(shown):
        if line.bar:  # all lines of stdout that were written before the bar are out
            assert all(other.end > line.end for other in shown[at:] if other.stream == "stdout")


@tried(40, 400)
@given(BYTES)
def test_the_ordinary_lines_are_those_that_there_are_without_steps(data: bytes) -> None:
    def lines(*, steps: bool) -> list[Line]:
        screen = Screen(steps=steps)
        return screen.feed(data) + screen.close()

    whole, found = lines(steps=False), lines(steps=True)
    last = {line.offset: line.text for line in found if line.bar}
    rest = iter(line for line in found if not line.bar)
    ordinary = next(rest, None)
    for line in whole:
        if line == ordinary:
            ordinary = next(rest, None)
        else:  # the line's last state was given out as a step
            assert not plain(line.text).strip() or line.offset in last
    assert ordinary is None


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_real_logs_have_the_same_lines_with_steps(path: object) -> None:
    data = path.read_bytes()  # type: ignore[attr-defined]
    for steps in (False, True):
        screen = Screen(steps=steps)
        ordinary = [line for line in screen.feed(data) + screen.close() if not line.bar]
        assert [line.offset for line in ordinary] == sorted(line.offset for line in ordinary)


@pytest.mark.parametrize("kind", [Tqdm, Rich])
def test_bars_of_several_workers_are_all_open(kind: type[Program]) -> None:
    ops = [("draw", which, 7) for which in (0, 1, 2, 0, 1, 2)]
    screen = Screen()
    assert [line.text for line in screen.feed(kind(ops, 3, b"worker-%d: %3d%%").data)] == []
    assert [text[:9] for text in screen.open()] == ["worker-0:", "worker-1:", "worker-2:"]
    assert len(screen.open(2)) == 2
    assert [text for text in (line.text for line in screen.settle()) if "worker" in text] == []


BEGUN = b"r0: 10%|# |\n\rr1: 10%|# |\x1b[A\r"
OVER = BEGUN + b"r0: 100%|##|\n\rr1: 100%|##|\n"
NESTED = BEGUN + b"r0: 20%|# |\n\r           \r\x1b[A\r" + b"r0: 100%|##|\n"  # the inner bar wipes itself out
ONCE = b"once %d: 100%%|##|\n", b"\x1b[32monce %d\x1b[0m --\n", b"\ronce %d: 40%%|\ronce %d: 100%%|\n"
FRAMES = b"a  10%|#\nb  10%|#\n" + (UP + WIPE) * 2 + b"\ra  20%|#\nb  20%|#\n"


@together(
    ("data", "shown", "open_"),
    [
        pytest.param(OVER, [], ["r0: 100%|##|", "r1: 100%|##|"], id="nothing-tells-that-they-are-over"),
        pytest.param(OVER + b"next\n", ["r0: 100%|##|", "r1: 100%|##|", "next"], [], id="text-below-them-does"),
        pytest.param(
            OVER + b"accuracy 51%\n",
            ["r0: 100%|##|", "r1: 100%|##|", "accuracy 51%"],
            [],
            id="also-text-with-a-percentage",
        ),
        pytest.param(NESTED + b"next\n", ["r0: 100%|##|", "next"], [], id="text-where-an-inner-one-was"),
        pytest.param(
            OVER + b"c:  0%|\n", [], ["r0: 100%|##|", "r1: 100%|##|", "c:  0%|"], id="another-bar-waits-with-them"
        ),
        pytest.param(
            OVER + b"\x1b[31mc\x1b[0m --\n",
            [],
            ["r0: 100%|##|", "r1: 100%|##|", "\x1b[31mc\x1b[0m --"],
            id="so-does-what-may-be-a-bar-of-colours",
        ),
        pytest.param(
            OVER + b"c:  0%|\nd:  0%|\n" + UP * 4 + b"\r",
            [],
            ["r0: 100%|##|", "r1: 100%|##|", "c:  0%|", "d:  0%|"],
            id="new-bars-below-a-cursor-that-is-above",
        ),
        pytest.param(
            OVER + b"\x1b[92mINFO\x1b[0m : x\n",
            ["r0: 100%|##|", "r1: 100%|##|", "\x1b[92mINFO\x1b[0m : x"],
            [],
            id="but-text-of-colours-does",
        ),
        pytest.param(
            OVER + b"next\nc:  0%|\n", ["r0: 100%|##|", "r1: 100%|##|", "next", "c:  0%|"], [], id="a-bar-below-it"
        ),
        pytest.param(
            OVER + b"next\nc:  0%|\n" + UP,
            ["r0: 100%|##|", "r1: 100%|##|", "next"],
            ["c:  0%|"],
            id="which-is-drawn-again",
        ),
        pytest.param(OVER + b"next", [], ["r0: 100%|##|", "r1: 100%|##|", "next"], id="nor-half-a-line"),
        pytest.param(
            BEGUN + b"\n\nnext\n" + UP * 3, ["next"], ["r0: 10%|# |", "r1: 10%|# |"], id="the-cursor-is-above"
        ),
        pytest.param(FRAMES, [], ["a  20%|#", "b  20%|#"], id="a-cursor-that-rests-below-bars"),
    ],
)
def test_bars_are_over_when_text_stands_below_them(data: bytes, shown: list[str], open_: list[str]) -> None:
    screen = Screen()
    given = [line.text for line in screen.feed(data) + screen.settle()]
    assert (given, screen.open()) == (shown, open_)


@pytest.mark.parametrize("more", [b"d:  0%|\n", b"d:  0%|", b"\x1b[31md\x1b[0m --\n"])
def test_bars_are_over_when_a_row_stands_below_the_one_that_waited_with_them(more: bytes) -> None:
    screen = Screen()
    assert screen.feed(OVER + b"c:  0%|\n") + screen.settle() + screen.settle() == []
    assert screen.first_open == len(OVER), "whoever reads again reads it again"
    given = screen.feed(more) + screen.settle()
    assert [line.text for line in given][:3] == ["r0: 100%|##|", "r1: 100%|##|", "c:  0%|"]
    assert len(given) == (4 if more.endswith(b"\n") else 3)
    assert [line.offset for line in given] == sorted(line.offset for line in given)


@pytest.mark.parametrize(
    "data",
    [
        b"c: 100%|\n\rd:  0%|\rd:  1%|",
        b"\rc:  0%|\rc: 100%|\n",
        b"c: 100%|\nd: 100%|\n\re:  0%|\re: 100%|\n",
    ],
)
def test_bars_are_over_when_one_below_them_is_drawn_again_without_them(data: bytes) -> None:
    """A bar that runs for an hour does not hold up those above it, nor do they hold up its steps."""
    screen = Screen(steps=True)
    given = screen.feed(OVER + data) + screen.settle()
    final = [line for line in given if not line.bar]
    assert [line.text for line in final][:3] == ["r0: 100%|##|", "r1: 100%|##|", "c: 100%|"]
    assert [line.offset for line in final] == sorted(line.offset for line in final)
    steps = screen.feed(b"\rf:  0%|\rf: 50%|\rf: 60%|\rf: 70%|")
    assert [line.text for line in steps if line.bar][-1] == "f: 60%|"


def test_a_bar_that_a_program_adds_to_others_is_drawn_with_them() -> None:
    """Otherwise its first state would stand among the finished lines."""
    screen, more = Screen(), b"c  1%|#\n"
    assert screen.feed(FRAMES + (UP + WIPE) * 2 + b"\ra  30%|#\nb  30%|#\n" + more) + screen.settle() == []
    assert screen.feed((UP + WIPE) * 3 + b"\ra  40%|#\nb  40%|#\nc  9%|#\n") + screen.settle() == []
    assert screen.open() == ["a  40%|#", "b  40%|#", "c  9%|#"]
    given = screen.feed(b"done\n") + screen.settle()
    assert [line.text for line in given] == ["a  40%|#", "b  40%|#", "c  9%|#", "done"]


@pytest.mark.parametrize("look", [len(BEGUN), len(OVER) - 5, len(OVER)])
def test_bars_that_were_passed_over_come_before_the_text_below_them(look: int) -> None:
    screen = Screen()
    data = b"start\n" + OVER + b"next 1\nnext 2\n"
    given = screen.feed(data[: look + 6]) + screen.settle() + screen.feed(data[look + 6 :]) + screen.settle()
    shown = ["start", "r0: 100%|##|", "r1: 100%|##|", "next 1", "next 2"]
    assert [line.text for line in given] == shown
    assert screen.open() == []
    assert [line.text for line in screen.close()] == []


def test_a_bar_that_goes_on_all_the_same_is_shown_again_once() -> None:
    screen = Screen()
    given = screen.feed(OVER + b"next\n") + screen.settle()
    for percent in range(5):
        given += screen.feed(b"\x1b[3A\rr0: %3d%%|##|\x1b[3B\r" % percent) + screen.settle()
    assert screen.open() == ["r0:   4%|##|"]
    given += screen.close()
    assert [line.text for line in given if line.text.startswith("r0")] == ["r0: 100%|##|", "r0:   4%|##|"]


def epochs_of(way: str, bars: int, states: int, texts: int, label: bytes, above: bool) -> bytes:
    """Three epochs of *texts* lines and as many *bars*, each drawn *states* times. The cursor stands on the first bar,
    as in tqdm, or on the last one or below it, as in rich. *above*: text comes above the bars, too.
    """
    data = b""
    for epoch in range(3):
        data += b"".join(b"epoch %d text %d\n" % (epoch, at) for at in range(texts))
        for state in range(states + 1):
            drawn = [b"e%d" % epoch + label % (bar, 100 * state // states) + b"|##|" for bar in range(bars)]
            said = b"epoch %d state %d\n" % (epoch, state) if above and state % 3 == 2 else b""
            if way == "first":
                wiped = b"\r" + b" " * 20 + (b"\n\r" + b" " * 20) * (bars - 1) + UP * (bars - 1) + b"\r"
                data += (wiped + said if said else b"") + b"\r" + b"\n\r".join(drawn) + UP * (bars - 1)
            elif way == "last":
                data += (UP * (bars - 1) + b"\r" if state else b"") + b"\n".join(b"\r" + row for row in drawn)
            else:
                data += (UP + WIPE) * (bars if state else 0) + b"\r" + said + b"".join(row + b"\n" for row in drawn)
        data += {"first": b"\n" * bars, "last": b"\n", "below": b""}[way]
    return data + b"over 1\nover 2\n"


@tried(50, 2000)
@given(
    st.lists(st.sampled_from([OVER, NESTED, *ONCE]), max_size=8),
    st.lists(st.integers(0, 600), max_size=12),
)
def test_finished_bars_and_bars_that_were_drawn_once_come_in_the_order_of_their_rows(
    parts: list[bytes], looks: list[int]
) -> None:
    data = b"".join(part.replace(b"%d", b"%d" % at).replace(b"%%", b"%") for at, part in enumerate(parts))
    screen, shown = Screen(), list[Line]()
    edges = sorted(min(look, len(data)) for look in looks)
    for begin, end in pairwise([0, *edges, len(data)]):
        shown += screen.feed(data[begin:end]) + screen.settle()
    offsets = [line.offset for line in shown + screen.close()]
    assert offsets == sorted(offsets)


def bars_together(texts: Sequence[str]) -> list[list[str]]:
    """*texts*, with each run of bars sorted: the order of steps between two texts does not matter."""
    return [sorted(group) for _, group in groupby(texts, key=lambda text: "|" in text or text)]


@tried(50, 2000)
@given(
    st.sampled_from(["first", "last", "below"]),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from([b"w%d: %3d%%", b"worker-%d %3d/100 "]),
    st.booleans(),
    st.lists(st.integers(0, 4000), max_size=12) | st.integers(1, 400).map(lambda step: list(range(0, 4000, step))),
    st.booleans(),
)
def test_bars_that_are_over_come_before_the_text_below_them_wherever_the_bytes_are_cut(
    way: str, bars: int, states: int, texts: int, label: bytes, above: bool, looks: list[int], steps: bool
) -> None:  # fmt: skip
    data = epochs_of(way, bars, states, texts, label, above)
    screen, shown = Screen(steps=steps), list[Line]()
    edges = sorted(min(look, len(data)) for look in looks)
    for begin, end in pairwise([0, *edges, len(data)]):
        shown += screen.feed(data[begin:end]) + screen.settle()
    shown += screen.close()
    whole = Screen()
    rows = [line.text for line in whole.feed(data) + whole.close() if line.text.strip()]
    last = {line.text: at for at, line in enumerate(shown)}
    found = [text for text, _ in sorted(last.items(), key=lambda each: each[1]) if text in rows]
    assert bars_together(found) == bars_together(rows)
