"""What stands before the lines of several logs: their names without what all of them share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from flarelog.model import StreamId


def prefixes(streams: Iterable[StreamId]) -> dict[StreamId, str]:
    """A name for each of *streams*, no two alike: SITE/LOG without the parts at its beginning and at its end that are
    the same in all of them. One alone keeps its whole name.
    """
    names = {stream: f"{stream.site}/{stream.log}".split("/") for stream in streams}
    if len(names) < 2:
        return {stream: "/".join(parts) for stream, parts in names.items()}
    room = min(map(len, names.values())) - 1  # each keeps a part of its own
    begin = min(room, _shared(names.values()))
    end = min(room - begin, _shared(parts[::-1] for parts in names.values()))
    return {stream: "/".join(parts[begin : len(parts) - end]) for stream, parts in names.items()}


def _shared(names: Iterable[list[str]]) -> int:
    """How many parts at the beginning are the same in all *names*."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False)))
