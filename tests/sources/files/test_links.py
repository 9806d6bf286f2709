from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flarelog.sources.consent import Consent
from tests.sources.files.tailing import Site

BEHIND = ("../pods", "pods")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture(params=BEHIND)
def linked(request: pytest.FixtureRequest, top: Path) -> Iterator[tuple[Site, str]]:
    """A site whose log is a link, and where it leads to: beside the root, or below it and out of the patterns."""
    site = Site(top, include=("log.txt",)) if request.param == "pods" else Site(top)
    site.append(f"{request.param}/0.log", b"gen 1\n")
    os.symlink(f"{request.param}/0.log", top / "log.txt")
    yield site, f"{request.param}/0.log"
    site.close()


def rotate(site: Site, target: str, date: str, data: bytes) -> None:
    site.rename(target, f"{target}.20261122-00000{date}")
    site.append(target, data)


def test_what_is_rotated_behind_a_link_between_two_looks_is_sent(linked: tuple[Site, str]) -> None:
    site, target = linked
    site.settle()
    rotate(site, target, "1", b"gen 2\n")
    rotate(site, target, "2", b"gen 3\n")
    rotate(site, target, "3", b"gen 4\n")
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert site.content("log.txt") == b"gen 1\ngen 2\ngen 3\ngen 4\n"


def test_what_is_rotated_behind_a_link_while_nobody_watches_is_sent(linked: tuple[Site, str]) -> None:
    site, target = linked
    site.settle()
    rotate(site, target, "1", b"gen 2\n")
    rotate(site, target, "2", b"gen 3\n")
    site.restart()
    site.settle()
    rotate(site, target, "3", b"gen 4\n")
    site.restart(look=False)
    site.settle()
    site.discovery.drain(site.now)
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert site.content("log.txt") == b"gen 1\ngen 2\ngen 3\ngen 4\n"
    site.restart()
    site.settle()
    assert site.content("log.txt") == b"gen 1\ngen 2\ngen 3\ngen 4\n"


def test_numbered_generations_behind_a_link_are_sent(linked: tuple[Site, str]) -> None:
    site, target = linked
    site.settle()
    for number in range(2, 6):
        for at in range(number, 1, -1):
            if (site.root / f"{target}.{at - 1}").exists():
                site.rename(f"{target}.{at - 1}", f"{target}.{at}")
        site.rename(target, f"{target}.1")
        site.append(target, b"gen %d\n" % number)
        if number == 3:
            site.restart()
    site.restart()
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert site.content("log.txt") == b"".join(b"gen %d\n" % number for number in range(1, 6))


def test_generations_behind_each_link_of_a_chain_are_sent(top: Path) -> None:
    site = Site(top)
    site.append("../docker/j.log", b"gen 1\n")
    (top / "../pods").mkdir()
    os.symlink("../docker/j.log", top / "../pods/0.log")
    os.symlink("../pods/0.log", top / "log.txt")
    site.settle()
    rotate(site, "../docker/j.log", "1", b"gen 2\n")
    rotate(site, "../docker/j.log", "2", b"gen 3\n")
    site.append("../docker/k.log", b"gen 4\n")  # another container, and the old link of the pod stays
    site.rename("../pods/0.log", "../pods/0.log.20261122-000001")
    os.symlink("../docker/k.log", top / "../pods/0.log")
    site.settle()
    site.restart()
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert site.content("log.txt") == b"gen 1\ngen 2\ngen 3\ngen 4\n"
    site.close()


def test_other_files_behind_a_link_are_not_sent(linked: tuple[Site, str]) -> None:
    site, target = linked
    site.append(f"{target}.20261122-000001", b"")
    site.append(os.path.dirname(target) + "/1.log", b"secret\n")
    site.append(os.path.dirname(target) + "/10.log.1", b"secret\n")
    site.settle()
    site.append(os.path.dirname(target) + "/1.log.1", b"secret\n")
    site.append(os.path.dirname(target) + "/0.log.key", b"secret\n")
    site.settle()
    assert b"secret" not in b"".join(site.content(log) for log in site.stored)
    assert list(site.stored) == ["log.txt"]


def test_no_rotated_file_is_sent_by_way_of_a_link_that_is_left_out_itself(top: Path) -> None:
    left_out: list[dict[str, Any]] = [
        {"include": ("log.txt",), "exclude": ("*.log.*",)},
        {"include": ("log.txt",), "sites": (Consent(exclude=("*.log.*",)),)},
        {"include": ("log.txt",), "exclude": ("log.txt.*",)},
    ]
    for number, options in enumerate(left_out):
        root = top / str(number)
        root.mkdir()
        site = Site(root, **options)
        site.append("pods/0.log", b"gen 1\n")
        os.symlink("pods/0.log", root / "log.txt")
        site.settle()
        rotate(site, "pods/0.log", "1", b"gen 2\n")
        rotate(site, "pods/0.log", "2", b"gen 3\n")
        site.settle()
        site.restart()
        site.settle()
        assert site.content("log.txt") == b"gen 1\ngen 3\n"
        site.close()


def test_a_link_that_has_gone_watches_nothing(linked: tuple[Site, str]) -> None:
    site, target = linked
    site.settle()
    os.unlink(site.root / "log.txt")
    site.settle()
    site.append(f"{target}.1", b"no log's\n")
    site.settle()
    assert b"no log's" not in site.content("log.txt")


def test_two_links_to_one_file_are_one_log(top: Path) -> None:
    site = Site(top)
    site.append("../pods/0.log", b"gen 1\n")
    for name in ("b.txt", "a.txt"):
        os.symlink("../pods/0.log", top / name)
    site.settle()
    rotate(site, "../pods/0.log", "1", b"gen 2\n")
    rotate(site, "../pods/0.log", "2", b"gen 3\n")
    site.settle()
    site.restart()
    site.settle()
    assert site.content("a.txt") == b"gen 1\ngen 2\ngen 3\n"
    assert list(site.stored) == ["a.txt"]
    site.close()


def test_a_hard_link_made_while_nobody_watches_takes_no_generation_away(top: Path) -> None:
    site = Site(top)
    site.append("log.txt", b"gen 1\n")
    site.settle()
    for number in range(2, 8):
        for at in range(number, 0, -1):
            if (top / f"log.txt.{at}").exists():
                site.rename(f"log.txt.{at}", f"log.txt.{at + 1}")
        site.rename("log.txt", "log.txt.1")
        site.append("log.txt", b"gen %d\n" % number)
        if number % 2:
            os.link(top / "log.txt", top / f"hl-{number}.txt")
        if number % 3 == 0:
            site.restart()
    site.settle()
    site.restart(look=False)
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert site.content("log.txt") == b"".join(b"gen %d\n" % number for number in range(1, 8))
    site.close()
