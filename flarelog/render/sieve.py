"""Ask a receiver for the raw lines that may match: lines that hold certain texts, and the lines around them.

A receiver runs no pattern of a peer. The reader sends texts, of which every match of its patterns holds one, so any
request takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from flarelog.errors import InvalidOption
from flarelog.render.literals import needed
from flarelog.values import frozen

MAX_TEXTS, MAX_TEXT, MAX_CONTEXT = 128, 64, 10_000
FEW = 16  # texts that an older receiver accepts


@frozen
class Sieve:
    """Keep lines that hold one of the texts *any_of*, in UTF-8, with *before* and *after* lines around them.

    Raises InvalidOption for a sieve over the limits of a receiver.
    """

    any_of: tuple[bytes, ...]
    ignore_case: bool = False  # any_of is in lower case
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if not 0 < len(self.any_of) <= MAX_TEXTS or any(not 2 <= len(text) <= MAX_TEXT for text in self.any_of):
            raise InvalidOption(f"a sieve has from 1 to {MAX_TEXTS} texts of 2 to {MAX_TEXT} bytes")
        if max(self.before, self.after) > MAX_CONTEXT:
            raise InvalidOption(f"a sieve keeps at most {MAX_CONTEXT} lines of context")


def sieve(patterns: Sequence[re.Pattern[str]], before: int = 0, after: int = 0) -> Sieve | None:
    """The sieve that keeps every match of *patterns*; None if there is none within the limits."""
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
