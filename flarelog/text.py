"""Text of others, a peer's or a file's name, as it may stand in a sentence, on a terminal and in a log.

Nothing else makes it so. It is done where text comes in, and once more where flarelog speaks: an error, a log record.
Doing it twice changes nothing.
"""

from __future__ import annotations

LONGEST = 8192
"""Characters of one text, unless its place has a smaller room."""


def legible(text: str, most: int = LONGEST) -> str:
    r"""*text* on one line of at most *most* characters: none drives a terminal, turns the direction or is unseen.

    What cannot be printed stands there as Python writes it: ``\n``, ``\x1b``, ``\u202e``. So does half of a surrogate
    pair, which nothing could encode; one that stands for a byte of a file's name is that byte, ``\xNN``. What was cut
    ends with three dots.
    """
    if len(text) <= most and text.isprintable():
        return text
    shown = text[: most + 1]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() else _written(one) for one in shown)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def quoted(name: str) -> str:
    """*name* between quotes, its first 80 characters or so."""
    return f"'{legible(name, 100)}'"


def several(count: int, noun: str, plural: str = "") -> str:
    """``1 log``, ``2 logs``, ``0 logs``. *plural*: that of *noun*, where it has more than an *s*."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def are(count: int) -> str:
    """The verb that goes with *count*."""
    return "is" if count == 1 else "are"


def agreeing(sentence: str, count: int, noun: str, **others: object) -> str:
    """*sentence*, whose ``{used}`` is ``1 log`` or ``2 logs``, whose ``{are}`` goes with it, and which has *others*."""
    return sentence.format(used=several(count, noun), are=are(count), **others)


def _written(one: str) -> str:
    number = ord(one)
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else ascii(one)[1:-1]
