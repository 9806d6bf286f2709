"""The proof can fail: it sees a byte that is neither stored nor in a gap, and a gap that is not the lost bytes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import GAPS, OK, InvalidOption
from flarelog.model import Code, Ended, Gap, Generation, Mark, Receipt, StreamId
from flarelog.poc.answers import ANSWERS, Answers
from flarelog.poc.certificates import OPERATOR, RECEIVER, Certificates
from flarelog.poc.intruders import STRANGER, Intruder, intruders
from flarelog.poc.judge import IntruderVerdict, SiteVerdict, judge, record
from flarelog.poc.options import DEFAULT, FAULTS, OF_FILES, OF_NATS, OF_TLS, PROOF, PocOptions, chosen
from flarelog.poc.simulation import Evidence
from flarelog.poc.writer import Log
from flarelog.stores.local.store import LocalStore

STREAM = StreamId("poc", "site-1", "log.txt")
Piece = bytes | Mark


def generation(identity: str, source_offset: int = 0) -> Generation:
    return Generation(0, EMPTY_DIGEST, "log.txt", source_offset, identity)


def gap(length: int) -> Gap:
    return Gap(0, EMPTY_DIGEST, length, "truncated")


ENDED = Ended(0, EMPTY_DIGEST, "rotated")


def judged(work: Path, pieces: list[Piece], exit_code: int) -> SiteVerdict:
    """The verdict on a site's written bytes, when the store has *pieces*."""
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
    writer = Answers(str(work / ANSWERS))
    for code in (Code.EXECUTION_EXCEPTION, Code.EXECUTION_EXCEPTION, Code.OK, Code.OK, Code.OK):
        writer.handle(logging.makeLogRecord({"answer": (STREAM, code), "msg": "any words"}))

    async def go() -> SiteVerdict:
        async with LocalStore(work / "store", "memory") as store:
            appender = await store.appender(STREAM, b"producer")
            for piece in pieces:
                if isinstance(piece, bytes):
                    await appender.append(appender.committed, piece)
                else:
                    await appender.mark(replace(piece, offset=appender.committed))
            await appender.sync()
            await appender.seal(Receipt(appender.committed, appender.digest, len(appender.marks)))
        (verdict,), _ = await judge(Evidence(work, PocOptions(sites=1), {"site-1": exit_code}))
        return verdict

    return asyncio.run(go())


FIRST: list[Piece] = [generation("a"), b"one\n", ENDED, generation("b"), b"two\n"]
REST: list[Piece] = [generation("b"), b"three\n", generation("c"), b"four\n"]
WHOLE = [*FIRST, gap(5), *REST]


def test_what_is_stored_and_what_is_a_gap_is_what_was_written(tmp_path: Path) -> None:
    verdict = judged(tmp_path, WHOLE, GAPS)
    assert verdict.ok
    assert (verdict.written, verdict.stored, verdict.lost, verdict.gaps) == (24, 19, 5, 1)
    assert (verdict.misses, verdict.reconnects) == (2, 2)


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
        pytest.param({"faults": ("kill-leader",), "store": "nats"}, 17.0, 4 << 20, 0, id="an-election-a-longer-one"),
    ],
)
def test_how_much_is_written_in_which_time(
    options: dict[str, object], length: float, size: int, rotations: int
) -> None:
    make: Callable[..., PocOptions] = PocOptions
    made = make(**options)
    assert (made.length, made.size, made.rotations) == (length, size, rotations)


# --- over TLS


@pytest.mark.parametrize(
    ("named", "tls", "faults"),
    [
        pytest.param((), False, DEFAULT, id="by-default"),
        pytest.param((), True, DEFAULT + OF_TLS, id="by-default-over-tls"),
        pytest.param(("all",), True, tuple(name for name in FAULTS if name not in OF_NATS), id="all-over-tls"),
        pytest.param(("all",), False, tuple(name for name in FAULTS if name not in OF_NATS + OF_TLS), id="all"),
        pytest.param(("rotate",), True, ("rotate",), id="those-that-are-named"),
    ],
)
def test_which_faults_there_are(named: tuple[str, ...], tls: bool, faults: tuple[str, ...]) -> None:
    assert chosen(named, tls) == faults
    assert PocOptions(faults=faults, tls=tls).faults == faults


def test_a_shared_store_has_faults_of_its_own() -> None:
    usual = chosen((), tls=False, store="nats")
    assert usual == (*DEFAULT, "kill-receiver", *OF_NATS)
    every = chosen(("all",), tls=False, store="nats")
    assert set(usual) < set(every) == FAULTS.keys() - OF_FILES - {*OF_TLS}
    for faults in (usual, every):
        assert PocOptions(store="nats", faults=faults).faults == faults
    for fault in OF_NATS:
        with pytest.raises(InvalidOption, match="add --store nats"):
            PocOptions(faults=(fault,))
    for fault in ("truncate", "full-disk", PROOF):
        with pytest.raises(InvalidOption, match="leave out --store nats"):
            PocOptions(store="nats", faults=(fault,))
    with pytest.raises(InvalidOption, match="--tls needs a single receiver"):
        PocOptions(store="nats", tls=True)


@pytest.mark.parametrize("fault", OF_TLS)
def test_without_certificates_there_is_nothing_to_renew_and_nobody_to_refuse(fault: str) -> None:
    with pytest.raises(InvalidOption, match="add --tls"):
        PocOptions(faults=(fault,))


def test_certificates_are_replaced_all_at_once_and_the_stranger_s_are_of_another_ca(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, ["site-1", "site-2"])

    def serials() -> dict[str, int]:
        names = (RECEIVER, OPERATOR, STRANGER, "site-1", "site-2")
        read = ((name, Path(certificates.of(name).cert).read_bytes()) for name in names)
        return {name: x509.load_pem_x509_certificate(pem).serial_number for name, pem in read}

    before = serials()
    certificates.renew()
    changed = {name for name, serial in serials().items() if serial != before[name]}
    assert changed == {RECEIVER, "site-1", "site-2"}
    certificates.of(RECEIVER).check("server")
    for name in (OPERATOR, STRANGER, "site-1"):
        certificates.of(name).check("client")
    issuer = {
        name: x509.load_pem_x509_certificate(Path(certificates.of(name).cert).read_bytes()).issuer
        for name in ("site-1", STRANGER)
    }
    assert issuer["site-1"] != issuer[STRANGER]


def intruder_verdicts(work: Path, *tried: Intruder) -> list[IntruderVerdict]:
    """The verdicts on *tried*, when the store holds 9 bytes as forged-by-site-1.txt of site-2."""
    (work / "sites" / "site-1").mkdir(parents=True)
    (work / "sites" / "site-1" / "truth.json").write_text("{}")
    (work / "receiver.log").touch()

    async def go() -> list[IntruderVerdict]:
        async with LocalStore(work / "store", "memory") as store:
            appender = await store.appender(StreamId("poc", "site-2", "forged-by-site-1.txt"), b"producer")
            await appender.append(0, b"any bytes")
            await appender.sync()
        return (await judge(Evidence(work, PocOptions(sites=1), {"site-1": OK}, tried)))[1]

    return asyncio.run(go())


def test_an_intruder_of_whom_a_byte_is_stored_or_whom_nobody_refused_was_let_in(tmp_path: Path) -> None:
    stranger, claimant = intruders(["site-1", "site-2"])
    unrefused = intruders(["site-1"])[0]
    stranger.attempts = stranger.refused = claimant.attempts = claimant.refused = unrefused.attempts = 2
    unrefused.refused = 1
    verdicts = intruder_verdicts(tmp_path, stranger, claimant, unrefused)
    assert [(verdict.stored, record(verdict)["verdict"]) for verdict in verdicts] == [
        (0, "refused"),
        (9, "LET IN"),
        (0, "LET IN"),
    ]
