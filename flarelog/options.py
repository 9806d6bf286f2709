"""An option is declared once, as a field of a frozen dataclass: its default, its unit and what is to be known of it.

The flag, the environment variable, the configuration key and the help are made from the field. A flag bears its
field's name, unless the field says another one. A switch is a ``bool``: off by default it is a flag; on by default it
takes ``on`` or ``off``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, field
from typing import Literal, NamedTuple, TypeVar

from flarelog.values import fields_of

T = TypeVar("T")

_KEY = "option"


class Option(NamedTuple):
    """What a field says of itself beyond its type and default. A tuple because a command makes eighty of them."""

    sentence: str  # with the unit of a number
    flag: str = ""  # where the field's name would not do
    short: str = ""  # as ``-i``
    metavar: str = ""
    choices: tuple[str, ...] = ()
    path: Literal["", "any", "file", "directory", "existing"] = ""
    least: float | None = None  # that a command's parser takes; the dataclass checks what it is made of in any case
    older: str = ""  # the flag that turned it off once, and still does
    complete: Callable[..., object] | None = None  # the words that a shell completes it with
    variable: bool = True  # whether an environment variable gives it as well


def option(default: T, sentence: str, **how: object) -> T:
    """A dataclass's field with *default*, of which *sentence* is the help; *how*: the other fields of ``Option``."""
    return field(default=default, metadata={_KEY: Option(sentence, **how)})  # type: ignore[arg-type]


def typed(default: T, sentence: str, **how: object) -> T:
    """An ``option`` that is typed for a single look: no environment variable gives it."""
    return option(default, sentence, variable=False, **how)


def declared(kind: type) -> Iterator[tuple[Field[object], Option]]:
    """The fields of the dataclass *kind* that are options, its own before those that it inherits."""
    inherited = {name for base in kind.__mro__[1:] for name in getattr(base, "__dataclass_fields__", ())}
    of = tuple(fields_of(kind))
    for each in (*(one for one in of if one.name not in inherited), *(one for one in of if one.name in inherited)):
        if _KEY in each.metadata:
            yield each, each.metadata[_KEY]
