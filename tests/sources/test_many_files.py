"""The work for very many files grows with their number; it is counted, not timed."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flarelog.sources.files import file, identity, walk
from tests.sources.files.tailing import Site

Sites = Callable[..., Site]


class Opened:
    """Counts the opened files."""

    def __init__(self) -> None:
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, *args: Any) -> int:
        self.count += 1
        return os.open(*args)


def fill(root: Path, count: int) -> None:
    for number in range(count):
        (root / f"log-{number}.txt").write_bytes(b"line\n")


def test_a_compressed_copy_is_opened_once(make_site: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site(include=("*",))
    site.append("log.txt", b"one\n")
    site.settle()
    with gzip.open(site.root / "log.txt.gz", "wb") as copy:
        copy.write(b"one\n")
    os.utime(site.root / "log.txt.gz", (0, 0))
    site.settle()
    opened = Opened()
    monkeypatch.setattr(file, "os", opened)
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert opened.count == 0
    os.utime(site.root / "log.txt.gz", (1, 1))  # the copy may be another file now
    site.look()
    assert opened.count == 1


def test_a_quiet_look_asks_the_c_library_nothing_of_files_that_are_open(
    make_site: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site()
    fill(site.root, 20)
    site.settle()
    asked: list[str] = []

    def counted(path: str) -> identity.Sight:
        asked.append(path)
        return identity.sight(path)

    monkeypatch.setattr(walk, "sight", counted)
    site.look()
    assert asked == []
    (site.root / "new.txt").write_bytes(b"line\n")
    site.look()
    assert set(asked) == {str(site.root / "new.txt")}


def test_a_new_file_asks_one_log_whether_it_was_begun(make_site: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site()
    fill(site.root, 50)
    site.settle()
    asked = 0

    class Begun(dict[str, None]):
        def __contains__(self, key: object) -> bool:
            nonlocal asked
            asked += 1
            return super().__contains__(key)

    for tail in site.discovery.tails.values():
        tail.begun = Begun(tail.begun)
    (site.root / "new.txt").write_bytes(b"line\n")
    site.look()
    assert "new.txt" in site.discovery.tails
    assert asked <= 2
