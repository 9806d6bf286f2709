"""A file belongs to the run whose directory it is in, when bytes are written, also while names of directories move."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.model import Ended
from tests.sources.files.tailing import Site


class Runs:
    """The runs a and b of an agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sites = {}
        for name in ("a", "b"):
            (root / name).mkdir()
            self.sites[name] = Site(root / name, goes=True)
        self.a, self.b = self.sites["a"], self.sites["b"]

    def settle(self) -> None:
        for site in self.sites.values():
            site.settle()

    def write(self, path: str, data: bytes) -> None:
        with open(self.root / path, "ab") as file:
            file.write(data)

    def content(self) -> tuple[bytes, bytes]:
        return self.a.content("log.txt"), self.b.content("log.txt")

    def rename(self, old: str, new: str) -> None:
        os.rename(self.root / old, self.root / new)

    def ended(self) -> list[str]:
        return [mark.reason for mark in self.a.stored["log.txt"].marks if isinstance(mark, Ended)]


@pytest.fixture(params=[(), ("all",)], ids=["raw", "redacted"])
def runs(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Runs]:
    made = Runs(tmp_path)
    for site in made.sites.values():
        site.options = Site(site.root, goes=True, redact=request.param).options
        site.restart(look=False)
    yield made
    for site in made.sites.values():
        site.close()


def test_bytes_written_under_the_new_name_are_the_new_runs(runs: Runs) -> None:
    os.rmdir(runs.root / "b")
    runs.write("a/log.txt", b"begin\n")
    runs.settle()
    runs.rename("a", "b")
    runs.write("b/log.txt", b"in b\n")
    runs.settle()
    assert runs.content() == (b"begin\n", b"begin\nin b\n")


def test_bytes_that_were_seen_before_are_still_sent(runs: Runs) -> None:
    os.rmdir(runs.root / "b")
    runs.write("a/log.txt", b"begin\n")
    runs.settle()
    runs.write("a/log.txt", b"seen\n")
    runs.a.look()
    runs.rename("a", "b")
    runs.write("b/log.txt", b"in b\n")
    runs.settle()
    assert runs.content() == (b"begin\nseen\n", b"begin\nseen\nin b\n")
    assert runs.ended() == ["unseen"], "more may have been written before the rename"


def test_a_file_that_was_read_to_its_end_is_complete(runs: Runs) -> None:
    os.rmdir(runs.root / "b")
    runs.write("a/log.txt", b"begin\n")
    runs.settle()
    runs.rename("a", "b")
    runs.settle()
    runs.a.now += 100
    runs.settle()
    assert "unseen" not in runs.ended()
    assert runs.a.gaps("log.txt") == []


def test_two_directories_that_change_places(runs: Runs) -> None:
    runs.write("a/log.txt", b"A\n")
    runs.write("b/log.txt", b"B\n")
    runs.settle()
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        runs.rename(old, new)
    runs.write("a/log.txt", b"now in a\n")
    runs.write("b/log.txt", b"now in b\n")
    runs.settle()
    a, b = runs.content()
    assert (b"now in a" in a, b"now in a" in b) == (True, False)
    assert (b"now in b" in a, b"now in b" in b) == (False, True)


def test_a_new_directory_of_the_name(runs: Runs) -> None:
    runs.write("a/log.txt", b"A\n")
    runs.settle()
    shutil.rmtree(runs.root / "b")
    runs.rename("a", "b")
    (runs.root / "a").mkdir()
    runs.write("a/log.txt", b"new\n")
    runs.write("b/log.txt", b"now in b\n")
    runs.settle()
    assert runs.content() == (b"A\nnew\n", b"A\nnow in b\n")


def test_a_directory_that_comes_back(runs: Runs) -> None:
    runs.write("a/log.txt", b"A\n")
    runs.settle()
    runs.rename("a", "c")
    runs.write("c/log.txt", b"in c\n")
    runs.settle()
    runs.rename("c", "a")
    runs.write("a/log.txt", b"back\n")
    runs.settle()
    assert runs.content()[0] == b"A\nin c\nback\n"


def test_what_a_new_run_truncates_is_no_loss_of_the_old_one(runs: Runs) -> None:
    os.rmdir(runs.root / "b")
    runs.write("a/log.txt", b"begin\n")
    runs.settle()
    runs.rename("a", "b")
    with open(runs.root / "b" / "log.txt", "wb") as file:
        file.write(b"other, and longer\n")
    runs.settle()
    assert runs.content() == (b"begin\n", b"other, and longer\n")
    assert runs.a.gaps("log.txt") == []


def test_what_the_new_run_overwrites_before_it_is_read_is_a_gap(runs: Runs) -> None:
    os.rmdir(runs.root / "b")
    runs.write("a/log.txt", b"begin\n")
    runs.settle()
    runs.write("a/log.txt", b"seen\n")
    runs.a.look()
    runs.rename("a", "b")
    with open(runs.root / "b" / "log.txt", "wb"):
        pass
    runs.settle()
    assert runs.content()[0] == b"begin\n"
    assert [gap.length for gap in runs.a.gaps("log.txt")] == [5]


def test_a_removed_directory_is_read_to_its_end(runs: Runs) -> None:
    handle = runs.a.open("log.txt")
    handle.write(b"begin\n")
    runs.settle()
    handle.write(b"end\n")
    shutil.rmtree(runs.root / "a")
    runs.settle()
    assert runs.content()[0] == b"begin\nend\n"


def test_a_restarted_agent_sends_nothing_of_the_new_run_to_the_old_one(runs: Runs) -> None:
    os.rmdir(runs.root / "b")
    runs.write("a/log.txt", b"begin\n")
    runs.settle()
    runs.rename("a", "b")
    runs.a.restart()
    runs.write("b/log.txt", b"in b\n")
    runs.settle()
    assert runs.content() == (b"begin\n", b"begin\nin b\n")
