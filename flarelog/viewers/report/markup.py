"""HTML and SVG whose texts are escaped: only ``tag`` makes an element, and it escapes its arguments.

Names, lines and reasons are hostile. A text that is no ``Safe`` is made legible first, so that it has no control
character, no half of a surrogate pair and no change of direction, which XML could not hold and a reader not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from flarelog.text import legible

LONGEST = 500  # characters of one text


class Safe(str):
    """Markup whose texts are escaped."""

    __slots__ = ()


def text(value: object, most: int = LONGEST) -> Safe:
    """*value* as text in an element, or in the quotes of an attribute."""
    return value if isinstance(value, Safe) else Safe(escape(legible(str(value), most)))


def tag(name: str, /, *inside: object, **attributes: object) -> Safe:
    """The element *name*. *attributes*: ``class_`` is class, ``_`` is ``-``; an attribute that is None is left out."""
    said = "".join(
        f' {key.strip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items() if value is not None
    )
    if name == "meta":  # it has no end tag
        return Safe(f"<{name}{said}>")
    return Safe(f"<{name}{said}>{''.join(map(text, inside))}</{name}>")


def joined(parts: Iterable[object]) -> Safe:
    return Safe("".join(map(text, parts)))


def anchor(name: str) -> str:
    """*name* as an id, one to one for the names of runs and sites."""
    return re.sub(r"[^A-Za-z0-9-]", lambda found: f"_{ord(found[0]):x}_", name)
