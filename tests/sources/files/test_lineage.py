"""Whether a file with a rotated name is a generation of a log, a copy, or a log of its own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flarelog.sources.files import walk
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.lineage import Age, by_age
from flarelog.sources.files.watch import Change, What
from tests.rows import together
from tests.sources.files.tailing import Site

Sites = Callable[..., Site]


def born_apart() -> None:
    """Wait until a new file is younger by the file system's clock."""
    time.sleep(0.01)


@pytest.mark.parametrize("other", ["app-2.log", "app.2.log", "app_2.log", "app-10.log"])
def test_a_live_log_whose_name_has_a_number_more_is_another_log(make_site: Sites, other: str) -> None:
    site = make_site()
    for name in ("app.log", other):
        site.append(f"{name}.1", b"old of %s\n" % name.encode())
        born_apart()
    for name in (other, "app.log"):  # the other file is the older one
        site.append(name, b"new of %s\n" % name.encode())
        born_apart()
    site.settle()
    wanted = {name: b"old of %s\nnew of %s\n" % (name.encode(), name.encode()) for name in ("app.log", other)}
    assert {name: site.content(name) for name in site.stored} == wanted


@pytest.mark.parametrize("include", [(), ("log.txt",)])
@pytest.mark.parametrize("word", ["bak", "orig", "old"])
def test_a_copy_that_somebody_has_made_before_a_rotation_is_no_generation(
    make_site: Sites, include: tuple[str, ...], word: str
) -> None:
    site = make_site(include=include)
    site.append("log.txt", b"one\n")
    site.settle()
    born_apart()
    shutil.copy(site.root / "log.txt", site.root / f"log.txt.{word}")
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"two\n")
    site.restart()
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\n"


def test_what_a_checkpoint_knows_is_sent_though_it_was_rotated_out_of_the_patterns(make_site: Sites) -> None:
    """The rotation came before the first answer of a receiver, so nothing had been sent."""
    site = make_site(include=("log.txt",))
    site.append("log.txt", b"one\n")
    site.look()
    kept = site.discovery.starts()
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"two\n")
    site.restart(kept)
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\n"


def test_rotated_files_that_are_there_at_the_first_look_are_generations_of_their_log(make_site: Sites) -> None:
    site = make_site()
    for name, data in (("log.txt.2", b"one\n"), ("log.txt.1", b"two\n"), ("log.txt", b"three\n")):
        site.append(name, data)
        born_apart()
    site.settle()
    assert {name: site.content(name) for name in site.stored} == {"log.txt": b"one\ntwo\nthree\n"}


@pytest.mark.parametrize("include", ["log.txt", "log.txt*"])
def test_a_log_that_is_rotated_more_than_once_within_one_listing_keeps_its_generations(
    make_site: Sites, monkeypatch: pytest.MonkeyPatch, include: str
) -> None:
    """A file listed under the log's own name is older than the files that were rotated after the listing."""
    site = make_site(include=(include,))
    written = [b"generation %d\n" % number for number in range(6)]

    def rotate(number: int) -> None:
        born_apart()
        for old in (3, 2, 1, 0):
            if (site.root / (f"log.txt.{old}" if old else "log.txt")).exists():
                site.rename(f"log.txt.{old}" if old else "log.txt", f"log.txt.{old + 1}")
        site.append("log.txt", written[number])

    site.append("log.txt", written[0])
    site.settle()
    for number in (1, 2):
        rotate(number)
        site.settle()
    real_scan = os.scandir
    busy: list[str] = []

    class Slow:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.entry = entry

        def __getattr__(self, name: str) -> Any:
            return getattr(self.entry, name)

        def stat(self) -> os.stat_result:
            found = self.entry.stat()
            if self.entry.name == "log.txt" and not busy:
                busy.append(self.entry.path)
                for number in (3, 4, 5):
                    rotate(number)
            return found

    class LogFirst:
        def __init__(self, path: str) -> None:
            with real_scan(path) as entries:
                self.entries = [Slow(entry) for entry in sorted(entries, key=lambda entry: entry.name)]

        def __enter__(self) -> list[Slow]:
            return self.entries

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(walk, "os", SimpleNamespace(scandir=LogFirst, path=os.path, stat=os.stat))
    site.settle()
    assert busy
    assert {name: site.content(name) for name in site.stored} == {"log.txt": b"".join(written)}


def test_a_file_that_comes_back_after_it_was_forgotten_disturbs_nothing(make_site: Sites) -> None:
    """Another file may have its inode by then."""
    site = make_site(include=("log.txt",))
    site.append("log.txt.7", b"from before\n")
    born_apart()
    site.append("log.txt", b"one\n")
    site.settle()
    site.restart(site.discovery.starts())
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"two\n")
    site.settle()
    away = site.root.parent / "away"
    os.replace(site.root / "log.txt.1", away)
    site.settle()
    os.replace(away, site.root / "log.txt.1")
    site.append("log.txt", b"three\n")
    site.settle()
    assert {name: site.content(name) for name in site.stored} == {"log.txt": b"one\ntwo\nthree\n"}


def test_a_file_that_was_renamed_before_anyone_looked_belongs_to_the_log_it_was_created_as(make_site: Sites) -> None:
    """The report of the rename tells the log; the new name alone does not."""
    site = make_site(include=("log.txt",))
    site.append("log.txt", b"one\n")
    site.settle()
    here = str(site.root)
    born_apart()
    site.rename("log.txt", "archive-a")
    site.append("log.txt", b"two\n")
    site.rename("log.txt", "archive-b")
    born_apart()
    site.append("log.txt", b"three\n")
    changes = []
    for cookie, name in enumerate(("archive-a", "archive-b"), 1):
        moved = Change(What.MOVED_FROM, here, "log.txt", cookie), Change(What.MOVED_TO, here, name, cookie)
        changes += [*moved, Change(What.CREATED, here, "log.txt")]
    site.discovery.apply(changes, site.now)
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\nthree\n"
    assert list(site.stored) == ["log.txt"]


def test_a_generation_that_comes_back_when_a_younger_one_is_sent_does_not_follow_it(
    make_site: Sites, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint knows the generation: the sidecar saw it, but sent none of it."""
    site = make_site(include=("log.txt",))
    site.append("log.txt", b"one\n")
    site.look()
    kept = site.discovery.starts()
    away = tmp_path / "away"
    os.rename(site.root / "log.txt", away)
    born_apart()
    site.append("log.txt", b"two\n")
    site.restart(kept)
    site.settle()
    os.rename(away, site.root / "log.txt.1")
    site.settle()
    assert site.content("log.txt") == b"two\n"
    assert "log.txt.1 is not sent: it is older than the bytes already sent of log.txt" in caplog.text


def test_a_generation_that_was_away_goes_on_where_it_was_left(make_site: Sites, tmp_path: Path) -> None:
    site = make_site(include=("log.txt*",))
    site.append("log.txt", b"one\n")
    site.settle()
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"two\n")
    site.settle()
    away = tmp_path / "away"
    os.rename(site.root / "log.txt.1", away)
    site.settle()
    with open(away, "ab") as late:
        late.write(b"late\n")
    os.rename(away, site.root / "log.txt.1")
    site.settle()
    assert list(site.stored) == ["log.txt"]
    assert site.generations("log.txt") == [("log.txt", b"one\nlate\n"), ("log.txt", b"two\n")]


def test_what_has_a_name_when_it_is_opened_is_not_what_had_it_when_it_was_seen(
    make_site: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generation moves on to the next number, and a copy of the log takes its name. The copy is no generation."""
    site = make_site(include=("log.txt",))
    site.append("log.txt", b"one\n")
    site.settle()
    born_apart()
    site.rename("log.txt", "log.txt.2")
    site.append("log.txt", b"two\n")
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"three\n")
    real = SourceFile.open

    def exchanged_first(directory: str, path: str, now: float) -> SourceFile:
        if path == "log.txt.1":
            monkeypatch.setattr(SourceFile, "open", real)
            site.rename("log.txt.2", "log.txt.3")
            site.rename("log.txt.1", "log.txt.2")
            born_apart()
            shutil.copy(site.root / "log.txt", site.root / "log.txt.1")
        return real(directory, path, now)

    monkeypatch.setattr(SourceFile, "open", exchanged_first)
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\nthree\n"


@together(
    ("files", "oldest_first"),
    [
        # (name, born, last change)
        pytest.param([("0", 1, 2), ("1", 2, 3), ("", 3, 4)], ["0", "1", ""], id="numbers-that-rise"),
        pytest.param([("2", 1, 2), ("1", 2, 3), ("", 3, 4)], ["2", "1", ""], id="numbers-that-fall"),
        pytest.param([("0", 7, 2), ("1", 8, 3), ("", 9, 9)], ["0", "1", ""], id="copies-that-keep-their-times-rise"),
        pytest.param([("1", 7, 3), ("2", 8, 2), ("", 6, 4)], ["2", "1", ""], id="copies-that-keep-their-times-fall"),
        pytest.param([("", 1, 1), ("1", 2, 2), ("2", 3, 3)], ["2", "1", ""], id="copies-without-their-times"),
        pytest.param([("", 1, 9), ("2", 2, 2), ("1", 3, 3)], ["2", "1", ""], id="a-log-that-is-copied-and-truncated"),
        pytest.param([("1", 2, 3), ("2", 8, 1), ("", 3, 9)], ["2", "1", ""], id="compressed-when-the-next-was-written"),
        pytest.param([("1", None, 9), ("2", None, 9), ("", None, 9)], ["2", "1", ""], id="no-births"),
        pytest.param([("1", None, 0), ("2", 3, 4)], ["2", "1"], id="one-that-is-not-there"),
    ],
)
def test_files_found_at_once_are_ordered_by_what_their_times_tell(
    files: list[tuple[str, int | None, int]], oldest_first: list[str]
) -> None:
    ages = [Age(born, f"a/gc.log.{name}".rstrip("."), modified=modified) for name, born, modified in files]
    for given in (ages, ages[::-1]):
        assert [age.path.removeprefix("a/gc.log").lstrip(".") for age in by_age("a/gc.log", given)] == oldest_first
