"""What the doctor calls well, and what not."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from flarelog.cli import doctor
from flarelog.sources.files.patterns import SourceOptions


def test_an_installation_that_cannot_compress_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[doctor.Row] = []
    options = dict.fromkeys(("token_file", "tls_ca", "tls_cert", "tls_key"))
    for available in (True, False):
        monkeypatch.setattr(doctor, "AVAILABLE", available)
        assert not asyncio.run(doctor._examine(None, None, str(tmp_path), {}, options, rows.append))
    (row,) = [row for row in rows if row.check == "compression"]
    assert (row.result, row.fix) == ("warn", "pip install backports.zstd")


@pytest.mark.parametrize(
    ("began", "theirs", "ended", "results"),
    [
        (100.0, 100.5, 101.0, ["ok"]),
        (100.0, 102.4, 101.0, ["ok"]),
        (100.0, 103.1, 101.0, ["warn"]),
        (100.0, 97.9, 101.0, ["warn"]),
        (100.0, 90.0, 120.0, ["warn"]),
        (100.0, 99.0, 120.0, ["ok"]),  # the answer took long: nobody knows when the clock was read
        (100.0, 0.0, 101.0, []),  # an older receiver does not say it
    ],
)
def test_clocks_differ_when_even_the_best_case_is_too_much(
    began: float, theirs: float, ended: float, results: list[str]
) -> None:
    assert [row.result for row in doctor._clock(began, theirs, ended)] == results


@pytest.mark.parametrize(("days", "result"), [(-1, "fail"), (29, "warn"), (31, "ok")])
def test_a_certificate_that_expires(days: int, result: str) -> None:
    end = time.strftime("%b %d %H:%M:%S %Y GMT", time.gmtime(time.time() + 86400 * days))
    row = doctor._dated("tls", "it is for a.example", {"notAfter": end}, "there")
    assert (row.result, bool(row.fix)) == (result, result != "ok")


@pytest.mark.parametrize(("free", "result"), [(99, "fail"), (100, "warn"), (9_999, "warn"), (10_000, "ok")])
def test_room(free: int, result: str) -> None:
    row = doctor._enough("inodes", free, doctor.LEAST_INODES, doctor.LITTLE_INODES, "some are free", "make room")
    assert (row.result, bool(row.fix)) == (result, result != "ok")


@pytest.mark.parametrize(("major", "result"), [(1, "ok"), (2, "fail"), (0, "warn")])
def test_protocols(major: int, result: str) -> None:
    assert doctor._protocol(major, 0, "flarelog/0").result == result


def test_what_is_under_a_root(tmp_path: Path) -> None:
    for name in ("a.log", "sub/b.log", "model.pt", "left.txt", "a name.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe.log")
    source = SourceOptions(str(tmp_path), exclude=("left*",))
    assert doctor._walked(source) == (3, 2, [], ["a name.log"], [])
