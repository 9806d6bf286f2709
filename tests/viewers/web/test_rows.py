"""Lines in the form that a browser gets."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from flarelog.lines.line import Line, Note
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.viewers.web.numbering import Numbering
from flarelog.viewers.web.rows import (
    BAR,
    BEGINS,
    CUT,
    ERROR,
    INSIDE,
    NOTE,
    STDERR,
    WARNING,
    LiveRows,
    bar,
    classes_of,
    encoded,
    numbered,
)
from tests.annotated import annotated
from tests.rows import together


def rows(data: bytes, k: int = 0) -> list[list[Any]]:
    renderer = Renderer("plain")
    found: list[list[Any]] = json.loads(
        f"[{numbered(k, chr(10).join(encoded(line) for line in annotated(renderer.feed(data) + renderer.close())))}]"
    )
    return found


def test_a_row_is_what_stands_between_two_offsets() -> None:
    assert rows(b'a "b"\nc\td\n', 3) == [[3, 0, 6, 'a "b"', 0], [3, 6, 10, "c\td", 0]]


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("INFO all is well", 0),
        ("WARNING: it is not", WARNING),
        ("ERROR no", ERROR),
        ("FATAL no", ERROR),
        ("x" * 70_000, CUT),
    ],
)
def test_a_rows_flags_are_what_its_writer_says(text: str, flags: int) -> None:
    assert rows(f"{text}\n".encode())[0][4] == flags


@pytest.mark.parametrize(
    "block",
    [
        b"Traceback (most recent call last):\n  File x\nValueError: no\n",
        b"goroutine 1 [running]:\nmain.main()\n\t/app/main.go:8 +0x1d\n",
        b"thread 'main' panicked at src/main.rs:2:5:\nno luck\nnote: run with `RUST_BACKTRACE=1`\n",
    ],
    ids=["python", "go", "rust"],
)
def test_the_lines_of_a_traceback_can_be_folded_into_its_first(block: bytes) -> None:
    assert [row[4] for row in rows(block + b"INFO on\n")] == [ERROR | BEGINS, ERROR | INSIDE, ERROR | INSIDE, 0]


def test_notes_and_outputs_are_told_apart() -> None:
    note = json.loads(f"[{numbered(0, encoded(Note.at(7, 'gap: x', {'event': 'gap'})))}]")[0]
    assert (note[1], note[2], note[4]) == (7, 7, NOTE | WARNING)
    line = json.loads(f"[{numbered(0, encoded(Line(0, 1, 'x', 'stderr', 1_795_420_801_123_456_789)))}]")[0]
    assert line == [0, 0, 1, "x", STDERR, 1_795_420_801_123]
    assert json.loads(f"[{numbered(1, bar(5, chr(27) + '[1m50%' + chr(27) + '[0m'))}]") == [
        [1, 5, 5, "50%", BAR, None, [[0, 3, "b"]], 50]
    ]


@together(
    ("event", "warns"),
    [
        ({"event": "ended", "sealed": True, "incomplete": None}, False),
        ({"event": "ended", "sealed": True, "incomplete": "1 gap"}, True),
        ({"event": "ended", "sealed": False, "incomplete": None}, True),
        ({"event": "exit", "code": 0}, False),
        ({"event": "exit", "code": 1}, True),
        ({"event": "exit", "code": None}, True),
        ({"event": "file-began"}, False),
        ({"event": "gap"}, True),
    ],
)
def test_a_note_warns_where_bytes_are_missing_or_something_failed(event: dict[str, object], warns: bool) -> None:
    row = json.loads(f"[0,{encoded(Note.at(7, 'a note', event))}")
    assert row[4] == (NOTE | WARNING if warns else NOTE)


def test_the_end_of_a_file_warns_where_it_was_not_seen() -> None:
    for text, flags in (("the file ended here: rotated", NOTE), ("incomplete: the end was not seen", NOTE | WARNING)):
        assert json.loads(f"[0,{encoded(Note.at(7, text, {'event': 'file-ended'}))}")[4] == flags


@together(
    ("text", "span"),
    [
        ('{"level":"ERROR","msg":"no"}', [24, 2, "m error"]),
        ('{"\U0001f600":"\U0001f600","msg":"no"}', [18, 2, "m "]),
        ('{"level":"INFO"}', None),
        ('\x1b[1m{"msg":"bold"}\x1b[0m', [0, 14, "b"]),
    ],
)
def test_an_object_s_message_is_a_span(text: str, span: list[object] | None) -> None:
    (row,) = rows(f"{text}\n".encode())
    assert row[6:] == ([[span]] if span else [])


def test_colours_are_spans_in_the_units_of_a_browser() -> None:
    (row,) = rows("\U0001f600 \x1b[31mred\x1b[1m bold\x1b[0m \u00e9\n".encode())
    assert row[3:] == ["\U0001f600 red bold \u00e9", 0, None, [[3, 3, "f1"], [6, 5, "b f1"]]]


@together(
    ("style", "classes"),
    [
        ("", ""),
        ("1;2;3;4;7;9", "b d i u r s"),
        ("4:3", "u"),
        ("31;44", "f1 g4"),
        ("97;100", "f15 g8"),
        ("38;5;208", "x208"),
        ("38:5:208", "x208"),
        ("48;2;255;0;0", "y196"),
        ("38:2::255:255:255", "x231"),
        ("38;2;128;128;128", "x243"),
        ("58;5;1;4", "u"),
        ("53;5", ""),
    ],
)
def test_a_style_is_classes(style: str, classes: str) -> None:
    assert classes_of(style) == classes


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\u202egnirts\u202c",
    "\u2066a\u2069",
    "a\u0301" * 1000,
    "\x00\x01\x1b[2J\x9b31m\x7f",
    "\u2028\u2029",
    '"],[0,0,0,"',
    "\\n\\u0000",
]


@together("text", HOSTILE)
def test_what_a_log_says_stays_text(text: str) -> None:
    for row in rows(text.encode() + b"\xed\xa0\x80\xff\n"):
        shown = row[3]
        assert all(char == "\t" or char.isprintable() or char > "\x9f" for char in shown)
        assert not set(shown) & set("\u202e\u202c\u2066\u2069\x1b\x9b")
        assert shown.encode()


def test_rows_that_streams_share_can_be_numbered_for_each_viewer() -> None:
    shared = "\n".join(map(encoded, [Line(0, 3, 'a",\n', ""), Line(3, 5, "[0,", "")]))
    assert shared.count("\n") == 1
    assert [row[0] for row in json.loads(f"[{numbered(12, shared)}]")] == [12, 12]
    assert numbered(3, "") == ""


def test_a_live_row_has_its_key_where_that_is_not_its_time() -> None:
    second = 10**9
    lines = [
        Line(0, 1, "no time before"),
        Line(1, 2, "a time", "", 5 * second),
        Line(2, 3, "none of its own"),
        Line(3, 4, "an earlier time", "", 3 * second),
        Line(4, 5, "\x1b[1mbold\x1b[0m", "", 4 * second),
        Line(5, 6, "\x1b[1mnone\x1b[0m"),
        Line(6, 7, "later", "", 6 * second),
    ]
    with mock.patch("flarelog.viewers.web.rows.time_ns", return_value=7 * second):
        live = LiveRows(StreamInfo(StreamId("run-1", "kyoto", "log.txt"), 0, 0, 0, False), 0)
        numbers = [None, 9, 10, None, 11, None, None]
        live.numbering = cast(Numbering, SimpleNamespace(of=lambda _: numbers, text=(b"", 0)))
        live_rows = live.of(lines)
    found = json.loads(f"[{numbered(0, live_rows)}]")
    assert [row[7] if len(row) > 7 else None for row in found] == [7000, None, None, 5000, 5000, None, None]
    assert [row[8] if len(row) > 8 else None for row in found] == [None, 9, 10, None, 11, None, None]
    assert [row[5] if len(row) > 5 else None for row in found] == [None, 5000, None, 3000, 4000, None, 6000]
