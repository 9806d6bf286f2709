"""Text that is made fit to be sent, kept and shown.

The system's names are bytes. Python hands out those that are no UTF-8 with halves of surrogate pairs in their place,
and whatever encodes such a text later raises, far from where it came from.
"""

from __future__ import annotations

import re

_HALF = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    r"""*text* with each byte that is no UTF-8 as ``\xNN``, and any other half of a surrogate pair as ``\uNNNN``."""
    return text if text.isascii() else _HALF.sub(_written, text)


def _written(half: re.Match[str]) -> str:
    number = ord(half[0])
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}"


def legible(name: str) -> str:
    """*name*, of a file or by a peer, as it may stand on a terminal: what could drive one, and what is no text, is
    replaced.
    """
    return "".join(char if char.isprintable() else "\ufffd" for char in name)
