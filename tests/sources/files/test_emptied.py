"""A large file is emptied under a writer that stays at its position: the bytes that were read are no gap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.model import Gap
from flarelog.sources.files import tail
from tests.sources.files.tailing import Site

LOG = "stdout.log"
LARGE = (1 << 20) + 4096


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(tail, "HOLE", 1 << 20)
    site = Site(tmp_path)
    yield site
    site.close()


def arrive(site: Site) -> None:
    site.look()
    while site.pump():
        site.stored[LOG].arrive(len(site.stored[LOG].sent))
        site.look()


def test_what_was_seen_and_not_read_is_told_once(site: Site, tmp_path: Path) -> None:
    path = tmp_path / LOG
    with path.open("wb", buffering=0) as writer:
        writer.write(b"1" * LARGE)
        arrive(site)
        writer.write(b"seen, not read")
        (tail,) = site.discovery.tails.values()
        site.look()
        writer.truncate(0)
        tail.files[0].size(site.now)
        arrive(site)
        writer.write(b"end")
        arrive(site)
    assert sum(mark.length for mark in site.stored[LOG].marks if isinstance(mark, Gap)) == len(b"seen, not read")
    assert site.stored[LOG].data == b"1" * LARGE + b"end"


@pytest.mark.parametrize("unseen", [0, 7])
def test_the_gap_is_as_long_as_what_nobody_saw(site: Site, tmp_path: Path, unseen: int) -> None:
    path = tmp_path / LOG
    with path.open("wb", buffering=0) as writer:
        for number in (1, 2):
            writer.write(b"%d" % number * LARGE)
            arrive(site)
            writer.write(b"u" * unseen)
            writer.truncate(0)
            arrive(site)
        writer.write(b"end")
        arrive(site)
    gaps = [mark.length for mark in site.stored[LOG].marks if isinstance(mark, Gap)]
    assert sum(gaps) == 2 * unseen
    assert len(gaps) == (2 if unseen else 0)
    assert site.stored[LOG].data == b"1" * LARGE + b"2" * LARGE + b"end"
