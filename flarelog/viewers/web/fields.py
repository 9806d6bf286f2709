"""Which lines are objects of JSON with the same field. Pure.

A field is the same if its name and its value are, however the line spaces and escapes them. Only fields of the object
itself count, not those of objects in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from flarelog.errors import InvalidOption

_SPACES = (":", ": ", " : ", " :")
_PLAIN = re.compile(r'"[ !#-.0-\[\]-~]*"|-?\d+|true|false|null')  # a value that all writers spell alike


class _Fields(dict[str, Any]):
    """An object of JSON; *all*: its fields, also those of one name."""

    all: Sequence[tuple[str, Any]] = ()


def _fields(pairs: Sequence[tuple[str, Any]]) -> _Fields:
    found = _Fields(pairs)
    found.all = pairs
    return found


def _read(text: str) -> set[tuple[str, str]]:
    """The fields of the object *text*, with their values in one spelling; empty if it is no object of JSON."""
    try:
        found = json.loads(text, object_pairs_hook=_fields)
        return {(name, json.dumps(value, sort_keys=True)) for name, value in getattr(found, "all", ())}
    except (ValueError, RecursionError):
        return set()


def same_field(field: str) -> tuple[Callable[[str], bool], list[str]]:
    """Whether a line has *field*, as ``"n": 1``; and texts, one of which each such line contains, if they are known.
    Raises InvalidOption.
    """
    wanted = _read(f"{{{field}}}")
    if not wanted:
        raise InvalidOption(f"{field!r} is no field of JSON, as in '\"n\": 1'")
    name = re.match(r'\s*("(?:[^"\\]|\\.)*")\s*:\s*', field)
    texts: list[str] = []
    if name is not None and _PLAIN.fullmatch(name[1]):
        value = field[name.end() :].strip()
        texts = [f"{name[1]}{space}{value}" for space in _SPACES] if _PLAIN.fullmatch(value) else [name[1]]
    return lambda line: line[:1] == "{" and wanted <= _read(line), texts
