"""What commands say on stderr beside what they show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flarelog.cli import main
from flarelog.model import StreamId
from flarelog.stores.local.store import LocalStore

NO_TEXT = b"a \xff\nb \xfe\nlast\n"
NOTE = "note: {}: 2 pieces are not UTF-8 and are shown as U+FFFD; -o raw shows the bytes\n"


@pytest.fixture
def store(tmp_path: Path) -> str:
    root = str(tmp_path / "logs")
    asyncio.run(filled(root))
    return root


async def filled(root: str) -> None:
    async with LocalStore(root, "memory") as store:
        appender = await store.appender(StreamId("exp-42", "site-2", "log.txt"), b"producer")
        await appender.append(0, NO_TEXT)
        await appender.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param("", True, id="all-lines"),
        pytest.param("--tail -1", True, id="a-tail-of-all"),
        pytest.param("--tail 1", False, id="tail"),
        pytest.param("-i last", False, id="include"),
        pytest.param("--exclude xyz", False, id="exclude"),
    ],
)
def test_pieces_that_are_not_utf_8_are_told_of_where_no_line_is_left_out(
    tmp_path: Path, store: str, capfd: pytest.CaptureFixture[str], options: str, said: bool
) -> None:
    assert ends(["logs", "exp-42", "--store", store, *options.split()]) == 0
    assert capfd.readouterr().err == (NOTE.format("these logs") if said else "")
    path = tmp_path / "a.log"
    path.write_bytes(NO_TEXT)
    assert ends(["view", str(path), *options.split()]) == 0
    assert capfd.readouterr().err == (NOTE.format(path) if said else "")


@pytest.mark.parametrize(
    ("zones", "said"),
    [
        (["site-2=Asia/Tokyo"], ""),
        (["site-*=Asia/Tokyo", "UTC"], ""),
        (["site-2=UTC", "nope=+02:00"], "flarelog: --zone nope=+02:00 matches no site whose logs are shown\n"),
    ],
)
def test_a_zone_of_no_site_is_told(store: str, capfd: pytest.CaptureFixture[str], zones: list[str], said: str) -> None:
    options = [word for zone in zones for word in ("--zone", zone)]
    assert ends(["logs", "exp-42", "--store", store, *options, "-n", "1"]) == 0
    assert capfd.readouterr().err == said


@pytest.mark.parametrize("level", ["warn", "err", "crit", "critical", "WARNING", "Err", "ERROR", "Fatal"])
def test_a_level_is_taken_as_people_type_it(tmp_path: Path, capfd: pytest.CaptureFixture[str], level: str) -> None:
    path = tmp_path / "a.log"
    path.write_text("INFO a\nWARNING b\nERROR c\nFATAL d\n")
    assert ends(["view", str(path), "--level", level]) == 0
    at = {"warn": 1, "warning": 1, "err": 2, "error": 2}.get(level.lower(), 3)
    assert capfd.readouterr().out.splitlines() == ["INFO a", "WARNING b", "ERROR c", "FATAL d"][at:]
    table = tmp_path / "a.toml"
    table.write_text(f"[view]\nlevel = '{level}'\n")
    assert ends(["config", "check", str(table)]) == 0


def test_other_spellings_of_a_level_are_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert ends(["view", "x", "--level", "loud"]) == 2
    assert "'warning'" in (said := capfd.readouterr().err)
    assert "'warn'" not in said


def test_a_token_needs_a_store(tmp_path: Path, store: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert ends(["token", "create", "wall", "--store", store]) == 0
    assert capfd.readouterr().out.startswith("flarelog_")
    other = str(tmp_path / "lo gs")
    assert ends(["token", "create", "wall", "--store", other]) == 3
    assert capfd.readouterr() == (
        "",
        f"flarelog: there is no store at {other}: give the directory of flarelog serve --store, which makes it\n",
    )


def ends(args: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(args)
    return ended.value.code
