from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flarelog.sources.consent import Consent
from flarelog.sources.files.passing import STAYS
from flarelog.sources.files.watch import Change, What
from tests.sources.files.tailing import Site

BEHIND = ("../pods", "pods")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture(params=BEHIND)
def linked(request: pytest.FixtureRequest, top: Path) -> Iterator[tuple[Site, str]]:
    """A site whose log is a link, and the directory of its target: outside the root, or below it and unmatched."""
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
    site.append("../docker/k.log", b"gen 4\n")  # another container, while the pod's old link stays
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


# --- a link that is made under a temporary name and renamed


def lead(site: Site, number: int, name: str) -> None:
    """Make the link *name* to a new file."""
    site.append(f"../out/{number}.log", b"gen %d\n" % number)
    os.symlink(f"../out/{number}.log", site.root / name)


def moved(site: Site, old: str, new: str, cookie: int) -> list[Change]:
    site.rename(old, new)
    root = str(site.root)
    return [Change(What.MOVED_FROM, root, old, cookie), Change(What.MOVED_TO, root, new, cookie)]


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("passing", ["CuXXXX{}", "latest.log.new"])
@pytest.mark.parametrize("first", [1, 2])
def test_a_link_that_is_renamed_over_another_one_gives_its_log_a_generation(
    top: Path, first: int, passing: str, told: bool
) -> None:
    site = Site(top)
    if first == 2:
        lead(site, 1, "latest.log")
    site.settle()
    for number in range(first, 9):
        name = passing.format(number)
        lead(site, number, name)
        site.look()  # the sidecar sees the link before its rename
        changes = moved(site, name, "latest.log", number)
        if told:
            site.discovery.apply(changes, site.now)
        site.settle()
    assert site.discovery.tails.keys() == {"latest.log"}
    assert [data for _, data in site.generations("latest.log")] == [b"gen %d\n" % number for number in range(1, 9)]
    site.close()


def test_what_is_reported_of_a_file_is_of_the_link_that_leads_to_it_by_now(top: Path) -> None:
    site = Site(top)
    lead(site, 1, "latest.log")
    site.settle()
    lead(site, 2, "CuXXXX")
    site.look()
    site.discovery.apply(moved(site, "CuXXXX", "latest.log", 1), site.now)
    written = Change(What.MODIFIED, os.path.realpath(top.parent / "out"), "2.log")
    assert site.discovery.apply([written], site.now) == {"latest.log"}
    site.close()


def test_each_link_that_is_renamed_before_the_next_look_gives_a_generation(top: Path) -> None:
    site = Site(top)
    site.settle()
    changes: list[Change] = []
    for number in range(1, 6):
        lead(site, number, "latest.log.new")
        if number > 1:
            site.discovery.apply(changes, site.now)
        site.look()
        changes = moved(site, "latest.log.new", "latest.log", number)
    site.discovery.apply(changes, site.now)
    site.settle()
    assert site.discovery.tails.keys() == {"latest.log"}
    assert site.content("latest.log") == b"".join(b"gen %d\n" % number for number in range(1, 6))
    site.close()


def test_a_link_whose_name_stays_is_a_log(top: Path) -> None:
    site = Site(top)
    site.settle()
    lead(site, 1, "a.log")
    site.look()
    assert not site.discovery.tails
    waits = [site.discovery.passing]
    site.append("../out/1.log", b"more\n")
    site.now += STAYS
    assert site.discovery.apply([], site.now) == {"a.log"}
    assert [*waits, site.discovery.passing] == [True, False]
    site.settle()
    assert site.content("a.log") == b"gen 1\nmore\n"
    site.close()


def test_a_link_that_has_just_come_is_sent_at_the_end(top: Path) -> None:
    site = Site(top)
    site.settle()
    lead(site, 1, "a.log")
    site.look()
    lead(site, 2, "b.log")
    site.discovery.drain(site.now)
    site.settle()
    assert {log: site.content(log) for log in site.stored} == {"a.log": b"gen 1\n", "b.log": b"gen 2\n"}
    site.close()


def test_a_link_that_was_renamed_without_a_word_is_sent_at_the_end_as_it_is_called_then(top: Path) -> None:
    site = Site(top)
    site.settle()
    lead(site, 1, "CuXXXX")
    site.look()
    site.rename("CuXXXX", "latest.log")
    site.discovery.drain(site.now)
    site.settle()
    assert {log: site.content(log) for log in site.stored} == {"latest.log": b"gen 1\n"}
    site.close()


def test_no_byte_behind_a_link_that_goes_at_once_is_lost(top: Path) -> None:
    site = Site(top)
    site.settle()
    lead(site, 1, "gone.log")
    lead(site, 2, "other.log")
    site.look()
    for path in ("gone.log", "../out/1.log", "other.log"):
        os.unlink(top / path)
    lead(site, 3, "other.log")  # the name now leads to another file
    site.settle()
    assert {log: site.content(log) for log in site.stored} == {
        "gone.log": b"gen 1\n",
        "other.log": b"gen 2\ngen 3\n",
    }
    site.close()


def test_a_link_that_is_renamed_out_of_the_patterns_is_not_sent(top: Path) -> None:
    site = Site(top, exclude=("*.left",))
    site.settle()
    lead(site, 1, "a.log")
    site.look()
    site.discovery.apply(moved(site, "a.log", "a.left", 1), site.now)
    site.settle()
    assert not site.stored
    site.close()


def test_very_many_links_that_come_at_once_do_not_wait(top: Path) -> None:
    site = Site(top)
    site.settle()
    for number in range(200):
        lead(site, number, f"{number}.log")
    site.look()
    assert len(site.discovery.tails) > 100
    site.settle()
    assert len(site.stored) == 200
    site.close()
