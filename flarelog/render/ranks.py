"""Which rank says a line, and whether it is to be shown: known, or waited for, and never guessed.

Best first: what a person says (``--rank-map``); what the environments of the processes say that write the file; the
prefix of a line, as torchrun and torch write it; the name of the log. What is known belongs to a generation: a gang
that is restarted begins a new one, or changes what is known of the old one, and is resolved anew. A ``[default3]:`` is
a *local* rank, and tells the rank only where it is known which rank that is. Until a log's rank is known nothing of it
is shown; then it is shown from its beginning.
"""

from __future__ import annotations

import enum
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check
from flarelog.late import late
from flarelog.model import Attributes, Ended, Generation, StreamInfo
from flarelog.render.rows import Line
from flarelog.render.sgr import plain
from flarelog.render.tracebacks import Tracebacks
from flarelog.values import changed, frozen

# Strict: these forms alone, in a part of a log's name with or without an ending, are believed to name a rank.
_NAME = late(r"(?:.*[._-])?(?<!local[._-])(?:global[._-]?)?(rank|worker)[._-]?(\d{1,7})(?:\.[a-z]{2,5})?")
_LOCAL_NAME = late(r"(?:.*[._-])?local[._-]?rank[._-]?(\d{1,7})(?:\.[a-z]{2,5})?")
_TORCHRUN_NAME = late(r"(?:.*/)?attempt_\d+/(\d{1,7})/(?:stdout|stderr)\.log")
_LOCAL_PREFIX = late(r"\[default(\d{1,7})\]:")
_PREFIX = late(r"\[rank(\d{1,7})\]:")
_MAP = late(r"(?P<glob>[^=]+?)(?::(?P<local>\d{1,7}))?=(?P<rank>\d{1,7})")
_WORDS = ("rank", "local-rank", "group-rank", "world-size", "ranks")  # of Attributes, which may hold others
_PAIR = late(r"(\d{1,7})=(\d{1,7})")
_SEEN = 10_000  # ranks that are remembered of lines
_SPANS = 8  # of ranks that are named


@frozen
class Known:
    """What is known of who says the lines of a stretch of a stream."""

    start: int  # the offset at which it begins; it goes on to the next one
    rank: int | None = None  # of all its lines; None: not known, or not all the same
    how: str = ""  # "rank map", "environment" or "name"
    world_size: int | None = None
    locals: Mapping[int, int] = field(default_factory=dict)  # the rank of those whose local rank is the key
    local: int | None = None  # the local rank of all its lines


NOTHING = Known(0)


@frozen
class Mapped:
    """One entry of a rank map: logs whose ``SITE/LOG`` is like *glob*, of them the lines of *local* if it is given."""

    glob: str
    local: int | None
    rank: int


def rank_map(texts: Sequence[str]) -> tuple[Mapped, ...]:
    """What ``--rank-map`` says: ``SITE/LOG=RANK`` with globs, or ``SITE/LOG:LOCAL=RANK`` of lines that bear a prefix.

    Raises InvalidOption.
    """
    found = []
    for text in texts:
        entry = _MAP.fullmatch(text)
        if entry is None:
            raise InvalidOption(
                f"{text!r} is not an entry of a rank map: write SITE/LOG=RANK, as in"
                " 'site-1/**=0', or, for lines that begin with [default3]:,"
                " SITE/LOG:LOCAL=RANK, as in 'site-2/node.log:3=11'"
            )
        check((entry["glob"],))
        local = entry["local"]
        found.append(Mapped(entry["glob"], None if local is None else int(local), int(entry["rank"])))
    return tuple(found)


def named(log: str) -> tuple[int | None, int | None]:
    """(rank, local rank) that the name of a log tells; None where it does not, or tells two."""
    parts = log.split("/")
    found: dict[str, set[int]] = {"rank": set(), "worker": set()}
    local: set[int] = set()
    for part in parts:
        if "rank" not in part and "worker" not in part:
            continue  # as most: nobody compiles an expression for them
        if match := _LOCAL_NAME.fullmatch(part):
            local.add(int(match[1]))
        elif match := _NAME.fullmatch(part):
            found[match[1]].add(int(match[2]))
    if "attempt_" in log and (match := _TORCHRUN_NAME.fullmatch(log)):
        local.add(int(match[1]))
    ranks = found["rank"] or found["worker"]
    return _only(ranks), _only(local)


def _only(numbers: set[int]) -> int | None:
    return next(iter(numbers)) if len(numbers) == 1 else None


def known(info: StreamInfo, mapping: Sequence[Mapped] = ()) -> list[Known]:
    """What is known of *info*, stretch by stretch from offset 0 on."""
    by_name, by_log = named(info.stream.log), f"{info.stream.site}/{info.stream.log}"
    said = [entry for entry in mapping if any_of((entry.glob,), by_log)]
    whole = next((entry.rank for entry in said if entry.local is None), None)
    locals_ = {entry.local: entry.rank for entry in reversed(said) if entry.local is not None}
    return [
        _of(stretch, values, whole, locals_, by_name) for stretch, values in _merged(_filled(list(_stretches(info))))
    ]


Values = Mapping[str, str]


def _stretches(info: StreamInfo) -> Iterator[tuple[int, Values, bool]]:
    """(start, attributes, over) of each: what is known first of a generation holds from its beginning on."""
    latest: dict[str, Values] = {}  # by identity: a file that was rotated away may go on
    start, values, identity, told = 0, dict[str, str](), "", False
    for mark in info.marks:
        match mark:
            case Generation():
                if mark.identity == identity:  # it goes on behind a hole
                    continue
                if mark.offset > start:
                    yield start, values, True
                start, identity = mark.offset, mark.identity
                values, told = dict(latest.get(identity, {})), identity in latest
            case Attributes() if found := {name: mark.values[name] for name in _WORDS if name in mark.values}:
                if told and mark.offset > start:
                    yield start, values, True
                    start = mark.offset
                values, told = found, True
                latest[identity] = values
            case Ended() if mark.reason in ("truncated", "replaced"):
                latest.pop(identity, None)
                if mark.offset > start:
                    yield start, values, True
                start, values, identity, told = mark.offset, {}, "", False
    yield start, values, info.sealed


def _filled(stretches: list[tuple[int, Values, bool]]) -> list[tuple[int, Values]]:
    """A stretch that is over, and stands between two that say the same, was too short to be asked for."""
    found: list[tuple[int, Values]] = []
    for number, (start, values, over) in enumerate(stretches):
        if not values and over and found:
            later = next((after for _, after, _ in stretches[number + 1 :] if after), None)
            values = found[-1][1] if later == found[-1][1] else values
        found.append((start, values))
    return found


def _merged(stretches: list[tuple[int, Values]]) -> Iterator[tuple[int, Values]]:
    last: Values | None = None
    for start, values in stretches:
        if values != last:
            yield start, values
        last = values


def _of(
    start: int, values: Values, whole: int | None, locals_: Mapping[int, int], by_name: tuple[int | None, int | None]
) -> Known:
    rank, size, local = (_number(values.get(name)) for name in ("rank", "world-size", "local-rank"))
    gang = {int(one): int(other) for one, other in _PAIR.findall(values["ranks"])} if "ranks" in values else {}
    base = Known(start, world_size=size, locals={**gang, **locals_}, local=local if local is not None else by_name[1])
    if whole is not None:
        return changed(base, rank=whole, how="rank map")
    if rank is not None:
        return changed(base, rank=rank, how="environment")
    if base.locals:
        how = "rank map" if locals_ else "environment"
        return changed(base, rank=None if base.local is None else base.locals.get(base.local), how=how)
    return changed(base, rank=by_name[0], how="name" if by_name[0] is not None else "")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,7}", text) else None


def rank_of(stretch: Known, text: str) -> int | None:
    """The rank that says the line *text*, which has no colours; None when that is not known."""
    if stretch.how in ("rank map", "environment") and stretch.rank is not None:
        return stretch.rank
    if not text.startswith("["):
        return stretch.rank
    if match := _PREFIX.match(text):
        return int(match[1])
    if match := _LOCAL_PREFIX.match(text):
        text = text[match.end() :].lstrip()
        inner = _PREFIX.match(text)  # torch's own, behind torchrun's
        return stretch.locals.get(int(match[1]), int(inner[1]) if inner else None)
    return stretch.rank


class Verdict(enum.Enum):
    SHOW = "show"
    BY_LINE = "by line"  # ask for each line
    ERRORS = "errors"  # another rank, of which errors are shown
    HIDE = "hide"
    WAIT = "wait"  # not known yet: do not read on; what has come meanwhile is shown from the stretch's start


@frozen
class RankChoice:
    """Which ranks are shown. Raises InvalidOption."""

    globs: tuple[str, ...] = ()  # --rank: of numbers, as "0", "1?" or "[0-3]"
    first: bool = False  # --ranks first: rank 0
    last: bool = False  # --ranks last: the one before the world's size
    mapping: tuple[Mapped, ...] = ()

    @classmethod
    def of(cls, globs: Sequence[str], ranks: str, mapping: Sequence[str]) -> RankChoice:
        """What ``--rank``, ``--ranks`` and ``--rank-map`` say. Raises InvalidOption."""
        words = [word for word in ranks.split(",") if word]
        for word in words:
            if word not in ("first", "last"):
                raise InvalidOption(f"--ranks takes first and last, with a comma between them, not {word!r}")
        for glob in globs:
            if not re.fullmatch(r"[0-9*?\[\]!-]+", glob):
                raise InvalidOption(
                    f"{glob!r} can match no rank: write a number, or a glob of numbers such as '1?' or '[0-3]'"
                )
        check(globs)
        return cls(tuple(globs), "first" in words, "last" in words, rank_map(mapping))

    @property
    def everything(self) -> bool:
        return not (self.globs or self.first or self.last)


class RankChooser:
    """Says of each line whether its rank is wanted; ``learn`` whatever the receiver lists, whenever it does."""

    def __init__(self, choice: RankChoice) -> None:
        self.choice = choice
        self._known: dict[str, list[Known]] = {}
        self._largest: dict[tuple[str, str], int] = {}  # by run and site: of those that were told by people and names
        self._over = False
        self._seen = set[int]()  # of lines
        self._nameless = False  # nobody knew the rank of a line
        self._matched = False  # a line was of a rank that is wanted
        self.shown = False  # any line was

    def learn(self, infos: Iterable[StreamInfo], *, over: bool = False) -> None:
        """Take in what all streams of a run are by now. *over*: nothing more will be known."""
        self._over = over
        for info in infos:
            stretches = self._known[str(info.stream)] = known(info, self.choice.mapping)
            site = info.stream.run, info.stream.site
            ranks = [stretch.rank for stretch in stretches if stretch.rank is not None]
            self._largest[site] = max([self._largest.get(site, 0), *ranks])

    def stretch(self, stream: str, offset: int) -> Known:
        """What is known of the line at *offset* of *stream*, which is ``run/site/log``."""
        found = NOTHING
        for one in self._known.get(stream, ()):
            if one.start > offset:
                break
            found = one
        return found

    def verdict(self, stream: str, offset: int) -> Verdict:
        """What is to become of the lines of *stream* from *offset* on, as far as its stretch goes."""
        if self.choice.everything:
            return Verdict.SHOW
        stretch = self.stretch(stream, offset)
        if stretch.rank is None:
            if stretch.locals:
                return Verdict.BY_LINE
            # Now nothing more can be known: what bears a prefix still tells, and errors are worth their lines.
            return Verdict.BY_LINE if self._over else Verdict.WAIT
        found = self._of(stream, stretch, stretch.rank)
        return Verdict.BY_LINE if stretch.how == "name" and found is not Verdict.WAIT else found

    def readable(self, stream: str, offset: int) -> int | None:
        """Up to where *stream* may be read from *offset* on, before something must be waited for; None: to its end."""
        if self.choice.everything:
            return None
        starts = [offset, *(one.start for one in self._known.get(stream, ()) if one.start > offset)]
        return next((start for start in starts if self.verdict(stream, start) is Verdict.WAIT), None)

    def line(self, stream: str, offset: int, text: str) -> Verdict:
        """Whether the line *text*, without its colours, at *offset* of *stream* is shown: SHOW, ERRORS or HIDE."""
        stretch = self.stretch(stream, offset)
        rank = rank_of(stretch, text)
        if self.choice.everything:
            return Verdict.SHOW
        if rank is None:
            self._nameless = True
            return self._others()
        if len(self._seen) < _SEEN:
            self._seen.add(rank)
        found = self._of(stream, stretch, rank)
        self._matched = self._matched or found is Verdict.SHOW
        return self._others() if found is Verdict.WAIT else found

    def concerns(self, stream: str, offset: int) -> bool:
        """Whether a note at *offset* of *stream* is shown: not in a log whose rank is known and not wanted."""
        stretch = self.stretch(stream, offset)
        return stretch.rank is None or self._of(stream, stretch, stretch.rank) is not Verdict.HIDE

    def unmatched(self) -> str:
        """Why no line was of a rank that is wanted; empty where one was, or none was there."""
        known_ = [
            (stream, stretch, rank)
            for stream, stretches in self._known.items()
            for stretch in stretches
            for rank in (stretch.rank, *stretch.locals.values())
            if rank is not None
        ]
        ranks = self._seen.union(rank for _, _, rank in known_)
        if self._matched or any(self._of(*each) in (Verdict.SHOW, Verdict.WAIT) for each in known_):
            return ""
        if not ranks:
            how = "--rank-map tells them, as in --rank-map 'site-1/**=0'"
            return f"the ranks of these logs are not known: {how}" if self._nameless else ""
        choice = self.choice
        wanted = [*choice.globs, *(["0"] if choice.first else []), *(["last"] if choice.last else [])]
        return f"no log has rank {' or '.join(wanted)}: known are {_spans(sorted(ranks))}"

    def rank(self, stream: str, offset: int, text: str) -> int | None:
        """The rank that says the line; None when it is not known."""
        return rank_of(self.stretch(stream, offset), text)

    def _of(self, stream: str, stretch: Known, rank: int) -> Verdict:
        choice = self.choice
        if any_of(choice.globs, str(rank)) or (choice.first and rank == 0):
            return Verdict.SHOW
        if not choice.last:
            return self._others()
        last = self._last(stream, stretch)
        if last is None:
            return Verdict.WAIT
        return Verdict.SHOW if rank == last else self._others()

    def _last(self, stream: str, stretch: Known) -> int | None:
        """The last rank of the gang; None while another may still appear."""
        if stretch.world_size is not None:
            return stretch.world_size - 1
        if self.choice.mapping and stretch.how == "rank map":
            return max(entry.rank for entry in self.choice.mapping)
        run, site, _ = stream.split("/", 2)
        return self._largest.get((run, site), 0) if self._over else None

    def _others(self) -> Verdict:
        return Verdict.ERRORS if self.choice.first or self.choice.last else Verdict.HIDE


class RankedLines:
    """The lines of one *stream* that are shown: those of the ranks that are wanted and, of others, those that *error*
    matches, and whole tracebacks.
    """

    def __init__(self, chooser: RankChooser, stream: str, error: re.Pattern[str]) -> None:
        self._chooser, self._stream, self._error = chooser, stream, error
        self._tracebacks = defaultdict[str, Tracebacks](Tracebacks)  # by a line's stream

    def feed(self, lines: Iterable[Line]) -> list[Line]:
        found: list[Line] = []
        for line in lines:
            text = plain(line.text)
            verdict = self._chooser.line(self._stream, line.offset, text)
            if verdict is Verdict.SHOW or (verdict is Verdict.ERRORS and self._is_wrong(line, text)):
                found.append(line)
        self._chooser.shown = self._chooser.shown or bool(found)
        return found

    def concerns(self, offset: int) -> bool:
        """Whether a note at *offset* is shown."""
        return self._chooser.concerns(self._stream, offset)

    def _is_wrong(self, line: Line, text: str) -> bool:
        tracebacks = self._tracebacks[line.stream]
        return tracebacks.begins(text) or tracebacks.goes_on(text) or self._error.search(text) is not None


def _spans(ranks: Sequence[int]) -> str:
    """``0 to 3, 7``, the first few where there are many."""
    spans: list[tuple[int, int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], rank
        else:
            spans.append((rank, rank))
    said = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    return ", ".join([*said[:_SPANS], *(["..."] if len(said) > _SPANS else [])])
