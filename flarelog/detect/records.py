"""A finding as JSON has it, with OpenTelemetry's names where it has one."""

from __future__ import annotations

import zlib

from flarelog.detect.base import Finding
from flarelog.render.times import shown


def permalink(found: Finding) -> str:
    """Where it stands: the same as long as the log is there."""
    return f"{found.stream}@{found.offset}+{found.length}"


def identity(found: Finding) -> str:
    """The same whenever it is found again."""
    return f"{zlib.crc32(f'{found.signature} {found.rank} {permalink(found)}'.encode()):08x}"


def finding_record(found: Finding) -> dict[str, object]:
    """What is not known is left out, as in the objects of lines."""
    stream = found.stream
    record: dict[str, object] = {"run": stream.run, "site": stream.site, "log": stream.log}
    if found.rank is not None:
        record["rank"] = found.rank
    record |= {"offset": found.offset, "length": found.length}
    if found.time is not None:
        record["timestamp"] = shown(found.time, None)
    record |= {
        "severity_text": found.severity.name,
        "severity_number": found.severity.value,
        "event_name": found.signature,
        "role": found.role,
        "body": found.text,
        "meaning": found.meaning,
        "action": found.action,
    }
    facts = dict(found.facts)
    if "exception" in facts:
        record["exception.type"] = facts.pop("exception")
    record |= {"facts": facts, "count": found.count, "last_offset": found.last}
    return record | {"log.record.uid": permalink(found), "id": identity(found)}
