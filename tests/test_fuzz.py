"""Inputs that fuzzing once found stay handled, and some thousands of new inputs, the same in each run, break no law."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import pytest

from fuzz.__main__ import CORPUS, corpus, mutations
from fuzz.targets import SEEDS, TARGETS
from tests.often import often

# Targets with whole processes, and hostile inputs, are slow.
EXECUTIONS = {"session": often(15, 150), "sidecar": often(10, 100), "hostile": often(12, 500)}
USUALLY = often(30, 500)
KEPT = {"hostile": 6}  # one of so many kept inputs is tried


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Parsers warn of invalid input."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_every_target_begins_with_what_real_ends_write() -> None:
    assert set(SEEDS) == set(TARGETS)
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_kept_breaks_no_law(target: str) -> None:
    for raw in corpus(target)[:: often(KEPT.get(target, 1), 1)]:
        TARGETS[target](raw)


@pytest.mark.parametrize("target", TARGETS)
def test_new_inputs_break_no_law(target: str) -> None:
    for raw in itertools.islice(mutations(corpus(target), seed=4), EXECUTIONS.get(target, USUALLY)):
        TARGETS[target](raw)


def test_a_broken_law_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = (CORPUS / "journal" / "offset-is-a-text").read_bytes()
    monkeypatch.setattr("flarelog.stores.marks.number", lambda value, most=0: value)
    with pytest.raises(TypeError):
        TARGETS["journal"](raw)
