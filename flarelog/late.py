"""Regular expressions compiled on first use: a large one takes 1 ms, and a command needs few."""

from __future__ import annotations

import re
from typing import Any, AnyStr


class Late:
    """Takes each attribute on demand from the compiled expression, of which ``re`` caches one."""

    def __init__(self, text: Any, flags: int) -> None:
        self.expression = text, flags
        self.pattern = text

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self.expression), name)
        setattr(self, name, found)
        return found


def late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like ``re.compile``, but compiles *text*, and raises its errors, on first use."""
    # Pattern cannot be subclassed, and callers use its attributes alone.
    return Late(text, flags)  # type: ignore[return-value]
