"""Names that move between any two calls of a sidecar that starts, reads and is killed again (see storms.py)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flarelog.sources.files import identity
from tests.often import often
from tests.sources.files.storms import LOG, Storm

SEEDS = range(often(1, 8))
WAYS = [(told, born) for told in ("inotify", "poll") for born in ("births", "no-births")]
KINDS = {
    "numbers-out-of-the-patterns": ("numbers", LOG),
    "numbers": ("numbers", f"{LOG}*"),
    "dates-out-of-the-patterns": ("dates", LOG),
    "dates": ("dates", f"{LOG}*"),
    "dates-within-the-name-out-of-the-patterns": ("inner-dates", LOG),
    "dates-within-the-name": ("inner-dates", "log*.txt"),
    "another-directory-out-of-the-patterns": ("olddir", LOG),
    "another-directory": ("olddir", f"{LOG}*"),
    "copies-out-of-the-patterns": ("copytruncate", LOG),
    "copies": ("copytruncate", f"{LOG}*"),
}


def play(root: Path, seed: int, *, names: str, include: str, inotify: bool, restarts: int = 6) -> str:
    """A sentence about wrong bytes after one storm; empty: none."""
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
    """The file system keeps birth times, or does not."""
    real = identity._statx
    if not request.param:

        def without(directory: int, path: bytes, flags: int) -> identity.Sight | None:
            found = real(directory, path, flags)
            return found._replace(born=None) if found is not None else None

        monkeypatch.setattr(identity, "_statx", without)


@pytest.mark.parametrize(
    ("names", "include", "inotify", "births"),
    [
        pytest.param(
            *KINDS[kind],
            told == "inotify",
            born == "births",
            id=f"{kind}-{told}-{born}",
            marks=() if number % len(WAYS) == way else pytest.mark.soak,  # each kind in one of the ways
        )
        for number, kind in enumerate(KINDS)
        for way, (told, born) in enumerate(WAYS)
    ],
    indirect=["births"],
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


@pytest.mark.parametrize(
    ("include", "inotify"),
    [
        pytest.param(LOG, True, id="inotify-out-of-the-patterns"),
        pytest.param(f"{LOG}*", False, id="poll"),
        pytest.param(LOG, False, id="poll-out-of-the-patterns", marks=pytest.mark.soak),
        pytest.param(f"{LOG}*", True, id="inotify", marks=pytest.mark.soak),
    ],
)
def test_generations_that_are_deleted_meanwhile_disturb_no_others(tmp_path: Path, include: str, inotify: bool) -> None:
    wrong = {
        seed: found for seed in SEEDS if (found := play(tmp_path, seed, names="kept", include=include, inotify=inotify))
    }
    assert wrong == {}


@pytest.mark.parametrize("inotify", [True, False], ids=["inotify", "poll"])
def test_another_name_of_a_generation_is_no_log_of_its_own(tmp_path: Path, inotify: bool) -> None:
    wrong = {
        seed: found
        for seed in SEEDS
        if (found := play(tmp_path, seed, names="linked", include="*", inotify=inotify, restarts=4))
    }
    assert wrong == {}
