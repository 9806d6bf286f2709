"""An option is declared once, as a field of a frozen dataclass: its default, its unit and its help.

The flag, the environment variable, the configuration key and the help are made from the field. The flag has the field's
name, unless the field gives another. A ``bool`` is a switch: off by default it is a plain flag; on by default the flag
takes ``on`` or ``off``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, field
from typing import Literal, NamedTuple, TypeVar

from flarelog.values import fields_of

T = TypeVar("T")

_KEY = "option"
Unit = Literal["bytes", "seconds", "hours", "days"]


class Option(NamedTuple):
    """A field's description beyond its type and default. A tuple, because a command creates eighty of them."""

    sentence: str  # the help text, with the unit of a number
    flag: str = ""  # replaces the field's name
    short: str = ""  # as ``-i``
    metavar: str = ""
    choices: tuple[str, ...] = ()
    also: Mapping[str, str] | None = None  # other spellings of choices, which help does not show
    path: Literal["", "any", "file", "directory", "existing"] = ""
    unit: Unit | None = None  # of a number: its text may name another one, as in 10GB or 2w
    least: float | None = None  # the minimum for a command's parser; the dataclass validates its values in any case
    flags: Mapping[str, str] = {}  # other flags, each for a value, which help does not show
    more: tuple[str, ...] = ()  # other names of the flag, as ``--grep``
    commas: bool = False  # whether a text gives several values, with commas between
    complete: Callable[..., object] | None = None  # the words for shell completion
    variable: bool = True  # whether an environment variable sets it too


def option(default: T, sentence: str, **how: object) -> T:
    """A dataclass field with *default* and the help *sentence*; *how*: the other fields of ``Option``."""
    return field(default=default, metadata={_KEY: Option(sentence, **how)})  # type: ignore[arg-type]


def typed(default: T, sentence: str, **how: object) -> T:
    """An ``option`` for one invocation: no environment variable sets it."""
    return option(default, sentence, variable=False, **how)


def declared(kind: type) -> Iterator[tuple[Field[object], Option]]:
    """The option fields of the dataclass *kind*, its own before the inherited ones."""
    inherited = {name for base in kind.__mro__[1:] for name in getattr(base, "__dataclass_fields__", ())}
    of = tuple(fields_of(kind))
    for each in (*(one for one in of if one.name not in inherited), *(one for one in of if one.name in inherited)):
        if _KEY in each.metadata:
            yield each, each.metadata[_KEY]
