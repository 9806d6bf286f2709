"""Two sidecars of one spool: that of a command whose guard was killed, which has parts open that the spool dropped, and
that of the same command run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.often import table
from tests.sources.files.tailing import Site
from tests.sources.process.test_segments import Spool

LOG = "out.log"
FIRST, SECOND = 30_000, 24_000  # bytes, of lines of 16; a spool of 32 KiB drops parts of the first


@pytest.fixture(params=[(), ("all",)], ids=["plain", "redacted"])
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """The older sidecar, which has opened all of the first command, and the newer one; nothing was sent yet."""
    older, newer = Site(tmp_path, redact=request.param), Site(tmp_path, redact=request.param)
    say(tmp_path, "a" * 16, 0, FIRST)
    older.look()
    say(tmp_path, "b" * 16, FIRST, SECOND)
    older.look()
    newer.look()
    newer.stored = older.stored  # at one receiver
    yield older, newer
    older.close()
    newer.close()


def say(root: Path, token: str, begin: int, count: int) -> None:
    spool = Spool(root / LOG, token=token)
    for at in range(begin, begin + count, 16):
        spool.say(b"%015d\n" % at)
    spool.segments.close()


def check(site: Site) -> None:
    """What is stored, and the gaps, are what the commands said, in its order."""
    assert set(site.stored) == {LOG}
    lines = site.content(LOG).split()
    assert lines == sorted(set(lines))
    assert len(site.content(LOG)) + sum(gap.length for gap in site.gaps(LOG)) == FIRST + SECOND
    assert site.content(LOG).endswith(b"%015d\n" % (FIRST + SECOND - 16))


@pytest.mark.parametrize(("most", "first"), table([1, 3, 1000], ["older", "newer"]))
def test_one_after_the_other(sites: tuple[Site, Site], first: str, most: int) -> None:
    """The first one is stopped after *most* of what it has to send."""
    one, other = sites if first == "older" else sites[::-1]
    one.discovery.learn([], one.now)
    if most == 1000:
        one.settle()
    else:
        one.pump(room=1024, limit=most)
        one.arrive(LOG)
    other.discovery.learn(one.record(), other.now)
    other.settle()
    check(other)


def test_one_that_comes_when_all_is_stored_and_the_spool_was_removed(sites: tuple[Site, Site]) -> None:
    older, newer = sites
    newer.discovery.learn([], newer.now)
    newer.settle()
    for path in older.root.iterdir():
        path.unlink()
    older.discovery.learn(newer.record(), older.now)
    older.settle()
    check(older)


@pytest.mark.parametrize(("most", "first"), table([1, 3, 1000], ["older", "newer"]))
def test_one_that_finds_the_stream_begun_when_it_opens_it(sites: tuple[Site, Site], first: str, most: int) -> None:
    """Both have learned that the receiver has nothing."""
    one, other = sites if first == "older" else sites[::-1]
    one.discovery.learn([], one.now)
    other.discovery.learn([], other.now)
    one.pump(limit=most)
    one.arrive(LOG)
    other.settle()
    check(other)
