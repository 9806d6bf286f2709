"""Makes foreign text, such as a peer's message or a file's name, safe for a sentence, a terminal and a log.

This module alone does so: once where the text comes in, and again where flarelog speaks, in an error or a log record.
Escaping twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 8192
"""The default maximum of characters of one text."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def legible(text: str, most: int = LONGEST) -> str:
    r"""*text* on one line of at most *most* characters, without control, bidirectional or invisible characters.

    Unprintable characters are escaped as Python writes them: ``\n``, ``\x1b``, ``\u202e``. So is a lone surrogate,
    which cannot be encoded; one that stands for a byte of a file's name becomes ``\xNN``. Truncated text ends with
    three dots.
    """
    if len(text) <= most and text.isprintable():
        return text
    shown = text[: most + 1]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() else _written(one) for one in shown)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def quoted(name: str) -> str:
    """*name* in quotes, cut to 100 characters."""
    return f"'{legible(name, 100)}'"


def several(count: int, noun: str, plural: str = "") -> str:
    """``1 log``, ``2 logs``, ``0 logs``. *plural*: of *noun*, if it is not *noun* with an *s*."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def are(count: int) -> str:
    """The verb for *count*."""
    return "is" if count == 1 else "are"


def some(names: Sequence[str], most: int) -> str:
    """The first *most* of *names*, and how many more there are: ``a, b and 2 more``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def agreeing(sentence: str, count: int, noun: str, **others: object) -> str:
    """*sentence* with ``{used}`` as ``1 log`` or ``2 logs``, its verb as ``{are}``, and *others* filled in."""
    return sentence.format(used=several(count, noun), are=are(count), **others)


def sized(count: int) -> str:
    """``3.1 GiB``, of *count* bytes, in the unit that fits."""
    power = power_of(count)
    return f"{count / 1024**power:.1f} {UNITS[power]}"


def power_of(count: int) -> int:
    """Which of UNITS fits *count* bytes."""
    return next((power for power in range(len(UNITS) - 1) if count < 1024 ** (power + 1)), len(UNITS) - 1)


def _written(one: str) -> str:
    number = ord(one)
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else ascii(one)[1:-1]
