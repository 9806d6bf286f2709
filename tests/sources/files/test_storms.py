"""Names that move between any two calls of a sidecar that starts, reads and is killed again (see storms.py)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flarelog.sources.files import identity
from tests.often import often
from tests.sources.files.storms import LOG, Storm

SEEDS = range(often(2, 8))


def play(root: Path, seed: int, *, names: str, include: str, inotify: bool, restarts: int = 6) -> str:
    """What went wrong in one storm; empty: nothing."""
    storm = Storm(root / f"{seed}", seed, names=names, include=include, inotify=inotify, old=2 * (seed % 4))
    try:
        storm.site.settle()
        for _ in range(restarts):
            storm.restart()
        storm.end()
        return storm.trouble()
    finally:
        storm.close()


@pytest.fixture
def births(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the file system keeps birth times."""
    real = identity._statx
    if not request.param:

        def without(directory: int, path: bytes, flags: int) -> identity.Sight | None:
            found = real(directory, path, flags)
            return found._replace(born=None) if found is not None else None

        monkeypatch.setattr(identity, "_statx", without)


@pytest.mark.parametrize(
    "births", [pytest.param(True, id="births"), pytest.param(False, id="no-births")], indirect=True
)
@pytest.mark.parametrize("inotify", [pytest.param(True, id="inotify"), pytest.param(False, id="poll")])
@pytest.mark.parametrize(
    ("names", "include"),
    [
        pytest.param("numbers", LOG, id="numbers-out-of-the-patterns"),
        pytest.param("numbers", f"{LOG}*", id="numbers"),
        pytest.param("dates", LOG, id="dates-out-of-the-patterns"),
        pytest.param("dates", f"{LOG}*", id="dates"),
        pytest.param("inner-dates", LOG, id="dates-within-the-name-out-of-the-patterns"),
        pytest.param("inner-dates", "log*.txt", id="dates-within-the-name"),
        pytest.param("olddir", LOG, id="another-directory"),
        pytest.param("copytruncate", LOG, id="copies-out-of-the-patterns"),
        pytest.param("copytruncate", f"{LOG}*", id="copies"),
    ],
)
@pytest.mark.usefixtures("births")
def test_generations_are_stored_in_the_order_of_their_births_and_once(
    tmp_path: Path, names: str, include: str, inotify: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    wrong = {
        seed: found
        for seed in SEEDS
        if (found := play(tmp_path, seed, names=names, include=include, inotify=inotify, restarts=4))
    }
    assert wrong == {}


@pytest.mark.parametrize("inotify", [pytest.param(True, id="inotify"), pytest.param(False, id="poll")])
@pytest.mark.parametrize("include", [LOG, f"{LOG}*"])
def test_generations_that_are_deleted_meanwhile_disturb_no_others(tmp_path: Path, include: str, inotify: bool) -> None:
    wrong = {
        seed: found for seed in SEEDS if (found := play(tmp_path, seed, names="kept", include=include, inotify=inotify))
    }
    assert wrong == {}
