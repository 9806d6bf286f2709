"""A finding is shown once, below its line; a traceback at a log's end counts once nothing follows it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flarelog.detect.table import Table
from flarelog.lines.line import Line, Note
from flarelog.model import StreamId
from flarelog.viewers.flow import Item
from flarelog.viewers.noting import QUIET, Noting

KYOTO, LYON = StreamId("run-1", "kyoto", "log.txt"), StreamId("run-1", "lyon", "log.txt")
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "train.py", line 7, in <module>',
    "    step()",
    "ValueError: loss is negative",
)


class Log:
    """Consecutive lines of one stream."""

    def __init__(self, noting: Noting, stream: StreamId = KYOTO) -> None:
        self.noting, self.stream, self.end = noting, stream, 0

    def says(self, *texts: str) -> list[str]:
        """The shown items of *texts*; notes as ``-- signature``."""
        items: list[Item] = []
        for text in texts:
            items.append(Line(self.end, self.end + len(text) + 1, text))
            self.end += len(text) + 1
        return shown(self.noting.noted(self.stream, items))


def shown(items: Sequence[Item]) -> list[str]:
    return [f"-- {item.event['signature']}" if isinstance(item, Note) else item.text for item in items if item]


@pytest.fixture
def noting() -> Noting:
    return Noting(lambda stream, line: None, Table)


def test_trouble_is_said_below_its_line_and_once(noting: Noting) -> None:
    log = Log(noting)
    assert log.says("step 1") == ["step 1"]
    assert log.says("step 2", MEMORY) == ["step 2", MEMORY, "-- cuda.oom"]
    assert log.says(MEMORY, "step 3") == [MEMORY, "step 3"]
    assert Log(noting, LYON).says(MEMORY) == [MEMORY, "-- cuda.oom"], "another log's is news"


def test_a_note_says_what_it_means_and_what_to_do(noting: Noting) -> None:
    items = noting.noted(KYOTO, [Line(5, 5 + len(MEMORY), MEMORY)])
    note = items[-1]
    assert isinstance(note, Note)
    assert note.offset == 5 + len(MEMORY)
    assert note.text.startswith("── cuda.oom (root): ")
    assert (note.event["event"], note.event["at"], note.event["role"]) == ("finding", 5, "root")


def test_a_traceback_is_said_behind_its_last_line(noting: Noting) -> None:
    log = Log(noting)
    assert log.says(*TRACEBACK[:2]) == list(TRACEBACK[:2])
    assert log.says(*TRACEBACK[2:]) == list(TRACEBACK[2:])
    assert log.says("cleaning up") == ["cleaning up", "-- python.traceback"]


def test_a_traceback_at_the_end_is_said_when_nothing_follows(noting: Noting) -> None:
    noting.settled(100.0)
    Log(noting).says(*TRACEBACK)
    assert noting.settled(100.0 + QUIET / 2) == []
    [(stream, items)] = noting.settled(100.0 + QUIET)
    assert (stream, shown(items)) == (KYOTO, ["-- python.traceback"])
    assert noting.settled(200.0) == []


def test_where_nothing_goes_wrong_no_signature_is_loaded() -> None:
    def load() -> Table:
        raise AssertionError("nobody needs them")

    noting = Noting(lambda stream, line: None, load)
    assert Log(noting).says("step 1", "loss 0.3") == ["step 1", "loss 0.3"]
    assert noting.settled(50.0) == []
