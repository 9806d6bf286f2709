"""The doctor's findings: what passes and what does not."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from flarelog.checks import site, store, way
from flarelog.checks.certificates import dated, own
from flarelog.checks.row import Row
from flarelog.cli import doctor
from flarelog.errors import FlarelogError, NotAllowed, NotAReceiver, TimedOut
from flarelog.proxies import Route
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire import statuses
from tests.certificates import Authority
from tests.rows import together


def test_an_installation_that_cannot_compress_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visit = doctor.Visit(store=str(tmp_path))

    async def examined() -> list[Row]:
        return [row async for row in doctor.examine(visit)]

    rows = list[Row]()
    for available in (True, False):
        monkeypatch.setattr(doctor, "AVAILABLE", available)
        rows += asyncio.run(examined())
    assert not [row for row in rows if row.result == "fail"]
    (row,) = [row for row in rows if row.check == "compression"]
    assert (row.result, row.fix) == ("warn", "pip install backports.zstd")


@pytest.mark.parametrize(
    ("names", "fails"),
    [
        pytest.param([], False, id="empty"),
        pytest.param([".tokens.json", "lost+found"], False, id="before-the-first-start"),
        pytest.param([".lock", "notes.txt"], False, id="a-store"),
        pytest.param(["notes.txt", "thesis.tex"], True, id="something-else"),
    ],
)
def test_a_directory_that_is_no_store(names: list[str], fails: bool, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    failed = [row.found for row in store.store(tmp_path) if row.check == "store" and row.result == "fail"]
    assert bool(failed) == fails
    assert all("is no store" in found and "notes.txt and 1 other" in found for found in failed)


@together(
    ("began", "theirs", "ended", "result"),
    [
        (100.0, 100.5, 101.0, "ok"),
        (100.0, 102.4, 101.0, "ok"),
        (100.0, 103.1, 101.0, "warn"),
        (100.0, 97.9, 101.0, "warn"),
        (100.0, 90.0, 120.0, "warn"),
        (100.0, 99.0, 120.0, "ok"),  # a slow answer: the time at which the clock was read is unknown
    ],
)
def test_clocks_differ_when_even_the_best_case_is_too_much(
    began: float, theirs: float, ended: float, result: str
) -> None:
    assert way._clock(began, theirs, ended).result == result


REFUSED, SILENT = ConnectionRefusedError(111, "Connection refused"), TimeoutError("timed out")


@together(
    ("tried", "result", "found"),
    [
        ({"10.0.0.1": 0.002}, "ok", "the connection took 2.0 ms"),
        (
            {"10.0.0.1": REFUSED, "10.0.0.2": 0.002},
            "ok",
            "the connection to 10.0.0.2 took 2.0 ms; 10.0.0.1: Connection refused",
        ),
        ({"10.0.0.1": 0.001, "::1": SILENT}, "ok", "the connection to 10.0.0.1 took 1.0 ms; ::1: no answer"),
        ({"10.0.0.1": REFUSED, "10.0.0.2": REFUSED}, "fail", "r:1 refused the connection: no program listens there"),
        ({"10.0.0.1": SILENT}, "fail", "no connection to r:1 within 3 s: no answer"),
        (
            {"10.0.0.1": SILENT, "10.0.0.2": REFUSED},
            "fail",
            "no connection to r:1 within 3 s: 10.0.0.1: no answer; 10.0.0.2: Connection refused",
        ),
    ],
)
def test_one_address_of_several_is_enough(tried: dict[str, float | Exception], result: str, found: str) -> None:
    row = way._connection("r:1", Route(), tried)
    assert (row.result, row.found, bool(row.fix)) == (result, found, result == "fail")


@pytest.mark.parametrize(("days", "result"), [(-1, "fail"), (29, "warn"), (31, "ok")])
def test_a_certificate_that_expires(days: int, result: str) -> None:
    end = time.strftime("%b %d %H:%M:%S %Y GMT", time.gmtime(time.time() + 86400 * days))
    row = dated("tls", "it is for a.example", {"notAfter": end}, "there")
    assert (row.result, bool(row.fix)) == (result, result != "ok")


@pytest.mark.parametrize(("free", "result"), [(99, "fail"), (100, "warn"), (9_999, "warn"), (10_000, "ok")])
def test_room(free: int, result: str) -> None:
    row = store._enough("inodes", free, store.LEAST_INODES, store.LITTLE_INODES, "some are free", "make room")
    assert (row.result, bool(row.fix)) == (result, result != "ok")


@pytest.mark.parametrize(
    ("free", "whole", "said"),
    [
        (3 << 30, 8 << 30, "3.0 GiB of 8.0 GiB are free"),
        (5 << 20, 8 << 30, "5.0 MiB of 8.0 GiB are free"),
        (200 << 10, 1 << 20, "200.0 KiB of 1.0 MiB are free"),
        (0, 64 << 10, "0.0 B of 64.0 KiB are free"),
    ],
)
def test_the_room_has_a_unit_that_fits(free: int, whole: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room = SimpleNamespace(f_bavail=free >> 10, f_blocks=whole >> 10, f_frsize=1 << 10, f_files=0)
    monkeypatch.setattr("os.statvfs", lambda root: room)
    assert [row.found for row in store._room(Path("x"))] == [said]


@pytest.mark.parametrize(("major", "result"), [(1, "ok"), (2, "fail")])
def test_protocols(major: int, result: str) -> None:
    assert way._protocol(major, 0, "flarelog/0").result == result


def test_what_is_under_a_root(tmp_path: Path) -> None:
    for name in ("a.log", "sub/b.log", "model.pt", "left.txt", "a name.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe.log")
    source = SourceOptions(str(tmp_path), exclude=("left*",))
    assert site._walked(source) == (3, 2, [], [])


def test_a_root_that_is_a_file_is_not_one_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (row,) = site.under(SourceOptions(str(tmp_path / "a.log")))
    assert (row.check, row.result) == ("root", "fail")
    assert row.found == f"{tmp_path}/a.log is a file: the logs are looked for below a directory"


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        (("zz*",), (), "matches --include 'zz*', which leaves out 1 file"),
        ((), ("a*",), "is sent: --exclude 'a*' leaves out 1 file"),
    ],
)
def test_patterns_that_let_nothing_go_are_told(
    include: tuple[str, ...], exclude: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    (tmp_path / "a.log").touch()
    (row,) = [row for row in site.under(SourceOptions(str(tmp_path), include, exclude)) if row.check == "root"]
    assert (row.result, row.found) == ("warn", f"no file under {tmp_path} {found}")


@pytest.mark.parametrize(("files", "found"), [(1, "1 log is readable"), (2, "2 logs are readable")])
def test_the_logs_below_a_root_are_counted(files: int, found: str, tmp_path: Path) -> None:
    for n in range(files):
        (tmp_path / f"{n}.log").touch()
    (row,) = [row for row in site.under(SourceOptions(str(tmp_path))) if row.check == "root"]
    assert row.found == f"{found}; directories: 1"


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        pytest.param(errno.ENOSPC, "free space and inodes there", id="no-inodes"),
        pytest.param(errno.EROFS, "mount the file system for writing", id="read-only"),
        pytest.param(errno.EACCES, "make the store writable for the receiver's user: chown it", id="another-user"),
    ],
)
def test_why_a_store_cannot_be_written_tells_what_to_do(
    number: int, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> float:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(store, "_written", fails)
    (row,) = [row for row in store.store(tmp_path) if row.check == "writing"]
    assert (row.result, row.fix.startswith(fix)) == ("fail", True), row


def test_a_certificate_that_is_not_valid_yet_is_a_matter_of_the_clock(tmp_path: Path) -> None:
    ca = Authority.new(tmp_path)
    pair = ca.issue("site-1", days=(10, 20))
    (row,) = own(pair, "client")
    assert (row.result, row.fix.startswith("set this machine's clock")) == ("fail", True), row


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (NotAReceiver(f"no connection to a:1: {statuses.NO_GRPC}"), "check the port: "),
        (NotAllowed(f"a:1 answers, but {statuses.NO_PROTOCOL}, version 1"), "check the port: "),
        (NotAllowed("a:1 refuses: it is not let in"), "check the receiver's policy"),
        (TimedOut("a:1 did not answer in time"), "check the port: "),
    ],
)
def test_a_receiver_that_does_not_say_what_it_is(error: FlarelogError, fix: str) -> None:
    assert way._cure(error).startswith(fix)
