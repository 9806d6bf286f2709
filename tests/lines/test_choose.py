"""The choice of lines and their output; the case collection's views."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from flarelog.cli import main
from flarelog.errors import InvalidOption
from flarelog.lines.choose import Arrived, Choice, Chooser, ending, moment, patterns
from flarelog.lines.levels import Level
from flarelog.lines.line import MARK, Line, Note
from flarelog.lines.times import SECOND, rfc3339
from flarelog.render.container import Renderer
from flarelog.viewers.console import Console, ConsoleOptions, Enough, Template, colours
from tests.annotated import annotated
from tests.rows import together

CASES = json.loads((Path(__file__).parents[1] / "data" / "render.json").read_text())
NOW = 1_795_176_000 * SECOND


def chosen(texts: str, **choice: Any) -> str:
    choice |= {name: patterns(choice[name]) for name in ("include", "exclude") if name in choice}
    chooser = Chooser(Choice(**choice))
    found = [line for text in texts.split() for line in chooser.feed([Line(0, 0, text)])]
    return " ".join("--" if line is None else line.text for line in found)


@together(
    ("choice", "shown"),
    [
        pytest.param({}, "a1 b1 a2 c1 c2 c3 b2 a3", id="everything"),
        pytest.param({"include": ["a"]}, "a1 a2 a3", id="include"),
        pytest.param({"include": ["a", "b"]}, "a1 b1 a2 b2 a3", id="one-of-several"),
        pytest.param({"exclude": ["c"]}, "a1 b1 a2 b2 a3", id="exclude"),
        pytest.param({"include": ["a"], "exclude": ["2"]}, "a1 a3", id="exclude-outweighs"),
        pytest.param({"include": ["c2"], "before": 1, "after": 1}, "c1 c2 c3", id="context"),
        pytest.param({"include": ["[ab]2"], "after": 1}, "a2 c1 -- b2 a3", id="groups-are-parted"),
        pytest.param({"include": ["[ab]2"], "before": 1}, "b1 a2 -- c3 b2", id="groups-of-lines-before"),
        pytest.param({"include": ["1"], "before": 1, "after": 1}, "a1 b1 a2 c1 c2", id="neighbours-are-not"),
        pytest.param({"include": ["nothing"]}, "", id="none"),
    ],
)
def test_choices(choice: dict[str, Any], shown: str) -> None:
    assert chosen("a1 b1 a2 c1 c2 c3 b2 a3", **choice) == shown


def test_patterns_see_what_is_cut_off() -> None:
    chooser = Chooser(Choice(patterns(["needle"]), shown=20))
    texts = ["short needle", "x" * 30 + " needle", "\x1b[31m" + "x" * 30 + "\x1b[0m needle", "y" * 30 + MARK]
    found = [line.text for line in chooser.feed([Line(0, 0, text) for text in texts]) if line]
    assert found == ["short needle", "x" * 9 + MARK, "\x1b[31m" + "x" * 9 + "\x1b[0m" + MARK]
    assert chooser.cut == 1
    chooser = Chooser(Choice(patterns(["needle"]), shown=20, split=True))
    found = [line.text for line in chooser.feed([Line(0, 0, text) for text in texts]) if line]
    assert found == [
        *("short needle", "x" * 20, "x" * 10 + " needle"),
        *("\x1b[31m" + "x" * 20 + "\x1b[0m", "\x1b[31m" + "x" * 10 + "\x1b[0m needle"),
    ]


def test_patterns_see_no_colours() -> None:
    chooser = Chooser(Choice(patterns(["^ab$"])))
    assert list(chooser.feed([Line(0, 0, "\x1b[31ma\x1b[0mb")])) != []


def test_times_choose_lines_and_hide_none_whose_time_nobody_knows() -> None:
    lines = [Line(0, 0, text) for text in ("?", "2026-11-20T08:00:00Z a", "  a", "2026-11-20T09:00:00Z b", "  b")]
    since, until = (rfc3339(f"2026-11-20T{hour}:30:00Z") for hour in ("08", "10"))
    found = [line.text.split()[-1] for line in Chooser(Choice(since=since, until=until)).feed(annotated(lines)) if line]
    assert found == ["?", "b", "b"]


@together(
    ("text", "ago"),
    [
        *(("5m", 300), ("2h30m", 9000), ("1d", 86400), ("0s", 0)),
        *(("1 hour ago", 3600), ("2 Days", 172800), ("1h 30m ago", 5400), ("5 m", 300), ("500ms", 0.5)),
        *(("2026-11-20T11:00:00Z", 3600), ("2026-11-20 11:00", 3600), ("2026-11-20", 43200)),
        *(("2026-11-20T12:00:00+0100", 3600), ("2026-11-20 12:00:00 +0100", 3600), ("2026-11-20T12:00+01", 3600)),
    ],
)
def test_a_moment(text: str, ago: float) -> None:
    assert moment(text, NOW) == NOW - round(ago * SECOND)


@together("text", ["", "tomorrow", "-5m", "5x", "5 ago", "ago", "2026-13-01", "1x"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not a time"):
        moment(text, NOW)


def test_what_is_no_pattern() -> None:
    with pytest.raises(InvalidOption, match="is not a regular expression"):
        patterns(["(a"])


# --- the console


def written(lines: list[Line | None], size: tuple[int, int] | None = None, **options: Any) -> str:
    out = io.BytesIO()
    console = Console(out, ConsoleOptions(**options), None if size is None else lambda: size)
    try:
        shown = iter(annotated(line for line in lines if line is not None))
        console.show([line and next(shown) for line in lines], "a.log")
    except Enough:
        pass
    return out.getvalue().decode()


RED = Line(5, 9, "\x1b[31mred\x1b[0m", "stderr", NOW)


@together(
    ("options", "shown"),
    [
        pytest.param({}, "red\n", id="no-colour"),
        pytest.param({"colour": True}, "\x1b[31mred\x1b[0m\n", id="colour"),
        pytest.param({"timestamps": True}, "2026-11-20T12:00:00.000000000Z red\n", id="timestamps"),
        pytest.param({"prefix": 7}, "a.log   │ red\n", id="prefix"),
        pytest.param({"highlight": patterns(["e"])}, "red\n", id="no-highlight-without-colour"),
        pytest.param({"limit_bytes": 2}, "re", id="a-limit"),
        pytest.param(
            {"output": "json"},
            '{"log.file.path": "a.log", "log.iostream": "stderr", "offset": 5, '
            '"timestamp": "2026-11-20T12:00:00.000000000Z", "body": "red"}\n',
            id="json",
        ),
    ],
)
def test_how_a_line_is_written(options: dict[str, Any], shown: str) -> None:
    assert written([RED], **options) == shown


@together(
    ("text", "time"),
    [
        ("2026-11-20 12:00:00 x", "12:00:00Z"),
        ("2026-11-20 12:00:00,100 x", "12:00:00.100Z"),
        ("2026-11-20 12:00:00.1 x", "12:00:00.100Z"),
        ("2026-11-20 12:00:00.123456 x", "12:00:00.123456Z"),
        ("2026-11-20 12:00:00.1234567 x", "12:00:00.123456700Z"),
        ("2026-11-20T12:00Z x", "12:00:00.000000000Z"),
    ],
)
def test_a_time_is_shown_as_exactly_as_the_line_tells_it(text: str, time: str) -> None:
    assert written([Line(0, 9, text)], timestamps=True) == f"2026-11-20T{time} {text}\n"


def test_what_parts_groups_is_no_line_of_json() -> None:
    assert written([RED, None, RED]).splitlines() == ["red", "--", "red"]
    assert len(written([RED, None, RED], output="json").splitlines()) == 2
    assert written([None], output="json") == ""


def test_json_is_one_line_for_every_reader() -> None:
    """Python's ``splitlines`` ends a line at ten characters, of which ``\\n`` is only one."""
    parting = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    found = written([Line(0, 9, f"é{parting}")], output="json")
    assert len(found.splitlines()) == 1
    assert json.loads(found)["body"] == f"é{parting}"
    assert "é" in found


def test_many_lines_are_written_in_parts() -> None:
    lines: list[Line | None] = [Line(0, 0, str(number)) for number in range(10_000)]
    assert written(lines).split() == [str(number) for number in range(10_000)]


@pytest.mark.parametrize("text", ["{site:{text}}", "{text:>{offset}}", "{time:{site}}"])
def test_a_format_has_no_field_within_a_field(text: str) -> None:
    with pytest.raises(InvalidOption, match="has a field inside the field") as refused:
        Template(text)
    assert refused.value.exit_code == InvalidOption.exit_code


@together(
    ("text", "says"),
    [
        pytest.param("{text:>99999999999}", "makes a line too wide", id="a-width"),
        pytest.param("{text:\u0669\u0669\u0669\u0669\u0669}", "makes a line too wide", id="a-width-in-other-digits"),
        pytest.param("{offset:.20000f}", "makes a line too wide", id="a-precision"),
        pytest.param("{text:999}" * 11, "makes a line too wide", id="the-sum"),
        pytest.param("{text:" + " " * 9999 + "}", "makes a line too wide", id="a-long-text"),
        pytest.param("{offset:c}", "cannot be used as a format: .", id="an-offset-that-is-no-letter"),
        pytest.param("{rank:s}", "cannot be used as a format: .", id="a-rank-that-is-known"),
        pytest.param("{rank:d}", "cannot be used as a format: .", id="a-rank-that-nobody-knows"),
        pytest.param("\udcff{text}", "cannot be used as a format: .", id="no-text"),
    ],
)
def test_a_format_that_some_line_could_not_be_shown_with_is_refused_with_its_reason(text: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Template(text)


def test_a_note_is_shown_whatever_is_chosen() -> None:
    chooser = Chooser(Choice((re.compile("error"),)))
    note = Note.at(3, "costs too much", {"event": "not-drawn"})
    assert list(chooser.feed([Line(0, 2, "x"), note, Line(3, 9, "error")])) == [note, Line(3, 9, "error")]


def test_rows_that_may_change_are_redrawn_below_the_lines() -> None:
    out = io.BytesIO()
    console = Console(out, ConsoleOptions(), lambda: (12, 10))
    console.draw(lambda: ["\x1b[31ma bar that is far too wide\x1b[0m", "漢字漢字漢字漢"], 1.0)
    console.draw(lambda: ["not yet"], 1.01)
    console.show([RED], "a.log")
    console.draw(lambda: ["next"], 1.02)
    console.draw(lambda: ["next"], 5.0)
    console.close()
    parts = ["a bar that \n漢字漢字漢", "\r\x1b[1A\x1b[Jred\n", "next", "\r\x1b[J"]
    assert out.getvalue().decode() == "".join(parts)


def test_where_more_bars_move_than_there_are_rows_their_count_is_shown() -> None:
    out, bars = io.BytesIO(), [f"worker-{number}" for number in range(9)]
    console = Console(out, ConsoleOptions(), lambda: (40, 10))
    console.draw(lambda: [*bars, "state"], 0.0)
    assert out.getvalue().decode().split("\n") == ["\u2026 6 more bars", *bars[-3:], "state"]
    console = Console(out := io.BytesIO(), ConsoleOptions(), lambda: (40, 20))
    console.draw(lambda: [*bars, "state"], 0.0)
    assert out.getvalue().decode().split("\n") == [*bars, "state"]


def test_a_pipe_gets_no_drawing() -> None:
    out = io.BytesIO()
    console = Console(out, ConsoleOptions())
    console.draw(lambda: ["bar"], 1.0, last=True)
    console.close()
    assert out.getvalue() == b""


@together(
    ("choice", "environment", "terminal", "wanted"),
    [
        pytest.param("auto", {}, True, True, id="a-terminal"),
        pytest.param("auto", {}, False, False, id="a-pipe"),
        pytest.param("auto", {"TERM": "dumb"}, True, False, id="a-dumb-terminal"),
        pytest.param("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False, id="no-color-comes-first"),
        pytest.param("auto", {"NO_COLOR": ""}, True, True, id="an-empty-no-color-says-nothing"),
        pytest.param("auto", {"FORCE_COLOR": "1"}, False, True, id="force-color"),
        pytest.param("auto", {"CLICOLOR_FORCE": "0"}, False, False, id="clicolor-force-0"),
        pytest.param("always", {"NO_COLOR": "1"}, False, True, id="what-was-said"),
        pytest.param("never", {"FORCE_COLOR": "1"}, True, False, id="what-was-said-2"),
    ],
)
def test_colours(choice: str, environment: dict[str, str], terminal: bool, wanted: bool) -> None:
    assert colours(choice, environment.get, terminal) is wanted


# --- the collection's views


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case['id']}-{case['name']}") for case in CASES if case["kind"] == "view_limit"]
)
def test_a_view_is_limited_in_bytes(case: dict[str, Any]) -> None:
    """All of these cases have stdout's lines first, so the one limit covers both streams."""
    given = case["input"]
    records = "".join(
        json.dumps({"log": given["line"], "stream": stream, "time": "2026-11-20T08:00:00Z"}) + "\n"
        for stream in ("stdout", "stderr")
        for _ in range(given[f"{stream}_lines"])
    )
    renderer = Renderer()
    lines = renderer.feed(records.encode()) + renderer.close()
    assert (
        written([*lines], limit_bytes=given["limit_bytes"]) == case["expected"]["stdout"] + case["expected"]["stderr"]
    )


@pytest.mark.parametrize(
    ("choice", "arrived", "wanted"),
    [
        pytest.param({"since": 50 * SECOND}, Arrived(since=20), ["20", "30", "40"], id="since goes by arrival"),
        pytest.param({"until": 50 * SECOND}, Arrived(until=20), ["0", "10"], id="until goes by arrival"),
        pytest.param({"since": 50 * SECOND}, Arrived(), ["0", "10", "20", "30", "40"], id="nobody knows"),
        pytest.param({"since": 9 * SECOND, "until": 50 * SECOND}, Arrived(10, 30), ["10", "20"], id="between"),
    ],
)
def test_without_a_stamp_a_line_goes_by_its_arrival(
    choice: dict[str, int], arrived: Arrived, wanted: list[str]
) -> None:
    lines = [Line(at, at + 10, str(at)) for at in range(0, 50, 10)]
    chooser = Chooser(Choice(**choice), arrived=arrived)  # type: ignore[arg-type]
    assert [line.text for line in chooser.feed(lines) if line] == wanted


def test_a_line_without_a_stamp_follows_the_one_before_unless_the_time_lies_between_their_arrivals() -> None:
    lines = [Line(at, at + 10, str(at), time=SECOND if at == 0 else None) for at in range(0, 50, 10)]
    since = Chooser(Choice(since=50 * SECOND), arrived=Arrived(since=30))
    assert [line.text for line in since.feed(lines) if line] == ["30", "40"]
    together = Chooser(Choice(since=50 * SECOND), arrived=Arrived(since=0))
    assert [line.text for line in together.feed(lines) if line] == []


def test_a_clock_that_is_ahead_is_taken_back() -> None:
    lines = [Line(at, at + 10, str(at), time=at * SECOND) for at in range(0, 50, 10)]
    chooser = Chooser(Choice(since=20 * SECOND), ahead=10 * SECOND)
    assert [line.text for line in chooser.feed(lines) if line] == ["30", "40"]


@pytest.mark.parametrize(
    ("text", "fixed", "ignore_case", "matches"),
    [
        ("a.b", False, False, {"a.b", "axb"}),
        ("a.b", True, False, {"a.b"}),
        ("A.B", True, True, {"a.b"}),
        ("A.b", False, True, {"a.b", "axb"}),
        ("[", True, False, {"[x"}),
    ],
)
def test_a_pattern_may_be_plain_text_and_of_any_case(
    text: str, fixed: bool, ignore_case: bool, matches: set[str]
) -> None:
    (pattern,) = patterns([text], fixed=fixed, ignore_case=ignore_case)
    assert {one for one in ("a.b", "axb", "[x", "other") if pattern.search(one)} == matches


def test_a_level_chooses_lines_of_it_and_of_graver_ones_with_what_belongs_to_them() -> None:
    texts = ["INFO a", "  of a", "WARNING b", "  of b", "plain", "ERROR c", "DEBUG d"]
    lines = annotated(Line(n, n + 1, text) for n, text in enumerate(texts))
    for level, wanted in ((Level.WARNING, texts[2:4] + texts[5:6]), (Level.INFO, texts[:4] + texts[5:6])):
        found = Chooser(Choice(level=level)).feed(lines)
        assert [line.text for line in found if line is not None] == wanted


@together(
    ("text", "hours", "found"),
    [
        ("90", 0, "2026-11-20T13:53:30Z"),
        ("1763640000", 0, "2025-11-20T12:00:00Z"),
        ("now", 0, "2026-11-20T13:55:00Z"),
        ("13:50", 0, "2026-11-20T13:50:00Z"),
        ("13:50:09", 0, "2026-11-20T13:50:09Z"),
        ("14:00", 0, "2026-11-19T14:00:00Z"),
        ("14:00", 2, "2026-11-20T12:00:00Z"),
        ("8:00", -5, "2026-11-20T13:00:00Z"),
        ("today", 0, "2026-11-20T00:00:00Z"),
        ("today", 11, "2026-11-20T13:00:00Z"),
        ("yesterday", 0, "2026-11-19T00:00:00Z"),
    ],
)
def test_a_time_as_people_say_it(text: str, hours: int, found: str) -> None:
    now = rfc3339("2026-11-20T13:55:00Z")
    assert now is not None
    assert moment(text, now, timezone(timedelta(hours=hours))) == rfc3339(found)


@together(
    ("text", "since", "found"),
    [
        ("14:00", None, "2026-11-20T14:00:00Z"),
        ("13:50", None, "2026-11-20T13:50:00Z"),
        ("23:59", "2026-11-20T00:00:00Z", "2026-11-20T23:59:00Z"),
        ("23:59", "2026-11-19T23:00:00Z", "2026-11-19T23:59:00Z"),
        ("01:00", "2026-11-19T23:00:00Z", "2026-11-20T01:00:00Z"),
        ("23:00", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z"),
        ("5m", "2026-11-19T23:00:00Z", "2026-11-20T13:50:00Z"),
        ("yesterday", None, "2026-11-19T00:00:00Z"),
    ],
)
def test_a_time_that_ends_lies_behind_the_one_that_begins(text: str, since: str | None, found: str) -> None:
    now = rfc3339("2026-11-20T13:55:00Z")
    assert now is not None
    assert ending(text, now, rfc3339(since) if since else None) == rfc3339(found)


@together(
    ("text", "found"),
    [
        ("2026-11-20T17:00:30", "2026-11-20T08:00:30Z"),
        ("2026-11-20 17:00", "2026-11-20T08:00:00Z"),
        ("2026-11-20T17:00:30.25", "2026-11-20T08:00:30.25Z"),
        ("2026-11-20", "2026-11-19T15:00:00Z"),
        ("2026-11-20T17:00:30Z", "2026-11-20T17:00:30Z"),
        ("2026-11-20T17:00:30+01:00", "2026-11-20T16:00:30Z"),
        ("2026-11-20 17:00:30,250", "2026-11-20T08:00:30.25Z"),  # as Python's logging writes it
        ("2026-11-20T17:00Z", "2026-11-20T17:00:00Z"),
        ("2026-11-20T17:00+01:00", "2026-11-20T16:00:00Z"),
    ],
)
def test_a_date_without_a_zone_is_in_the_zone_that_people_read(text: str, found: str) -> None:
    tokyo = timezone(timedelta(hours=9))
    assert moment(text, NOW, dates=tokyo) == ending(text, NOW, None, dates=tokyo) == rfc3339(found)


@pytest.mark.parametrize(("tz", "shown"), [("Asia/Tokyo", ["b", "c"]), ("+09:00", ["b", "c"]), ("utc", []), (None, [])])
def test_a_time_that_was_copied_from_the_screen_chooses_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], tz: str | None, shown: list[str]
) -> None:
    log = tmp_path / "log.txt"
    log.write_text(
        "".join(f"2026-11-20T08:00:{second}Z {name}\n" for second, name in ((29, "a"), (30, "b"), (31, "c")))
    )
    zone = ["--tz", tz] if tz else []
    with pytest.raises(SystemExit):
        main(["view", str(log), "--since", "2026-11-20T17:00:30", *zone])
    assert [line.split()[-1] for line in capfd.readouterr().out.splitlines()] == shown


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_an_empty_time_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str) -> None:
    """It is often a variable of the shell that is not set."""
    (tmp_path / "log.txt").write_text("one\n")
    said = {}
    for text in ("", "tomorrow"):
        with pytest.raises(SystemExit) as ended:
            main(["view", str(tmp_path / "log.txt"), option, text])
        assert ended.value.code == 2
        shown = capfd.readouterr()
        said[text] = shown.err
        assert shown.out == ""
    assert said[""] == said["tomorrow"].replace("'tomorrow'", "''")


@pytest.mark.parametrize(("count", "shown"), [("-1", "one\ntwo\n"), ("1", "two\n"), ("0", "")])
def test_the_last_lines_of_a_file_or_all(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], count: str, shown: str
) -> None:
    (tmp_path / "log.txt").write_text("one\ntwo\n")
    with pytest.raises(SystemExit):
        main(["view", str(tmp_path / "log.txt"), "-n", count])
    assert capfd.readouterr().out == shown


@together("text", ["", "24:00", "13:60", "12345678901", "-5", "tomorrow", "1:2:3:4"])
def test_what_is_no_time_of_anything(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not a time: give"):
        moment(text, 0)


def test_json_has_the_names_and_numbers_of_opentelemetry() -> None:
    texts = ["2026-11-20 08:00:00Z WARNING a", "  of a", "b"]
    note = Note.at(9, "a gap", {"event": "gap", "length": 3})
    found = written([*(Line(n, n, text) for n, text in enumerate(texts)), note], output="json")
    warning = {"severity_text": "WARNING", "severity_number": 13}
    assert [json.loads(line) for line in found.splitlines()] == [
        {
            "log.file.path": "a.log",
            "offset": 0,
            "timestamp": "2026-11-20T08:00:00.000000000Z",
            **warning,
            "body": texts[0],
        },
        {"log.file.path": "a.log", "offset": 1, **warning, "body": "  of a"},
        {"log.file.path": "a.log", "offset": 2, "body": "b"},
        {"log.file.path": "a.log", "offset": 9, "event_name": "gap", "length": 3},
    ]


def test_a_file_is_read_through_the_hour_that_a_clock_shows_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = {"berlin": ("2026-10-25 02:50:00", "2026-10-25 02:10:00"), "utc": ("2026-10-25T01:05:00Z",)}
    for name, lines in said.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = [str(tmp_path / name) for name in said]
    with pytest.raises(SystemExit):
        main(["view", *files, "-t", "--order", "time", "--zone", "Europe/Berlin"])
    shown = [line.split("Z ")[0].split()[-1] for line in capfd.readouterr().out.splitlines()]
    assert shown == ["2026-10-25T00:50:00", "2026-10-25T01:05:00", "2026-10-25T01:10:00"]
