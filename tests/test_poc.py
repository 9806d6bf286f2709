"""The proof can fail: a byte that is neither stored nor a gap, and a gap that is not what was lost, are seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.errors import GAPS, OK
from flarelog.model import EMPTY_DIGEST, Ended, Gap, Generation, Mark, Receipt, StreamId
from flarelog.poc.judge import SiteVerdict, judge
from flarelog.poc.simulation import Evidence, PocOptions
from flarelog.poc.writer import Log
from flarelog.stores.local import LocalStore

STREAM = StreamId("poc", "site-1", "log.txt")
Piece = bytes | Mark


def generation(identity: str, source_offset: int = 0) -> Generation:
    return Generation(0, EMPTY_DIGEST, "log.txt", source_offset, identity)


def gap(length: int) -> Gap:
    return Gap(0, EMPTY_DIGEST, length, "truncated")


ENDED = Ended(0, EMPTY_DIGEST, "rotated")


def judged(work: Path, pieces: list[Piece], exit_code: int) -> SiteVerdict:
    """The verdict on what a site wrote, when *pieces* is what the store has."""
    site = work / "sites" / "site-1"
    log = Log("log.txt", site / "logs" / "log.txt")
    log.write(b"one\n")
    log.rotate()
    log.write(b"two\n")
    log.write(b"lost\n", to_be_lost=True)
    log.truncate()
    log.write(b"three\n")
    log.remove()
    log.write(b"four\n")
    log.close()
    (site / "truth.json").write_text(json.dumps({"log.txt": log.truth()}))
    (work / "receiver.log").write_text("INFO poc/site-1/log.txt: opened at offset 0\n" * 3)

    async def go() -> SiteVerdict:
        async with LocalStore(work / "store", "memory") as store:
            appender = await store.appender(STREAM, b"producer")
            for piece in pieces:
                if isinstance(piece, bytes):
                    await appender.append(appender.committed, piece)
                else:
                    fields = {name: getattr(piece, name) for name in type(piece).__slots__}
                    await appender.mark(type(piece)(**fields | {"offset": appender.committed}))
            await appender.sync()
            await appender.seal(Receipt(appender.committed, appender.digest, len(appender.marks)))
        (verdict,) = await judge(Evidence(work, PocOptions(sites=1), {"site-1": exit_code}))
        return verdict

    return asyncio.run(go())


FIRST: list[Piece] = [generation("a"), b"one\n", ENDED, generation("b"), b"two\n"]
REST: list[Piece] = [generation("b"), b"three\n", generation("c"), b"four\n"]
WHOLE = [*FIRST, gap(5), *REST]


def test_what_is_stored_and_what_is_a_gap_is_what_was_written(tmp_path: Path) -> None:
    verdict = judged(tmp_path, WHOLE, GAPS)
    assert verdict.ok
    assert (verdict.written, verdict.stored, verdict.lost, verdict.gaps) == (24, 19, 5, 1)
    assert (verdict.misses, verdict.reconnects) == (0, 2)


def test_a_generation_may_go_on_behind_the_next(tmp_path: Path) -> None:
    pieces = [*WHOLE[:-2], generation("c"), b"fo", generation("c", 2), b"ur\n"]
    assert judged(tmp_path, pieces, GAPS).ok


@pytest.mark.parametrize(
    ("pieces", "exit_code"),
    [
        pytest.param([*FIRST, *REST], OK, id="a-loss-without-a-gap"),
        pytest.param([*FIRST, gap(4), *REST], GAPS, id="a-gap-that-is-too-short"),
        pytest.param([*FIRST, gap(6), *REST], GAPS, id="a-gap-that-is-too-long"),
        pytest.param([*FIRST, *REST[:2], gap(5), *REST[2:]], GAPS, id="a-gap-in-another-generation"),
        pytest.param(WHOLE, OK, id="a-loss-that-does-not-show-in-the-exit-code"),
        pytest.param([*WHOLE[:-1], b"four"], GAPS, id="a-byte-that-is-missing"),
        pytest.param([*WHOLE[:-1], b"faur\n"], GAPS, id="a-byte-that-is-another"),
        pytest.param([*WHOLE, b"!"], GAPS, id="a-byte-too-many"),
        pytest.param([piece for piece in WHOLE if piece != generation("c")], GAPS, id="a-generation-that-is-not-told"),
    ],
)
def test_what_differs_is_seen(tmp_path: Path, pieces: list[Piece], exit_code: int) -> None:
    assert not judged(tmp_path, pieces, exit_code).ok


@pytest.mark.parametrize(
    ("options", "length", "size", "rotations"),
    [
        pytest.param({}, 5.0, 4 << 20, 4, id="by-default"),
        pytest.param({"seconds": 120.0}, 120.0, 120 * (128 << 10), 20, id="for-a-given-time"),
        pytest.param({"seconds": 120.0, "bytes": 7}, 120.0, 7, 20, id="both-are-given"),
        pytest.param({"faults": ("kill-sidecar",)}, 7.0, 4 << 20, 0, id="a-fault-needs-a-moment"),
    ],
)
def test_how_much_is_written_in_which_time(
    options: dict[str, object], length: float, size: int, rotations: int
) -> None:
    make: Callable[..., PocOptions] = PocOptions
    made = make(**options)
    assert (made.length, made.size, made.rotations) == (length, size, rotations)
