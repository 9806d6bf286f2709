"""A line after the time that the Kubernetes API writes is searched as the same line in a container's own file."""

from __future__ import annotations

import pytest

from flarelog.detect.base import Finding
from flarelog.lines.line import Line
from flarelog.lines.reader import Reader
from tests.detect.cases import Case, cases, searched

TIME = "2026-11-29T05:00:%02d.123456789Z "
CASES = [case for case in cases("case") + cases("miss") if "\r" not in case.text and "\x1b" not in case.text]
GROUPS = [CASES[begin : begin + 50] for begin in range(0, len(CASES), 50)]
LINES = """start
Traceback (most recent call last):
  File "x.py", line 3, in <module>
    main()

ValueError: bad
goodbye
""".splitlines()


def of_the_api(text: str) -> bytes:
    return "".join(f"{TIME % (number % 60)}{line}\n" for number, line in enumerate(text.split("\n"))).encode()


def of_a_node(text: str) -> bytes:
    lines = enumerate(text.split("\n"))
    return "".join(f"{TIME % (number % 60)}stdout F {line}\n" for number, line in lines).encode()


def told(found: list[Finding]) -> list[tuple[object, ...]]:
    return [(one.signature, one.role, one.text, one.time, one.rank, one.facts, one.count) for one in found]


@pytest.mark.parametrize("group", GROUPS, ids=[str(number) for number in range(len(GROUPS))])
def test_each_case_is_found_alike(group: list[Case]) -> None:
    for case in group:
        text = case.data.decode(errors="replace").removesuffix("\n")
        assert told(searched(of_the_api(text))) == told(searched(of_a_node(text))), case


def test_a_traceback_is_the_root_and_has_the_time_of_its_first_line() -> None:
    (found,) = searched(of_the_api("\n".join(LINES)))
    assert (found.signature, found.role, found.text) == ("python.traceback", "root", "ValueError: bad")
    assert found.time == 1795928401_123456789


def test_readers_know_the_lines_of_such_a_traceback() -> None:
    lines = [Line(number, number + 1, f"{TIME % number}{text}") for number, text in enumerate(LINES)]
    kinds = [(one.kind.begins, one.kind.within) for one in Reader(leveled=True).read(lines)]
    assert kinds == [(False, False), (True, False), *[(False, True)] * 4, (False, False)]


def test_the_time_of_a_logger_stays_part_of_its_line() -> None:
    lines = [Line(0, 1, f"{TIME % 0}2026-11-29T05:00:00.123Z ERROR Traceback (most recent call last):")]
    (one,) = Reader(leveled=True).read(lines)
    assert one.text == lines[0].text
