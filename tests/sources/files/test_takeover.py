"""A newer sidecar of a site starts while the older one still sends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sources.files.tailing import Site

LOG = "a.log"
OLD = b"".join(b"line %d of many\n" % number for number in range(300))
NEW, NEWER = b"another line\n" * 20, b"a third one\n" * 10


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """The older sidecar, which has begun a minute ago, and the newer one, at one receiver."""
    older, newer = Site(tmp_path), Site(tmp_path)
    older.clock, newer.stored = -60_000, older.stored
    yield older, newer
    older.close()
    newer.close()


def learn(newer: Site) -> None:
    newer.discovery.learn(newer.record(), newer.now)


def truncate(site: Site, anew: bytes = NEW) -> None:
    site.clock = 1  # ms: the next marks are younger than the newer one's looks
    site.truncate(LOG)
    site.append(LOG, anew)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(lambda older: older.settle(), id="all"),
        pytest.param(lambda older: older.pump(limit=2) and older.arrive(LOG), id="only-the-marks"),
        pytest.param(lambda older: older.pump(limit=3, room=30) and older.arrive(LOG), id="some-bytes"),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["once", "again-before-the-record"])
def test_a_truncation_that_the_older_one_saw_is_no_gap(
    sites: tuple[Site, Site], sent: Callable[[Site], object], again: bool
) -> None:
    older, newer = sites
    older.append(LOG, OLD)
    older.settle()
    newer.look()
    truncate(older)
    sent(older)
    if again:
        older.settle()
        truncate(older, NEWER)
    learn(newer)
    newer.settle()
    assert newer.content(LOG) == OLD + NEW + (NEWER if again else b"")
    assert newer.gaps(LOG) == []


@pytest.mark.parametrize("looks", [False, True], ids=["the-newer-one-finds-it-when-it-opens-the-log", "sees-it-before"])
@pytest.mark.parametrize("noticed", [False, True], ids=["the-older-one-only-read-on", "and-saw-it"])
def test_what_the_older_one_read_after_the_record_is_no_gap(
    sites: tuple[Site, Site], noticed: bool, looks: bool
) -> None:
    older, newer = sites
    older.append(LOG, OLD)
    older.settle()
    newer.look()
    learn(newer)
    older.append(LOG, OLD)
    newer.look()
    older.settle()
    truncate(older)
    if looks:
        newer.look()
    if noticed:
        older.settle()
    newer.pump()
    newer.arrive(LOG)
    newer.settle()
    assert newer.content(LOG) == OLD + OLD + NEW
    assert newer.gaps(LOG) == []


def test_what_the_older_one_read_of_a_file_that_is_not_in_the_record_is_no_gap(sites: tuple[Site, Site]) -> None:
    older, newer = sites
    learn(newer)
    older.append(LOG, OLD)
    newer.look()
    older.settle()
    truncate(older)
    newer.look()
    older.settle()
    newer.settle()
    assert newer.content(LOG) == OLD + NEW
    assert newer.gaps(LOG) == []


def test_what_neither_has_read_is_a_gap(sites: tuple[Site, Site]) -> None:
    older, newer = sites
    older.append(LOG, OLD)
    older.settle()
    older.append(LOG, NEW)
    newer.look()
    os.truncate(older.root / LOG, len(OLD) + 5)
    learn(newer)
    newer.settle()
    assert newer.content(LOG) == OLD + NEW[:5]
    assert [gap.length for gap in newer.gaps(LOG)] == [len(NEW) - 5]


def test_a_file_that_the_older_one_began_after_the_record_stays_in_its_log(sites: tuple[Site, Site]) -> None:
    older, newer = sites
    older.append(LOG, OLD)
    older.settle()
    learn(newer)
    older.rename(LOG, "old.log")
    older.append(LOG, NEW)
    older.settle()
    older.rename(LOG, "b.log")  # the newer one has not seen it under the log's name
    newer.look()
    assert "b.log" in newer.discovery.tails
    newer.discovery.resume([newer.stored[LOG].info(LOG)], newer.now)
    assert "b.log" not in newer.discovery.tails
    older.append("b.log", NEWER)
    newer.settle()
    assert {name: newer.content(name) for name in newer.stored} == {LOG: OLD + NEW + NEWER}
