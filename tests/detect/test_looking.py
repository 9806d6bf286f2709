"""Findings of a growing log: the same as those of a search of the whole log, whenever it is looked at."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.checksum import EMPTY_DIGEST
from flarelog.detect import (
    looking,
)
from flarelog.detect.aftermath import AFTER
from flarelog.detect.base import Finding
from flarelog.detect.looking import BLOCK, examine
from flarelog.detect.progress import Progress
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.lines.sgr import plain
from flarelog.lines.times import stamp
from flarelog.lines.zones import Stamps, zone_of
from flarelog.model import Attributes, Gap, Generation, Mark, StreamInfo
from tests.detect.cases import STREAM, Case, cases, searched
from tests.detect.test_detector import FULL, USUAL, a_log, attempts
from tests.often import often, table
from tests.rows import rows
from tests.twice import twice, wrong

UTC = zone_of("UTC")
BAR = b"".join(b"\rEpoch 1: %d%%|####| loss=0.3" % n for n in range(100)) + b"\n"
TRACEBACK = b"""Traceback (most recent call last):
  File "/src/train.py", line 12, in <module>
    main()
ValueError: the batch is empty

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/src/train.py", line 14, in <module>
    report()
RuntimeError: NCCL communicator was aborted
"""


def stamps() -> Stamps:
    assert UTC is not None
    return Stamps(UTC, 1_793_000_000 * 10**9)


def info(
    data: bytes, committed: int, marks: Iterable[Mark] = (), *, sealed: bool = False, begun: int = 1
) -> StreamInfo:
    seen = tuple(mark for mark in marks if mark.offset <= committed)
    return StreamInfo(STREAM, 0, committed, EMPTY_DIGEST, sealed, seen, begun=begun)


def looked(progress: Progress, data: bytes, committed: int, marks: Iterable[Mark] = (), **how: bool) -> Progress:
    """*progress*, or a new one, after a look at a log with so many bytes of *data*."""
    about = info(data, committed, marks, **how)
    if not progress.is_of(about):
        progress = Progress()
    for _ in examine(progress, about, lambda size, at: data[:committed][at : at + size], stamps):
        pass
    assert progress.seen == committed
    return progress


def part(data: bytes, size: int, at: int) -> bytes:
    return data[at : at + size]


def kept(progress: Progress) -> Progress:
    """*progress* as another process loads it."""
    return Progress.of(STREAM, json.loads(json.dumps(progress.record())))


def expected(data: bytes) -> list[Finding]:
    """The findings of *data*, as ``flarelog findings`` searches."""
    ranks = RankChooser(RankChoice())
    clock = stamps()
    return searched(
        data,
        stamped=clock.time,
        now=clock.now,
        rank=lambda line: ranks.rank(str(STREAM), line.offset, plain(line.text)),
    )


@settings(max_examples=often(15, 240), deadline=None)
@given(st.integers(0, 100_000), st.lists(st.integers(0, 1 << 30), max_size=12), st.lists(st.booleans(), max_size=12))
def test_a_growing_log_tells_what_a_search_of_it_does(seed: int, cuts: list[int], restarts: list[bool]) -> None:
    data = a_log(seed) + random.Random(seed).choice([b"", BAR, TRACEBACK, b"cp: No space left on device"])
    progress = Progress()
    ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for end, restarted in zip(ends, [*restarts, *([False] * len(ends))], strict=False):
        progress = looked(kept(progress) if restarted else progress, data, end)
        assert progress.findings == expected(data[:end])


@rows(cases("case")[:: often(14, 1)])
def test_each_labelled_line_is_found_however_it_comes(case: Case) -> None:
    usual = b"".join(USUAL[:40])
    data = usual + case.data + usual
    progress = Progress()
    for end in range(len(usual) - 40, len(usual) + len(case.data) + 200, often(97, 37)):
        progress = kept(looked(progress, data, end))
    assert looked(progress, data, len(data), sealed=True).findings == expected(data)


def test_a_look_that_was_lost_is_made_again() -> None:
    """After a kill between any two steps of a look the saved progress is the old or a later one; nothing is counted
    twice.
    """
    data = b"".join([*USUAL, TRACEBACK, b"cp: error: No space left on device\n" * 3, *USUAL]) * 5
    steps = sum(1 for _ in examine(Progress(), info(data, len(data)), lambda size, at: data[at : at + size], stamps))
    assert steps > 5
    whole = expected(data)
    for killed in range(0, steps, steps // often(4, 20)):
        progress = Progress()
        look = examine(progress, info(data, len(data)), lambda size, at: data[at : at + size], stamps)
        for _ in range(killed):
            next(look)
        assert looked(kept(progress), data, len(data)).findings == whole


@pytest.mark.parametrize("late", [False, True], ids=["in-order", "after-the-next-command"])
def test_attempts_are_told_apart_when_the_log_grows(late: bool) -> None:
    """A command's failure is a root even if an earlier command printed the same and exited with 0."""
    data, ends = attempts((b"begin\n" * 20 + FULL, 0), (FULL, 1), (FULL, 0))
    progress = Progress()
    for end in ends:
        known = [one for one in ends if one.offset <= end.offset - late]
        progress = kept(looked(progress, data, end.offset, known))
    progress = looked(progress, data, len(data), ends, sealed=True)
    assert progress.findings == searched(data, stamped=stamps().time, ends=ends)
    assert [(each.offset, each.count) for each in progress.findings] == [(120, 1), (120 + len(FULL), 2)]


def test_what_was_looked_at_is_not_read_again() -> None:
    line = b"2026-11-20 08:00:00 step 12 loss 0.3\n"
    data = line * 200_000
    progress = looked(Progress(), data, len(data) - len(line))
    read: list[int] = []

    def reading(size: int, at: int) -> bytes:
        read.append(size)
        return data[at : at + size]

    for _ in examine(progress, info(data, len(data)), reading, stamps):
        pass
    assert sum(read) == len(line)


def test_a_bar_of_hours_is_not_read_from_its_begin_each_time() -> None:
    data = BAR.replace(b"\n", b"") * 100
    progress, read = looked(Progress(), b"begun\n" * 20 + data, 120 + 3 * BLOCK), 0
    assert progress.at == 120

    def reading(size: int, at: int) -> bytes:
        nonlocal read
        read += size
        return (b"begun\n" * 20 + data)[at : at + size]

    for _ in examine(progress, info(data, 120 + 3 * BLOCK + 1000), reading, stamps):
        pass
    assert read == 1000
    whole = b"begun\n" * 20 + data + b"\ncp: error: No space left on device\n"
    assert [each.signature for each in looked(progress, whole, len(whole)).findings] == ["disk.full"]


def test_a_line_without_an_end_is_found_and_may_go_on() -> None:
    data = b"\n" * 20 + b"cp: error: No space left on device"
    progress = looked(Progress(), data, len(data))
    assert [each.signature for each in progress.findings] == ["disk.full"]
    data += b"s of the printer\n"
    assert looked(progress, data, len(data)).findings == expected(data)


OOM = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize("size", [30_000, 100_000, 900_000, 2_600_000, 5_000_000][: often(3, 5)])
@pytest.mark.parametrize("where", ["head", "before"])
def test_what_stands_behind_a_long_line_has_its_time(size: int, where: str) -> None:
    stamp = b"2026-11-20 08:00:00 " + (b"" if where == "head" else b"begun\n")
    data = b"step\n" * 30 + stamp + b"x " * (size // 2) + b"\ncp: error: No space left on device\n" + b"step\n" * 50
    progress = looked(Progress(), data, len(data) - 260)
    found = looked(kept(progress), data, len(data)).findings
    assert found == expected(data)
    assert [each.time for each in found] == [1_795_161_600 * 10**9]


@pytest.mark.parametrize(
    ("size", "where"), table([5_000, 60_000, 70_000, 900_000, 2_600_000], ["head", "tail", "both"])
)
def test_both_ends_of_a_long_line_are_looked_at(size: int, where: str) -> None:
    parts = [OOM + b" " if where != "tail" else b"", b"x" * size, b" " + OOM if where != "head" else b""]
    data = b"2026-11-20 08:00:00 step\n" * 30 + b"".join(parts) + b"\n" + b"step\n" * 50
    found = looked(Progress(), data, len(data)).findings
    assert found == expected(data)
    assert [(each.signature, each.offset, each.length) for each in found] == [("cuda.oom", 750, len(data) - 250 - 750)]
    assert "CUDA out of memory" in found[0].text


@pytest.mark.parametrize("count", [3, 900, often(8_000, 32_000)])
def test_a_state_of_a_bar_that_was_drawn_over_is_found(count: int) -> None:
    frames = [b"\rEpoch 1: %3d%%|####      | loss=0.3" % (100 * n // count) for n in range(count)]
    frames[count // 2] = b"\r" + OOM
    data = b"2026-11-20 08:00:00 step\n" * 30 + b"".join(frames) + b"\n" + b"step\n" * 50
    found = looked(Progress(), data, len(data)).findings
    assert [(each.signature, each.offset, each.length, each.count) for each in found] == [
        ("cuda.oom", 750, len(data) - 250 - 750, 1)
    ]
    assert found == expected(data)


def test_a_line_that_says_the_same_in_each_state_is_one() -> None:
    data = b"step\n" * 30 + b"".join(b"\r%3d%% loss=nan" % n for n in range(100)) + b"\n" + b"step\n" * 50
    found = looked(Progress(), data, len(data)).findings
    assert [(each.signature, each.count) for each in found] == [("loss.nan", 1)]
    assert found == expected(data)


def test_a_line_that_is_longer_than_all_is_looked_at_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PARTED", 3 << 20)
    data = b"step\n" * 30 + (b"y" * 1000 + b"\r") * 4000 + OOM + b"\nstep\n"
    assert [each.signature for each in looked(Progress(), data, len(data)).findings] == ["cuda.oom"]


def test_a_gap_tears_a_line() -> None:
    data = b"\n" * 20 + b"cp: a full No space" + b" left on device\n" * 2
    marks = (Gap(20 + 19, EMPTY_DIGEST, 100, "lost"),)
    assert looked(Progress(), data, len(data)).findings
    assert not looked(Progress(), data, len(data), marks).findings


def test_a_rank_that_is_told_later_holds_for_what_was_found_before() -> None:
    data = b"cp: error: No space left on device\n" * 30
    begun = Generation(0, EMPTY_DIGEST, "train.log", 0, "a")
    progress = looked(Progress(), data, 70, (begun,))
    assert [each.rank for each in progress.findings] == [None]
    told_ = Attributes(70, EMPTY_DIGEST, "rank:3")
    progress = looked(progress, data, len(data), (begun, told_))
    assert [(each.rank, each.count) for each in progress.findings] == [(3, 30)]


def test_another_log_of_the_same_name_begins_anew() -> None:
    data = b"cp: error: No space left on device\n" * 30
    progress = looked(Progress(), data, len(data))
    assert not progress.is_of(info(data, len(data), begun=2))
    assert not progress.is_of(info(data, len(data) - 1))
    assert progress.is_of(info(data, len(data)))


def test_records_of_a_container_runtime_are_looked_at_as_lines() -> None:
    records = [
        b"2026-11-20T08:00:00.000000000Z stderr P cp: error: No sp\n",
        b"2026-11-20T08:00:00.100000000Z stderr F ace left on device\n",
        b"2026-11-20T08:00:01.000000000Z stdout F step 2\n",
    ]
    data = b"".join(records * 20)
    progress = Progress()
    for end in range(0, len(data), 61):
        progress = kept(looked(progress, data, end))
    progress = looked(progress, data, len(data))
    assert progress.findings == expected(data)
    assert [each.count for each in progress.findings] == [20]
    assert progress.at > 0


@pytest.mark.parametrize(("lines", "restarts"), table([4000, 40, 4], [False, True]))
def test_a_look_that_begins_in_the_middle_tells_an_hour_apart_that_a_clock_shows_twice(
    lines: int, restarts: bool
) -> None:
    every = max(2, lines // 8)
    data, times = twice(lines, 7200 / lines, wrong(every))
    progress = Progress()
    for end in [*range(0, len(data), 9000 if lines > 40 else 30), len(data)]:
        progress = kept(progress) if restarts else progress
        about = replace(info(data, end), marks=(Attributes(0, 0, "zone:Europe/Berlin"),))
        for _ in examine(progress, about, partial(part, data[:end]), stamps):
            pass
        assert {each.offset: each.time for each in progress.findings} == {
            each.offset: times[each.offset] for each in progress.findings
        }
    assert len(progress.findings) == lines // every


def test_a_time_without_a_year_is_of_the_year_in_which_it_came() -> None:
    data, progress = b"Oct 25 00:20:00 h app: RuntimeError: CUDA out of memory\n", Progress()
    about = replace(info(data, len(data)), grown=1_764_000_000_000)  # grown on 2025-11-24, looked at in 2026
    for _ in examine(progress, about, partial(part, data), stamps):
        pass
    assert [each.time for each in progress.findings] == [stamp("2025-10-25T00:20:00Z")]


FULL_DISK = b"cp: No space left on device\n"
MANY = b"".join(b"2026-10-25 08:00:01 INFO step %d\n" % n for n in range(4000))


@pytest.mark.parametrize(
    ("data", "time"),
    [
        pytest.param(b"13/10/2026 09:00:00 INFO up\n05/11/2026 10:00:05 ERROR " + FULL_DISK, "2026-11-05T10:00:05Z"),
        pytest.param(b"05/11/2026 10:00:05 ERROR " + FULL_DISK + b"13/11/2026 09:00:00 up\n", "2026-11-05T10:00:05Z"),
        pytest.param(
            b"05/11/2025 10:00:00 INFO x\n" * 9000
            + b"05/11/2025 10:00:05 ERROR "
            + FULL_DISK
            + b"13/11/2025 09:00:00 INFO x\n" * 9000,
            "2025-11-05T10:00:05Z",
        ),
        pytest.param(
            b"1792900801.586 0 step\n1792900802.586 1 step\n1792900803.586 " + FULL_DISK + b"1792900804.0 2 step\n",
            "2026-10-25T04:00:03.586Z",
        ),
        pytest.param(
            b"2026-10-25 08:00:00 INFO a\n2027-11-20 08:00:00 INFO not after\n"
            + FULL_DISK
            + b"2026-10-25 08:00:10 INFO x\n",
            "2026-10-25T08:00:00Z",
        ),
        pytest.param(
            b"2026-10-25 08:00:00 INFO a\n1970-01-01 00:00:05 INFO rtc reset\n"
            + FULL_DISK
            + b"2026-10-25 08:00:10 INFO x\n",
            "2026-10-25T08:00:00Z",
        ),
        pytest.param(MANY + b"1970-01-01 00:00:05 INFO rtc reset\n" + FULL_DISK + MANY, "2026-10-25T08:00:01Z"),
    ],
)
def test_a_finding_has_the_time_that_its_line_has_in_the_log(data: bytes, time: str) -> None:
    assert [each.time for each in looked(Progress(), data, len(data)).findings] == [stamp(time)]


def test_what_tells_no_time_keeps_that_at_which_it_came() -> None:
    data, progress, seen = TRACEBACK + b"a line..\n" * AFTER * 2, Progress(), list[list[int]]()
    for grown, behind in enumerate((0, 9, 9 * AFTER, 18 * AFTER), start=100):
        about = replace(info(data, len(TRACEBACK) + behind), grown=grown)
        for _ in examine(progress, about, partial(part, data), stamps):
            pass
        progress = kept(progress)
        seen.append([each.came for each in progress.findings])
    assert seen == [[100]] * 4
    assert not progress.late


def test_a_compressed_file_tells_nothing() -> None:
    data = b"\x1f\x8b\x08" + b"No space left on device\n" * 40
    assert not looked(looked(Progress(), data, 30), data, len(data)).findings


def test_tracebacks_without_an_end_are_not_looked_at_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "BLOCK", 4 << 10)
    monkeypatch.setattr(looking, "LINE", 16 << 10)
    block = b"".join(b"[rank%d]: Traceback (most recent call last):\n" % (n % 9) for n in range(2000))
    progress = looked(Progress(), block, len(block))
    assert len(block) - progress.at <= 16 << 10


def test_findings_that_are_too_many_are_counted() -> None:
    data = b"\n" * 20 + b"".join(b"ModuleNotFoundError: No module named 'n%d'\n" % n for n in range(50))
    progress = looked(Progress(), data, len(data))
    many = len(progress.findings)
    assert many > 10, progress.findings
    progress.trim(10)
    assert (len(progress.findings), progress.more) == (10, many - 10)
    assert progress.findings == expected(data)[:10]
