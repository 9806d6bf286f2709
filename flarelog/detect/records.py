"""A finding as JSON: one form for people, with OpenTelemetry's names where it has one, and one for flarelog itself."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, get_args

from flarelog.detect.base import SHOWN, Fact, Finding, Role
from flarelog.lines.levels import Level
from flarelog.lines.times import shown
from flarelog.model import MAX_OFFSET, StreamId
from flarelog.text import legible

MOST_FACTS = 32
_KEPT = ("signature", "role", "severity", "offset", "length", "count", "last", "text", "meaning", "action", "facts")
_ROLES: Mapping[object, Role] = {str(each): each for each in get_args(Role)}


def permalink(found: Finding) -> str:
    """The place of *found*, which stays the same as long as the log is there."""
    return f"{found.stream.key}@{found.offset}+{found.length}"


def identity(found: Finding) -> str:
    """A short id of *found*, the same in each search."""
    return f"{zlib.crc32(f'{found.signature} {found.rank} {permalink(found)}'.encode()):08x}"


def finding_record(found: Finding) -> dict[str, object]:
    """The JSON object of *found* for people. Unknown fields are omitted, as in the objects of lines."""
    record: dict[str, object] = {**found.stream.fields}
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


# --- for other flarelog processes, now or later


def kept_record(found: Finding) -> dict[str, Any]:
    """All fields of *found* but its stream."""
    said: dict[str, Any] = {name: getattr(found, name) for name in _KEPT}
    said |= {"severity": found.severity.value, "facts": dict(found.facts)}
    maybe = {"time": found.time, "rank": found.rank, "came": found.came or None}
    return said | {name: value for name, value in maybe.items() if value is not None}


def finding_of(stream: StreamId, said: Mapping[str, Any]) -> Finding:
    """The finding of a ``kept_record`` or a peer; its texts made legible. Raises ValueError, TypeError, KeyError."""
    facts = {_text(name): _fact(value) for name, value in list(said["facts"].items())[:MOST_FACTS]}
    if said["role"] not in _ROLES:
        raise ValueError("the role of a finding is unknown")
    time, rank = said.get("time"), said.get("rank")
    return Finding(
        _text(said["signature"]), _ROLES[said["role"]], Level(said["severity"]), stream,
        _number(said["offset"]), _number(said["length"]), _text(said["text"]), _text(said["meaning"]),
        _text(said["action"]), None if time is None else _number(time, -MAX_OFFSET), None if rank is None else
        _number(rank), facts, _number(said["count"]), _number(said["last"]),
        _number(said.get("came", 0)),
    )  # fmt: skip


def _text(said: object) -> str:
    if not isinstance(said, str):
        raise TypeError("a text of a finding is none")
    return legible(said, SHOWN)


def _number(said: object, least: int = 0) -> int:
    if type(said) is not int or not least <= said <= MAX_OFFSET:
        raise ValueError("a number of a finding is none")
    return said


def _fact(said: object) -> Fact:
    return _number(said, -MAX_OFFSET) if type(said) is int else _text(said)
