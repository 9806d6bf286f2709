"""The time zone of this machine's clock, as its programs see it: in the C library's order, TZ and then /etc/localtime.

A name of the IANA database comes first, because it tells when daylight saving begins; then the rule that the system
follows; then the current offset. The result always agrees with the current offset of the C library.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime

from flarelog.lines.zones import zone_of

LOCALTIME, TIMEZONE = "/etc/localtime", "/etc/timezone"
_IN_DATABASE = re.compile(r".*/zoneinfo/(?:posix/|right/)?(.+)")
_LONGEST = 128 << 10  # bytes: no file of zone information is longer


def system_zone() -> str:
    """The zone of this process, in the words of ``flarelog.lines.zones``."""
    now = int(time.time())
    return told_by(os.environ.get("TZ"), now, time.localtime(now).tm_gmtoff)


def told_by(said: str | None, now: int, offset: int, localtime: str = LOCALTIME, timezone: str = TIMEZONE) -> str:
    """The zone of a process whose variable TZ is *said*, and whose C library has *offset*, in seconds east of UTC, at
    *now*, in seconds since 1970.
    """
    name = _in_file(localtime, timezone) if said is None else _in_variable(said)
    zone = zone_of(name)
    here = datetime.fromtimestamp(now, UTC).astimezone(zone).utcoffset() if zone is not None else None
    if here is not None and here.total_seconds() == offset:
        return name
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _in_variable(said: str) -> str:
    """The zone that TZ names; empty where it is unknown."""
    text = said.removeprefix(":")
    if not text:
        return "UTC"
    if text.startswith("/"):
        return _in_file(text, "")
    return text.replace(",", ";")


def _in_file(path: str, timezone: str) -> str:
    """The zone whose file, or a copy of it, is at *path*; *timezone*: a file that may hold its name."""
    real = os.path.realpath(path)
    if found := _IN_DATABASE.fullmatch(real):
        return found[1]
    data = _read(real)
    if not data:
        return "UTC"  # the C library does the same
    from zoneinfo import TZPATH  # most machines have a link to a zone's file

    name = _read(timezone).decode(errors="replace").strip() if timezone else ""
    if name and ".." not in name and any(_read(f"{root}/{name}") == data for root in TZPATH):
        return name
    return data.rstrip(b"\n").rpartition(b"\n")[2].decode(errors="replace").replace(",", ";")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST)
    except OSError:
        return b""
