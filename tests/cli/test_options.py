"""Options are made from the fields of dataclasses, and their former names still work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import click
import pytest
from click.testing import CliRunner

from flarelog.cli.options import Switches, asks, split_at_commas
from flarelog.options import option
from tests.rows import together


@dataclass(frozen=True)
class Base:
    most: int | None = option(None, "Bytes.", metavar="BYTES")


@dataclass(frozen=True)
class Kind(Base):
    name: str = option("", "Its name.")
    wait: float = option(2.5, "Seconds.")
    ranks: bool = option(True, "Look at ranks.", flags={"no-ranks": "off"})
    quick: bool = option(False, "Be quick.", short="-q")
    compression: str = option("auto", "Small.", choices=("auto", "on", "off"), flags={"no-compression": "off"})
    globs: tuple[str, ...] = option((), "Which.", flag="only", variable=False)
    size: int = option(1, "Bytes.", unit="bytes")
    keep: float | None = option(None, "Days.", unit="days", least=0)
    inner: int = 7  # not an option


@click.command(cls=Switches)
@asks(kind=Kind)
@click.argument("rest", nargs=-1)
def command(kind: partial[Kind], rest: tuple[str, ...]) -> None:
    click.echo(kind())
    click.echo(" ".join(rest))


def said(*args: str, **variables: str) -> tuple[Kind, str]:
    done = CliRunner().invoke(command, args, env=variables)
    assert done.exit_code == 0, done.output
    first, rest = done.stdout.splitlines()
    return eval(first), rest


def test_what_is_not_said_is_as_the_dataclass_has_it() -> None:
    assert said() == (Kind(), "")


@together(
    ("args", "variables", "kind"),
    [
        (("--most", "3", "--name", "a", "--wait", "1"), {}, Kind(3, "a", 1.0)),
        (("-q", "--only", "a", "--only", "b"), {}, Kind(quick=True, globs=("a", "b"))),
        ((), {"FLARELOG_MOST": "3", "FLARELOG_ONLY": "a"}, Kind(3)),
        (("--ranks", "off", "--compression", "on"), {}, Kind(ranks=False, compression="on")),
        (("--no-ranks", "--no-compression"), {}, Kind(ranks=False, compression="off")),
        ((), {"FLARELOG_NO_RANKS": "1", "FLARELOG_NO_COMPRESSION": "true"}, Kind(ranks=False, compression="off")),
        ((), {"FLARELOG_RANKS": "off", "FLARELOG_COMPRESSION": "on"}, Kind(ranks=False, compression="on")),
        (("--ranks", "on"), {"FLARELOG_NO_RANKS": "1"}, Kind()),
        (("--no-ranks",), {"FLARELOG_RANKS": "on"}, Kind(ranks=False)),
        (("--size", "10GB", "--keep", "2w"), {}, Kind(size=10 * 10**9, keep=14)),
        (("--size", "7", "--keep", "1e2"), {"FLARELOG_SIZE": "1KiB"}, Kind(size=7, keep=100)),
        ((), {"FLARELOG_SIZE": "1KiB", "FLARELOG_KEEP": "36 hours"}, Kind(size=1024, keep=1.5)),
    ],
)
def test_what_is_said_on_the_line_and_in_variables(
    args: tuple[str, ...], variables: dict[str, str], kind: Kind
) -> None:
    assert said(*args, **variables) == (kind, "")


@pytest.mark.parametrize(
    "args", [("--ranks", "run-1"), ("--ranks=on", "run-1"), ("run-1", "--ranks"), ("--ranks", "on", "run-1")]
)
def test_a_switch_may_stand_alone(args: tuple[str, ...]) -> None:
    assert said(*args) == (Kind(), "run-1")


def test_help_shows_each_option_once_its_own_first_and_no_older_name() -> None:
    text = CliRunner().invoke(command, ["--help"]).stdout
    assert "--no-" not in text
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("  -")]
    assert shown == [
        "--name",
        "--wait",
        "--ranks",
        "-q,",
        "--compression",
        "--only",
        "--size",
        "--keep",
        "--most",
        "--help",
    ]
    assert "--size SIZE" in text
    assert "--keep DURATION" in text
    assert "Seconds.  [env var: FLARELOG_WAIT; default: 2.5]" in text


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (("a,b",), ("a", "b")),
        (("a, b ", " c"), ("a", "b", "c")),
        (("a[,]b,c",), ("a[,]b", "c")),
        (("a,,b,",), ("a", "b")),
        ((",",), ("",)),
        ((" ",), ("",)),
    ],
)
def test_a_list_with_commas(given: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert split_at_commas(None, None, given) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--size", "10XB"), "'10XB' is not a size: write 500MB, 10GB or 64MiB"),
        (("--keep", "2 moons"), "'2 moons' is not a length of time: write 90s, 45m, 12h, 30d or 2w"),
        (("--keep", "forever"), "'forever' is not a length of time: write 90s, 45m, 12h, 30d or 2w"),
        (("--size", "big"), "'big' is not a size: write 500MB, 10GB or 64MiB"),
        (("--keep", "-2w"), "'-2w' is not a valid float"),
        (("--wait", "2w"), "'2w' is not a valid float"),
    ],
)
def test_a_number_with_a_wrong_unit(args: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(command, args)
    assert done.exit_code == 2
    assert why in done.stderr
