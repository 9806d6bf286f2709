"""Ranges of an answer, which let a broken download go on (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)
_TAG = re.compile(r'"([0-9a-f]{1,16})-([0-9a-f]{1,16})-([0-9a-f]{1,16})"', re.ASCII)


def part(header: str, size: int) -> tuple[int, int] | None:
    """The range of the header ``Range: bytes=FIRST-LAST`` in *size* bytes, empty where it has none of them; None: the
    header names no range, or several.
    """
    asked = _RANGE.fullmatch(header)
    if asked is None:
        return None
    first, last = asked[1], asked[2]
    if not first:
        return max(0, size - int(last or 0)), size
    return int(first), min(size, int(last) + 1) if last else size


def headers(found: tuple[int, int] | None, size: int) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer with the range *found* of *size* bytes."""
    begin, end = found or (0, size)
    if found is None:
        return 200, {"content-length": str(size)}
    if begin >= end:
        return 416, {"content-length": "0", "content-range": f"bytes */{size}"}
    return 206, {"content-length": str(end - begin), "content-range": f"bytes {begin}-{end - 1}/{size}"}


def tag(begun: int, begin: int, end: int) -> str:
    """The ETag of the bytes from *begin* to *end* of the log that began at *begun*: they never change."""
    return f'"{begun:x}-{begin:x}-{end:x}"'


def end_of(etag: str, begun: int, begin: int, end: int) -> int | None:
    """Where the bytes end whose ``tag`` is *etag*; None where those from *begin* to *end* of the log lack some."""
    found = _TAG.fullmatch(etag)
    if found is None or not begun or (int(found[1], 16), int(found[2], 16)) != (begun, begin):
        return None
    return int(found[3], 16) if begin <= int(found[3], 16) <= end else None
