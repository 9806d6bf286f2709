"""The zone of a process, from TZ and the system's files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import TZPATH

from flarelog.sources.zone import told_by
from tests.rows import together

WINTER = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp())
BERLIN = next(path for root in TZPATH if (path := Path(root) / "Europe/Berlin").exists())


@together(
    ("said", "offset", "wanted"),
    [
        ("Europe/Berlin", 3600, "Europe/Berlin"),
        (":Europe/Berlin", 3600, "Europe/Berlin"),
        (str(BERLIN), 3600, "Europe/Berlin"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 3600, "CET-1CEST;M3.5.0;M10.5.0/3"),
        ("", 0, "UTC"),
        ("Mars/Olympus", 0, "+00:00"),  # the C library does not know it either
        ("Europe/Berlin", 0, "+00:00"),  # the system has no such file
        ("Europe/Berlin", -12600, "-03:30"),
    ],
)
def test_tz_tells(said: str, offset: int, wanted: str) -> None:
    assert told_by(said, WINTER, offset) == wanted


def test_a_link_into_the_database_tells_its_name(tmp_path: Path) -> None:
    (tmp_path / "localtime").symlink_to(BERLIN)
    assert told_by(None, WINTER, 3600, str(tmp_path / "localtime"), "") == "Europe/Berlin"


def test_a_copy_tells_its_name_where_that_stands_beside_it_and_else_its_rule(tmp_path: Path) -> None:
    copy, name = tmp_path / "localtime", tmp_path / "timezone"
    copy.write_bytes(BERLIN.read_bytes())
    assert told_by(None, WINTER, 3600, str(copy), str(name)) == "CET-1CEST;M3.5.0;M10.5.0/3"
    name.write_text("Europe/Berlin\n")
    assert told_by(None, WINTER, 3600, str(copy), str(name)) == "Europe/Berlin"
    name.write_text("Asia/Tokyo\n")  # a stale name: the copy is of another zone
    assert told_by(None, WINTER, 3600, str(copy), str(name)) == "CET-1CEST;M3.5.0;M10.5.0/3"


def test_without_a_file_it_is_utc(tmp_path: Path) -> None:
    assert told_by(None, WINTER, 0, str(tmp_path / "none"), str(tmp_path / "none")) == "UTC"
