"""Sizes and lengths of time as people write them: ``10GB``, ``2h30m``, ``1 week``."""

from __future__ import annotations

import re

from flarelog.errors import InvalidOption
from flarelog.options import Unit

_TIMES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_NAMES = {
    "ms": "ms msec millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
    "y": "y year years",
}
_SECONDS = {name: _TIMES[unit] for unit, names in _NAMES.items() for name in names.split()}
_WORTH = {"seconds": 1, "hours": 3600, "days": 86400}
_PART = r"(\d{1,12}(?:\.\d{1,9})?) ?([a-z]+)"


def seconds(text: str) -> float:
    """The seconds in a length of time in which each number has a unit: ``90s``, ``2h30m``, ``1 week``. Raises
    InvalidOption.
    """
    said = text.strip().lower()
    found = re.findall(_PART, said, re.ASCII)
    if not re.fullmatch(rf"(?:{_PART} ?)+", said, re.ASCII) or any(unit not in _SECONDS for _, unit in found):
        raise InvalidOption(f"{text[:40]!r} is not a length of time: write 90s, 45m, 12h, 30d or 2w")
    return sum(float(count) * _SECONDS[unit] for count, unit in found)


def size(text: str) -> int:
    """The bytes in ``10GB`` (a power of 1000), ``64MiB`` or ``64M`` (powers of 1024), as in GNU's commands. Raises
    InvalidOption.
    """
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?) ?(?:([kmgtpe])(i?b|)|b)", text.strip().lower(), re.ASCII)
    if found is None:
        raise InvalidOption(f"{text[:40]!r} is not a size: write 500MB, 10GB or 64MiB")
    power = " kmgtpe".index(found[2] or " ")
    return int(float(found[1]) * (1000 if found[3] == "b" else 1024) ** power)


def amount(text: str, unit: Unit) -> float:
    """The number of *unit* in *text*, which names a unit itself. Raises InvalidOption."""
    return size(text) if unit == "bytes" else seconds(text) / _WORTH[unit]
