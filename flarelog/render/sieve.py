"""What lines are to be kept where it is not known yet what they show: lines with certain texts, and those around them.

No pattern is run by a receiver. What travels are texts, of which every match of a pattern holds one: what a peer asks
for takes linear time, whatever it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from flarelog.errors import InvalidOption
from flarelog.render.literals import needed
from flarelog.values import frozen

MAX_TEXTS, MAX_TEXT, MAX_CONTEXT = 128, 64, 10_000
FEW = 16  # texts that an older receiver takes


@frozen
class Sieve:
    """What is kept: lines with one of the texts *any_of*, UTF-8, with *before* and *after* lines around them.

    Raises InvalidOption for more than a receiver does for anybody.
    """

    any_of: tuple[bytes, ...]
    ignore_case: bool = False  # any_of holds small letters
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if not 0 < len(self.any_of) <= MAX_TEXTS or any(not 2 <= len(text) <= MAX_TEXT for text in self.any_of):
            raise InvalidOption(f"a sieve has from 1 to {MAX_TEXTS} texts of 2 to {MAX_TEXT} bytes")
        if max(self.before, self.after) > MAX_CONTEXT:
            raise InvalidOption(f"a sieve keeps at most {MAX_CONTEXT} lines of context")


def sieve(patterns: Sequence[re.Pattern[str]], before: int = 0, after: int = 0) -> Sieve | None:
    """One that keeps whatever one of *patterns* matches; None where nothing can be told of what they match."""
    found: set[str] = set()
    cases = {bool(pattern.flags & re.IGNORECASE) for pattern in patterns}
    for pattern in patterns:
        texts = needed(pattern, True in cases)
        if texts is None:
            return None
        found |= texts
    texts_ = {text.lower() if True in cases else text for text in found}
    any_of = tuple(sorted(text.encode()[:MAX_TEXT] for text in texts_))
    if not any_of or len(any_of) > MAX_TEXTS or min(map(len, any_of)) < 2 or max(before, after) > MAX_CONTEXT:
        return None
    return Sieve(any_of, True in cases, before, after)
