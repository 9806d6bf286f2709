"""An agent names each spool that it does not send."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from flarelog.cli.spools import LeftSpools
from flarelog.locks import take


@contextmanager
def held(lock: Path) -> Iterator[None]:
    with open(lock, "rb") as file:
        assert take(file.fileno())
        yield


@contextmanager
def linked(lock: Path) -> Iterator[None]:
    lock.unlink()
    lock.symlink_to("/dev/null")
    yield


@pytest.mark.parametrize(
    ("spoiled", "site", "why", "code"),
    [
        pytest.param(held, "oslo", "a flarelog run, or a command that sends it, has it", 0, id="in-use"),
        pytest.param(linked, "oslo", os.strerror(errno.ELOOP), 1, id="unreadable"),
        pytest.param(held, "rome", "it is a spool of site oslo", 0, id="of-another-site"),
    ],
)
def test_a_spool_that_is_not_sent_is_named(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spoiled: Callable[[Path], AbstractContextManager[None]],
    site: str,
    why: str,
    code: int,
) -> None:
    spool = tmp_path / "job-1" / "oslo" / "run"
    spool.mkdir(parents=True)
    lock = spool / ".run.lock"
    lock.touch()

    def fails(*_: object) -> None:
        raise AssertionError("it is sent")

    with spoiled(lock):
        spools = LeftSpools(str(tmp_path), site, fails, fails, once=True)  # type: ignore[arg-type]
        assert asyncio.run(spools.run()) == code
    assert caplog.messages == [f"{spool} is not sent: {why}"]
