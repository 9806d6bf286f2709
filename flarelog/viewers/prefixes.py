"""Prefixes for the lines of several logs: the logs' names without the parts that all of them share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from flarelog.model import StreamId


def prefixes(streams: Iterable[StreamId]) -> dict[StreamId, str]:
    """A unique name for each of *streams*: SITE/LOG without the parts at its beginning and its end that all of them
    share. A single stream keeps its whole name.
    """
    streams = list(streams)
    alike = len({(stream.site, stream.name) for stream in streams}) < len(set(streams))  # unprintable characters differ
    names = {stream: f"{stream.site}/{stream.log if alike else stream.name}".split("/") for stream in streams}
    if len(names) < 2:
        return {stream: "/".join(parts) for stream, parts in names.items()}
    room = min(map(len, names.values())) - 1  # each name keeps a part
    begin = min(room, _shared(names.values()))
    end = min(room - begin, _shared(parts[::-1] for parts in names.values()))
    return {stream: "/".join(parts[begin : len(parts) - end]) for stream, parts in names.items()}


def _shared(names: Iterable[list[str]]) -> int:
    """The number of parts at the beginning that all *names* share."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False)))
