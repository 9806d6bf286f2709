"""Files that the receiver holds whole are not opened again, and all others are."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from flarelog.model import Ended
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.record import GRAIN
from flarelog.sources.files.stored import CROWD, PATIENCE
from tests.sources.files.tailing import Site

OLD = 6


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A log with some generations, all stored, and no sidecar."""
    site = Site(tmp_path, include=("log.txt*",))
    for number in range(OLD, 0, -1):
        site.append(f"log.txt.{number}", b"old %d\n" % number)
    site.append("log.txt", b"new\n")
    site.clock = 1000
    site.settle()
    yield site
    site.close()


def everything(number: int = OLD) -> bytes:
    return b"".join(b"old %d\n" % n for n in range(number, 0, -1)) + b"new\n"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of all files that are opened from now on."""
    paths: list[str] = []

    def opens(directory: str, path: str, now: float) -> SourceFile:
        paths.append(path)
        return real(directory, path, now)

    real = SourceFile.open
    monkeypatch.setattr(SourceFile, "open", staticmethod(opens))
    return paths


def test_a_file_that_is_stored_whole_is_not_opened(site: Site, opened: list[str]) -> None:
    site.restart(look=False)
    site.append("log.txt", b"more\n")
    site.settle()
    assert set(opened) == {"log.txt"}
    assert site.content("log.txt") == everything() + b"more\n"


def test_nor_is_it_under_another_name(site: Site, opened: list[str]) -> None:
    for number in range(OLD, 0, -1):
        site.rename(f"log.txt.{number}", f"log.txt.{number + 1}")
    site.rename("log.txt", "log.txt.1")
    site.append("log.txt", b"newest\n")
    site.restart(look=False)
    site.settle()
    assert set(opened) == {"log.txt", "log.txt.1"}
    assert site.content("log.txt") == everything() + b"newest\n"


def put_another_there(site: Site) -> None:
    os.unlink(site.root / "log.txt.3")
    site.append("log.txt.3", b"OLD 3\n")


def rewrite(site: Site) -> None:
    status = os.stat(site.root / "log.txt.3")
    with open(site.root / "log.txt.3", "r+b") as file:
        file.write(b"OLD")
    os.utime(site.root / "log.txt.3", ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000_000))


def grow(site: Site) -> None:
    site.append("log.txt.3", b"late\n")


@pytest.mark.parametrize(
    ("change", "comes"),
    [
        pytest.param(grow, b"late\n", id="bytes-were-added"),
        pytest.param(rewrite, b"OLD 3\n", id="it-was-rewritten-with-as-many-bytes"),
        pytest.param(put_another_there, b"OLD 3\n", id="it-is-another-file"),
    ],
)
def test_one_that_is_not_as_it_was_is_opened(
    site: Site, opened: list[str], change: Callable[..., None], comes: bytes
) -> None:
    change(site)
    site.restart(look=False)
    site.settle()
    assert set(opened) == {"log.txt", "log.txt.3"}
    assert comes in b"".join(site.content(name) for name in site.stored)


@pytest.mark.parametrize(("before", "is_opened"), [(GRAIN // 2, True), (GRAIN, False)])
def test_one_that_may_have_been_changed_after_its_end_was_sent_is_opened(
    site: Site, opened: list[str], before: int, is_opened: bool
) -> None:
    """A file system's times are some milliseconds late."""
    ended = next(mark for mark in site.stored["log.txt"].marks if isinstance(mark, Ended))
    at = ended.clock * 1_000_000 - before
    os.utime(site.root / f"log.txt.{OLD}", ns=(at, at))
    site.restart(look=False)
    assert (f"log.txt.{OLD}" in opened) is is_opened


def test_one_of_a_record_that_tells_no_times_is_opened(site: Site, opened: list[str]) -> None:
    stored = site.stored["log.txt"]
    stored.marks = [replace(mark, clock=0) for mark in stored.marks]
    site.restart(look=False)
    assert len(set(opened)) == OLD + 1


def test_what_is_redacted_is_opened(tmp_path: Path, opened: list[str]) -> None:
    """The sidecar has to tell how much it masked in the file."""
    site = Site(tmp_path, include=("log.txt*",), redact=("tokens",))
    site.append("log.txt.1", b"old\n")
    site.append("log.txt", b"new\n")
    site.clock = 1000
    site.settle()
    opened.clear()
    site.restart(look=False)
    assert set(opened) == {"log.txt", "log.txt.1"}
    site.close()


def test_what_the_receiver_loses_of_it_later_is_sent_again_in_its_place(site: Site, opened: list[str]) -> None:
    """The receiver's store was replaced by an older copy."""
    stored = site.stored["log.txt"]
    site.restart(look=False)
    site.settle()
    assert set(opened) == {"log.txt"}
    kept = next(n for n, mark in enumerate(stored.marks) if mark.offset == len(b"old 6\n"))
    del stored.marks[kept:], stored.data[len(b"old 6\n") :]
    site.discovery.resume(site.record(), site.now)
    site.settle()
    assert site.content("log.txt") == everything()
    assert site.gaps("log.txt") == []


def test_a_checkpoint_goes_on_knowing_it(site: Site) -> None:
    kept = site.discovery.starts()
    assert len(kept) == OLD + 1
    site.restart(kept, look=False)
    site.settle()
    assert site.discovery.starts() == kept


# --- the first look


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Site]:
    """Enough rotated files that the sidecar waits for the receiver's record."""
    site = Site(tmp_path, include=("log.txt*",))
    for number in range(CROWD, 0, -1):
        site.append(f"log.txt.{number}", b"old %d\n" % number)
    site.append("log.txt", b"new\n")
    yield site
    site.close()


def test_very_many_files_wait_for_the_record(crowd: Site, opened: list[str]) -> None:
    crowd.discovery.ledger.remembered["1:2:3"] = "log.txt", 7
    crowd.discovery.stored.due = True
    crowd.look()
    assert (opened, crowd.discovery.held_up) == ([], True)
    assert crowd.discovery.starts() == {"1:2:3": ("log.txt", 7)}  # files that were not looked at stay in it
    crowd.discovery.learn([], crowd.now)
    crowd.settle()
    assert crowd.content("log.txt") == everything(CROWD)


def test_few_do_not(site: Site, opened: list[str]) -> None:
    site.restart()
    assert len(opened) == OLD + 1


@pytest.mark.parametrize("why", ["late", "away"])
def test_nor_do_they_wait_for_ever(crowd: Site, opened: list[str], why: str) -> None:
    """A file that is deleted while there is no receiver can only be sent by a sidecar that has it open."""
    crowd.discovery.stored.due = True
    crowd.look()
    if why == "late":
        crowd.now += PATIENCE
    else:
        crowd.discovery.stored.due = False
    crowd.look()
    assert len(opened) == CROWD + 1
    for number in range(CROWD, 0, -1):
        os.unlink(crowd.root / f"log.txt.{number}")
    crowd.discovery.learn([], crowd.now)
    crowd.settle()
    assert crowd.content("log.txt") == everything(CROWD)


def test_what_was_old_when_the_sidecar_started_is_so_though_it_waited(tmp_path: Path) -> None:
    site = Site(tmp_path, include=("*.log",), start_at="end")
    for number in range(CROWD + 1):
        site.append(f"{number}.log", b"old\n")
    site.discovery.stored.due = True
    site.look()
    site.discovery.learn([], site.now)
    site.append("0.log", b"new\n")
    site.append("new.log", b"begun\n")
    site.settle()
    assert {name: site.content(name) for name in site.stored if site.content(name)} == {
        "0.log": b"new\n",
        "new.log": b"begun\n",
    }
    site.close()


# --- work, counted and not timed


def calls(work: Callable[[], object]) -> int:
    """The number of calls of flarelog's functions in *work*."""
    count = 0

    def counts(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_globals["__name__"].startswith("flarelog.")

    sys.setprofile(counts)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def cost(root: Path, files: int) -> tuple[int, int]:
    """(calls of a first start with so many rotated files, calls of the next start)"""
    site = Site(root, include=("log.txt*",))
    root.mkdir()
    for number in range(files, 0, -1):
        site.append(f"log.txt.{number}", b"old %d\n" % number)
    site.append("log.txt", b"new\n")
    site.clock = 1000
    found = calls(site.settle), calls(lambda: site.restart(look=False))
    assert site.content("log.txt") == everything(files)
    site.close()
    return found


def test_four_times_as_many_files_cost_four_times_as_much(tmp_path: Path) -> None:
    few, many = cost(tmp_path / "few", 25), cost(tmp_path / "many", 100)
    assert many[0] < 5 * few[0]
    assert many[1] < 5 * few[1]
    assert many[1] < 100 * 56  # the first start takes 200 calls a file
