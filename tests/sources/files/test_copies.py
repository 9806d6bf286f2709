"""A generation that a rotation compresses is sent once, even over lost connections and restarts of the sidecar.

The patterns match a.log.2.gz as well.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable

import pytest

from flarelog.model import Ended
from flarelog.sources.files import adopt
from tests.sources.files.tailing import Site

ONE, TWO, THREE = (word * 1000 for word in (b"one\n", b"two\n", b"three\n"))


def rotate(site: Site, data: bytes) -> None:
    """Rotate as logrotate does with ``delaycompress``."""
    if (site.root / "a.log.1").exists():
        compress(site, "a.log.1", "a.log.2.gz")
    site.rename("a.log", "a.log.1")
    site.append("a.log", data)


def compress(site: Site, name: str, to: str) -> None:
    (site.root / to).write_bytes(gzip.compress((site.root / name).read_bytes()))
    os.unlink(site.root / name)
    os.utime(site.root / to, (1, 1))  # an old time, so that gzip counts as finished


def never_reached(site: Site) -> None:
    """The receiver answers only after both rotations."""
    for data in (TWO, THREE):
        site.look()
        rotate(site, data)
    site.look()


def partly_sent(site: Site) -> None:
    site.look()
    site.pump(room=100, limit=3)
    for name in list(site.stored):
        site.arrive(name)
    for data in (TWO, THREE):
        rotate(site, data)
        site.look()


def sent_and_lost(site: Site) -> None:
    """The connection is lost with all bytes in flight."""
    site.look()
    site.pump()
    for data in (TWO, THREE):
        rotate(site, data)
        site.look()
    site.cut()


def restarted(site: Site) -> None:
    site.settle()
    rotate(site, TWO)
    site.settle()
    rotate(site, THREE)
    site.restart()


def restarted_without_its_end(site: Site) -> None:
    site.settle()
    rotate(site, TWO)
    rotate(site, THREE)
    site.restart()


def restarted_with_late_bytes(site: Site) -> None:
    """The first generation gets late bytes after its rotation."""
    with site.open("a.log") as writer:
        site.settle()
        rotate(site, TWO)
        site.settle()
        site.write(writer, b"late\n")
        site.settle()
    rotate(site, THREE)
    site.restart()


def restarted_before_it_is_compressed(site: Site) -> None:
    site.settle()
    rotate(site, TWO)
    site.settle()
    site.restart()
    site.settle()
    rotate(site, THREE)


def truncated(site: Site) -> None:
    """Rotate as logrotate does with ``copytruncate`` and ``compress``."""
    site.settle()
    for data in (TWO, THREE):
        (site.root / "a.log.1.gz").write_bytes(gzip.compress((site.root / "a.log").read_bytes()))
        os.utime(site.root / "a.log.1.gz", (1, 1))
        site.truncate("a.log")
        site.append("a.log", data)
        site.settle()


def truncated_before_it_is_compressed(site: Site) -> None:
    site.settle()
    for data in (TWO, THREE):
        copy = (site.root / "a.log").read_bytes()
        site.truncate("a.log")
        site.append("a.log", data)
        site.settle()
        (site.root / "a.log.1.gz").write_bytes(gzip.compress(copy))
        os.utime(site.root / "a.log.1.gz", (1, 1))
        site.settle()


@pytest.mark.parametrize(
    "happens",
    [
        never_reached, partly_sent, sent_and_lost, restarted, restarted_without_its_end, restarted_with_late_bytes,
        restarted_before_it_is_compressed, truncated, truncated_before_it_is_compressed,
    ],
)  # fmt: skip
def test_what_is_compressed_is_sent_once(make_site: Callable[..., Site], happens: Callable[[Site], None]) -> None:
    site = make_site(include=("a.log*",))
    site.append("a.log", ONE)
    happens(site)
    site.settle()
    assert sorted(site.stored) == ["a.log"]
    assert site.content("a.log").replace(b"late\n", b"") == ONE + TWO + THREE


@pytest.mark.parametrize("look", [True, False], ids=["seen before the record", "seen with the record"])
def test_a_generation_is_met_between_its_rotation_and_the_birth_of_the_next(
    make_site: Callable[..., Site], look: bool
) -> None:
    """Only compressed copies are left of the earlier generations, so the record alone names their log."""
    site = make_site(include=("a.log*",))
    site.append("a.log", ONE)
    site.settle()
    compress(site, "a.log", "a.log.2.gz")
    site.append("a.log.1", TWO)
    site.restart(look=look)
    site.look()
    site.append("a.log", THREE)
    for _ in range(2):
        site.settle()
        assert sorted(site.stored) == ["a.log"]
        assert site.content("a.log") == ONE + TWO + THREE
        site.restart()


# --- a generation that was partly stored when the sidecar stopped

HELD = 1500  # bytes of ONE that the receiver holds


def stored_in_part(site: Site) -> None:
    """Stop the sidecar when the receiver has HELD bytes of a.log."""
    site.look()
    site.pump(room=HELD, limit=2)
    site.arrive("a.log")
    assert site.content("a.log") == ONE[:HELD]
    site.cut()


def gzipped(site: Site, name: str, to: str) -> None:
    """Compress as gzip does: the copy has its source's time."""
    was = os.stat(site.root / name)
    compress(site, name, to)
    os.utime(site.root / to, ns=(was.st_atime_ns, was.st_mtime_ns))


def with_delay(site: Site) -> None:
    for data in (TWO, THREE):
        if (site.root / "a.log.1").exists():
            gzipped(site, "a.log.1", "a.log.2.gz")
        site.rename("a.log", "a.log.1")
        site.append("a.log", data)


def at_once(site: Site) -> None:
    for data in (TWO, THREE):
        if (site.root / "a.log.1.gz").exists():
            site.rename("a.log.1.gz", "a.log.2.gz")
        site.rename("a.log", "a.log.1")
        gzipped(site, "a.log.1", "a.log.1.gz")
        site.append("a.log", data)
    os.utime(site.root / "a.log.1.gz", (1, 1))  # of TWO, and too old to be a copy of the stored bytes


def without_a_new_one(site: Site) -> None:
    gzipped(site, "a.log", "a.log.1.gz")


def copied_and_truncated(site: Site) -> None:
    (site.root / "a.log.1").write_bytes((site.root / "a.log").read_bytes())
    gzipped(site, "a.log.1", "a.log.1.gz")
    site.truncate("a.log")
    site.append("a.log", TWO)


@pytest.mark.parametrize(
    ("happens", "kept", "beside"),
    [
        pytest.param(with_delay, TWO + THREE, [], id="delaycompress"),
        pytest.param(at_once, THREE, ["a.log.1.gz"], id="compress"),
        pytest.param(without_a_new_one, b"", [], id="nocreate"),
        pytest.param(copied_and_truncated, TWO, [], id="copytruncate"),
    ],
)
@pytest.mark.parametrize("include", ["a.log*", "a.log"])
def test_the_rest_of_a_generation_that_was_compressed_is_a_gap_and_its_copy_no_log(
    make_site: Callable[..., Site], happens: Callable[[Site], None], kept: bytes, beside: list[str], include: str
) -> None:
    site = make_site(include=(include,))
    site.append("a.log", ONE)
    stored_in_part(site)
    happens(site)
    for _ in range(3):
        site.restart()
        site.settle()
        assert sorted(site.stored) == ["a.log", *(beside if include == "a.log*" else [])]
        assert site.content("a.log") == ONE[:HELD] + kept
        (gap,) = site.gaps("a.log")
        assert (gap.offset, gap.length) == (HELD, len(ONE) - HELD)
        assert "were compressed" in gap.reason
        for copy in site.root.glob("*.gz"):
            os.utime(copy, (1, 1))  # an old time, so that gzip counts as finished


@pytest.mark.parametrize("whole", [True, False], ids=["all-of-it-stored", "a-part"])
def test_a_copy_shows_the_end_of_its_generation(make_site: Callable[..., Site], whole: bool) -> None:
    site = make_site(include=("a.log",))
    site.append("a.log", ONE)
    if whole:
        site.settle()
        site.cut()
    else:
        stored_in_part(site)
    site.rename("a.log", "a.log.1")
    gzipped(site, "a.log.1", "a.log.1.gz")
    site.append("a.log", TWO)
    site.restart()
    site.settle()
    held = len(ONE) if whole else HELD
    assert site.content("a.log") == ONE[:held] + TWO
    assert [gap.length for gap in site.gaps("a.log")] == ([] if whole else [len(ONE) - HELD])
    assert [mark.reason for mark in site.stored["a.log"].marks if isinstance(mark, Ended)] == ["rotated"]


def test_no_large_copy_is_unpacked_that_no_pattern_matches(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt, "UNPACKED", 10)
    site = make_site(include=("a.log",))
    site.append("a.log", ONE)
    stored_in_part(site)
    at_once(site)
    site.restart()
    site.settle()
    assert (site.content("a.log"), site.gaps("a.log")) == (ONE[:HELD] + THREE, [])


def test_a_copy_of_another_generation_that_begins_alike_is_sent(make_site: Callable[..., Site]) -> None:
    site = make_site(include=("*",))
    site.append("a.log", ONE)
    stored_in_part(site)
    os.unlink(site.root / "a.log")
    others = {
        "a.log.2.gz": ONE + b"its last bytes are older than the generation",
        "b.log.1.gz": ONE + b"it has another log's name",
        "a.log.1.gz": ONE[:HELD] + b"what follows is cut off",
        "a.log.3.gz": b"another beginning" + ONE,
    }
    for name, data in others.items():
        (site.root / name).write_bytes(gzip.compress(data)[: -5 if name == "a.log.1.gz" else None])
        later = 10**9 * 4
        os.utime(site.root / name, (1, 1) if name == "a.log.2.gz" else (later, later))  # no writer is at work
    site.append("a.log", TWO)
    for _ in range(2):
        site.restart()
        site.settle()
        assert site.stored.keys() == {"a.log", *others}
        assert site.content("a.log") == ONE[:HELD] + TWO
        assert site.gaps("a.log") == []
