"""The rounds of a federated run, from its server's log: when each began, and which site the server waited for.

NVFlare's controllers log ``Round N started.``, and its server from which site a result came; Flower logs ``[ROUND
n/m]``. Pure. The patterns search a line's first characters alone, in linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from flarelog.globs import any_of
from flarelog.lines.line import Line, Note
from flarelog.lines.sgr import plain
from flarelog.lines.times import SECOND
from flarelog.model import StreamId
from flarelog.render.sieve import Sieve
from flarelog.values import frozen
from flarelog.viewers.flow import Block, Consumer

LOOKED = 1024  # characters of a line that are searched
MOST = 5000  # rounds of one log
MANY = 500  # logs
SERVERS = ("*server*", "*superlink*")  # sites whose logs tell of rounds, if there is such a site
SIEVE = Sieve((b"[ROUND ", b"Round ", b"got result from client "), False, 0, 0)
"""The sieve that leaves out nearly all other lines."""

_BEGAN = re.compile(r"\[ROUND (\d{1,9})(?:/(\d{1,9}))?\]|\bRound (\d{1,9}) started\.")
_ENDED = re.compile(r"\bRound (\d{1,9}) finished\b")
_RESULT = re.compile(r"\bgot result from client ([A-Za-z0-9._-]{1,128}) for task\b")

_MILLISECOND = SECOND // 1000


def round_in(text: str) -> tuple[int, int] | None:
    """The round that begins with the line *text*, and of how many it is, 0 where that is unknown; None: none begins."""
    found = _BEGAN.search(text)
    return None if found is None else (int(found[1] or found[3]), int(found[2] or 0))


@frozen
class Round:
    """One round. Times are milliseconds since 1970, by the receiver's clock."""

    name: str  # as people say it: Round 3
    begin: int
    end: int = 0  # 0: its end is unknown
    slowest: str = ""  # the site whose result came last; empty: unknown
    waited: int = 0  # milliseconds from its begin to that result


class Rounds:
    """The rounds that the lines of *stream* tell. *time*: of a line, in nanoseconds by the receiver's clock; None where
    it is unknown.
    """

    def __init__(self, stream: StreamId, time: Callable[[Line], int | None]) -> None:
        self.stream = stream
        self._time = time
        self._found: list[Round] = []

    def feed(self, lines: Iterable[Line]) -> None:
        for line in lines:
            text = plain(line.text[:LOOKED])
            if (began := round_in(text)) is not None:
                self._began(began[0], line)
            elif not self._found or self._found[-1].end:
                continue
            elif (ended := _ENDED.search(text)) is not None:
                self._ended(int(ended[1]), line)
            elif (result := _RESULT.search(text)) is not None:
                self._result(result[1], line)

    def _at(self, line: Line) -> int:
        """The time of *line* in milliseconds; 0: unknown."""
        time = self._time(line)
        return 0 if time is None else time // _MILLISECOND

    def _began(self, number: int, line: Line) -> None:
        at = self._at(line)
        if at and len(self._found) < MOST:
            self._found.append(Round(f"Round {number}", at))

    def _ended(self, number: int, line: Line) -> None:
        latest, at = self._found[-1], self._at(line)
        if latest.name == f"Round {number}" and at >= latest.begin:
            self._found[-1] = replace(latest, end=at)

    def _result(self, site: str, line: Line) -> None:
        latest, at = self._found[-1], self._at(line)
        if at >= latest.begin:
            self._found[-1] = replace(latest, slowest=site, waited=at - latest.begin)

    def rounds(self, end: int = 0) -> list[Round]:
        """All rounds; a round without a logged end ended when the next one began, the last one at *end*."""
        ends = [*(one.begin for one in self._found[1:]), end]
        return [
            one if one.end else replace(one, end=max(one.begin, after) if after else 0)
            for one, after in zip(self._found, ends, strict=False)
        ]


def tellers(streams: Iterable[StreamId]) -> list[StreamId]:
    """The *streams* that may tell of rounds: a server's, or all where no site is called so and they are few."""
    every = list(streams)
    return [stream for stream in every if any_of(SERVERS, stream.site)] or (every if len(every) <= MANY else [])


def slowest_of(rounds: Sequence[Round]) -> Counter[str]:
    """The number of *rounds* in which each site was the slowest."""
    return Counter(one.slowest for one in rounds if one.slowest)


class RoundSearch(Consumer):
    """Looks for rounds. *time*: as of Rounds, for each stream."""

    def __init__(self, time: Callable[[StreamId, Line], int | None]) -> None:
        self._time = time
        self._found: dict[StreamId, Rounds] = {}

    def rounds(self, end: int = 0) -> list[Round]:
        """The rounds of the log with the most; of several the first. *end*: the end of the last round, if no line tells
        it.
        """
        return max((each.rounds(end) for each in self._found.values()), key=len, default=[])

    def known(self, streams: Iterable[StreamId]) -> None:
        for stream in streams:
            if stream not in self._found:
                self._found[stream] = Rounds(stream, partial(self._time, stream))

    def show(self, blocks: Sequence[Block]) -> None:
        for stream, items in blocks:
            self._found[stream].feed(item for item in items if item is not None and not isinstance(item, Note))
