"""The verdict on written against stored bytes, read anew from the files; no process is trusted.

Every byte is accounted for: a written byte is stored or is a gap, generation by generation. A log's SHA-256 is over all
its bytes in the order of writing, without those in gaps; a site's is over the lines that ``sha256sum`` would print for
its logs, so that ``cd STORE/RUN/SITE && sha256sum LOG... | sha256sum`` gives the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from flarelog.completeness import completeness, exit_code
from flarelog.model import Code, Gap, Generation, StreamInfo
from flarelog.poc.answers import RUN, answers
from flarelog.poc.intruders import Intruder
from flarelog.poc.simulation import Evidence
from flarelog.stores import choose
from flarelog.stores.base import Reader, read
from flarelog.values import frozen


@frozen
class LogVerdict:
    log: str
    written: int
    stored: int
    lost: int  # the sum of the log's gaps
    written_sha256: str
    stored_sha256: str
    generations_agree: bool
    sealed: bool
    unseen: int  # generations whose end was not seen, and bytes that are missing without a gap

    @property
    def ok(self) -> bool:
        return (
            self.written == self.stored + self.lost
            and self.written_sha256 == self.stored_sha256
            and self.generations_agree
            and self.sealed
            and not self.unseen
        )


@frozen
class SiteVerdict:
    """One row of the table."""

    site: str
    written: int
    stored: int
    lost: int
    misses: int  # of all sidecars of the site, as the receiver answered them
    # how often a log of it was opened again, by any sidecar; attempts that did not reach the receiver do not count
    reconnects: int
    generations: int
    gaps: int
    receipt: bool
    written_sha256: str
    stored_sha256: str
    ok: bool
    stalls: dict[str, float]  # by fault: the longest time, in seconds, for which the site's bytes stood still
    logs: tuple[LogVerdict, ...]


@frozen
class IntruderVerdict:
    intruder: str
    claims: str  # the site whose name the intruder used
    written: int  # bytes that the intruder would have sent
    stored: int
    refused: bool  # at each attempt
    answer: str  # to the last attempt

    @property
    def ok(self) -> bool:
        return self.refused and self.stored == 0


async def judge(evidence: Evidence) -> tuple[list[SiteVerdict], list[IntruderVerdict]]:
    store = choose.reader(evidence.store)
    held = {(info.stream.site, info.stream.log): info async for info in store.list(f"{RUN}/")}
    return await _sites(evidence, store, held), [_intruder(intruder, held) for intruder in evidence.intruders]


_Held = dict[tuple[str, str], StreamInfo]


def _intruder(intruder: Intruder, held: _Held) -> IntruderVerdict:
    stored = sum(info.committed for (_, log), info in held.items() if log == intruder.log)
    refused = intruder.refused == intruder.attempts
    return IntruderVerdict(intruder.who, intruder.claims, intruder.tried, stored, refused, intruder.answer)


async def _sites(evidence: Evidence, store: Reader, held: _Held) -> list[SiteVerdict]:
    misses, opened = answers(evidence.work, Code.EXECUTION_EXCEPTION), answers(evidence.work, Code.OK)
    verdicts = []
    for name in evidence.options.names:
        truth: dict[str, Any] = json.loads((evidence.work / "sites" / name / "truth.json").read_text())
        infos = {log: info for (owner, log), info in held.items() if owner == name}
        code = exit_code(map(completeness, infos.values()))
        logs = [await _log(store, log, truth.get(log, _NOTHING), infos.get(log)) for log in sorted({*truth, *infos})]
        lost = sum(log.lost for log in logs)
        verdicts.append(
            SiteVerdict(
                site=name,
                written=sum(log.written for log in logs),
                stored=sum(log.stored for log in logs),
                lost=lost,
                misses=sum(times for (site, _), times in misses.items() if site == name),
                reconnects=sum(times - 1 for (site, _), times in opened.items() if site == name),
                generations=sum(info.generations for info in infos.values()),
                gaps=sum(len(info.gaps) for info in infos.values()),
                receipt=bool(logs) and all(log.sealed for log in logs),
                written_sha256=_combined([(log.log, log.written_sha256) for log in logs]),
                stored_sha256=_combined([(log.log, log.stored_sha256) for log in logs]),
                ok=bool(logs) and all(log.ok for log in logs) and evidence.exit_codes[name] == code,
                stalls={fault: round(found[name], 1) for fault, found in evidence.stalls.items()},
                logs=tuple(logs),
            )
        )
    return verdicts


_EMPTY = hashlib.sha256().hexdigest()
_NOTHING: dict[str, Any] = {"bytes": 0, "sha256": _EMPTY, "generations": []}


async def _log(store: Reader, log: str, wrote: dict[str, Any], info: StreamInfo | None) -> LogVerdict:
    if info is None:
        return LogVerdict(log, wrote["bytes"], 0, 0, wrote["sha256"], _EMPTY, False, False, 0)
    data = b"".join([piece async for _, piece in read(store, info.stream)])
    wanted = [(one["bytes"], one["lost"], one["sha256"]) for one in wrote["generations"] if one["bytes"]]
    found = completeness(info)
    return LogVerdict(
        log=log,
        written=wrote["bytes"],
        stored=len(data),
        lost=sum(gap.length for gap in info.gaps),
        written_sha256=wrote["sha256"],
        stored_sha256=hashlib.sha256(data).hexdigest(),
        generations_agree=_generations(info, data) == wanted,
        sealed=info.sealed,
        unseen=found.doubts + len(found.unverified),
    )


def _generations(info: StreamInfo, data: bytes) -> list[tuple[int, int, str]]:
    """(length with its gaps, length of its gaps, SHA-256 of its stored bytes) of each generation that has any."""
    found: list[tuple[bytearray, int]] = []
    places: dict[str, int] = {}  # by identity: its latest generation
    at = 0
    for mark, until in zip(info.marks, [*(mark.offset for mark in info.marks[1:]), info.committed], strict=True):
        if isinstance(mark, Generation):
            # A generation that a late writer continues after another is still the same.
            if mark.source_offset == 0 or mark.identity not in places:
                places[mark.identity] = len(found)
                found.append((bytearray(), 0))
            at = places[mark.identity]
        elif isinstance(mark, Gap) and found:
            found[at] = found[at][0], found[at][1] + mark.length
        if until > mark.offset and found:
            found[at][0].extend(data[mark.offset : until])
    return [(len(kept) + lost, lost, hashlib.sha256(kept).hexdigest()) for kept, lost in found if kept or lost]


def _combined(logs: list[tuple[str, str]]) -> str:
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in logs).encode()).hexdigest()


def record(verdict: SiteVerdict | IntruderVerdict) -> dict[str, object]:
    """*verdict* as the JSON of ``flarelog poc --json`` has it."""
    found = asdict(verdict)
    for name in ("ok", "refused"):
        found.pop(name, None)
    return found | {"verdict": word(verdict)}


def word(verdict: SiteVerdict | IntruderVerdict) -> str:
    """The last word of the verdict's row."""
    good, bad = ("ok", "DIFFERS") if isinstance(verdict, SiteVerdict) else ("refused", "LET IN")
    return good if verdict.ok else bad
