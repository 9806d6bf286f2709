"""A generation that a rotation compresses is sent once, whatever became of the connection and of the sidecar meanwhile.

The patterns match a.log.2.gz as well.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable

import pytest

from tests.sources.files.tailing import Site

ONE, TWO, THREE = (word * 1000 for word in (b"one\n", b"two\n", b"three\n"))


def rotate(site: Site, data: bytes) -> None:
    """As logrotate does with ``delaycompress``."""
    if (site.root / "a.log.1").exists():
        compress(site, "a.log.1", "a.log.2.gz")
    site.rename("a.log", "a.log.1")
    site.append("a.log", data)


def compress(site: Site, name: str, to: str) -> None:
    (site.root / to).write_bytes(gzip.compress((site.root / name).read_bytes()))
    os.unlink(site.root / name)
    os.utime(site.root / to, (1, 1))  # gzip has ended


def never_reached(site: Site) -> None:
    """Nothing is read before the receiver answers."""
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
    """All was on its way when the connection was lost."""
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
    """The first generation came in two pieces."""
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
    """As logrotate does with ``copytruncate`` and ``compress``."""
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
