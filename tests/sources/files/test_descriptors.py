"""With more logs than descriptors the logs take turns, and no byte is lost or repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.sources.files import descriptors
from flarelog.sources.files.tail import QUIET
from tests.sources.files.tailing import Site

Make = Callable[..., Site]


@pytest.fixture
def scarce(make_site: Make, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site that may open two files at once."""
    os.close(lowest := os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(descriptors, "descriptors", lambda: lowest + 2)
    return make_site()


def turns(site: Site, count: int) -> None:
    """Let *count* turns pass, after each of which quiet files give up their descriptors."""
    for _ in range(count):
        site.settle()
        site.now += QUIET
    site.settle()


def append(site: Site, name: str, data: bytes) -> None:
    """Append, and close the file: the site's own writers would hold descriptors."""
    with open(site.root / name, "ab") as file:
        file.write(data)


def test_every_log_gets_its_turn(scarce: Site) -> None:
    names = [f"{n}.log" for n in range(7)]
    for name in names:
        append(scarce, name, name.encode())
    scarce.look()
    assert len(scarce.discovery.descriptors.waiting) == 5
    turns(scarce, 4)
    assert {name: scarce.content(name) for name in names} == {name: name.encode() for name in names}
    assert not scarce.discovery.descriptors.waiting
    assert not scarce.discovery.troubles


def test_a_log_that_was_quiet_goes_on_when_it_grows(scarce: Site) -> None:
    for name in ("a", "b", "c", "d"):
        append(scarce, name, b"one\n")
    turns(scarce, 3)
    for name in ("a", "b", "c", "d"):
        append(scarce, name, b"two\n")
    turns(scarce, 3)
    for name in ("a", "b", "c", "d"):
        assert scarce.content(name) == b"one\ntwo\n"
        assert not scarce.gaps(name)


def test_a_log_that_was_quiet_is_rotated(scarce: Site) -> None:
    for name in ("a", "b", "c"):
        append(scarce, name, b"one\n")
    turns(scarce, 3)
    append(scarce, "a", b"two\n")
    scarce.rename("a", "a.1")
    append(scarce, "a", b"three\n")
    turns(scarce, 4)
    assert sorted(scarce.content("a").splitlines()) == [b"one", b"three", b"two"]
    assert not scarce.gaps("a")
    assert scarce.content("a.1") == b""


def test_a_log_that_was_quiet_is_begun_anew(scarce: Site) -> None:
    for name in ("a", "b", "c"):
        append(scarce, name, b"one\n")
    turns(scarce, 3)
    Path(scarce.root / "a").write_bytes(b"new\n")
    os.utime(scarce.root / "a", ns=(1, 1))  # a change of time on any file system, even with a coarse clock
    turns(scarce, 3)
    assert scarce.content("a") == b"one\nnew\n"


def test_while_a_log_waits_to_go_on_it_is_not_drained(scarce: Site) -> None:
    for name in ("a", "b", "c"):
        append(scarce, name, b"one\n")
    turns(scarce, 3)
    held = [scarce.discovery.tails[name] for name in ("a", "b", "c") if not scarce.discovery.tails[name].files]
    assert held
    name = held[0].log
    for other in ("a", "b", "c"):
        if other != name:
            append(scarce, other, b"more\n")
    scarce.settle()
    append(scarce, name, b"two\n")
    scarce.discovery.drain(scarce.now)
    scarce.pump()
    if name in scarce.discovery.descriptors.waiting:
        assert not held[0].drained(scarce.now)
    for tail in scarce.discovery.tails.values():
        if tail is not held[0]:
            tail.lay_down()
    scarce.discovery.strangers.meet_waiting(scarce.now)
    scarce.settle()
    assert scarce.content(name) == b"one\ntwo\n"
    assert held[0].drained(scarce.now)


def test_a_receiver_that_lost_bytes_of_a_quiet_log_gets_them_again(scarce: Site) -> None:
    for name in ("a", "b", "c"):
        append(scarce, name, b"one\n")
    turns(scarce, 3)
    quiet = next(name for name in ("a", "b", "c") if not scarce.discovery.tails[name].files)
    for name in ("a", "b", "c"):
        if name != quiet:
            scarce.discovery.tails[name].lay_down()
    stored = scarce.stored[quiet]
    stored.data.clear()
    stored.marks.clear()
    scarce.settle()
    assert scarce.content(quiet) == b"one\n"
    assert not scarce.gaps(quiet)


def test_a_log_is_not_drained_while_its_latest_generation_waits_for_a_descriptor(scarce: Site) -> None:
    for name in ("a", "b", "c"):
        append(scarce, name, b"one\n")
    turns(scarce, 3)
    for name in ("a", "b", "c"):
        append(scarce, name, b"two\n")
        scarce.rename(name, f"{name}.1")
        append(scarce, name, b"three\n")
    scarce.discovery.drain(scarce.now)
    waiting = [tail for tail in scarce.discovery.tails.values() if tail.log in scarce.discovery.descriptors.waiting]
    assert waiting
    scarce.pump()
    assert not any(tail.drained(scarce.now) for tail in waiting)
    for _ in range(20):
        turns(scarce, 1)
        for tail in scarce.discovery.tails.values():
            if tail.drained(scarce.now):
                tail.lay_down()
        scarce.discovery.strangers.meet_waiting(scarce.now)
    assert [scarce.content(name) for name in ("a", "b", "c")] == [b"one\ntwo\nthree\n"] * 3
