"""The lines of marks in a store's records, in the format of ``lines``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from flarelog.exit_marks import OOMS, Exit
from flarelog.model import MAX_OFFSET, Attributes, Ended, Gap, Generation, Mark, Unread
from flarelog.stores.lines import line, number, text
from flarelog.text import legible
from flarelog.values import fields_of

CRC = (1 << 32) - 1
_LARGEST = {"digest": CRC, "head_digest": CRC, "head_length": CRC}
_TEXTS = frozenset(("path", "identity", "notes", "reason", "words"))
_KINDS: dict[str, type[Mark]] = {
    "generation": Generation,
    "ended": Ended,
    "gap": Gap,
    "unread": Unread,
    "attributes": Attributes,
}
_TIMES = ("at", "clock")
_EXIT_TEXTS = ("process", "boot_id", "cgroup", "oom", "cause")
_EXIT = {each.name: each.default for each in fields(Exit) if each.name not in ("offset", "digest", *_TIMES)}
_SAID = {kind: [each.name for each in fields_of(kind) if each.name not in _TIMES] for kind in _KINDS.values()}


def mark_of(record: dict[str, Any]) -> Mark:
    """The mark in a line's *record*. Raises KeyError, TypeError or ValueError."""
    at = number(record.get("at", 0))
    mark = _mark(record["kind"], {**record["mark"], "at": at, "clock": record.get("clock", 0)})
    return _exit(mark.offset, mark.digest, record["exit"], mark.clock, at) if "exit" in record else mark


def _mark(kind: str, said: dict[str, Any]) -> Mark:
    """The mark of *kind* with the fields *said*. Raises KeyError, TypeError or ValueError."""
    for name, value in said.items():
        if name in _TEXTS:
            said[name] = legible(text(value))  # an earlier version stored the peer's text as it came
        else:
            number(value, _LARGEST.get(name, MAX_OFFSET))
    return _KINDS[kind](**said)


def _exit(offset: int, digest: int, said: Any, clock: int, at: int) -> Exit:
    """The Exit mark with the fields *said*, those that differ from their defaults; fields of later versions are
    ignored. Raises TypeError or ValueError.
    """
    known = {name: value for name, value in dict(said).items() if name in _EXIT}
    for name, value in known.items():
        if name in _EXIT_TEXTS:
            known[name] = legible(text(value))
        elif name == "core":
            known[name] = bool(value)
        else:
            number(value)
    if known.get("oom", "") not in OOMS:
        del known["oom"]
    return Exit(offset, digest, **known, clock=clock, at=at)


def mark_line(index: int, mark: Mark) -> bytes:
    """The line for *mark*, number *index*; its times are separate fields, which older versions ignore."""
    # The exit of a command is a field beside an empty Attributes mark, which older versions read.
    shown = Attributes(mark.offset, mark.digest, "") if isinstance(mark, Exit) else mark
    said = {name: getattr(shown, name) for name in _SAID[type(shown)]}
    record: dict[str, Any] = {"t": "mark", "i": index, "kind": type(shown).__name__.lower(), "mark": said}
    if isinstance(mark, Exit):
        found = {name: getattr(mark, name) for name in _EXIT}
        record["exit"] = {name: value for name, value in found.items() if value != _EXIT[name]}
    return line(record | {name: time for name in _TIMES if (time := getattr(mark, name))})
