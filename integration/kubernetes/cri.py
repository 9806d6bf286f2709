"""What a container wrote, out of the records in its log files. It is the tests' own judge of what flarelog stored."""

from __future__ import annotations

import re

RECORD = re.compile(rb"(\S+) (stdout|stderr) ([PF])(?::\S*)? (.*)\n")  # a content may have any bytes but the newline


def written(records: bytes, stream: str = "") -> bytes:
    """The bytes that the container wrote to *stream*; without one, to both, in the runtime's order.

    A record P has a part of a line. Raises an AssertionError if *records* has anything but whole records.
    """
    found, at = [], 0
    while at < len(records):
        match = RECORD.match(records, at)
        assert match, f"no record at {at} of {len(records)}: {records[at : at + 80]!r}"
        if stream in ("", match[2].decode()):
            found.append(match[4] + (b"\n" if match[3] == b"F" else b""))
        at = match.end()
    return b"".join(found)
