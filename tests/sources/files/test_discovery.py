"""Which files are logs, and to which log each file belongs."""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.errors import InvalidOption
from flarelog.model import Generation, StreamId, StreamInfo
from flarelog.sources.files.checkpoint import VERSION, Checkpoint
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import identity, witness
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.watch import Change, What
from tests.rows import together
from tests.sources.files.tailing import NoWatch, Site


@together(
    ("include", "exclude", "path", "sent"),
    [
        pytest.param((), (), "log.txt", True, id="everything-by-default"),
        pytest.param((), (), "rank-0/stderr", True, id="whatever-its-name"),
        pytest.param((), (), "model/checkpoint.pt", False, id="but-no-models"),
        pytest.param((), (), "log.txt.2.gz", False, id="but-nothing-compressed"),
        pytest.param((), (), ".git/config", False, id="but-nothing-hidden"),
        pytest.param((), ("debug*",), "a/debug.log", False, id="what-is-excluded-is-not-sent"),
        pytest.param(("*.log",), (), "a.log", True, id="a-name"),
        pytest.param(("*.log",), (), "deep/down/a.log", True, id="a-name-at-any-depth"),
        pytest.param(("*.log",), (), "a.log.1", False, id="a-whole-name"),
        pytest.param(("*.log*",), (), "a.log.1", True, id="a-star-at-the-end"),
        pytest.param(("logs/*.log",), (), "logs/a.log", True, id="a-path"),
        pytest.param(("logs/*.log",), (), "logs/deep/a.log", False, id="a-star-stays-within-its-part"),
        pytest.param(("logs/**/*.log",), (), "logs/a.log", True, id="two-stars-may-be-nothing"),
        pytest.param(("logs/**/*.log",), (), "logs/x/y/a.log", True, id="two-stars-may-be-much"),
        pytest.param(("logs/**",), (), "logs/x/y", True, id="two-stars-at-the-end"),
        pytest.param(("rank-?.log",), (), "rank-7.log", True, id="one-character"),
        pytest.param(("rank-[0-3].log",), (), "rank-7.log", False, id="a-set"),
        pytest.param(("rank-[!0-3].log",), (), "rank-7.log", True, id="not-of-a-set"),
        pytest.param(("a+b(c).log",), (), "a+b(c).log", True, id="other-characters-mean-themselves"),
        pytest.param(("*.gz",), (), "a.gz", True, id="included-is-included"),
    ],
)
def test_patterns(include: tuple[str, ...], exclude: tuple[str, ...], path: str, sent: bool) -> None:
    assert SourceOptions("root", include, exclude).matches(path) is sent


@together(
    ("pattern", "path", "sent"),
    [
        pytest.param("a*b*c*d", "a-b-c-d", True, id="many-stars"),
        pytest.param("a*b*c*d", "a-b-c-de", False, id="many-stars-and-an-end"),
        pytest.param("**/a/**/b/*/c", "x/a/b/y/c", True, id="many-directories"),
        pytest.param("**/a/**/b/*/c", "x/a/b/y/z/c", False, id="one-directory-too-many"),
        pytest.param("x[!a]y/b", "x/y/b", False, id="not-of-a-set-is-no-slash"),
        pytest.param("x[+-9]y/b", "x/y/b", False, id="a-range-holds-no-slash"),
        pytest.param("a[[&&~~||]b", "a&b", True, id="a-set-of-signs"),
        pytest.param("a[+--]b", "a,b", True, id="a-range-up-to-a-hyphen"),
    ],
)
def test_patterns_of_many_stars_and_odd_sets(pattern: str, path: str, sent: bool) -> None:
    assert SourceOptions("root", (pattern,)).matches(path) is sent


@pytest.mark.parametrize("pattern", ["*a" * 30, "**/" + "a**/" * 30 + "b", "x/" + "*a" * 30])
def test_no_name_takes_long_to_match(pattern: str) -> None:
    assert not SourceOptions("root", (pattern,)).matches("x/" + "a" * 200 + "/" + "a" * 200 + "c")


@pytest.mark.parametrize("pattern", ["", "/var/log/*.log", "rank-[9-0].log"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidOption):
        SourceOptions("root", (pattern,))


class OneByOne(NoWatch):
    """A watch that gives one report a call."""

    def __init__(self, changes: list[Change]) -> None:
        self.pending = changes

    def ready(self) -> list[Change]:
        return [self.pending.pop(0)] if self.pending else []


@pytest.mark.parametrize("at_once", [True, False], ids=["reported-at-once", "reported-one-by-one"])
def test_a_file_rotated_before_anyone_looked_belongs_to_the_log_it_was_created_as(
    make_site: Callable[..., Site], at_once: bool
) -> None:
    site = make_site()
    site.append("a.log", b"one\n")
    site.settle()
    here = str(site.root)
    changes = []
    for number, text in ((2, b"two\n"), (3, b"three\n"), (4, b"four\n")):
        for older in range(number - 2, 0, -1):
            site.rename(f"a.log.{older}", f"a.log.{older + 1}")
            changes.append(Change(What.MOVED_FROM, here, f"a.log.{older}", 10 * number + older))
            changes.append(Change(What.MOVED_TO, here, f"a.log.{older + 1}", 10 * number + older))
        site.rename("a.log", "a.log.1")
        changes.append(Change(What.MOVED_FROM, here, "a.log", number))
        changes.append(Change(What.MOVED_TO, here, "a.log.1", number))
        site.append("a.log", text)
        changes += [Change(What.CREATED, here, "a.log"), Change(What.MODIFIED, here, "a.log")]
    if not at_once:  # the two halves of a rename may come in separate reads
        site.discovery.watch, changes = OneByOne(changes), changes[:0]
    assert site.discovery.apply(changes, site.now) == {"a.log"}
    site.settle()
    assert site.content("a.log") == b"one\ntwo\nthree\nfour\n"
    assert list(site.stored) == ["a.log"]


def test_files_rotated_while_nobody_watched_and_remembered_by_a_checkpoint_keep_their_order(
    make_site: Callable[..., Site],
) -> None:
    site = make_site()
    for number in (1, 2):
        site.append("a.log", b"generation %d\n" % number)
        os.utime(site.root / "a.log", (number, number))
        site.look()
        if number == 1:
            site.rename("a.log", "a.log.1")
    remembered = site.discovery.starts()
    site.discovery.close()
    site.rename("a.log.1", "a.log.2")
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"generation 3\n")
    site.discovery = Discovery(site.options, NoWatch())
    site.discovery.ledger.remembered.update(remembered)
    site.settle()
    assert site.content("a.log") == b"generation 1\ngeneration 2\ngeneration 3\n"
    assert list(site.stored) == ["a.log"]


@pytest.mark.parametrize(
    ("moved_to", "met_before", "found"),
    [
        pytest.param("a.log.1", False, True, id="its-name-says-that-it-was-rotated"),
        pytest.param("a.log-20261120", False, True, id="with-a-date"),
        pytest.param("a.old.log", False, True, id="or-a-word"),
        pytest.param("archive/a.log.1", True, True, id="into-another-directory-and-the-checkpoint-knows-it"),
        pytest.param("archive-1", True, True, id="whatever-it-is-called-if-the-checkpoint-knows-it"),
        pytest.param("archive/a.log.1", False, True, id="or-in-another-directory"),
        pytest.param("archive-1", False, True, id="or-under-any-name-if-it-is-the-file-of-the-record"),
        pytest.param("a.log.key", False, True, id="what-was-added-need-not-be-a-number"),
        pytest.param("a.log.skip", False, False, id="its-name-is-excluded"),
        pytest.param("a.log.1.skip", True, False, id="what-is-excluded-is-excluded"),
    ],
)
def test_a_file_that_left_the_patterns_while_nobody_watched_is_looked_for(
    make_site: Callable[..., Site], moved_to: str, met_before: bool, found: bool
) -> None:
    site = make_site(include=("a.log",), exclude=("*.skip",))
    site.append("a.log", b"one\n")
    site.settle()
    kept = site.discovery.starts() if met_before else None
    site.append("a.log", b"two\n")
    (site.root / "archive").mkdir()
    site.rename("a.log", moved_to)
    site.append("a.log", b"three\n")
    site.restart(kept)
    site.settle()
    assert site.content("a.log") == (b"one\ntwo\nthree\n" if found else b"one\nthree\n")
    assert list(site.stored) == ["a.log"]


@pytest.mark.parametrize("looks", [True, False], ids=["seen-before-the-record", "seen-after-it"])
@pytest.mark.parametrize("include", [(), ("a*",), ("*.log",)], ids=["by-default", "in-the-patterns", "out-of-them"])
@pytest.mark.parametrize("rotated", ["a.log-202611{}", "a.log.{}", "a.log.17642530{}", "a.log.2026-11-{}_00-00-00"])
@pytest.mark.parametrize(
    ("whole", "removed"),
    [
        pytest.param(0, False, id="none-came-before"),
        pytest.param(2, False, id="two-came-before"),
        pytest.param(2, True, id="the-unfinished-one-is-gone"),
    ],
)
def test_generations_rotated_into_another_directory_while_no_sidecar_ran_belong_to_their_log(
    make_site: Callable[..., Site], whole: int, removed: bool, rotated: str, include: tuple[str, ...], looks: bool
) -> None:
    site = make_site(include=include)
    site.clock = 60_000  # ms: a generation that is stored whole is not opened again
    (site.root / "old").mkdir()
    numbers = iter(range(10, 31) if rotated != "a.log.{}" else range(30, 9, -1))
    written: list[bytes] = []

    def write(text: bytes) -> None:
        written.append(text)
        site.append("a.log", text)

    def rotate() -> str:
        path = f"old/{rotated.format(next(numbers))}"
        site.rename("a.log", path)
        write(b"begun after %s\n" % path.encode())
        return path

    write(b"the first\n")
    site.settle()
    for _ in range(whole):
        rotate()
        site.settle()
    write(b"unsent\n")
    unfinished = rotate()
    rotate()
    rotate()
    if removed:
        (site.root / unfinished).unlink()
        written.remove(b"unsent\n")
    site.restart(look=looks)
    site.settle()
    rotate()
    site.settle()
    assert {name: site.content(name) for name in site.stored} == {"a.log": b"".join(written)}


@pytest.mark.parametrize("include", [(), ("*.log",)], ids=["in-the-patterns", "out-of-them"])
def test_generations_rotated_into_another_directory_between_two_looks_belong_to_their_log(
    make_site: Callable[..., Site], include: tuple[str, ...]
) -> None:
    site = make_site(include=include)
    (site.root / "old").mkdir()
    written = [b"generation %d\n" % number for number in range(10, 15)]
    site.append("a.log", written[0])
    site.settle()
    for number, text in enumerate(written[1:]):
        site.rename("a.log", f"old/a.log.176425300{number}")
        site.append("a.log", text)
    site.settle()
    assert {name: site.content(name) for name in site.stored} == {"a.log": b"".join(written)}


class TwoLogs:
    """Two logs of one name, whose generations are rotated into one directory."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.changes: list[Change] = []
        self.written = {"a/c.log": b"", "b/c.log": b""}
        self.rotated = 10
        (site.root / "old").mkdir()
        for log in self.written:
            self.write(log)
        site.settle()
        self.rotate("a", "b")  # one of each log is there
        site.settle()
        self.changes.clear()

    def write(self, log: str) -> None:
        text = b"%b %d\n" % (log.encode(), self.rotated)
        self.site.append(log, text)
        self.written[log] += text

    def rotate(self, *directories: str) -> None:
        root = str(self.site.root)
        for directory in directories:
            self.rotated += 1
            name = f"c.log.17642530{self.rotated}"
            self.site.rename(f"{directory}/c.log", f"old/{name}")
            self.changes.append(Change(What.MOVED_FROM, f"{root}/{directory}", "c.log", self.rotated))
            self.changes.append(Change(What.MOVED_TO, f"{root}/old", name, self.rotated))
            self.write(f"{directory}/c.log")
            self.changes.append(Change(What.CREATED, f"{root}/{directory}", "c.log"))

    @property
    def stored(self) -> dict[str, bytes]:
        return {log: self.site.content(log) for log in self.site.stored}


@pytest.mark.parametrize("include", [(), ("*.log",)], ids=["in-the-patterns", "out-of-them"])
@pytest.mark.parametrize("order", ["aabb", "abab", "baba", "bbaa"])
def test_a_reported_rename_tells_which_of_two_logs_of_one_name_a_file_belongs_to(
    make_site: Callable[..., Site], order: str, include: tuple[str, ...]
) -> None:
    logs = TwoLogs(make_site(include=include))
    logs.rotate(*order)
    logs.site.discovery.apply(logs.changes, logs.site.now)
    logs.site.settle()
    assert logs.stored == logs.written


@pytest.mark.parametrize("order", ["aabb", "abab", "baba", "bbaa"])
def test_a_file_that_may_belong_to_either_of_two_logs_of_one_name_is_a_log_of_its_own(
    make_site: Callable[..., Site], order: str
) -> None:
    logs = TwoLogs(make_site())
    logs.rotate(*order)
    logs.site.restart()
    logs.site.settle()
    for log in logs.written:
        assert set(logs.stored[log].splitlines()) <= set(logs.written[log].splitlines())
    assert sorted(b"".join(logs.stored.values()).splitlines()) == sorted(b"".join(logs.written.values()).splitlines())


def test_a_file_that_only_one_of_two_logs_of_one_name_can_have_begun_belongs_to_it(
    make_site: Callable[..., Site],
) -> None:
    logs = TwoLogs(make_site())
    logs.rotate("a", "a", "a")
    logs.site.restart()
    logs.site.settle()
    assert logs.stored == logs.written


@pytest.mark.parametrize(
    ("name", "own"),
    [
        pytest.param("a.log.1", False, id="a-rotation"),
        pytest.param("b.log.1", True, id="of-an-unknown-log"),
        pytest.param("a-1.log", True, id="a-number-that-another-log-may-have"),
        pytest.param("a.log2", True, id="a-longer-name"),
        pytest.param("a.log.err", True, id="an-added-word"),
    ],
)
def test_a_file_beside_rotated_generations_is_a_log_of_its_own_unless_its_name_is_a_rotation(
    make_site: Callable[..., Site], name: str, own: bool
) -> None:
    site = make_site()
    (site.root / "old").mkdir()
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "old/a.log.2")
    site.append(f"old/{name}", b"two\n")
    site.append("a.log", b"three\n")
    site.restart()
    site.settle()
    rest = {"a.log": b"one\nthree\n", f"old/{name}": b"two\n"}
    assert {log: site.content(log) for log in site.stored} == (rest if own else {"a.log": b"one\ntwo\nthree\n"})


@pytest.mark.parametrize(
    "secret",
    ["secret", "payroll.key", "deep/er/secret.log", "a.log.secret", ".a.log.1", "a.log~", "b.log", "b.log.1"],
)
@pytest.mark.parametrize("log", ["a.log", "b.log", "deep/er/secret.log", "secret"])
def test_a_receiver_that_lies_gets_no_file_that_the_patterns_do_not_name(
    make_site: Callable[..., Site], secret: str, log: str
) -> None:
    """The receiver knows the file's identity, and claims to hold a generation of it."""
    site = make_site(include=("a.log",))
    site.append("a.log", b"one\n")
    site.append(secret, b"nobody's business\n")
    with site.open(secret) as file:
        mark = Generation(0, 0, "a.log", 0, identity(file.fileno()))
    lie = StreamInfo(StreamId("run", "site", log), 0, 0, 0, False, (mark,))
    site.discovery.learn([lie], site.now)
    site.settle()
    assert {name: site.content(name) for name in site.stored} == {"a.log": b"one\n"}


def test_a_receiver_that_lies_gets_no_other_files_beside_one_that_is_named(make_site: Callable[..., Site]) -> None:
    """A numbered name counts as a generation of the same log only, never of another."""
    site = make_site(include=("data-1.log",))
    site.append("data-1.log", b"one\n")
    site.settle()
    time.sleep(0.02)  # so that a new file is younger
    site.append("data-2.log", b"nobody's business\n")
    with site.open("data-1.log") as file:
        mark = Generation(0, 0, "data-1.log", 0, identity(file.fileno()))
    site.discovery.close()
    site.discovery = Discovery(site.options, NoWatch())
    lies = [StreamInfo(StreamId("run", "site", log), 0, 4, extend(0, b"one\n"), False, (mark,)) for log in ("a-1.log",)]
    site.discovery.learn(lies, site.now)
    site.settle()
    assert not any(b"business" in site.content(name) for name in site.stored)


def test_a_file_that_is_put_in_place_by_a_rename_belongs_to_the_name_it_is_given(
    make_site: Callable[..., Site],
) -> None:
    site = make_site()
    site.append("a.log", b"one\n")
    site.settle()
    site.append("a.log.new", b"two\n")
    site.rename("a.log.new", "a.log")
    here = str(site.root)
    changes = [
        Change(What.CREATED, here, "a.log.new"),
        Change(What.MOVED_FROM, here, "a.log.new", 1),
        Change(What.MOVED_TO, here, "a.log", 1),
    ]
    site.discovery.apply(changes, site.now)
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\n"), ("a.log", b"two\n")]
    assert list(site.stored) == ["a.log"]


def test_a_compressed_copy_of_what_is_sent_is_not_sent(make_site: Callable[..., Site]) -> None:
    site = make_site(include=("*.log*",))
    site.append("a.log", b"one\n" * 1000)
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    (site.root / "a.log.1.gz").write_bytes(gzip.compress((site.root / "a.log.1").read_bytes()))
    os.unlink(site.root / "a.log.1")
    os.utime(site.root / "a.log.1.gz", (1, 1))  # an old time, so that gzip counts as finished
    site.settle()
    (site.root / "a.log.2.gz").write_bytes(gzip.compress(b"something else"))
    os.utime(site.root / "a.log.2.gz", (1, 1))  # an old time: no writer is at work
    site.restart()
    site.settle()
    assert sorted(site.stored) == ["a.log", "a.log.2.gz"]


def test_a_log_that_begins_with_the_magic_number_of_gzip_alone_is_sent_while_it_is_written(
    make_site: Callable[..., Site],
) -> None:
    site = make_site()
    writer = site.open("a.log")
    site.write(writer, b"\x1f\x8b, and then lines that nobody compressed\n")
    site.settle()
    assert site.content("a.log") == b"\x1f\x8b, and then lines that nobody compressed\n"


@pytest.mark.parametrize("name", ["a.log.1.gz", "a.log.1.tmp"], ids=["gzip", "kubelet"])
@pytest.mark.parametrize("redact", [(), ("all",)], ids=["plain", "redacted"])
def test_a_compressed_copy_is_judged_when_it_is_whole(
    make_site: Callable[..., Site], name: str, redact: tuple[str, ...]
) -> None:
    site = make_site(include=("*.log*",), redact=redact)
    site.append("a.log", b"one\n" * 1000)
    site.settle()
    whole = gzip.compress((site.root / "a.log").read_bytes())
    site.rename("a.log", "a.log.1")
    copy = site.open(name)
    for part in (b"", whole[:2], whole[2:10], whole[10:-4], whole[-4:]):
        site.write(copy, part)
        site.settle()
    copy.close()
    if name.endswith(".tmp"):
        site.rename(name, "a.log.1.gz")
    os.unlink(site.root / "a.log.1")
    site.settle()
    os.utime(site.root / "a.log.1.gz", (1, 1))  # an old time: no writer is at work
    site.settle()
    assert list(site.stored) == ["a.log"]
    assert not site.discovery.troubles


def test_a_log_named_tmp_is_sent(make_site: Callable[..., Site]) -> None:
    site = make_site(include=("*",))
    site.append("a.tmp", b"x\n")
    site.append("b.tmp", b"")
    site.settle()
    site.append("b.tmp", b"y\n")
    site.settle()
    assert (site.content("a.tmp"), site.content("b.tmp")) == (b"x\n", b"y\n")


def test_a_file_that_is_renamed_between_the_look_and_the_open_keeps_its_place(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site()
    site.append("a.log", b"one\n")
    real = SourceFile.open

    def rotated_first(directory: str, path: str, now: float) -> SourceFile:
        monkeypatch.setattr(SourceFile, "open", real)
        site.rename("a.log", "a.log.1")
        site.append("a.log", b"two\n")
        return real(directory, path, now)

    monkeypatch.setattr(SourceFile, "open", rotated_first)
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\n"), ("a.log", b"two\n")]
    assert list(site.stored) == ["a.log"]


def test_old_files_are_ignored_until_they_grow(make_site: Callable[..., Site]) -> None:
    site = make_site(ignore_older=100.0)
    site.append("old.log", b"old\n")
    site.append("young.log", b"young\n")
    os.utime(site.root / "old.log", (1.0, 1.0))
    site.settle()
    site.append("old.log", b"new\n")
    site.settle()
    assert (site.content("old.log"), site.content("young.log")) == (b"new\n", b"young\n")


def test_a_new_directory_is_looked_into(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.settle()
    site.append("new/deep/a.log", b"one\n")
    site.discovery.apply([Change(What.CREATED, str(site.root), "new")], site.now)
    site.pump()
    assert list(site.stored) == ["new/deep/a.log"]


def test_a_root_that_is_missing_is_said_once_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path / "later")
    site.look()
    site.look()
    assert len(caplog.records) == 1
    assert site.discovery.walk.root_missing
    site.append("a.log", b"one\n")
    site.settle()
    assert site.content("a.log") == b"one\n"
    site.close()


def test_an_identity_outlives_a_rename_and_ends_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"same")
    with open(path, "rb") as file:
        before = identity(file.fileno())
    path.rename(tmp_path / "b")
    with open(tmp_path / "b", "rb") as file:
        assert identity(file.fileno()) == before
    os.unlink(tmp_path / "b")
    path.write_bytes(b"same")
    with open(path, "rb") as file:
        assert identity(file.fileno()) != before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file handles")
def test_an_identity_has_a_handle_that_tells_an_inode_number_that_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"same")
    with open(tmp_path / "a", "rb") as file:
        assert witness(identity(file.fileno()))


def whole(body: bytes) -> bytes:
    """A checkpoint with a valid checksum."""
    return b"%08x %b" % (extend(0, body), body)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(100), id="nul"),
        pytest.param(b"{", id="cut"),
        pytest.param(b'00000000 {"version": 1}', id="wrong-checksum"),
        pytest.param(whole(b"[" * 100_000), id="nested-without-end"),
        pytest.param(
            whole(b'{"version":1,"owner":"run/site to receiver:1","files":{"1":["a",1e999]}}'), id="an-infinite-start"
        ),
        pytest.param(
            whole(b'{"version":1,"owner":"run/site to receiver:1","files":{"1":["a",-5]}}'), id="a-negative-start"
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_believed_is_not(tmp_path: Path, raw: bytes) -> None:
    checkpoint = Checkpoint(str(tmp_path), "run", "site", "receiver:1")
    checkpoint.path.write_bytes(raw)
    assert checkpoint.load() == {}


@pytest.mark.parametrize(
    ("version", "damage", "believed"),
    [
        pytest.param(VERSION, 0, True, id="as-it-was-saved"),
        pytest.param(VERSION, 1, False, id="with-another-checksum"),
        pytest.param(VERSION + 1, 0, False, id="of-another-version"),
    ],
)
def test_a_checkpoint_is_believed(tmp_path: Path, version: int, damage: int, believed: bool) -> None:
    checkpoint = Checkpoint(str(tmp_path), "run", "site", "receiver:1")
    body = b'{"version": %d, "owner": "run/site to receiver:1", "files": {"1:2:3": ["a.log", 7]}}' % version
    checkpoint.path.write_bytes(b"%08x %b" % (extend(0, body) ^ damage, body))
    assert checkpoint.load() == ({"1:2:3": ("a.log", 7)} if believed else {})


def test_a_checkpoint_is_read_back_by_its_owner_alone(tmp_path: Path) -> None:
    starts = {"1:2:3": ("a.log", 7)}
    Checkpoint(str(tmp_path), "run", "site", "receiver:1").save(starts)
    mine = Checkpoint(str(tmp_path), "run", "site", "receiver:1")
    assert mine.load() == starts
    other = Checkpoint(str(tmp_path), "run", "other", "receiver:1")
    mine.path.rename(other.path)
    assert other.load() == {}
    assert list(tmp_path.iterdir()) == [other.path]


def test_each_receiver_each_run_and_each_site_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    names = [("a.b", "c", "r:1"), ("a", "b.c", "r:1"), ("a", "b.c", "r:2"), ("a" * 128, "b" * 128, "r:1")]
    for n, (run, site, receiver) in enumerate(names):
        Checkpoint(str(tmp_path), run, site, receiver).save({"1:2:3": (f"{n}.log", n)})
    for n, (run, site, receiver) in enumerate(names):
        assert Checkpoint(str(tmp_path), run, site, receiver).load() == {"1:2:3": (f"{n}.log", n)}


def test_a_file_that_went_away_may_come_back_under_a_name_that_is_no_log_s(tmp_path: Path) -> None:
    """Another file may have its inode by then, so the remembered log does not apply."""
    site = Site(tmp_path / "site", include=("a.log", "a.log.1", "b.log"))
    (tmp_path / "site").mkdir()
    site.append("a.log.5", b"x")
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    site.restart(site.discovery.starts())
    site.settle()
    os.rename(tmp_path / "site/a.log.1", tmp_path / "away")
    site.settle()
    os.rename(tmp_path / "away", tmp_path / "further-away")  # out of the sidecar's sight
    site.settle()
    os.rename(tmp_path / "further-away", tmp_path / "site/a.log.7")
    site.append("b.log", b"goes on\n")
    site.settle()
    assert site.content("b.log") == b"goes on\n"
    site.close()
