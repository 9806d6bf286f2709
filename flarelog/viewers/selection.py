"""Which streams of a run a reader wants, and where each begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from flarelog import globs
from flarelog.model import WHOLE, Mark, StreamId, StreamInfo
from flarelog.names import path_of
from flarelog.repeats import copies
from flarelog.values import frozen
from flarelog.viewers.attributes import Wanted, have, may_have


@frozen
class Selection:
    """The wanted streams of *run*, and where each begins. Raises InvalidOption."""

    run: str  # empty: of all runs that have one, at an ``EveryRun``
    sites: tuple[str, ...] = ()  # globs; empty: all
    logs: tuple[str, ...] = ()
    starts: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by (site, log); not empty: only these
    # streams, and those that *sites*, *logs* or *attributes* choose
    tail: int | None = None
    attributes: tuple[Wanted, ...] = ()

    def __post_init__(self) -> None:
        globs.check((*self.sites, *self.logs))

    @property
    def named(self) -> tuple[str, ...]:
        """The sites, if each is given by its name: no other site need be listed."""
        if self.starts and (self.sites or not self.logs):
            return globs.plain([*dict.fromkeys(site for site, _ in self.starts), *self.sites])
        return globs.plain(self.sites)

    @property
    def starts_alone(self) -> bool:
        return bool(self.starts) and not (self.sites or self.logs or self.attributes)

    @property
    def parts(self) -> tuple[object, ...]:
        """What chooses streams: each part may match none."""
        return (*self.sites, *self.logs, *self.attributes)

    def takes(self, stream: StreamId, marks: Iterable[Mark]) -> bool:
        """Whether *stream*, with *marks*, is wanted: its name, and what its marks say of its writers."""
        if not self.has(stream):
            return False
        return not self.attributes or (stream.site, stream.log) in self.starts or have(marks, self.attributes)

    def has(self, stream: StreamId) -> bool:
        """Whether the names of *stream* are wanted."""
        if (stream.site, stream.log) in self.starts:
            return True
        if self.starts_alone:
            return False
        called = not self.sites or globs.any_of(self.sites, stream.site)
        return called and (not self.logs or any(globs.any_of(self.logs, name) for name in stream.names))

    def absent(self, infos: Iterable[StreamInfo]) -> list[str]:
        """Each of the sites that matches none of *infos*."""
        known = {info.stream.site for info in infos}
        return [site for site in dict.fromkeys(self.sites) if not any(globs.any_of((site,), one) for one in known)]

    def copies(self, infos: Iterable[StreamInfo]) -> set[StreamId]:
        """The streams of *infos* that repeat lines of another one, and that nobody asked for by name."""
        return {stream for stream in copies(infos) if not self.names(stream)}

    def names(self, stream: StreamId) -> bool:
        """Whether somebody asked for the log *stream* by name, or by a pattern for logs."""
        return bool(self.logs) or self.starts_alone or (stream.site, stream.log) in self.starts

    def lacks(self, info: StreamInfo) -> bool:
        """Whether *info*, which is not stored, is or may be of a wanted log."""
        if not info.is_directory or self.has(info.stream):
            return self.has(info.stream) and may_have(info.stream.path, self.attributes)
        site, starts = info.stream.site, [log for where, log in self.starts if where == info.stream.site]
        below = "" if info.about == WHOLE else info.name
        if self.starts_alone:
            return any(log.startswith(below) for log in starts)
        wanted = not self.logs or any(_may_begin(log, path_of(below)) for log in self.logs)
        return wanted and (not self.sites or globs.any_of(self.sites, site))


def _may_begin(pattern: str, below: str) -> bool:
    """Whether a name that begins with *below* may match *pattern*, a glob."""
    if "/" not in pattern:  # it is compared with a name's last part
        return True
    plain = re.split(r"[*?\[{\\]", pattern, maxsplit=1)[0]
    return pattern.startswith(below) or (plain != pattern and below.startswith(plain))
