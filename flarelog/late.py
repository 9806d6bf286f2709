"""Regular expressions that are compiled when they are first used: a large one takes 1 ms, and a command needs few."""

from __future__ import annotations

import re
from typing import Any, AnyStr


class _Late:
    """Takes each attribute that is asked for from the compiled expression, of which ``re`` keeps one."""

    def __init__(self, text: Any, flags: int) -> None:
        self._expression = text, flags
        self.pattern = text

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._expression), name)
        setattr(self, name, found)
        return found


def late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What ``re.compile`` makes of *text*. An error of it is raised when the expression is first used."""
    # Pattern cannot be derived from, and whoever has one uses its attributes alone.
    return _Late(text, flags)  # type: ignore[return-value]
