"""Directories and links that this user may not follow: each is reported, and none of their files counts as sent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from flarelog.model import Generation
from flarelog.sources.files.lineage import birth_note, born_of
from tests.sources.files.tailing import Site
from tests.unprivileged import unprivileged

Sites = Callable[..., Site]
CLOSED = [pytest.param(0o600, id="names-alone-may-be-read"), pytest.param(0o000, id="nothing-may-be-read")]


@pytest.mark.parametrize("mode", CLOSED)
def test_a_directory_that_is_closed_is_told_until_it_is_open(make_site: Sites, mode: int) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    site.append("e/y.log", b"y\n")
    (site.root / "e").chmod(mode)
    with unprivileged():
        site.settle()
        assert site.discovery.troubles == {"e": f"{site.root}/e cannot be listed: Permission denied"}
        assert {name: bytes(stored.data) for name, stored in site.stored.items()} == {"a.log": b"a\n", "e/.": b""}
        (site.root / "e").chmod(0o700)
        site.settle()
    assert not site.discovery.troubles
    assert site.content("e/y.log") == b"y\n"


@pytest.mark.parametrize("mode", CLOSED)
def test_a_root_that_is_closed_is_waited_for(make_site: Sites, mode: int) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    missing = []
    with unprivileged():
        for then in (mode, 0o700):
            site.root.chmod(then)
            site.settle()
            missing.append(site.discovery.walk.root_missing)
    assert missing == [True, False]
    assert site.content("a.log") == b"a\n"


def test_a_link_into_a_directory_that_is_closed_is_told(make_site: Sites) -> None:
    site = make_site(exclude=("shut/**",))
    site.append("shut/y.log", b"y\n")
    for name, target in {"l.log": "shut/y.log", "l.pt": "shut/y.log", "m.log": "nowhere"}.items():
        os.symlink(target, site.root / name)
    site.append("../shut.of/y.log", b"y\n")
    os.symlink("../shut.of/y.log", site.root / "o.log")
    os.symlink("../shut.of/y.log", site.root / "o.pt")
    for directory in ("shut", "../shut.of"):
        (site.root / directory).chmod(0o600)
    with unprivileged():
        site.settle()
        told = dict(site.discovery.troubles)
        for directory in ("shut", "../shut.of"):
            (site.root / directory).chmod(0o700)
        site.settle()
    assert told == {
        "shut": f"{site.root}/shut cannot be listed: Permission denied",
        "o.log": f"{site.root}/o.log cannot be read: Permission denied",
    }
    assert not site.discovery.troubles
    assert site.content("o.log") == b"y\n"


@pytest.mark.parametrize("same", [True, False], ids=["the-file-itself", "one-that-has-its-inode"])
def test_of_closed_files_those_are_let_be_that_are_stored_whole(make_site: Sites, same: bool) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    site.settle()
    if not same:  # the file that the receiver knows was born earlier, and is gone
        for number, mark in enumerate(site.stored["a.log"].marks):
            if isinstance(mark, Generation):
                site.stored["a.log"].marks[number] = replace(mark, notes=birth_note((born_of(mark.notes) or 0) - 1))
    (site.root / "a.log").chmod(0)
    with unprivileged():
        site.restart()
        site.settle()
    assert site.discovery.troubles == (
        {} if same else {"a.log": f"{site.root}/a.log cannot be read: Permission denied"}
    )


def test_what_could_not_be_read_is_told_until_it_is_gone(make_site: Sites) -> None:
    site = make_site()
    for name in ("a.log", "b.log", "d/c.log"):
        site.append(name, b"a\n")
        (site.root / name).chmod(0)
    site.append("e/y.log", b"y\n")
    (site.root / "e").chmod(0)

    def troubles() -> list[str]:
        with unprivileged():
            site.settle()
        return sorted(site.discovery.troubles)

    assert troubles() == ["a.log", "b.log", "d/c.log", "e"]
    (site.root / "a.log").unlink()
    shutil.rmtree(site.root / "e")
    assert troubles() == ["b.log", "d/c.log"]
    shutil.rmtree(site.root / "d")
    assert troubles() == ["b.log"]
    site.root.rename(site.root.parent / "away")  # the root's content is unknown now
    assert troubles() == ["b.log"]
