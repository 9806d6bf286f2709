"""Each signature finds the real lines that it was made from, and none of its near misses."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flarelog.detect import general
from flarelog.detect.across import first_root, judged
from flarelog.detect.base import LOOKED, PIECES, SHOWN, Signature
from flarelog.detect.table import SIGNATURES
from flarelog.render.sieve import MAX_TEXTS
from tests.detect.cases import DATA, Case, cases, searched
from tests.rows import rows, together

GENERAL = {each.id for each in general.SIGNATURES}


@rows(cases("case"))
def test_a_real_line_is_found(case: Case) -> None:
    found = searched(case.data)
    assert [each.signature for each in found] == [case.signature]
    assert {name: found[0].facts.get(name) for name in case.facts} == case.facts
    assert case.rank is None or found[0].rank == case.rank
    assert found[0].length == len(case.data)


@together(
    ("signature", "text"),
    [
        ("disk.full", "Could not write checkpoint: No space left on device"),
        ("cuda.oom", "Could not allocate tensor: CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("cuda.oom", "2 tests failed: CUDA out of memory"),
        ("cuda.oom", "worker 3 died when handling batch: CUDA out of memory"),
        ("cuda.oom", "Retrying failed: CUDA out of memory. Tried to allocate 1 GiB"),
        ("disk.full", "shard 3 couldn't be saved, No space left on device"),
        ("disk.full", "write /ckpt/a.pt: no space left on device"),
        ("disk.full", '{"level":"error","err":"write /ckpt/a.pt: no space left on device"}'),
    ],
)
def test_what_failed_and_why_is_meant_whatever_words_stand_before_it(signature: str, text: str) -> None:
    assert [(each.signature, each.role) for each in searched(f"{text}\n".encode())] == [(signature, "root")]


@rows(cases("miss"))
def test_a_near_miss_is_not(case: Case) -> None:
    """A usual line gives no finding. Other near misses may match a general signature."""
    known = GENERAL if case.signature != "none" and case.signature not in GENERAL else set()
    assert [each.signature for each in searched(case.data) if each.signature not in known] == []


@rows(cases("lost"))
def test_a_line_that_is_counted_as_missed_is(case: Case) -> None:
    """This keeps the recall that the sets report from being too high."""
    assert searched(case.data) == []


@rows(cases("root"))
def test_the_earliest_root_of_a_real_text(case: Case) -> None:
    root = first_root(judged(searched(case.data)))
    assert root is not None
    assert root.signature == case.signature


@rows(cases("usual"))
def test_a_job_that_went_on_has_no_root(case: Case) -> None:
    assert [each for each in judged(searched(case.data)) if each.is_root] == []


@rows(cases("false"))
def test_a_root_that_is_counted_as_false_is(case: Case) -> None:
    """This keeps the count of false roots that the sets report from being too low."""
    assert [each.signature for each in judged(searched(case.data)) if each.is_root] == [case.signature]


@together(
    ("text", "roles"),
    [
        pytest.param("CUDA out of memory, retrying with batch size 32", ["symptom"], id="retried"),
        pytest.param(
            "CUDA out of memory, retrying with batch size 32\nRuntimeError: CUDA out of memory",
            ["symptom", "root"],
            id="retried-and-died",
        ),
        pytest.param("CUDA out of memory. Retrying with batch size 8 failed", ["root"], id="retried-in-vain"),
        pytest.param("FATAL CUDA out of memory, not retrying", ["root"], id="not-retried"),
        pytest.param("WARNING cannot write ckpt: No space left on device", ["root"], id="a-warning-of-a-full-disk"),
        pytest.param("INFO worker 3: CUDA out of memory. Tried to allocate 2 GiB", ["root"], id="what-a-child-said"),
        pytest.param(
            "WARNING write failed, retrying\nTraceback (most recent call last):\n"
            '  File "a.py", line 1, in b\nOSError: [Errno 28] No space left on device',
            ["root"],
            id="the-last-try",
        ),
        pytest.param(
            "INFO write failed, retrying\nTraceback (most recent call last):\n"
            '  File "a.py", line 1, in b\nOSError: [Errno 28] No space left on device\nINFO step 5',
            ["symptom"],
            id="a-try-before-the-last",
        ),
        pytest.param(
            "WARNING write failed, retrying\nTraceback (most recent call last):\n"
            '  File "a.py", line 1, in b\nOSError: [Errno 28] No space left on device\nERROR the job failed',
            ["root", "symptom"],
            id="a-try-and-its-end",
        ),
        pytest.param(
            'Traceback (most recent call last):\n  File "a.py", line 1, in b\n'
            "OSError: [Errno 28] No space left on device\nException ignored in: <function a at 0x7f>",
            ["root"],
            id="what-the-end-leaves-out",
        ),
        pytest.param("[W socket.cpp:663] Connection refused by [::1]:29500: Connection refused", ["symptom"], id="W"),
        pytest.param("[E socket.cpp:663] error: Connection refused", ["root"], id="E"),
        pytest.param("INFO - process finished with execution code: -9", ["root"], id="how-it-ended"),
    ],
)
def test_what_a_program_goes_on_after_is_no_root(text: str, roles: list[str]) -> None:
    assert [each.role for each in judged(searched(f"{text}\n".encode()))] == roles


def test_what_cpp_threw_is_told_with_its_type() -> None:
    text = b"terminate called after throwing an instance of 'std::out_of_range'\n  what():  map::at\n"
    root = first_root(judged(searched(text)))
    assert root is not None
    assert root.facts == {"exception": "std::out_of_range", "what": "map::at"}


def test_each_signature_has_a_real_line_and_a_near_miss() -> None:
    known = {each.id for each in SIGNATURES} | {"python.traceback"}
    assert {case.signature for case in cases("case")} == known
    assert {case.signature for case in cases("miss")} - {"none"} == known
    assert len(known) == len(SIGNATURES) + 1, "two signatures have one name"


def test_the_pieces_are_a_sieve_that_a_receiver_takes() -> None:
    assert len(PIECES) <= MAX_TEXTS
    assert len(set(PIECES)) == len(PIECES)


@together("log", sorted((DATA / "train").glob("*")), ids=lambda log: log.name)
def test_a_good_runs_log_has_no_root(log: Path) -> None:
    reported = ["python.traceback"] if log.name.startswith("21_rich") else []  # its program logs an exception
    assert [each.signature for each in searched(log.read_bytes()) if each.is_root] == reported


def test_a_finding_is_legible_and_short() -> None:
    found = searched(b"RuntimeError: CUDA out of memory\x00 \xe2\x80\xae" + b"x" * 100_000 + b"\n")
    assert len(found) == 1
    assert len(found[0].text) <= SHOWN
    assert found[0].text.isprintable()


HOSTILE = (
    "E",
    "[PG 1 ",
    "NCCL WARN ",
    "CUDA out of memory. Tried to allocate 1.00 GiB",
    "gloo/] ",
    "Rank 1] ",
    "(",
    " ",
)


@rows(SIGNATURES, lambda each: each.id)
def test_a_hostile_line_takes_a_bounded_time(signature: Signature) -> None:
    """The line has every literal and many beginnings of the pattern."""
    literals = " ".join(signature.literals)
    cases_ = [case.text for case in cases("case") if case.signature == signature.id]
    for part in (*HOSTILE, *cases_, literals):
        text = (part * (LOOKED // len(part) + 1))[: LOOKED - len(literals)] + literals
        begin = time.process_time()
        signature.facts(text)
        assert time.process_time() - begin < 0.25, part
