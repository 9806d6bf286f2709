"""The exit of a command in a journal's line: an extra field beside an empty Attributes mark, which older versions
read. An invalid line raises KeyError, TypeError or ValueError.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from flarelog.exit_marks import OOMS, Exit
from flarelog.text import legible

_TEXTS = ("process", "boot_id", "cgroup", "oom")
_BESIDE = ("offset", "digest", "clock", "at")  # fields of every mark
_OWN = {each.name: each.default for each in fields(Exit) if each.name not in _BESIDE}
_LARGEST = (1 << 63) - 1


def said(mark: Exit) -> dict[str, object]:
    """The fields of *mark* that differ from their defaults."""
    return {name: found for name, default in _OWN.items() if (found := getattr(mark, name)) != default}


def exit_of(offset: int, digest: int, found: Any, clock: int, at: int) -> Exit:
    """The Exit mark from *found*, an earlier result of ``said``; fields of later versions are ignored."""
    known = {name: value for name, value in dict(found).items() if name in _OWN}
    for name, value in known.items():
        if name in _TEXTS:
            if not isinstance(value, str):
                raise TypeError(f"{name} is no text")
            known[name] = legible(value)
        elif name == "core":
            known[name] = bool(value)
        elif isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
            raise ValueError(f"{name} is no number")
    if known.get("oom", "") not in OOMS:
        del known["oom"]
    return Exit(offset, digest, **known, clock=clock, at=at)
