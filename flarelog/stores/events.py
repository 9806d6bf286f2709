"""The note of what happened to a site's streams; ``moments`` defines a Happening, for readers that parse no note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flarelog.model import LONGEST_REASON
from flarelog.stores.lines import line, number, parsed, text
from flarelog.stores.moments import FORGOTTEN, Happening
from flarelog.stores.notes import KEPT, Kind


def event_line(happening: Happening) -> bytes:
    said: dict[str, Any] = {"t": "event", "at": happening.at, "what": happening.what}
    if happening.why:
        said["why"] = happening.why[:LONGEST_REASON]
    if happening.count != 1:
        said["n"] = happening.count
    if happening.logs:
        said["logs"] = list(happening.logs)
    if happening.since:
        said["since"] = happening.since
    return line(said)


def _happening(record: dict[str, Any]) -> Happening:
    return Happening(
        number(record["at"]),
        text(record["what"]),
        text(record.get("why", "")),
        number(record.get("n", 1)),
        tuple(map(text, record.get("logs", ()))),
        number(record.get("since", 0)),
    )


def happenings(raw: bytes) -> Iterator[Happening]:
    """The happenings in the note *raw*, in the order in which they were written."""
    return parsed(raw, _happening, "event")


def _fewer_events(raw: bytes) -> bytes:
    """*raw* with its middle replaced by one line that counts the dropped lines."""
    before = raw.find(b'"what":"%s"' % FORGOTTEN.encode())  # the new line includes the count of an earlier one
    begin = raw.rfind(b"\n", 0, min(KEPT, before) if before >= 0 else KEPT) + 1
    end = max(begin, raw.find(b"\n", len(raw) - KEPT) + 1)
    lost, first = 0, 0
    for one in happenings(raw[begin:end]):
        lost += one.count if one.what == FORGOTTEN else 1
        first = first or (one.since if one.what == FORGOTTEN else one.at)
        last = one.at
    if not lost:
        return raw[:begin] + raw[end:]
    return raw[:begin] + event_line(Happening(last, FORGOTTEN, count=lost, since=first)) + raw[end:]


EVENTS = Kind("events", shortened=_fewer_events)
