"""Recognise a progress bar by the text of its row, and read how far it is. Pure, and the same for every reader; whether
a program draws a row again and again is the screen's knowledge (``rows.Row.bar``).
"""

from __future__ import annotations

from flarelog.late import late

_SHARE = r"\d{1,3}(?:[.,]\d{1,6})?\s?%"
_DRAWN = r"[\u2500-\u259f\u2800-\u28ff]"  # lines, blocks and braille patterns
_BAR = late(
    rf"{_SHARE}.{{0,3}}(?:[|\[#=]|{_DRAWN})"
    rf"|(?:{_DRAWN}|[-=#*>]{{2}}|\.{{5}})[\s>\]|)]{{0,20}}{_SHARE}"
    rf"|\d/(?:\d{{1,12}}|\?) \[|{_DRAWN}{{3}}"
)
_PIECE = late(rf"{_DRAWN}|([-=#*])\1")
_PERCENT = late(r"(\d{1,3}(?:[.,]\d{1,6})?)\s?%")
_STEPS = late(r"(\d{1,18}(?:\.\d{1,6})?)\s?/\s?(\d{1,18}(?:\.\d{1,6})?)")
_PICTURE = late(rf"\|?(?:{_DRAWN}|[#=>.\s-]){{3,}}\|?")


def is_bar(text: str) -> bool:
    """Whether *text*, without colours, is a state of a progress bar."""
    return _BAR.search(text) is not None


def has_picture(text: str) -> bool:
    """Whether *text* has characters of which bars are drawn."""
    return _PIECE.search(text) is not None


def done(text: str) -> float | None:
    """How far the bar *text* is, in percent; None if it does not say."""
    share = _PERCENT.search(text)
    if share is not None:
        return min(100.0, float(share[1].replace(",", ".")))
    steps = _STEPS.search(text)
    return min(100.0, 100 * float(steps[1]) / float(steps[2])) if steps is not None and float(steps[2]) else None


def words(text: str) -> str:
    """*text* without the picture of its bar."""
    return _PICTURE.sub(" ", text).strip()
