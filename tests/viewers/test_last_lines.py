"""The last lines of a log equal those of the whole log: for every sample, every cut and every number."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from flarelog.render.container import Renderer
from flarelog.viewers import reading as reads
from flarelog.viewers.flow import View
from flarelog.viewers.selection import Selection
from tests.often import often
from tests.render.test_order import Rich, Tqdm
from tests.render.test_screen import KEPT, SHARED, on_a_terminal
from tests.rows import rows
from tests.viewers.held import RUN, Held
from tests.viewers.test_following import read

SAMPLES = sorted(path for path in (SHARED / "samples" if SHARED else KEPT).rglob("*.log"))
NUMBERS = (0, 1, 2, 3, 10, 100, 1000)
REDRAWN = b"start\n\r 0%\n" + b"".join(b"step %d\n\x1b[%dA\r%2d%%\x1b[%dB\r" % (n, n + 2, n, n + 2) for n in range(40))


def last(data: bytes, number: int, *, steps: bool = False, follow: bool = False) -> list[str]:
    view = View(new=lambda: Renderer(steps=steps), notes=False)
    shown = read(Held({"a/log.txt": data}, 5000), Selection(RUN, tail=number), view, follow=follow)
    return [line.removeprefix("a: ") for line in shown]


def whole(data: bytes, *, steps: bool = False) -> list[str]:
    renderer = Renderer(steps=steps)
    return [line.text for line in renderer.feed(data) + renderer.close()]


def cuts(data: bytes) -> list[int]:
    return sorted({len(data), len(data) - 1, *(len(data) * part // 7 for part in range(1, 7)), data.rfind(b"\n") + 1})


@rows([(path, steps) for path in SAMPLES for steps in (False, True)], at_once=12)
def test_the_last_lines_are_those_of_the_whole(row: tuple[Path, bool]) -> None:
    path, steps = row
    data = path.read_bytes()[-often(2_000, 300_000) :]
    with mock.patch.object(reads, "TAIL_WINDOW", 1 << 10):
        for cut in {*cuts(data)[:: often(9, 1)], len(data)}:
            part = data[:cut]
            lines = whole(part, steps=steps)
            for number in NUMBERS[:: often(2, 1)]:
                assert last(part, number, steps=steps) == lines[max(0, len(lines) - number) :], (cut, number)


@pytest.mark.parametrize("follow", [False, True], ids=["logs", "follow"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(REDRAWN, id="a-bar-above-the-lines"),
        pytest.param(REDRAWN + b"an open line", id="a-line-without-an-end"),
        pytest.param(
            b"one\n" * 99 + b"\n\rinner: 45%|####      | 450/1000 [00:10]\x1b[A\router: 10%" * often(250, 2000),
            id="ends-of-lines-that-make-no-rows",
        ),
        pytest.param(Tqdm([("draw", 1, 7), ("write", 1, 3), ("draw", 0, 1)] * 60, 2, b"%d: %d%%").data, id="tqdm"),
        pytest.param(Rich([("draw", 1, 7), ("write", 1, 3), ("draw", 0, 1)] * 60, 3, b"%d: %d%%").data, id="rich"),
    ],
)
def test_no_more_lines_than_were_asked_for_and_the_oldest_first(data: bytes, follow: bool) -> None:
    rows = [row.rstrip() for row in whole(data)]
    assert [row for row in on_a_terminal(data) if row] == [row for row in rows if row]
    for number in (1, 2, 40, 1000):
        assert [row.rstrip() for row in last(data, number, follow=follow)] == rows[-number:], number


def test_a_log_that_begins_with_plain_lines_is_plain_at_its_end_too() -> None:
    data = b"plain\n" * 100 + b"2026-11-20T08:00:00Z stdout F a record\n" * 3000
    assert last(data, 3) == whole(data)[-3:]
    data = b"2026-11-20T08:00:00Z stdout F a record\n" * 3000 + b"plain\n" * 300 + data[-390:]
    assert last(data, 12) == whole(data)[-12:]
