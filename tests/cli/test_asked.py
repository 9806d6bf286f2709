"""The places in logs that --from names."""

from __future__ import annotations

from pathlib import Path

import pytest

from flarelog.cli.asked import MAX_PLACES, positions
from flarelog.errors import InvalidFile, InvalidOption


def test_a_place_and_a_file_of_places(tmp_path: Path) -> None:
    (tmp_path / "places").write_text("site-1/log.txt:4096\n\nsite-2/a/b.log:0\n")
    assert positions("site-1/log.txt:7") == [(("site-1", "log.txt"), 7)]
    assert positions(f"@{tmp_path}/places") == [(("site-1", "log.txt"), 4096), (("site-2", "a/b.log"), 0)]


def test_what_is_no_place_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "places").write_text("site-1/log.txt\n")
    with pytest.raises(InvalidOption, match=r"'site-1/log\.txt' is not a position in a log"):
        positions(f"@{tmp_path}/places")
    with pytest.raises(InvalidFile, match="--from @nowhere cannot be read: No such file"):
        positions("@nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xff")
    with pytest.raises(InvalidFile, match="cannot be read: it is not UTF-8 at byte 0"):
        positions(f"@{tmp_path}/binary")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_PLACES + 1)
    with pytest.raises(InvalidFile, match="it has more than 33,554,432 bytes"):
        positions(f"@{tmp_path}/large")
