"""The version of the rules by which findings are made: findings of another version are made anew.

It covers the data of all modules that ``looking`` uses, itself or through others: patterns, tables, and the constants
of functions. No list can leave one out, and comments do not count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Set
from functools import cache
from types import CodeType, FunctionType, ModuleType
from zlib import crc32

from flarelog.detect import looking
from flarelog.late import Late
from flarelog.values import fields_of

ROOMS = ("flarelog.detect.", "flarelog.lines.", "flarelog.render.")


@cache
def version() -> int:
    """The version of the rules, 32 bits. Takes some 20 ms once."""
    seen, names = set[int](), [looking.__name__]
    for name in names:
        values = vars(sys.modules[name]).values()
        used = {one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", "") for one in values}
        names += sorted(str(one) for one in used if str(one).startswith(ROOMS) and one not in names)
    said = "".join(_said(vars(sys.modules[name]), seen) for name in names)
    return crc32(said.encode(errors="backslashreplace"))


def _said(value: object, seen: set[int]) -> str:
    """The rules in *value*, the same in each process. Objects with names are *seen* once, by their ids."""
    if isinstance(value, str | bytes | int | float | None):
        return repr(value)
    if isinstance(value, Mapping):
        parts = sorted(_said(item, seen) for item in value.items() if str(item[0])[:2] != "__")
    elif isinstance(value, Set):
        parts = sorted(_said(one, seen) for one in value)
    elif isinstance(value, tuple | list):
        parts = [_said(one, seen) for one in value]
    elif id(value) in seen:
        parts = []
    else:
        seen.add(id(value))
        parts = [_said(one, seen) for one in _own(value)]
    return f"[{','.join(parts)}]"


def _own(value: object) -> Iterable[object]:
    """The parts of *value*, which lives as long as its module."""
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    if isinstance(value, Late):
        return value.expression
    if isinstance(value, FunctionType | type) and not value.__module__.startswith(ROOMS):
        return ()
    if isinstance(value, FunctionType):
        return value.__code__, value.__defaults__
    if isinstance(value, CodeType):
        return value.co_consts[1:]  # the first may be a docstring
    if isinstance(value, type):
        return [one for name, one in vars(value).items() if isinstance(one, FunctionType) and name[:2] != "__"]
    if hasattr(type(value), "__dataclass_fields__"):
        return [getattr(value, one.name) for one in fields_of(type(value))]
    return ()
