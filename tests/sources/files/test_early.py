"""Files that were rotated before any look, out of the patterns: those since the start belong to the log, older ones are
named once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flarelog.sources.consent import Consent
from flarelog.sources.files import identity
from flarelog.sources.files.discovery import Discovery
from tests.sources.files.tailing import NoWatch, Site

START = 1000  # seconds since the epoch: when the process started
Times = tuple[float, float, float]
"""(birth, last write, last change of the name), in seconds since the epoch"""


def times(monkeypatch: pytest.MonkeyPatch, of: dict[int, Times], *, births: bool = True) -> None:
    """Let the file system report the times in *of*, by inode number."""
    real = identity._statx

    def scripted(directory: int, path: bytes, flags: int) -> identity.Sight | None:
        found = real(directory, path, flags)
        if found is None or found.is_of[1] not in of:
            return found
        born, modified, changed = (int(at * 1e9) for at in of[found.is_of[1]])
        return found._replace(born=born if births else None, modified=modified, changed=changed)

    monkeypatch.setattr(identity, "_statx", scripted)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def play(files: dict[str, Times], births: bool = True, **options: object) -> Site:
        site = Site(tmp_path, **{"include": ("log.txt",), **options})
        made.append(site)
        of = {}
        for name, at in files.items():
            site.append(name, f"{name}\n".encode())
            of[os.stat(site.root / name).st_ino] = at
        times(monkeypatch, of, births=births)
        site.discovery.close()
        site.discovery = Discovery(site.options, NoWatch(), began=START * 1_000_000_000)
        site.discovery.learn([], 0.0)
        site.settle()
        return site

    yield play
    for site in made:
        site.close()


OLD = (500, 600, 600)
NEW = (1001, 1001, 1001)


@pytest.mark.parametrize(
    ("files", "sent"),
    [
        pytest.param(
            {"log.txt.1": (900, 950, 1000.5), "log.txt": (1000.5, 1001, 1001)},
            ["log.txt.1", "log.txt"],
            id="renamed-since-the-start",
        ),
        pytest.param({"log.txt.1": OLD, "log.txt": (700, 900, 900)}, ["log.txt"], id="renamed-long-before"),
        pytest.param({"log.txt.1": OLD, "log.txt": NEW}, ["log.txt"], id="renamed-long-before-a-new-log"),
        pytest.param(
            {"log.txt.2": (900, 950, 1002), "log.txt.1": NEW, "log.txt": (1002, 1002, 1002)},
            ["log.txt.2", "log.txt.1", "log.txt"],
            id="rotated-twice-since",
        ),
        pytest.param(
            {"log.txt.3": (300, 400, 1001), "log.txt.2": (500, 900, 1001), "log.txt.1": NEW, "log.txt": NEW},
            ["log.txt.2", "log.txt.1", "log.txt"],
            id="the-old-ones-were-renamed-as-well",
        ),
        pytest.param({"log.txt.1": (900, 950, 1001)}, ["log.txt.1"], id="no-new-log-yet"),
        pytest.param({"log.txt.1": OLD}, [], id="an-old-one-and-no-log"),
        pytest.param(
            {"log.txt-20261128": (900, 950, 1001), "log.txt": NEW}, ["log.txt-20261128", "log.txt"], id="dateext"
        ),
        pytest.param({"log.txt.old": (900, 950, 1001), "log.txt": NEW}, ["log.txt.old", "log.txt"], id="old"),
        pytest.param(
            {"log-20261128.txt": (900, 950, 1001), "log.txt": NEW}, ["log-20261128.txt", "log.txt"], id="date-within"
        ),
        pytest.param(
            {"old/log.txt-20261128": (900, 950, 1001), "log.txt": NEW},
            ["old/log.txt-20261128", "log.txt"],
            id="into-another-directory",
        ),
        pytest.param(
            {"log.txt.1": (900, 1000.5, 1000.5), "log.txt": (950, 1001, 1001)},
            ["log.txt.1", "log.txt"],
            id="rotated-before-and-written-since",
        ),
        pytest.param({"log.txt.1": NEW, "log.txt": (900, 1001, 1001)}, ["log.txt"], id="a-copy"),
        pytest.param({"log-1.txt": NEW, "log.txt": (1002, 1002, 1002)}, ["log.txt"], id="another-ranks-log"),
        pytest.param({"log.txt.1.gz": NEW, "log.txt": (1002, 1002, 1002)}, ["log.txt"], id="no-rotated-name"),
    ],
)
def test_a_file_that_was_the_log_since_the_start_is_its_first_generation(
    play: Callable[..., Site], files: dict[str, Times], sent: list[str]
) -> None:
    site = play(files)
    assert site.content("log.txt").decode().split() == sent
    assert list(site.stored) == (["log.txt"] if sent else [])


def test_without_birth_times_a_later_write_tells(play: Callable[..., Site]) -> None:
    files = {"log.txt.2": OLD, "log.txt.1": (0, 1000.5, 1001), "log.txt": (0, 1001, 1001)}
    assert play(files, births=False).content("log.txt") == b"log.txt.1\nlog.txt\n"


@pytest.mark.parametrize(
    "options",
    [
        {"exclude": ("*.1",)},
        {"sites": (Consent(exclude=("*.1",)),)},
        {"sites": (Consent(include=("log.txt",)),)},
    ],
    ids=["excluded", "excluded-by-the-site", "not-permitted-by-the-site"],
)
def test_consent_holds_for_these_files_too(
    play: Callable[..., Site], options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    site = play({"log.txt.1": (900, 950, 1001), "log.txt.2.1": OLD, "log.txt": NEW}, **options)
    assert site.content("log.txt") == b"log.txt\n"
    assert not caplog.records


def test_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pods").mkdir()
    site = Site(tmp_path / "root", include=("log.txt",))
    site.append("../pods/0.log.1", b"one\n")
    site.append("../pods/0.log", b"two\n")
    site.root.mkdir(exist_ok=True)
    os.symlink("../pods/0.log", site.root / "log.txt")
    one, two = (os.stat(tmp_path / "pods" / name).st_ino for name in ("0.log.1", "0.log"))
    times(monkeypatch, {one: (900, 950, 1001), two: NEW})
    site.discovery = Discovery(site.options, NoWatch(), began=START * 1_000_000_000)
    site.discovery.learn([], 0.0)
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\n"
    site.close()


def test_older_files_that_no_pattern_matches_are_named_once(
    play: Callable[..., Site], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    one = {"a/log-20261120.txt": OLD, "a/log.txt": (700, 900, 900)}
    site = play({"log.txt.2": OLD, "log.txt.1": OLD, "log.txt": NEW, **one}, include=("log.txt",))
    site.settle()
    said = sorted(record.getMessage() for record in caplog.records)
    assert len(said) == 2
    assert said[0].startswith("a/log-20261120.txt is not sent: it is older than this process")
    assert said[0].endswith("--include 'log*.txt' sends it")
    assert "and 1 more rotated file of log.txt are not sent" in said[1]
    assert said[1].endswith("--include 'log.txt*' sends them")


def test_what_the_receiver_holds_is_not_said_to_be_left_out(
    play: Callable[..., Site], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    site = play({"log.txt.2": (900, 950, 1001), "log.txt.1": NEW, "log.txt": NEW})
    record = site.record()
    site.cut()
    site.discovery.close()
    site.discovery = Discovery(site.options, NoWatch(), began=2 * START * 1_000_000_000)
    site.discovery.learn(record, 0.0)
    site.settle()
    assert site.content("log.txt") == b"log.txt.2\nlog.txt.1\nlog.txt\n"
    assert not caplog.records


def test_no_file_of_before_the_sent_bytes_is_sent_after_them(play: Callable[..., Site]) -> None:
    site = play({"log.txt.7": OLD, "log.txt": NEW})
    site.cut()
    site.discovery.close()
    site.discovery = Discovery(site.options, NoWatch(), began=600 * 1_000_000_000)
    site.discovery.learn(site.record(), 0.0)
    site.append("log.txt", b"more\n")
    site.settle()
    assert site.content("log.txt") == b"log.txt\nmore\n"
