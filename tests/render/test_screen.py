"""A log as a terminal would show it: judged by an emulator (pyte), by tables, and with any bytes in any pieces."""

from __future__ import annotations

import re
import tracemalloc
import unicodedata
from itertools import pairwise
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.lines.line import Line, Note
from flarelog.lines.sgr import highlighted, plain
from flarelog.render.rows import WINDOW, Overlong
from flarelog.render.screen import Screen
from tests.often import often, tried
from tests.rows import together

KEPT = Path(__file__).parents[1] / "data" / "train"
SHARED = next((up / "shared" for up in KEPT.parents if (up / "shared/samples/train").is_dir()), None)
SAMPLES = sorted((SHARED / "samples/train" if SHARED else KEPT).rglob("*.log"))


def rendered(*pieces: bytes, now: float = 0.0, steps: bool = False, limit: int = 65536) -> list[Line]:
    screen = Screen(steps=steps, limit=limit)
    return [line for piece in pieces for line in screen.feed(piece, now)] + screen.close(now)


def texts(*pieces: bytes) -> list[str]:
    return [line.text for line in rendered(*pieces)]


# --- against a terminal


class _Terminal(pyte.Screen):
    """Keeps one saved cursor, as terminals do: pyte keeps them all, and each return takes one."""

    def save_cursor(self) -> None:
        self.savepoints.clear()
        super().save_cursor()

    def restore_cursor(self) -> None:
        known = bool(self.savepoints)
        super().restore_cursor()
        if known:
            self.save_cursor()


def on_a_terminal(data: bytes) -> list[str]:
    """The rows of a terminal of unlimited width."""
    text = data.decode(errors="replace").replace("\0", "")  # a terminal ignores NUL
    widest = max(map(len, re.split("[\r\n]", text)), default=0)
    screen = _Terminal(2 * widest + 80, text.count("\n") + 5)
    screen.set_mode(pyte.modes.LNM)  # a log's LF begins a new line at column 0
    pyte.Stream(screen).feed(text)
    return tidied(screen.display)


def tidied(rows: list[str]) -> list[str]:
    """*rows* without trailing blanks, which a terminal cannot tell, and without the emoji selector,
    which pyte drops.
    """
    return "\n".join(row.replace("\ufe0f", "").expandtabs(8).rstrip() for row in rows).rstrip("\n").split("\n")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_real_training_output_is_shown_as_a_terminal_shows_it(path: Path) -> None:
    data = path.read_bytes()[: often(6_000, 3 << 20)]
    assert tidied([plain(line.text) for line in rendered(data)]) == on_a_terminal(data)


SHIFTS = st.sampled_from([b"\x1b[P", b"\x1b[3P", b"\x1b[@", b"\x1b[2@", b"\x1b[X", b"\x1b[4X", b"\x1b[2D", b"\x1b[C"])
KEPT_PLACES = st.sampled_from([b"\x1b7", b"\x1b8", b"\x1b[A", b"\r", b"\n"])
TEXTS = st.text("abcdefg ", min_size=1, max_size=9).map(str.encode)


@tried(70, 5000)
@given(st.lists(SHIFTS | KEPT_PLACES | TEXTS, max_size=30).map(lambda pieces: b"\x1b7" + b"".join(pieces)))
def test_characters_are_moved_and_places_returned_to_as_on_a_terminal(data: bytes) -> None:
    assert tidied([line.text for line in rendered(data)]) == on_a_terminal(data)


def test_all_samples_were_there() -> None:
    if SHARED is None:
        pytest.skip(f"the collection of samples is not beside this project: {len(SAMPLES)} that are kept were tried")
    assert len(SAMPLES) > 20
    assert {path.name for path in KEPT.iterdir()} <= {path.name for path in SAMPLES}


# --- one rule at a time


@together(
    ("data", "shown"),
    [
        pytest.param(b"a\nb\n", ["a", "b"], id="lines-end-at-lf"),
        pytest.param(b"a\n\n\nb", ["a", "", "", "b"], id="empty-lines-and-a-last-one-without-lf"),
        pytest.param("a\x0bb\x0cc\x85d\u2028e\u2029f\n".encode(), ["a b c d e f"], id="nothing-else-does"),
        pytest.param(b"a \tb \r\nc\r\n", ["a \tb ", "c"], id="crlf-tabs-and-blanks"),
        pytest.param(b"10%\r20%\r30%\nx\n", ["30%", "x"], id="a-bar-is-its-last-state"),
        pytest.param(b"long text\rshort\n", ["shorttext"], id="what-is-not-overwritten-stays"),
        pytest.param(b"bar 99%\r       \rdone\n", ["done"], id="a-bar-that-is-wiped-out-with-blanks"),
        pytest.param(b"\tb\rX\n", ["X" + " " * 7 + "b"], id="a-tab-that-is-overwritten-in-part"),
        pytest.param(b"ab\b\bx\n", ["xb"], id="backspace"),
        pytest.param("漢字\rX\n".encode(), ["X 字"], id="half-of-a-wide-glyph-is-overwritten"),
        pytest.param(b"one\ntwo\n\x1b[2Aonly\n", ["only", "two"], id="cursor-up"),
        pytest.param(b"a\nb\nc\x1b[1A\r\x1b[Jx", ["a", "x"], id="erase-below"),
        pytest.param(b"abc\x1b[2D\x1b[K\n", ["a"], id="erase-to-the-end"),
        pytest.param(b"a\x1b[3Cb\x1b[2Gc\n", ["ac  b"], id="cursor-to-a-column"),
        pytest.param(b"one\n\x1b[2J\x1b[Htwo\n\x1b[H\x1b[2Jthree\n", ["one", "two", "three"], id="clear-loses-nothing"),
        pytest.param(b"one\n\x1b[99Atwo\n", ["two"], id="the-cursor-stops-at-the-top"),
        pytest.param(b"one\ntw\x1b7\x1b[Ax\x1b8o\n", ["onx", "two"], id="a-place-is-returned-to"),
        pytest.param(b"one\ntw\x1b[s\x1b[Ax\x1b[uo\n", ["onx", "two"], id="in-the-other-way"),
        pytest.param(b"one\ntw\x1b8o\x1b[u\n", ["one", "two"], id="to-none-it-is-not"),
        pytest.param(b"\x1b[31mr\x1b7\x1b[mx\x1b8y\n", ["\x1b[31mry\x1b[0m"], id="with-its-colours"),
        pytest.param(b"abcdef\x1b[4D\x1b[P\n\x1b[3P\n", ["abdef", ""], id="characters-are-taken-out"),
        pytest.param(b"abcdef\x1b[4D\x1b[9P\n", ["ab"], id="up-to-the-end"),
        pytest.param(b"abcdef\x1b[4D\x1b[2@x\n", ["abx cdef"], id="blanks-are-put-in"),
        pytest.param(b"abcdef\x1b[4D\x1b[2X\n", ["ab  ef"], id="characters-are-made-blanks"),
        pytest.param("\u6f22\u5b57x\x1b[4D\x1b[P\n".encode(), [" \u5b57x"], id="half-of-a-wide-glyph-is-taken-out"),
        pytest.param(b"\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"], id="colour-stays"),
        pytest.param(b"\x1b[1;31mr\nx\x1b[m\ny\n", ["\x1b[1;31mr\x1b[0m", "\x1b[1;31mx\x1b[0m", "y"], id="by-itself"),
        pytest.param(b"\x1b[38;5;200;48;2;1;2;3ma\n", ["\x1b[38;5;200;48;2;1;2;3ma\x1b[0m"], id="more-colours"),
        pytest.param(b"\x1b[31;39ma\x1b[1;22;4:3mb\n", ["a\x1b[4:3mb\x1b[0m"], id="attributes-are-taken-back"),
    ],
)  # fmt: skip
def test_lines(data: bytes, shown: list[str]) -> None:
    assert texts(data) == shown
    assert texts(*(data[at : at + 1] for at in range(len(data)))) == shown


@together(
    ("data", "shown"),
    [
        pytest.param(b"a\x1b]0;title\x07b\x1b]52;c;aGk=\x1b\\c\n", "abc", id="title-and-clipboard"),
        pytest.param(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link", id="a-link-is-its-text"),
        pytest.param(b"a\x1bPq#0~\x1b\\b\x1b_G\x1b\\c\x1b^pm\x1b\\d\x1bXs\x1b\\e\n", "abcde", id="dcs-apc-pm-sos"),
        pytest.param("a\x9b31mb\x9d0;t\x9cc\x90q\x9cd\x84\n".encode(), "a\x1b[31mbcd\x1b[0m", id="c1-controls"),
        pytest.param(b"a\x1b[?1049h\x1b[?25l\x1b[6n\x1b[c\x1b[>4;2m\x1b[20h\x1b[!pb\n", "ab", id="modes-and-questions"),
        pytest.param(b"a\x1bc\x1b(0\x1b#8\x1b7\x1b8\x1b=b\n", "ab", id="reset-and-character-sets"),
        pytest.param(b"a\x1b[8mhidden\x1b[28m\n", "ahidden", id="what-is-hidden-is-shown"),
        pytest.param(b"a\x00\x07\x0e\x0f\x05\x7fb\n", "ab", id="control-characters"),
        pytest.param(b"a\x1b\x1b[3\x1b[1mb\n", "a\x1b[1mb\x1b[0m", id="a-sequence-within-a-sequence"),
        pytest.param("admin\u202e\u2066nimda\u2069\u202c\n".encode(), "adminnimda", id="reordering"),
        pytest.param("a\u200eb\u200fc\u061cd\u206ae\n".encode(), "abcde", id="marks-of-direction"),
        pytest.param("a\U000e0001b\U000e0041\U000e007fc\n".encode(), "abc", id="tags"),
        pytest.param("a\ufff9b\ufffac\ufffbd\uff0ce\uffee\n".encode(), "abcd\uff0ce\uffee", id="annotations"),
        pytest.param("a\u2028b\u2029c\n".encode(), "a b c", id="separators"),
        pytest.param("\u0627\u0644\u061c\u0639\n".encode(), "\u0627\u0644\u0639", id="among-arabic"),
        pytest.param(b"\x1b[" + b"1" * 300 + b"mx\n", "1" * 44 + "mx", id="no-sequence-is-longer-than-256"),
    ],
)
def test_no_log_drives_the_terminal(data: bytes, shown: str) -> None:
    assert texts(data)[0] == shown
    assert texts(*(data[at : at + 1] for at in range(len(data))))[0] == shown


SEEN = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"
"""Format characters with a shape: Arabic, Syriac and Kaithi signs, and the joiners of hieroglyphs."""
JOINERS = "\u200c\u200d"


def test_of_the_characters_that_nobody_sees_the_two_joiners_alone_are_shown() -> None:
    unseen = [char for char in map(chr, range(0x110000)) if unicodedata.category(char) == "Cf"]
    left = "".join(texts("".join(f"a{char}b\n" for char in unseen).encode())).replace("ab", "")
    assert re.fullmatch(f"(?:a[{SEEN}{JOINERS}]b)+", left)
    assert set(JOINERS) < set(left)
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert texts(f"{family}\n".encode()) == [family]


def test_a_character_is_taken_out_of_plain_lines_as_it_is_from_others() -> None:
    codes = [*range(0x20, 0xD800, 53), *range(0xE000, 0x30000, 211), *range(0xE0000, 0xE0200)]
    chars = [*map(chr, codes), *(char for char in map(chr, range(0x110000)) if unicodedata.category(char) == "Cf")]
    together = texts("".join(f"a{char}b\n" for char in chars).encode())
    for char, found in zip(chars, together, strict=True):
        assert texts(f"a{char}b\n".encode()) == texts(f"a\0{char}b\n".encode()) == [found]


def test_a_string_without_an_end_goes_no_further_than_its_line() -> None:
    assert texts(b"a\x1b]0;no end\nb\x1bP\nc\n") == ["a", "b", "c"]


# Direction marks, annotations, and tags.
HIDDEN = (0x61C, 0x200E, 0x200F, 0xFFF9, 0xFFFA, 0xFFFB, 0xE0000, 0xE0001, 0xE0041, 0xE007F)


def test_no_control_character_comes_through_among_plain_lines() -> None:
    for code in {*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x2070), *HIDDEN} - {
        0x09,
        0x0A,
    }:
        for before in (3, 1000):  # a few lines, and enough of them to be taken many at once
            for line in texts(b"plain\n" * before + f"a{chr(code)}b\n".encode() + b"plain\n"):
                assert not NOT_SHOWN.search(line), hex(code)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"plain %d\n"], id="ascii"),
        pytest.param([b"plain %d\n", "é█ %d\n".encode()], id="more-than-ascii"),
        pytest.param([b"plain %d\r\n"], id="crlf"),
        pytest.param([b"plain %d\r\n", b"plain %d\n", b"\xff %d\r\n"], id="crlf-lf-and-no-utf-8"),
        pytest.param([b"plain %d\n", b"x" * 5000 + b" %d\n", b"\n"], id="one-of-many-columns"),
        pytest.param([b"plain %d\r\n", b"gone\rhere %d\n", b"up\x1b[2A\rUP\x1b[2B %d\n"], id="cursor-moves"),
    ],
)
@pytest.mark.parametrize("limit", [65536, 4500, 6])
def test_many_lines_at_once_are_those_that_come_one_by_one(lines: list[bytes], limit: int) -> None:
    several = b"".join(line % number if b"%" in line else line for number in range(often(100, 300)) for line in lines)
    data = several + b"open\x1b[9A\rback\x1b[H\rfirst\n" + several
    one_by_one = rendered(*data.splitlines(keepends=True), limit=limit)
    assert rendered(data, limit=limit) == one_by_one
    assert rendered(data[:1000], data[1000:3000], data[3000:], limit=limit) == one_by_one


@pytest.mark.parametrize(
    ("pieces", "shown", "replaced"),
    [
        pytest.param((b"x\xe2\x96",), "x\ufffd", 1, id="an-end-in-the-middle-of-a-glyph"),
        pytest.param((b"a\xe2", b"\x96\x88b"), "a█b", 0, id="half-a-glyph-waits-for-the-rest"),
        pytest.param((b"\xe2\xe2\x96\x88\x96\x88",), "\ufffd█\ufffd\ufffd", 3, id="torn-by-another-writer"),
        pytest.param(("\ufffd".encode(), b"\xff"), "\ufffd\ufffd", 1, id="one-that-was-written-is-not-counted"),
        pytest.param((b"\xed\xb0\x80\n",), "\ufffd\ufffd\ufffd", 3, id="a-surrogate"),
    ],
)
def test_what_is_no_utf8_is_replaced_in_the_view_and_counted(
    pieces: tuple[bytes, ...], shown: str, replaced: int
) -> None:
    screen = Screen()
    lines = [line for piece in pieces for line in screen.feed(piece)] + screen.close()
    assert ([line.text for line in lines], screen.replaced) == ([shown], replaced)


# --- when rows become final


def test_a_line_is_final_when_the_cursor_can_no_longer_reach_it() -> None:
    screen = Screen()
    assert screen.feed(b"x\n" * WINDOW) == []
    assert [line.offset for line in screen.feed(b"y\n")] == [0]
    assert len(screen.close()) == WINDOW


def test_lines_that_settle_are_given_out_once_and_again_if_they_change() -> None:
    screen = Screen()
    screen.feed(b"one\ntwo\nopen")
    assert [line.text for line in screen.settle()] == ["one", "two"]
    assert screen.settle() == []
    assert screen.open() == ["open"]
    screen.feed(b"\x1b[1A\rTWO")
    assert [line.text for line in screen.close()] == ["TWO", "open"]


def test_offsets_are_those_of_the_bytes() -> None:
    data = "é\n\x1b[31mred\x1b[m\n10%\r20%\nlast".encode()
    found = rendered(data)
    last = [b"10%\r20%\n", b"last"]
    assert [data[line.offset : line.end] for line in found] == [*data.splitlines(keepends=True)[:2], *last]


def test_a_line_that_a_cleared_screen_cut_off_holds_nothing_up() -> None:
    screen = Screen()
    screen.feed(b"half\x1b[2J\x1b[Hnext\n")
    assert [line.text for line in screen.settle()] == ["half", "next"]
    data = b"half\x1b[2J\n" + b"x\n" * 100
    assert rendered(data) == rendered(data[:5], data[5:90], data[90:])


def test_an_endless_line_is_cut_with_a_mark_and_takes_bounded_memory() -> None:
    screen = Screen(limit=1000)
    for _ in range(100):
        screen.feed("█".encode() * 1000 + b"\t\t" + "漢e\u0301".encode() * 100)
    tracemalloc.start()
    for _ in range(100):
        screen.feed(b"x" * 65536)
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()
    screen.feed(b"\nnext\n")
    long, after = screen.close()
    assert (len(long.text), long.text.endswith("..TRUNCATED"), after.text) == (1000, True, "next")


def test_a_row_of_more_columns_than_any_terminal_has_is_not_reached_again() -> None:
    """Otherwise sixty-four such rows would be kept as cells."""
    data = b"a\n" + b"x" * 5000 + b"\nb\n\x1b[9A\rB\x1b[H\n"
    assert [len(text) for text in texts(data)] == [1, 5000, 1]
    assert texts(data)[2] == "B"
    assert texts(*(data[at : at + 1] for at in range(len(data)))) == texts(data)


# --- bars on outputs without cursor movement


def bar(*percentages: int) -> bytes:
    return b"".join(b"\rtrain: %3d%%|##| step" % percentage for percentage in percentages)


def test_a_bar_is_a_line_every_ten_percent() -> None:
    found = rendered(b"start\n" + bar(*range(101)) + b"\nend\n", steps=True)
    assert [line.text[7:10].strip() for line in found[1:-1]] == ["1", "10", *map(str, range(20, 101, 10))]
    assert [line.bar for line in found] == [False, *[True] * 10, False, False]  # 100 % is the bar's end
    assert (found[0].text, found[-1].text) == ("start", "end")
    assert [line.text for line in rendered(b"start\n" + bar(*range(101)) + b"\nend\n")] == [
        *("start", "train: 100%|##| step", "end"),
    ]


def test_a_bar_that_tells_no_percentage_is_a_line_every_thirty_seconds() -> None:
    screen = Screen(steps=True)
    shown = [(now, line.text) for now in range(100) for line in screen.feed(b"\r%dit [00:%d]" % (now, now), float(now))]
    assert [now for now, _ in shown] == [32, 62, 92]  # from its second state on, which makes it a bar
    assert [line.text for line in screen.close(100.0)] == ["99it [00:99]"]


def test_bars_below_each_other_do_not_repeat_each_other() -> None:
    frame = b"\router %3d%%\n\rinner %3d%%\x1b[A"
    data = b"".join(frame % (outer, inner) for outer in (0, 50, 100) for inner in range(0, 101, 10)) + b"\n\n"
    found = [line.text for line in rendered(data, steps=True)]
    assert found.count("outer  50%") == found.count("outer 100%") == 1
    assert found.count("inner  50%") == 3
    assert [line.text for line in rendered(data)] == ["outer 100%", "inner 100%"]


def written_above(label: str, steps: int) -> bytes:
    """The output of ``tqdm.write`` under a bar: after each step a line in the bar's place, and the bar below it."""
    states = [b"\r%s%3d%%|##| %d/%d" % (label.encode(), 100 * step // steps, step, steps) for step in range(steps + 1)]
    wiped = b"\r" + b" " * 40 + b"\r"
    return b"".join(states[at] + states[at + 1] + wiped + b"line %d\n" % at for at in range(steps)) + states[-1] + b"\n"


@pytest.mark.parametrize("label", ["train: ", ""])
def test_a_bar_that_lines_are_written_above_of_is_a_line_every_ten_percent(label: str) -> None:
    found = [line.text for line in rendered(written_above(label, 200), steps=True)]
    bars = [text.removeprefix(label)[:4].strip() for text in found if "%" in text]
    assert bars == ["0%", *(f"{decile}%" for decile in range(10, 101, 10)), "100%"]  # 100 % is its end as well
    assert [text for text in found if "%" not in text] == [f"line {at}" for at in range(200)]


@pytest.mark.parametrize(
    ("label", "after"),
    [
        pytest.param("train", " acc={at}.{at}%", id="a-percentage-behind-the-bar"),
        pytest.param("train", " acc=50%", id="one-that-stays"),
        pytest.param("loss 0.{at}", "", id="a-figure-in-the-label"),
    ],
)
@pytest.mark.parametrize("written", [False, True], ids=["alone", "with-lines-above"])
def test_the_progress_of_a_bar_is_what_its_drawing_tells(label: str, after: str, written: bool) -> None:
    wiped, data = "\r" + " " * 60 + "\r", ""
    for at in range(401):
        state = f"\r{label}: {at // 4:3d}%|##| {at}/400{after}".replace("{at}", str(at))
        data += (state + state + wiped + f"line {at}\n" + state) if written else state
    shown = [line.text for line in rendered(f"{data}\n".encode(), steps=True)]
    assert 11 <= len([text for text in shown if "|##|" in text]) <= 13
    assert len([text for text in shown if text.startswith("line ")]) == 401 * written


def test_bars_below_each_other_that_lines_are_written_above_of_do_not_repeat_each_other() -> None:
    wiped, found = b"\r" + b" " * 20 + b"\r", b""
    for outer in (0, 33, 67):
        for inner in range(101):
            both = b"\router %3d%%\n\rinner %3d%%\x1b[A\n\rinner %3d%%\x1b[A" % (outer, max(0, inner - 1), inner)
            found += both + wiped + b"\n" + wiped + b"\x1b[Aline\n"
    shown = [line.text for line in rendered(found, steps=True)]
    assert [text for text in shown if "outer" in text] == ["outer   0%", "outer  33%", "outer  67%"]
    assert [shown.count(f"inner {percent:3d}%") for percent in (10, 50, 99)] == [3, 3, 0]
    assert shown.count("line") == 303


# --- any bytes

ATOMS = (
    *(b"\n", b"\r", b"\r\n", b"\t", b"\b", b"hello world ", b"50%| ", b"60%", b"a\nb\nc\nd\n", b"\x1b", b"["),
    *(
        b"\x1b[A",
        b"\x1b[B",
        b"\x1b[5C",
        b"\x1b[3D",
        b"\x1b[9G",
        b"\x1b[H",
        b"\x1b[2J",
        b"\x1b[J",
        b"\x1b[K",
        b"\x1b[2K",
    ),
    *(b"\x1b[31m", b"\x1b[0m", b"\x1b[38;5;9m", b"\xc2\x9b31m", b"\x1b]0;t\x07", b"\x1b]8;;x\x1b\\", b"\x1bP"),
    *(text.encode() for text in ("█", "漢", "é", "e\u0301", "\u202e", "\ufffd")),
)
BYTES = st.lists(st.one_of(st.sampled_from(ATOMS), st.binary(max_size=6)), max_size=40).map(b"".join)
LENGTHS = st.sampled_from([(65536, "cut"), (12, "cut"), (5, "cut"), (7, "split"), (7, "drop"), (16, "ends")])
NOT_SHOWN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\U000e0000-\U000e007f]"
)
COMMON = tried(40, 400)


@COMMON
@given(BYTES, st.booleans(), LENGTHS, st.lists(st.integers(0, 200), max_size=8))
def test_the_pieces_make_no_difference_and_nothing_but_text_and_colours_comes_out(
    data: bytes, steps: bool, lengths: tuple[int, Overlong], cuts: list[int]
) -> None:
    def run(edges: list[int]) -> tuple[list[Line], int]:
        wanted = {"wanted": lambda text: "a" in text} if lengths[1] == "ends" else {}
        screen = Screen(steps=steps, limit=lengths[0], overlong=lengths[1], **wanted)
        found = [line for begin, end in pairwise([0, *edges, len(data)]) for line in screen.feed(data[begin:end])]
        return found + screen.close(), screen.replaced

    whole = run([])
    assert run(sorted(min(cut, len(data)) for cut in cuts)) == whole
    assert run(list(range(len(data)))) == whole
    for line in whole[0]:
        assert not NOT_SHOWN.search(plain(line.text)), line
        assert len(plain(line.text)) <= lengths[0]
        assert 0 <= line.offset <= line.end <= len(data)


STATES = st.one_of(
    st.lists(
        st.sampled_from(["a", "bb", "█⠋é", "10%", "5%", "17% a", "defgh", "ijklmnop"]), min_size=3, max_size=9
    ).map("\r".join),
    st.sampled_from(["", "漢", "e\u0301", "\t", "\x1b[K", "\x1b[31m", "\x1b[m", "\x1b[A", "\n", "x\n", "x" * 5000]),
)


@tried(80, 400)
@given(
    st.lists(STATES, max_size=12),
    st.sampled_from([(65536, "cut"), (6, "cut"), (6, "split")]),
    st.booleans(),
    st.sampled_from([None, "b", "i"]),
)
def test_many_states_of_a_bar_at_once_are_those_that_come_one_by_one(
    states: list[str], lengths: tuple[int, Overlong], steps: bool, wanted: str | None
) -> None:
    data = "\r".join(states).encode()
    how = {} if wanted is None else {"wanted": lambda text: wanted in text}
    one, all_ = (Screen(limit=lengths[0], overlong=lengths[1], steps=steps, **how) for _ in range(2))
    found = [line for at in range(len(data)) for line in one.feed(data[at : at + 1])]
    assert all_.feed(data) == found
    assert all_.open() == one.open()
    assert all_.spent == one.spent
    assert all_.close() == one.close()


def test_states_of_a_bar_that_cost_too_much_do_so_at_the_same_place_however_many_come_at_once() -> None:
    data = b"ab" + b"\rx" * 40_000 + b"\n" + b"\rlonger text" * 100
    one, all_ = Screen(), Screen()
    found = [line for at in range(0, len(data), 3) for line in one.feed(data[at : at + 3])]
    assert all_.feed(data) == found
    assert any(isinstance(line, Note) for line in found)
    assert all_.close() == one.close()


# --- highlighted matches


@together(
    ("text", "patterns", "shown"),
    [
        pytest.param("a bc d", ["bc"], "a <bc> d", id="in-plain-text"),
        pytest.param("bcbc", ["bc|bc"], "<bcbc>", id="twice"),
        pytest.param("\x1b[31mab\x1b[0mcd", ["bc"], "\x1b[31ma<bc>d", id="across-colours"),
        pytest.param("\x1b[31mabc\x1b[0m", ["b"], "\x1b[31ma<b]c\x1b[0m", id="the-line's-colour-goes-on-behind"),
        pytest.param("\x1b[31mabc\x1b[0m", ["3|m"], "\x1b[31mabc\x1b[0m", id="colours-are-not-matched"),
        pytest.param("abc", ["x*"], "abc", id="an-empty-match-marks-nothing"),
        pytest.param("abc", [], "abc", id="no-pattern"),
        pytest.param("a match on it", ["match", "match on"], "a <match on> it", id="the-longer-of-two"),
        pytest.param("abcd", ["abc", "bcd"], "<abcd>", id="two-that-overlap"),
        pytest.param("abcd", ["cd", "ab"], "<abcd>", id="two-side-by-side"),
        pytest.param("zz ab, bb", ["(a)b", r"(z)\1", r"(b)\1"], "<zz> <ab>, <bb>", id="each-with-groups-of-its-own"),
        pytest.param("zz two", ["(?P<n>z)(?P=n)", "(?P<n>two)"], "<zz> <two>", id="groups-of-one-name"),
        pytest.param("aXbX", [r"(a)?X(?(1)b|$)", "(q)"], "<aXbX>", id="what-depends-on-a-group"),
        pytest.param("A b", ["(?i)a", "B"], "<A> b", id="flags-of-its-own"),
    ],
)
def test_highlights(text: str, patterns: list[str], shown: str) -> None:
    found = highlighted(text, map(re.compile, patterns))
    shown = shown.replace("<", "\x1b[0;1;7m").replace("]c", "\x1b[0;31mc").replace(">", "\x1b[0m")
    assert found == shown
    assert plain(found) == plain(text)


def test_many_matches_take_a_time_that_grows_with_their_number() -> None:
    """The code once copied the rest of the line for each match, which took minutes."""
    assert len(highlighted("xy" * 100_000, [re.compile("x")])) == 100_000 * len("\x1b[0;1;7mx\x1b[0my")
