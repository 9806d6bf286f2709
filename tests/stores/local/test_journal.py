"""A stream's journal: its replay after damage, and its compaction to fewer lines."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.delivery.receiver import KNOWN, MAX_MARKS, Holder
from flarelog.exit_marks import Exit
from flarelog.model import Ended, Gap, Generation, Mark, Redaction, StreamId
from flarelog.stores import lines
from flarelog.stores.lines import records
from flarelog.stores.local.journal import (
    LOST,
    SPACING,
    STRETCHES,
    Growing,
    Journal,
    growth,
    holder_line,
    holder_of,
    length_line,
    replay,
    seal_line,
    stream_line,
)
from flarelog.stores.marks import mark_line
from flarelog.stores.runs import run_line
from tests.often import often
from tests.rows import together

STREAM = StreamId("run-1", "site-1", "rank-0/log.txt")
MARKS: list[Mark] = [
    Generation(0, 0, "log.txt", 0, "fh:01", 10, 99),
    Gap(20, 5, 3, "truncated before they were read"),
    Ended(20, 5, "rotated"),
]
LINES = [
    stream_line(STREAM),
    holder_line(1, b"A"),
    mark_line(0, MARKS[0]),
    length_line(10, 1, 1),
    holder_line(2, b"B"),
    length_line(20, 5, 1),
    mark_line(1, MARKS[1]),
    mark_line(2, MARKS[2]),
    length_line(30, 7, 3),
    seal_line(30, 7),
]
WHOLE = b"".join(LINES)
MARK = '{"t":"mark","i":0,"kind":"ended","mark":{"offset":%s,"digest":0,"reason":%s}}'


def said(journal: Journal) -> tuple[object, ...]:
    """The journal's statements about its stream, whatever its lines."""
    return journal.stream, journal.committed, journal.digest, journal.marks, journal.holder, journal.sealed


def test_what_was_written_is_read_again() -> None:
    journal = replay(WHOLE)
    assert said(journal) == (STREAM, 30, 7, MARKS, Holder(((1, b"A"), (2, b"B"))), True)
    assert (journal.records, journal.damaged) == (len(LINES), 0)


def test_a_seal_says_what_was_masked_and_compacting_keeps_it() -> None:
    redacted = Redaction(2, 30)
    journal = replay(b"".join((*LINES[:-1], seal_line(30, 7, redacted))))
    assert (journal.sealed, journal.redacted) == (True, redacted)
    again = replay(journal.compacted())
    assert (again.sealed, again.redacted) == (True, redacted)
    assert replay(WHOLE).redacted is None
    for wrong in (b"7", b"[1]", b'["a",1]', b"[-1,0]", b"[1,2,3]"):
        line = b'{"t":"seal","n":30,"d":7,"x":%b}' % wrong
        journal = replay(b"".join(LINES[:-1]) + b"%08x %b\n" % (extend(0, line), line))
        assert (journal.sealed, journal.redacted, journal.damaged) == (False, None, 1)


@pytest.mark.parametrize("seed", range(often(8, 20)))
def test_a_journal_that_grows_is_read_on_as_if_it_were_read_anew(seed: int, tmp_path: Path) -> None:
    """Between two looks the journal gets lines or halves of lines, is rewritten in place, or is replaced by another
    file.
    """
    rng = random.Random(seed)
    path, growing = tmp_path / "journal", Growing()
    lines = [*LINES, b"damaged\n", b"\n", length_line(15, 3, 1), length_line(40, 9, 3)]
    raw = b"".join(rng.choices(lines, k=30))
    path.write_bytes(raw)
    for _ in range(60):
        with path.open("rb") as file:
            grown = growing.read(file.fileno())
        assert (said(grown), grown.records, grown.damaged) == (
            said(replay(raw)),
            replay(raw).records,
            replay(raw).damaged,
        )
        match rng.randrange(6):
            case 0:
                raw = replay(raw).compacted()
                (tmp_path / "new").write_bytes(raw)
                os.rename(tmp_path / "new", path)
            case 1:  # in place, to any length
                raw = b"".join(rng.choices(lines, k=rng.randrange(20)))
                path.write_bytes(raw)
            case 2:
                raw = raw[: rng.randrange(len(raw) + 1)]
                os.truncate(path, len(raw))
            case _:
                more = b"".join(rng.choices(lines, k=rng.randrange(4)))
                raw += more[: rng.randrange(len(more) + 1)] if rng.random() < 0.3 else more
                path.write_bytes(raw)


def test_of_a_journal_that_grows_only_what_was_appended_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, growing = tmp_path / "journal", Growing()
    path.write_bytes(b"".join(length_line(n, n, 0) for n in range(1, 1000)))
    taken: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        data = pread(fd, size, at)
        taken.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    with path.open("r+b") as file:
        assert growing.read(file.fileno()).committed == 999
        assert sum(taken) >= path.stat().st_size
        taken.clear()
        file.seek(0, os.SEEK_END)
        file.write(length_line(1000, 1, 0))
        file.flush()
        assert growing.read(file.fileno()).committed == 1000
    assert sum(taken) < 1000


TIMED = [
    stream_line(STREAM, 1000),
    holder_line(1, b"A", 1001),
    mark_line(0, replace(MARKS[0], at=1002, clock=902)),
    length_line(10, 1, 1, 1003),
    length_line(20, 5, 1, 2003),
    mark_line(1, replace(MARKS[1], at=2004)),
    length_line(30, 7, 2, 3003),
    seal_line(30, 7, None, 3004),
]


def test_times_are_read_again_and_compacting_keeps_them() -> None:
    raw = b"".join(TIMED)
    for journal in (replay(raw), replay(replay(raw).compacted(raw))):
        assert (journal.begun, journal.grown, journal.ended) == (1000, 3003, 3004)
        assert [(mark.at, mark.clock) for mark in journal.marks] == [(1002, 902), (2004, 0)]
    compacted = replay(raw).compacted(raw)
    assert holder_line(1, b"A", 1001) in compacted
    assert growth(compacted) == growth(raw) == [(1003, 10, 1), (2003, 20, 5), (3003, 30, 7)]


def test_a_time_changes_nothing_of_what_a_journal_says_and_none_is_needed() -> None:
    assert replay(WHOLE).marks == [*MARKS]
    untimed = replay(WHOLE)
    assert (untimed.begun, untimed.grown, untimed.ended, growth(WHOLE)) == (0, 0, 0, [])
    assert [(mark.at, mark.clock) for mark in untimed.marks] == [(0, 0)] * 3
    assert replay(b"".join(TIMED)).marks == MARKS[:2]


def test_older_versions_read_a_mark_that_has_times() -> None:
    """They demand exactly the fields that they know within the mark itself."""
    (record,) = records(TIMED[2])
    assert record is not None
    assert Generation(**record["mark"]) == MARKS[0]


def test_older_versions_read_the_end_of_a_command_as_a_mark_that_says_nothing() -> None:
    body = json.loads(mark_line(0, Exit(0, 0, "aa", 3)).partition(b" ")[2])
    assert (body["kind"], body["mark"]) == ("attributes", {"offset": 0, "digest": 0, "words": ""})


@together(
    "said", [[], 1, {"status": -1}, {"status": "x"}, {"process": 1}, {"signal": 1 << 64}, {"ended": True}, {"oom": []}]
)
def test_a_command_that_ended_as_none_can_is_a_damaged_line(said: object) -> None:
    one = {"t": "mark", "i": 0, "kind": "attributes", "mark": {"offset": 0, "digest": 0, "words": ""}, "exit": said}
    read = replay(stream_line(STREAM) + line(json.dumps(one)))
    assert (read.damaged, read.marks) == (1, [])


def test_what_a_later_version_says_of_an_end_is_passed_over() -> None:
    said = {"process": "aa", "status": 3, "oom": "perhaps", "weather": [1]}
    one = {"t": "mark", "i": 0, "kind": "attributes", "mark": {"offset": 0, "digest": 0, "words": ""}, "exit": said}
    read = replay(stream_line(STREAM) + line(json.dumps(one)))
    assert (read.damaged, read.marks) == (0, [Exit(0, 0, "aa", 3)])


def test_a_line_whose_time_makes_no_sense_is_damaged() -> None:
    for wrong in (b"-1", b'"1"', b"1.5", b"null"):
        line = b'{"t":"length","n":30,"d":7,"m":0,"at":%b}' % wrong
        journal = replay(b"%08x %b\n" % (extend(0, line), line))
        assert (journal.committed, journal.damaged) == (0, 1)
        assert growth(b"%08x %b\n" % (extend(0, line), line)) == []


def test_what_a_crash_cost_is_none_of_the_growth_and_neither_is_a_damaged_line() -> None:
    raw = length_line(10, 1, 0, 1) + length_line(90, 2, 0, 2) + length_line(50, 3, 0, 3)
    raw += length_line(5, 3, 0, 3)[:-4] + b"xx}\n" + length_line(60, 3, 0, 4)[:20]
    assert growth(raw) == [(1, 10, 1), (3, 50, 3)]
    assert growth(raw, 40) == [(1, 10, 1)]


def test_a_compacted_journal_tells_when_nothing_came() -> None:
    """A day with a byte every four seconds and an hour of silence takes a few hundred lines."""
    seconds = [second for second in range(4, 86_401, 4) if not 40_000 <= second < 43_600]
    raw = b"".join(length_line(n, n, 0, 1000 * second) for n, second in enumerate(seconds, 1))
    compacted = replay(raw).compacted(raw)
    assert len(compacted) < 20_000
    points = growth(compacted)
    assert len(points) <= 2 * STRETCHES + 2
    assert (points[0], points[-1]) == ((4000, 1, 1), (86_400_000, 20_700, 20_700))
    longest = max(pairwise(points), key=lambda pair: pair[1][0] - pair[0][0])
    assert [at for at, _, _ in longest] == [39_996_000, 43_600_000]
    again = replay(compacted).compacted(compacted)
    assert again == compacted


def test_an_empty_journal_says_nothing() -> None:
    assert said(replay(b"")) == (None, 0, 0, [], Holder(), False)


def test_a_torn_line_is_dropped_wherever_it_is_torn() -> None:
    whole = replay(b"".join(LINES[:-2]))
    for end in range(1, len(LINES[-2])):
        journal = replay(b"".join(LINES[:-2]) + LINES[-2][:end])
        assert said(journal) == said(whole)
        assert journal.damaged == 1


def test_a_changed_byte_costs_its_own_line_only() -> None:
    rng = random.Random(1)
    for number, line in enumerate(LINES):
        raw = bytearray(line)
        at = rng.randrange(len(raw) - 1)
        raw[at] ^= 1 << rng.randrange(5)
        if raw[at] == 0x0A:
            continue
        journal = replay(b"".join(LINES[:number]) + bytes(raw) + b"".join(LINES[number + 1 :]))
        assert journal.damaged == 1, number
        assert journal.records == len(LINES) - 1, number


@together(
    ("lost", "said_of_it"),
    [
        pytest.param(3, lambda j: (j.committed, j.marks, j.sealed) == (30, MARKS, True), id="an-inner-length"),
        pytest.param(
            8, lambda j: (j.committed, j.digest, j.sealed) == (20, 5, False), id="the-last-length-and-its-seal"
        ),
        pytest.param(
            6, lambda j: j.marks == [MARKS[0], Gap(20, 5, 0, LOST), MARKS[2]], id="in-the-place-of-a-mark-stands-a-gap"
        ),
        pytest.param(
            7, lambda j: j.marks == [*MARKS[:2], Gap(20, 5, 0, LOST)], id="in-the-place-of-the-last-mark-as-well"
        ),
        pytest.param(1, lambda j: j.holder.epoch == 2 and j.holder.producers == ((2, b"B"),), id="an-old-holder"),
        pytest.param(9, lambda j: (j.committed, j.sealed) == (30, False), id="the-seal"),
        pytest.param(0, lambda j: j.stream is None, id="the-name"),
    ],
)
def test_what_a_lost_line_costs(lost: int, said_of_it: Callable[[Journal], bool]) -> None:
    journal = replay(b"".join(LINES[:lost]) + b"x" * 40 + b"\n" + b"".join(LINES[lost + 1 :]))
    assert journal.damaged == 1
    assert said_of_it(journal), journal


def test_a_mark_behind_the_last_durable_byte_is_not_believed() -> None:
    assert replay(b"".join(LINES[:6]) + mark_line(1, Gap(25, 9, 1, "?"))).marks == MARKS[:1]


@together(
    "line",
    [
        pytest.param(run_line("run-1", "running"), id="a-kind-that-is-not-known"),
        pytest.param(b"\n", id="an-empty-line"),
        pytest.param(b"\0" * 64 + b"\n", id="nul-bytes"),
        pytest.param(b"12345678 {}\n", id="a-wrong-checksum"),
        pytest.param(b"%08x []\n" % extend(0, b"[]"), id="no-record"),
        pytest.param(b"%08x {}\n" % extend(0, b"{}"), id="a-record-without-a-kind"),
        pytest.param(mark_line(MAX_MARKS + 1, MARKS[0]), id="a-mark-with-an-absurd-number"),
    ],
)
def test_a_line_that_makes_no_sense_changes_nothing(line: bytes) -> None:
    for at in range(1, len(LINES)):
        assert said(replay(b"".join(LINES[:at]) + line + b"".join(LINES[at:]))) == said(replay(WHOLE))


def test_a_mark_with_a_number_that_is_taken_is_not_believed() -> None:
    assert replay(WHOLE + mark_line(0, Ended(5, 5, "other"))).marks == MARKS


@pytest.mark.parametrize(
    ("line", "sealed"),
    [
        pytest.param(length_line(31, 8, 0), False, id="later-bytes-unseal"),
        pytest.param(mark_line(3, Ended(30, 7, "removed")), False, id="a-later-mark-unseals"),
        pytest.param(holder_line(3, b"C"), True, id="a-new-producer-alone-does-not"),
        pytest.param(seal_line(29, 7), False, id="a-seal-of-another-length-is-none"),
        pytest.param(seal_line(30, 8), False, id="a-seal-of-another-digest-is-none"),
    ],
)
def test_what_unseals_a_stream(line: bytes, sealed: bool) -> None:
    assert replay(WHOLE + line).sealed is sealed


def test_a_later_version_is_not_read_as_this_one() -> None:
    body = b'{"t":"stream","v":2,"run":"run-1","site":"site-1","log":"log.txt"}'
    journal = replay(b"%08x %s\n" % (extend(0, body), body))
    assert (journal.stream, journal.damaged) == (None, 1)


def test_rolling_back_forgets_bytes_marks_and_the_seal() -> None:
    journal = replay(WHOLE)
    journal.roll_back(20)
    assert said(journal) == (STREAM, 20, 5, MARKS, Holder(((1, b"A"), (2, b"B"))), False)
    journal.roll_back(10)
    assert said(journal) == (STREAM, 10, 1, MARKS[:1], Holder(((1, b"A"), (2, b"B"))), False)


@together("upto", range(len(LINES) + 1))
def test_a_compacted_journal_says_the_same(upto: int) -> None:
    journal = replay(b"".join(LINES[:upto]))
    again = replay(journal.compacted())
    assert said(again) == said(journal)
    assert again.records == journal.records
    assert again.damaged == 0


def test_a_compacted_journal_grows_with_the_bytes_and_not_with_the_commits() -> None:
    journal = Journal(stream=STREAM)
    for n in range(1, 20_001):
        journal.add_length(n * 1000, n)
    assert len(journal.lengths) < 20_000_000 / SPACING + 4
    assert journal.lengths[-2:] == [(19_999_000, 19_999), (20_000_000, 20_000)]
    assert all(
        later[0] - earlier[0] <= SPACING + 1000
        for earlier, later in zip(journal.lengths, journal.lengths[1:], strict=False)
    )
    assert said(replay(journal.compacted())) == said(journal)


def test_who_has_a_stream_is_found_without_the_other_lines() -> None:
    assert holder_of(WHOLE) == replay(WHOLE).holder
    assert holder_of(b"") == Holder()
    assert holder_of(WHOLE + holder_line(3, b"C")[:-1]) == Holder(((1, b"A"), (2, b"B")))
    assert holder_of(b"x" + WHOLE.replace(b"\n", b"\0", 1)) == Holder(((2, b"B"),))


def test_a_compacted_journal_does_not_grow_with_its_producers() -> None:
    raw = stream_line(STREAM) + b"".join(holder_line(n, b"producer-%d" % n) for n in range(1, 1001))
    journal = replay(raw)
    assert journal.holder.epoch == 1000
    assert len(journal.compacted().splitlines()) == 1 + KNOWN
    assert said(replay(journal.compacted())) == said(journal)


def test_any_bytes_are_a_journal_of_something_or_of_nothing() -> None:
    rng = random.Random(4)
    for _ in range(2_000):
        raw = bytearray(WHOLE)
        for _ in range(rng.randint(1, 30)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randint(0, 20)] = rng.randbytes(rng.randint(0, 20))
        journal = replay(bytes(raw))
        assert journal.committed in (0, 10, 20, 30)
        for mark, written in zip(journal.marks, MARKS, strict=False):
            assert mark == written or (isinstance(mark, Gap) and mark.reason == LOST)
        assert all(mark.offset <= journal.committed for mark in journal.marks)
        assert sum(record is not None for record in records(bytes(raw))) >= journal.records - journal.damaged


def line(body: str) -> bytes:
    raw = body.encode()
    return b"%08x %s\n" % (extend(0, raw), raw)


@together(
    "body",
    [
        pytest.param("[" * 100_000, id="nested-without-end"),
        pytest.param('{"t":"length","n":1e999,"d":0}', id="an-infinite-length"),
        pytest.param('{"t":"length","n":-1,"d":0}', id="a-negative-length"),
        pytest.param('{"t":"length","n":9223372036854775808,"d":0}', id="a-length-that-no-file-has"),
        pytest.param('{"t":"length","n":1,"d":4294967296}', id="a-digest-that-is-no-crc"),
        pytest.param('{"t":"length","n":1,"d":0,"m":0.5}', id="half-a-mark"),
        pytest.param('{"t":"holder","e":1e999,"p":""}', id="an-infinite-epoch"),
        pytest.param('{"t":"stream","v":1,"run":"run-1","site":"site-1","log":3}', id="a-log-that-is-a-number"),
        pytest.param(MARK % ('"0"', '"rotated"'), id="an-offset-that-is-a-text"),
        pytest.param(MARK % ("-1", '"rotated"'), id="a-negative-offset"),
        pytest.param(MARK % ("0", "3"), id="a-reason-that-is-a-number"),
        pytest.param(MARK % ("0", '"\\ud800"'), id="a-text-that-cannot-be-sent"),
    ],
)
def test_a_line_that_makes_no_sense_is_dropped_though_its_checksum_is_right(body: str) -> None:
    journal = replay(line(body) + WHOLE)
    assert said(journal) == said(replay(WHOLE))
    assert journal.damaged == 1


def test_one_mark_more_than_a_stream_may_have_is_dropped() -> None:
    last = Ended(10, 1, "rotated")
    lines = length_line(10, 1, MAX_MARKS - 1) + mark_line(MAX_MARKS - 1, last) + mark_line(MAX_MARKS, last)
    journal = replay(lines)
    assert (len(journal.marks), journal.damaged) == (MAX_MARKS, 1)


@together(
    ("made", "record"),
    [
        pytest.param(
            stream_line(STREAM, 7),
            {"t": "stream", "v": 1, "run": "run-1", "site": "site-1", "log": "rank-0/log.txt", "at": 7},
            id="stream",
        ),
        pytest.param(holder_line(3, b"\x00A", 7), {"t": "holder", "e": 3, "p": "0041", "at": 7}, id="holder"),
        pytest.param(holder_line(3, b"A"), {"t": "holder", "e": 3, "p": "41"}, id="holder-without-a-time"),
        pytest.param(length_line(5, 6, 1, 7), {"t": "length", "n": 5, "d": 6, "m": 1, "at": 7}, id="length"),
        pytest.param(seal_line(5, 6), {"t": "seal", "n": 5, "d": 6}, id="seal"),
        pytest.param(
            seal_line(5, 6, Redaction(2, 9), 7), {"t": "seal", "n": 5, "d": 6, "x": [2, 9], "at": 7}, id="masked-seal"
        ),
    ],
)
def test_the_lines_of_every_log_are_those_that_json_would_make(made: bytes, record: dict[str, object]) -> None:
    assert made == lines.line(record)
