"""No log, however hostile, costs more than its size allows, in memory, in output and in counted work."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flarelog.lines.line import MARK, Line, Note
from flarelog.lines.sgr import plain
from flarelog.render import allowance
from flarelog.render.allowance import BURST, EARNS, SHOWN
from flarelog.render.bars import HELD
from flarelog.render.container import Form, Renderer
from flarelog.render.screen import UNDRAWN, Screen
from tests.often import often, tried

PIECE = 64 << 10  # bytes a feed
MEMORY = 16 << 20
LINES = 160  # bytes of a Line beside its text: a feed's lines belong to its caller, and do not count
OUTPUT = 64
LONG_STYLE = b"\x1b[1;2;3;4:3;5;7;9;53;38:2:255:255:255;48:2:255:255:255;58:2:255:255:255m"

ATOMS = (
    *(b"\n", b"\r", b"\r\n", b"\t", b"\b", b"x", b"\0", b" ", b"50%", b"\x1b", b"\x1b[", b"\x1b]", b"\x07", b"\x0b"),
    *(b"\x1b[2J", b"\x1b[J", b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[A", b"\x1b[B", b"\x1b[H", b"\x1b[64;1024H"),
    *(b"\x1b[1024G", b"\x1b[1024C", b"\x1b[9999D", b"\x1b[64A", b"\x1b[31m", b"\x1b[0m", LONG_STYLE, b"\xff"),
    *(b"\x1b[" + b"1;" * 128, b"\x1b[9999999999;9999999H", b"abcd" * 300, b"\n" * 70, b"\r1%\r99%", b"\x1b[1;1H"),
    *(text.encode() for text in ("\u0301", "漢", "\U0001f3f4", "é", "\u202e", "\U000e0041", "\u2028", "\x9b1A")),
    *(b"2026-11-20T08:00:00Z stdout F x\n", b"2026-11-20T08:00:00Z stderr P \r"),
    b'{"log":"a\\n","stream":"stdout","time":"2"}\n',
)  # fmt: skip
PARTS = st.tuples(
    st.lists(st.sampled_from(ATOMS), min_size=1, max_size=6).map(b"".join), st.sampled_from([1, 40, 100_000])
)
STREAMS = st.lists(PARTS, min_size=1, max_size=4).map(
    lambda parts: [(part * count)[: often(20_000, 100_000)] for part, count in parts]
)


def lines_of(parts: list[bytes], form: Form, *, steps: bool, renderer: Renderer | None = None) -> Iterator[list[Line]]:
    renderer = renderer or Renderer(form, steps=steps)
    for part in parts:
        for at in range(0, len(part), PIECE):
            yield renderer.feed(part[at : at + PIECE])
    yield renderer.settle()
    yield renderer.close()


@pytest.mark.parametrize("unit", [b"\x1b[64;1024H\xff\x1b[2J", b"\x1b[64;1024Hx\x1b[2J"], ids=["no-text", "text"])
@pytest.mark.parametrize("count", [11, 50])
def test_where_little_output_is_left_a_line_is_cut_to_that(unit: bytes, count: int) -> None:
    shown = sum(
        len(line.text.encode()) + 1 for lines in lines_of([unit * count], "plain", steps=False) for line in lines
    )
    assert shown <= 60 * count * len(unit)


@tried(1, 40)
@given(STREAMS, st.booleans(), st.sampled_from(["auto", "plain"]))
@example([b"\x1b[2Jx" * often(8_000, 30_000)], True, "plain")
@example([b"x\x1b[2K" * often(8_000, 30_000)], False, "plain")
@example([b"\x1b[64;1024Hx\x1b[1;1Hy" * often(2_000, 8_000)], True, "plain")
@example([(LONG_STYLE + b"x\x1b[m") * often(200, 1000), b"\r1%\r99%" * often(500, 10_000)], True, "plain")
@example([LONG_STYLE, b"\n" * often(10_000, 40_000)], False, "plain")
@example(
    ["\U0001f3f4".encode() * often(15_000, 30_000) + b"\n", "\u0434".encode() * 70_000, b"\x1b[A", b"y" * 150_000],
    False,
    "plain",
)
@example([b"\n" * 63 + b"\x1b[H", *(b"\t" * 150_000 + b"\x1b[B" for _ in range(often(2, 8)))], False, "plain")
@example([b"2026-11-20T08:00:00Z stdout F x\n", b"\n" * often(20_000, 60_000)], False, "auto")
@example([b'{"log":"' + "\U0001f3f4".encode() * 300_000, b'","stream":"stdout","time":"2"}\n' * 3], False, "auto")
@example([b'{"log":"' + b"\\ud83c\\udff4" * 100_000, b'","stream":"stdout","time":"2"}\n' * 3], False, "docker")
@example([b'{"log":"a\\n","stream":"stdout","time":"2"}\n{"log":"x","y":[', b"{}," * 40_000 + b"0]}\n"], False, "auto")
def test_whatever_comes_memory_output_and_work_are_bounded(parts: list[bytes], steps: bool, form: Form) -> None:
    size, shown, renderer = sum(map(len, parts)), 0, Renderer(form, steps=steps)
    tracemalloc.start()
    try:
        for lines in lines_of(parts, form, steps=steps, renderer=renderer):
            shown += sum(len(line.text.encode()) + 1 for line in lines if not isinstance(line, Note))
            held = tracemalloc.get_traced_memory()[1] - LINES * len(lines)
            tracemalloc.reset_peak()
            assert held < MEMORY, held
    finally:
        tracemalloc.stop()
    assert shown <= OUTPUT * size + 64
    assert renderer.spent <= 2 * BURST + EARNS * size


@tried(6, 60)
@given(STREAMS, st.booleans(), st.lists(st.integers(60, 9_000), min_size=1, max_size=4))
@example([b"ab\x1b[2Jx" * 30_000 + b"\n" + b"c\n" * 40_000, b"x\x1b[2K\r\n" * 10_000], True, [70, 4096])
@example([LONG_STYLE, b"\n" * 5_000, b"x\n" * 5_000, b"\x1b[m"], False, [11, 800])
def test_the_pieces_make_no_difference_to_what_is_drawn(parts: list[bytes], steps: bool, sizes: list[int]) -> None:
    data = b"".join(part[:20_000] for part in parts)
    whole = [line for lines in lines_of([data], "plain", steps=steps) for line in lines]
    renderer, found, at, number = Renderer("plain", steps=steps), [], 0, 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        found += renderer.feed(data[at : at + size])
        at, number = at + size, number + 1
    assert [*found, *renderer.settle(), *renderer.close()] == whole


def texts(data: bytes) -> list[str]:
    return [line.text for lines in lines_of([data], "plain", steps=False) for line in lines]


def test_what_costs_too_much_is_shown_as_it_is_below_a_note_and_then_drawn_again() -> None:
    hostile = b"x\x1b[2K" * 40_000
    found = texts(b"before\n" + hostile + b"\n\x1b[31mred\x1b[0m 1%\r2%\n")
    note = next(index for index, text in enumerate(found) if "costs too much to draw" in text)
    assert found[0] == "before"
    assert "x\u241b[2Kx\u241b[2K" in found[note + 1]
    assert found[note + 1].endswith(MARK)
    assert plain(found[-1]) == "2%d 1%"


def test_a_log_makes_no_more_output_than_its_size_allows() -> None:
    data = b"\x1b[1000Cx\n" * 500  # unbounded, each 9 bytes would give 1001 characters
    found = texts(data)
    assert len(found) == 500
    assert sum(map(len, found)) <= SHOWN * len(data)
    assert any(text.endswith(MARK) for text in found)


def test_rows_that_a_cursor_has_left_are_final_when_they_hold_too_much() -> None:
    """Each of the two rows has more than half of the limit: the second begins a new page, with the cursor's home."""
    row = HELD // 4 + 1  # cells, each of one character
    found = texts(b"\n" * 9 + b"\x1b[H" + b"A" * row + b"\x1b[B\r" + b"B" * row + b"\x1b[B\r\x1b[HZ\n")
    assert "A" * row in found
    assert "Z" in found


@pytest.mark.parametrize("style", [b"", b"\x1b[31m"], ids=["plain", "coloured"])
@pytest.mark.parametrize("size", [1000, 77_777, 1 << 20])
def test_a_line_that_is_split_is_shown_to_its_end_however_long_it_is(style: bytes, size: int) -> None:
    long = b"".join(b"%07d" % number for number in range(200_000 // 7))
    data = b"\0" + style + long + b"\nnext\n"
    screen = Screen(limit=1000, overlong="split")
    lines = [line for at in range(0, len(data), size) for line in screen.feed(data[at : at + size])] + screen.close()
    *parts, after = [plain(line.text) for line in lines]
    assert parts == [long.decode()[at : at + 1000] for at in range(0, len(long), 1000)]
    assert after == "next"
    assert {line.offset for line in lines[:-1]} == {0}


def test_an_endless_line_that_is_split_takes_bounded_memory() -> None:
    screen, count, pieces = Screen(overlong="split"), 0, often(100, 320)
    tracemalloc.start()
    for _ in range(pieces):
        count += sum(len(line.text) for line in screen.feed(b"x" * 65536))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert count + sum(len(line.text) for line in screen.close()) == pieces * 65536


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_bar_of_many_blanks_is_cut_at_the_same_place_however_it_is_parted(size: int) -> None:
    data = b"1%\x1b[1000Cx\r60%\r\r\r90%\n"
    whole = [line for lines in lines_of([data], "plain", steps=True) for line in lines]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [line for lines in lines_of(pieces, "plain", steps=True) for line in lines] == whole


def test_what_is_not_drawn_ends_with_a_line() -> None:
    lines = 2 * UNDRAWN // 5
    found = texts(b"\b\n" * 10_000 + b"a\x08b\r\n" * lines)
    pictures, drawn = found.count("a\u2408b"), found.count("b")
    assert 0 < pictures < lines
    assert pictures + drawn == lines


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x1b[2Jx" * 30_000, id="cleared"),
        pytest.param(b"x\x1b[2K" * 30_000, id="erased"),
        pytest.param(b"\x1b[64;1024Hx\x1b[1;1Hy" * 8_000, id="moved"),
        pytest.param(b"\b\n" * 60_000, id="tiny-lines"),
    ],
)
def test_one_note_for_each_stretch(data: bytes) -> None:
    notes = [text for text in texts(data) if "costs too much" in text]
    assert 1 <= len(notes) <= 1 + len(data) // UNDRAWN


def workers(count: int, steps: int) -> bytes:
    """The output of tqdm with a bar for each of *count* workers, one below the other."""
    bar = b"\rrank%d:  45%%|#############               | %d/1000 [00:10<00:12, 44.41it/s]"
    return b"".join(
        b"\n" * rank + bar % (rank, step) + b"\x1b[A" * rank for step in range(steps) for rank in range(count)
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"".join(b"\rtrain: %3d%%|##########| loss 0.5" % (n % 100) for n in range(10_000)), id="bar"),
        pytest.param(b"\n\rinner  45%|####      | 450/1000 [00:10<00:12, 44.4it/s]\x1b[A" * 5000, id="nested"),
        pytest.param(workers(16, 200), id="16-workers"),
        pytest.param(b"\x1b[32mINFO\x1b[0m a line of twenty bytes \x1b[1mand more\x1b[0m\n" * 5000, id="colours"),
        pytest.param(
            b"\x1b[2K\r\x1b[36mworking\x1b[0m on something that takes a while \x1b[35m 45%\x1b[0m" * 5000, id="rich"
        ),
        pytest.param(b"\n" * 250_000, id="empty-lines"),
        pytest.param("مرحبا بالعالم नमस्ते ก็\n".encode() * 5000, id="marks"),
    ],
)
def test_what_programs_write_is_drawn_to_its_end(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "BURST", BURST // 4)  # a log of a quarter of the size then uses up its advance
    assert not [text for text in texts(data) if "costs too much" in text]
