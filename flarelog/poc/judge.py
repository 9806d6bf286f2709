"""What was written against what is stored: read anew from the files, with nobody's word taken for it.

A log's SHA-256 is over all its bytes in the order of writing; a site's is over the lines that ``sha256sum`` would
print for its logs, so that ``cd STORE/RUN/SITE && sha256sum LOG... | sha256sum`` gives the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from flarelog.model import StreamInfo
from flarelog.poc.simulation import RUN, Evidence
from flarelog.stores.local import LocalStore


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """One log of one site."""

    log: str
    written: int
    stored: int
    written_sha256: str
    stored_sha256: str
    sealed: bool

    @property
    def ok(self) -> bool:
        return self.written == self.stored and self.written_sha256 == self.stored_sha256 and self.sealed


@dataclass(frozen=True, slots=True)
class SiteVerdict:
    """One row of the table."""

    site: str
    written: int
    stored: int
    misses: int
    reconnects: int
    generations: int
    gaps: int
    receipt: bool
    written_sha256: str
    stored_sha256: str
    ok: bool
    logs: tuple[LogVerdict, ...]


async def judge(evidence: Evidence) -> list[SiteVerdict]:
    """A verdict for each site."""
    store = LocalStore(evidence.work / "store")
    held = {(info.stream.site, info.stream.log): info async for info in store.list(f"{RUN}/")}
    verdicts = []
    for name, site in evidence.sites.items():
        truth: dict[str, Any] = json.loads((evidence.work / "sites" / name / "truth.json").read_text())
        strays = [log for owner, log in held if owner == name and log not in truth]
        logs = []
        for log in sorted([*truth, *strays]):
            wrote = truth.get(log, {"bytes": 0, "sha256": hashlib.sha256().hexdigest()})
            info = held.get((name, log))
            stored, digest = await _stored(store, info)
            sealed = info is not None and info.sealed
            logs.append(LogVerdict(log, wrote["bytes"], stored, wrote["sha256"], digest, sealed))
        infos = [info for (owner, _), info in held.items() if owner == name]
        verdicts.append(
            SiteVerdict(
                site=name,
                written=sum(log.written for log in logs),
                stored=sum(log.stored for log in logs),
                misses=sum(int(str(stream["misses"])) for stream in site.streams),
                reconnects=site.kills + sum(int(str(stream["reconnects"])) for stream in site.streams),
                generations=sum(info.files for info in infos),
                gaps=sum(len(info.gaps) for info in infos),
                receipt=bool(logs) and all(log.sealed for log in logs),
                written_sha256=_combined([(log.log, log.written_sha256) for log in logs]),
                stored_sha256=_combined([(log.log, log.stored_sha256) for log in logs]),
                ok=bool(logs) and all(log.ok for log in logs) and site.exit_code == 0,
                logs=tuple(logs),
            )
        )
    return verdicts


async def _stored(store: LocalStore, info: StreamInfo | None) -> tuple[int, str]:
    digest, length = hashlib.sha256(), 0
    if info is not None:
        async for _, data in store.read(info.stream):
            digest.update(data)
            length += len(data)
    return length, digest.hexdigest()


def _combined(logs: list[tuple[str, str]]) -> str:
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in logs).encode()).hexdigest()


def record(verdict: SiteVerdict) -> dict[str, object]:
    """*verdict* as the JSON of ``flarelog poc --json`` has it."""
    found = asdict(verdict)
    found["verdict"] = "ok" if found.pop("ok") else "DIFFERS"
    return found
