"""A row shows that drawing has removed something of its line."""

from __future__ import annotations

import json

from flarelog.lines.line import Rest, Stripped
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.viewers.web.controls import marked
from flarelog.viewers.web.rows import STRIPPED, LiveRows, encoded
from tests.rows import together


def removed(data: bytes) -> list[bool]:
    renderer = Renderer("plain")
    return [type(row) is Stripped for row in marked(data, 0, renderer.feed(data) + renderer.close())]


@together(
    ("line", "is_removed"),
    [
        (b"plain \xe2\x94\x80 text\twith a tab", False),
        (b"\x1b[1;32mcolours\x1b[0m\x1b[K and the end of the line", False),
        (b"\r 10%\r 20%\x1b[A", False),
        (b"a line of Windows\r", False),
        (b"a bell\x07", True),
        (b"\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x1b\\", True),
        (b"to the right\x1b[5C", True),
        (b"a NUL \x00", True),
        ("a soft\xadhyphen, \u200bno width".encode(), True),
        (b"\x1b[1m\x1b[?25l", True),
    ],
)
def test_a_line_that_lost_something_is_marked(line: bytes, is_removed: bool) -> None:
    assert removed(b"above\n" + line + b"\nbelow\n")[1] is is_removed


def test_a_row_whose_line_is_not_held_stays_as_it_is() -> None:
    row = Rest(0, 10, "of a line")
    assert marked(b"\x07" * 10, 0, [row, None]) == [row]
    assert [type(one) for one in marked(b"\x07\n", 20, [row])] == [Rest]


def test_live_rows_are_marked_though_their_bytes_come_in_pieces() -> None:
    live = LiveRows(StreamInfo(StreamId("run", "site", "log"), 0, 0, 0, False), 100)
    renderer = Renderer("plain")
    renderer.jump(100)
    flags: list[int] = []
    data = b"one\ntwo \x07bells\n\x1b[31mred\x1b[0m\n"
    for at in range(0, len(data), 3):
        live.numbering.feed(100 + at, data[at : at + 3])
        items = renderer.feed(data[at : at + 3]) + renderer.settle()
        flags += [json.loads(f"[0,{row}")[4] for row in live.of(items).split("\n") if row]
    assert flags == [0, STRIPPED, 0]


def test_a_stripped_row_says_so() -> None:
    assert json.loads(f"[0,{encoded(Stripped(0, 3, 'x'))}")[4] == STRIPPED
