"""Stamps without a zone, compared with zoneinfo's times of the moments at which they were written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.lines import zones
from flarelog.lines.line import Line
from flarelog.lines.times import SECOND, stamp
from flarelog.lines.zones import Spoken, Stamps, offsets, spoken, zone_of
from flarelog.model import Attributes, Generation, Mark, StreamId, StreamInfo
from flarelog.render.past import Past
from tests.often import often
from tests.rows import together

CHANGES = [  # moments shortly before a clock change in that zone
    ("Europe/Berlin", datetime(2026, 10, 25, 0, 50, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 3, 29, 0, 50, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 5, 50, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 14, 50, tzinfo=UTC)),  # a change by half an hour
    ("Asia/Kolkata", datetime(2026, 6, 1, 0, 0, tzinfo=UTC)),
]
RULES = {"Europe/Berlin": "CET-1CEST;M3.5.0;M10.5.0/3", "America/New_York": "EST5EDT;M3.2.0;M11.1.0"}


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND


def shown(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} step"


@pytest.mark.parametrize(("name", "begin"), CHANGES)
@pytest.mark.parametrize("pause", [often(17, 1), 7, 60, 540])
def test_a_log_is_read_through_a_change_of_its_clock(name: str, begin: datetime, pause: int) -> None:
    zone = ZoneInfo(name)
    moments = [begin + timedelta(seconds=pause * number) for number in range(10_000 // pause)]
    for spelling in filter(None, (name, RULES.get(name))):
        stamps = Stamps(UTC, 0)
        stamps.learn([Attributes(0, 0, f"zone:{spelling}")])
        found = [stamps.time(shown(moment, zone), number) for number, moment in enumerate(moments)]
        assert found == [nanoseconds(moment) for moment in moments]


@given(
    moment=st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)),
    name=st.sampled_from([name for name, _ in CHANGES]),
)
def test_a_stamp_means_one_of_the_two_moments_at_which_the_clock_showed_it(moment: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    stamps = Stamps(zone_of(name) or UTC, 0)
    local = moment.astimezone(zone).replace(microsecond=0)
    wanted = {nanoseconds(local.replace(fold=fold)) for fold in (0, 1)}
    assert stamps.time(shown(moment, zone), 0) in wanted


@together(
    ("marks", "at", "hours"),
    [
        ([], 50, 0),
        ([Attributes(40, 0, "zone:+02:00")], 10, 2),  # the first attribute holds for the bytes before it
        ([Attributes(0, 0, "zone:+02:00"), Attributes(40, 0, "rank:1,zone:-05:00")], 39, 2),
        ([Attributes(0, 0, "zone:+02:00"), Attributes(40, 0, "rank:1,zone:-05:00")], 40, -5),
        ([Attributes(0, 0, "zone:+02:00"), Generation(40, 0, "a", 0, "1")], 50, 2),
        ([Attributes(0, 0, "zone:Mars/Olympus"), Attributes(40, 0, "zone:+02:00")], 50, 2),
        ([Attributes(0, 0, "zone:../../etc/passwd")], 50, 0),
    ],
)
def test_a_zone_holds_from_its_mark_on(marks: list[Mark], at: int, hours: int) -> None:
    stamps = Stamps(UTC, 0)
    stamps.learn(marks)
    assert stamps.time("2026-11-20 12:00:00", at) == nanoseconds(datetime(2026, 11, 20, 12 - hours, tzinfo=UTC))


@st.composite
def local_logs(draw: st.DrawFn) -> list[str]:
    """Lines around the end of daylight saving, sometimes out of order, without a time, or in UTC."""
    zone, moment, lines = ZoneInfo("Europe/Berlin"), datetime(2026, 10, 24, 23, 30, tzinfo=UTC), list[str]()
    for _ in range(draw(st.integers(1, 30))):
        moment += timedelta(minutes=draw(st.sampled_from([0, 1, 7, 7, 30, 80, -4])))
        lines.append(draw(st.sampled_from([shown(moment, zone), shown(moment, zone), "x", f"{moment:%FT%TZ}"])))
    return lines


def looked_back(stamps: Stamps, data: bytes, offset: int, since: Spoken = (0, None)) -> tuple[Spoken, list[int]]:
    """The result of ``spoken``, and the offsets from which it looked."""
    looking, begins = spoken(stamps, offset, since), list[int]()
    begin, end = next(looking)
    while True:
        begins += [begin] if begin < end else []
        try:
            begin, end = looking.send(data[begin:end])
        except StopIteration as told:
            found: Spoken = told.value
            return found, begins


@given(log=local_logs(), number=st.integers(1, 29), asked=st.integers(0, 29), near=st.sampled_from([25, 10_000]))
def test_who_begins_in_the_middle_of_a_log_reads_the_times_of_who_has_read_it_all(
    log: list[str], number: int, asked: int, near: int
) -> None:
    log = [f"{text:<29}" for text in log]
    data = "".join(f"{text}\n" for text in log).encode()
    stamps, number, asked = Stamps(ZoneInfo("Europe/Berlin"), 0), number % len(log), asked % len(log)
    whole = [stamps.time(text, 30 * at) for at, text in enumerate(log)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones, "NEAR", near)
        since = looked_back(stamps, data, 30 * min(asked, number))[0]
        for known in ((0, None), since):
            later = stamps.beginning()
            if later.in_doubt(30 * number, data[30 * number :]):
                later.recall(looked_back(later, data, 30 * number, known)[0])
            assert [later.time(text, 30 * at) for at, text in enumerate(log[number:], number)] == whole[number:]


def test_it_looks_back_to_a_time_that_no_clock_shows_twice() -> None:
    lines = ["2026-10-25 01:50:00"] * 2000 + ["2026-10-25 02:50:00"] * 2000 + ["2026-10-25 02:10:00"]
    data = "".join(f"{text}\n" for text in lines).encode()
    stamps, end = Stamps(ZoneInfo("Europe/Berlin"), 0), len(data)
    (offset, after), begins = looked_back(stamps, data, end - 20)
    assert (offset, after) == (end - 20, nanoseconds(datetime(2026, 10, 25, 0, 50, tzinfo=UTC)) // SECOND)
    assert begins == [end - 20 - 16_384, end - 20 - 65_536]
    again, begins = looked_back(stamps, data, end, (offset, after))
    assert again == (end, nanoseconds(datetime(2026, 10, 25, 1, 10, tzinfo=UTC)) // SECOND)
    assert begins == [offset]
    assert stamps.in_doubt(end - 20, data[-20:])
    assert stamps.in_doubt(0, data) is False
    assert stamps.in_doubt(0, b"step 1\n") is None
    assert stamps.in_doubt(0, b"2026-10-25T00:50:00Z\n2026-10-25 02:10:00\n") is False
    assert stamps.in_doubt(0, b"2026-10-25 02:50:00\r2026-10-25 03:10:00\r\n") is False  # the last state of a bar


def info(committed: int, grown: datetime | None, *marks: Mark, begun: datetime | None = None) -> StreamInfo:
    first, last = (0 if at is None else int(at.timestamp() * 1000) for at in (begun, grown))
    return StreamInfo(StreamId("run-1", "site-1", "log"), 0, committed, 0, False, marks, begun=first, grown=last)


@together(
    ("known", "offset", "year"),
    [
        (None, 0, 2027),
        (info(90, None), 0, 2027),
        (info(90, datetime(2026, 11, 25, tzinfo=UTC)), 0, 2026),
        (info(90, datetime(2026, 11, 25, tzinfo=UTC)), 90, 2027),  # these bytes came later
        (info(90, datetime(2026, 10, 24, tzinfo=UTC)), 0, 2026),  # zones and fast clocks are tolerated
        (info(90, datetime(2026, 10, 1, tzinfo=UTC)), 0, 2025),
        (info(90, datetime(2027, 11, 1, tzinfo=UTC), Generation(50, 0, "a", 0, "1", at=1_793_000_000_000)), 49, 2026),
        (info(90, datetime(2027, 11, 1, tzinfo=UTC), Generation(50, 0, "a", 0, "1", at=1_793_000_000_000)), 50, 2027),
        # Later bytes cannot have come earlier, whatever a clock that was set says.
        (info(90, datetime(2026, 11, 1, tzinfo=UTC), Generation(50, 0, "a", 0, "1", at=1_893_000_000_000)), 40, 2026),
    ],
)
@together("line", ["Oct 25 00:20:00 h app: x", "E1025 00:20:00.000000 1 a.cc:1] x"])
def test_a_time_without_a_year_is_of_the_year_in_which_it_came(
    known: StreamInfo | None, offset: int, year: int, line: str
) -> None:
    stamps = Stamps(UTC, nanoseconds(datetime(2027, 11, 25, tzinfo=UTC)))
    if known is not None:
        stamps.came(known)
    assert stamps.time(line, offset) == nanoseconds(datetime(year, 10, 25, 0, 20, tzinfo=UTC))


@together(
    ("heard", "hour"),
    [
        (datetime(2026, 10, 25, 1, 10, 1, tzinfo=UTC), 1),  # heard of as it was written
        (datetime(2026, 10, 25, 1, 9, 59, tzinfo=UTC), 1),  # from a clock that is a second ahead
        (datetime(2026, 10, 25, 1, 4, tzinfo=UTC), 1),  # a file that is created before its first line
        (datetime(2026, 10, 25, 0, 10, 1, tzinfo=UTC), 0),
        (datetime(2026, 10, 25, 1, 20, tzinfo=UTC), 0),  # ambiguous
        (datetime(2026, 10, 27, tzinfo=UTC), 0),
        (None, 0),
    ],
)
def test_a_log_that_is_heard_of_in_the_second_hour_began_then(heard: datetime | None, hour: int) -> None:
    stamps = Stamps(ZoneInfo("Europe/Berlin"), 0)
    stamps.came(info(90, None, begun=heard))
    times = [stamps.time(f"2026-10-25 02:{minute}:00", minute) for minute in (10, 15)]
    assert times == [nanoseconds(datetime(2026, 10, 25, hour, minute, tzinfo=UTC)) for minute in (10, 15)]


def test_a_zone_that_a_person_says_outweighs_what_is_told() -> None:
    stamps = Stamps(UTC, 0, fixed=True)
    stamps.learn([Attributes(0, 0, "zone:+02:00")])
    assert stamps.time("2026-11-20 12:00:00", 0) == nanoseconds(datetime(2026, 11, 20, 12, tzinfo=UTC))


@together(
    "text", ["", "Europe", "Mars/Olympus", "/etc/localtime", "+25:00", "+02:60", "CET-1CEST;M99.99.9;M1.1.1", "x" * 300]
)
def test_what_is_no_zone_is_none(text: str) -> None:
    assert zone_of(text) is None


# --- text that need not be drawn

ZONED = st.sampled_from(["", "", "", "Z", "+09:00", " UTC", "-0330", " PM", " AM", " PST", " pm JST", " GMT+0200"])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    now, parts = datetime(2026, 10, 25, 0, 0), []
    for _ in range(draw(st.integers(1, 40))):
        now += timedelta(minutes=draw(st.sampled_from([0, 1, 10, 90, -5])))
        kind = draw(st.sampled_from(["stamp"] * 12 + ["none", "glog", "bar", "move", "stray", "colour", "empty"]))
        text = f"{now:%Y-%m-%d %H:%M:%S}"
        filler = "x" * draw(st.sampled_from([0, 3000, 20_000]))
        parts.append(
            {
                "stamp": f"{text},123{draw(ZONED)} INFO {filler}\n",
                "none": f"  File {filler}, line 12\n",
                "glog": f"I{now:%m%d %H:%M:%S}.000000 1 a.cc:1] {filler}\n",
                "bar": f"{text} 10%\r{text} 20%{filler}\n",
                "move": f"{text} a\n\x1b[1A{text} b\n",
                "stray": f"2026-10-26 {now:%H:%M:%S} {filler}\n",
                "colour": f"\x1b[32m{text}\x1b[0m {filler}\n",
                "empty": "\n",
            }[kind]
        )
    return "".join(parts).encode()


@given(
    log=logs(),
    minutes=st.integers(0, 3000),
    size=st.sampled_from([1000, 17_000, 64 << 10]),
    known=st.integers(0, 400_000),
)
def test_nothing_is_left_out_that_is_of_the_time_or_follows_it(log: bytes, minutes: int, size: int, known: int) -> None:
    now = nanoseconds(datetime(2026, 10, 25, tzinfo=UTC))
    since = now + minutes * 60 * SECOND
    zone = zone_of("Europe/Berlin") or UTC
    past = Past(since, Stamps(zone, now), known)
    kept = [piece for at in range(0, len(log), size) for piece in past.feed(at, log[at : at + size])] + past.close()
    assert all(log[at : at + len(data)] == data for at, data in kept)
    assert [at for at, _ in kept] == sorted({at for at, _ in kept})
    covered = [range(at, at + len(data)) for at, data in kept]
    # The oracle goes line by line; a line without a time has that of the one before.
    begin, time = 0, None
    for line in log.splitlines(keepends=True) if b"\r" not in log else log.split(b"\n"):
        end = begin + len(line) + (b"\r" in log)
        for state in line.split(b"\r"):
            own = stamp(state.decode(), zone=lambda local: min(offsets(zone, local)), now=now)
            time = own if own is not None else time
            if (time is None or time >= since) and line.strip():
                assert any(begin in each for each in covered), (line[:60], since)
        begin = end


def test_of_a_long_log_nearly_all_is_left_out() -> None:
    begin = datetime(2026, 11, 20)
    lines = [
        f"{begin + timedelta(seconds=n):%Y-%m-%d %H:%M:%S},000 - INFO - step {n} loss 0.5\n" for n in range(20_000)
    ]
    log = "".join(lines).encode()
    since = nanoseconds(datetime(2026, 11, 20, tzinfo=UTC)) + 19_000 * SECOND
    past = Past(since, Stamps(UTC, 0), len(log))
    kept = [piece for at in range(0, len(log), 1 << 16) for piece in past.feed(at, log[at : at + (1 << 16)])]
    kept += past.close()
    assert sum(len(data) for _, data in kept) < 5 << 16
    assert lines[19_000].encode() in b"".join(data for _, data in kept)


def test_a_line_whose_time_stands_behind_a_long_key_is_not_left_out() -> None:
    line = b"2026-11-20 08:00:00 INFO x\n"
    late = b'{"__CURSOR":"%s","__REALTIME_TIMESTAMP":"1795600000000000"}\n' % (b"x" * 500)
    log = line * 5000 + late + line * 20_000
    past = Past(nanoseconds(datetime(2026, 11, 21, tzinfo=UTC)), Stamps(UTC, 0), len(log))
    kept = [piece for at in range(0, len(log), 1 << 16) for piece in past.feed(at, log[at : at + (1 << 16)])]
    assert any(late in data for _, data in kept)


def test_a_line_that_has_a_time_keeps_it() -> None:
    container = Line(0, 10, "2026-11-20 12:00:00", time=5)
    assert Stamps(UTC, 0).timed([container]) == [container]


@together("behind", [" - INFO - step", " [main] INFO", "] step", " INFO step", ": step", "456 step", " EST step", ""])
@together("mark", [",", "."])
def test_lines_of_one_second_have_the_times_that_each_has_by_itself(mark: str, behind: str) -> None:
    lines = [f"2026-11-22 08:00:{second:02}{mark}{ms:03}{behind}" for second in (1, 1, 2, 1) for ms in (0, 7, 999)]
    lines += [f"2026-11-22 08:00:{second:02}{behind}" for second in (1, 1, 2, 2, 1)]
    lines += [f"[{line}" for line in lines]
    lines += ["2026-11-22 08:00:01,5 - INFO", "2026-11-22 08:00:01,12x - INFO", "2026-11-22 08:00:01 - INFO"]
    together = Stamps(UTC, 0)
    assert [together.time(line, at) for at, line in enumerate(lines)] == [
        Stamps(UTC, 0).time(line, 0) for line in lines
    ]


def test_a_zone_that_is_learned_holds_for_the_lines_of_the_same_second() -> None:
    stamps, line = Stamps(UTC, 0), "2026-11-22 08:00:01,000 - INFO"
    before = stamps.time(line, 0)
    stamps.learn([Attributes(0, 0, "zone:+01:00")])
    assert (before or 0) - (stamps.time(line, 10) or 0) == 3600 * 1_000_000_000


STAMPED = st.tuples(
    st.sampled_from(["", "[", "INFO ", "  ", "\x1b[2m"]),
    st.sampled_from(
        [
            *(
                "2026-11-20 ",
                "2026-11-20T",
                "2026/11/20 ",
                "2026-11-20_",
                "2026-02-30 ",
                "I1120 ",
                "W1121 ",
                "20261120T",
            ),
            *(
                "Nov 20 ",
                "Nov  2 ",
                "Nov 20, 2026 ",
                "11/20 ",
                "11/20/26 ",
                "20/Nov/2026:",
                "20.11.2026 ",
                "26/11/20 ",
                "",
            ),
        ]
    ),
    st.sampled_from(["08:12:03", "08:12:04", "02:30:00", "12:00:00", "25:00:00", "8:12:03", "08:12"]),
    st.sampled_from(["", ".1", ",123", ".123", ".124", ".123456", ".123456789", ".1234567890", ".", "\u0661"]),
    st.sampled_from(["", "Z", " Z", "+02:00", " -0500", "+0200", " CEST", " PST", " PM", "AM", " UTC", " 2025", "]"]),
    st.sampled_from(
        [
            "",
            " - a",
            ": a",
            " step 1",
            " 12 x",
            " ERROR x",
            "\x1b[0m CET",
            "+1",
            " (x)",
            " at 2026-11-20 09:00:00",
            ",1",
        ]
    ),
).map("".join)


@given(
    texts=st.lists(STAMPED, min_size=1, max_size=8).flatmap(
        lambda some: st.lists(st.tuples(st.sampled_from(some), st.integers(0, 5)), min_size=2, max_size=12)
    ),
    name=st.sampled_from(["UTC", "Europe/Berlin"]),
    arrived=st.booleans(),
)
def test_a_line_behind_one_of_the_same_second_has_the_time_that_it_has_alone(
    texts: list[tuple[str, int]], name: str, arrived: bool
) -> None:
    zone = zone_of(name) or UTC
    now = nanoseconds(datetime(2026, 11, 20, 12, tzinfo=UTC))
    together_, alone = Stamps(zone, now), Stamps(zone, now)
    if arrived:
        info = StreamInfo(StreamId("r", "s", "l"), 0, 40, 0, False, grown=now // 1_000_000)
        together_.came(info)
        alone.came(info)
    lines = [Line(10 * n, 10 * n + 9, text + str(digit)) for n, (text, digit) in enumerate(texts)]
    found = [line.time for line in together_.timed(lines)]
    wanted = []
    for line in lines:
        alone.learn(())  # forgets the line before
        wanted.append(alone.time(line.text, line.offset))
    assert found == wanted


def timed(*texts: str) -> list[int | None]:
    """The seconds since 08:00 that each line tells."""
    begin = nanoseconds(datetime(2026, 11, 20, 8, tzinfo=UTC))
    lines = [Line(100 * n, 100 * n + len(text) + 1, text) for n, text in enumerate(texts)]
    found = Stamps(UTC, begin).timed(lines)
    return [None if line.time is None else (line.time - begin) // SECOND for line in found]


@pytest.mark.parametrize("prefix", ["", "2026-11-20 08:00:01 ERROR ", "[rank1]: "])
def test_a_time_in_a_traceback_is_not_that_of_its_line(prefix: str) -> None:
    rest = prefix if prefix.startswith("[") else ""
    assert timed(
        "2026-11-20 08:00:01 INFO a",
        f"{prefix}Traceback (most recent call last):",
        f'{rest}  File "a.py", line 1, in <module>',
        f"{rest}    at = parsed('2030-01-01 00:00:00')",
        f"{rest}ValueError: not a time: 2030-01-01 00:00:00",
        "2026-11-20 08:00:02 INFO b",
    ) == [1, 1 if prefix.startswith("2") else None, None, 1, 1, 2]


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "| "])
def test_a_time_in_a_frame_of_several_lines_is_not_that_of_its_line(prefix: str) -> None:
    """Python 3.13 shows all lines of a call."""
    frame = [
        "Traceback (most recent call last):",
        '  File "a.py", line 5, in main',
        "    parse(",
        "    ~~~~~^",
        '        "2027-01-01 00:00:00",',
        "        ^^^^^^^^^^^^^^^^^^^^^^",
        "        Nov 21 08:00:00",
        "    )",
        '  File "a.py", line 3, in parse',
        "ValueError: 2027-01-01 00:00:00 is after 2026-12-01 00:00:00",
    ]
    found = timed("2026-11-20 08:00:01 a", *(prefix + text for text in frame), "2026-11-20 08:00:02 b")
    assert found == [1, *[None] * 4, 1, None, 1, None, None, 1, 2]


def test_a_line_of_another_thread_in_a_frame_of_several_lines_takes_nothing_of_it() -> None:
    assert timed(
        "Traceback (most recent call last):",
        '  File "a.py", line 5, in main',
        "2026-11-20 08:00:01 INFO of another thread",
        '        "2027-01-01 00:00:00",',
        "2026-11-20 08:00:02 INFO of another thread",
        "        2027-01-01 00:00:00",
        "ValueError: x",
    ) == [None, None, 1, 1, 2, 2, None]


def test_a_time_in_what_logging_says_of_a_call_that_failed_is_not_that_of_its_line() -> None:
    assert timed(
        "2026-11-20 08:00:01 INFO a",
        "--- Logging error ---",
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.11/logging/__init__.py", line 1110, in emit',
        "    msg = self.format(record)",
        "TypeError: not all arguments converted during string formatting",
        "Call stack:",
        '  File "a.py", line 3, in <module>',
        '    logging.info("2027-01-01 00:00:00", 1)',
        "Message: '2027-01-01 00:00:00'",
        "Arguments: ('2027-01-01 00:00:00',)",
        "2026-11-20 08:00:02 INFO b",
        "  2026-11-20 08:00:03 INFO b",
    ) == [1, *[None] * 7, 1, 1, 1, 2, 3]


def test_tracebacks_of_two_writers_are_told_apart() -> None:
    begin, end = "Traceback (most recent call last):", "ValueError: 2019-01-01 00:00:00 is too old"
    found = timed(
        "2026-11-20 08:00:01 INFO a",
        *(f"[rank{rank}]: {text}" for text in (begin, '  File "a.py", line 1, in <module>', end) for rank in range(2)),
        "2026-11-20 08:00:02 INFO b",
    )
    assert found == [1, None, None, None, None, 1, 1, 2]


def test_an_interrupted_traceback_takes_no_time_away() -> None:
    assert timed("Traceback (most recent call last):", '  File "a.py", line 1', "  2026-11-20 08:00:03 INFO b")[-1] == 3


def test_lines_of_others_in_a_traceback_have_their_times() -> None:
    assert timed(
        "2026-11-20 08:00:01 INFO a",
        "Traceback (most recent call last):",
        "2026-11-20 08:00:02 INFO of another thread",
        '  File "a.py", line 1, in <module>',
        "KeyError",
        "  2026-11-20 08:00:03 INFO b",
    ) == [1, None, 2, None, None, 3]


def test_the_parts_of_a_long_line_have_its_time() -> None:
    lines = [
        Line(0, 90, "2026-11-20 08:00:01 x"),
        Line(0, 90, "2019-01-01 00:00:00 y"),
        Line(90, 99, "2026-11-20 08:00:02 z"),
    ]
    found = [line.time for line in Stamps(UTC, 0).timed(lines)]
    assert found[0] == found[1] == nanoseconds(datetime(2026, 11, 20, 8, 0, 1, tzinfo=UTC))
    assert found[2] == nanoseconds(datetime(2026, 11, 20, 8, 0, 2, tzinfo=UTC))
