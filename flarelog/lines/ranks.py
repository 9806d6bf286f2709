"""Resolve which rank wrote a line, and whether to show it. A rank is known or awaited, never guessed.

The sources, best first: the user (``--rank-map``); the environments of the processes that write the file; the prefix of
a line, as torchrun and torch write it; the labels of a pod, which number machines before their processes have met; the
name of the log. A rank belongs to a generation: a restarted gang begins a
new generation, or changes the attributes of the old one, and its ranks are resolved anew. A ``[default3]:`` is a
*local* rank, which needs a known mapping to a rank. A log is hidden until its rank is known, and then shown whole.
``--ranks`` also shows lines without a rank in a log that a wanted rank writes with others: its launcher's, for example.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check
from flarelog.late import late
from flarelog.lines.levels import Level
from flarelog.lines.line import Line, Note
from flarelog.lines.sgr import plain
from flarelog.lines.times import recorded
from flarelog.model import Attributes, Ended, Generation, StreamInfo
from flarelog.values import changed, frozen

# Strict: a part of a log's name names a rank only in one of these forms, with or without a file ending.
_NAME = late(r"(?:.*[._-])?(?<!local[._-])(?:global[._-]?)?(rank|worker)[._-]?(\d{1,7})(?:\.[a-z]{2,5})?")
_LOCAL_NAME = late(r"(?:.*[._-])?local[._-]?rank[._-]?(\d{1,7})(?:\.[a-z]{2,5})?")
_TORCHRUN_NAME = late(r"(?:.*/)?attempt_\d+/(\d{1,7})/(?:stdout|stderr)\.log")
_LOCAL_PREFIX = late(r"\[default(\d{1,7})\]:")
_PREFIX = late(r"\[rank(\d{1,7})\]:")
_MAP = late(r"(?P<glob>[^=]+?)(?::(?P<local>\d{1,7}))?=(?P<rank>\d{1,7})")
_WORDS = ("rank", "local-rank", "group-rank", "world-size", "ranks")  # the keys used here; Attributes may hold others
_SOURCE = "rank-from"  # the label that tells the rank; absent: the processes do
_GANGS = ("k8s.jobset.name", "k8s.job.name", "k8s.namespace.name")  # whose ranks are counted together, at all sites
_PAIR = late(r"(\d{1,7})=(\d{1,7})")
_SEEN = 10_000  # ranks remembered from lines
_SPANS = 8  # spans of ranks in a message


@frozen
class Known:
    """The known ranks of the lines in one stretch of a stream."""

    start: int  # the offset where the stretch begins; it ends where the next one begins
    rank: int | None = None  # of all lines; None: unknown, or the lines differ
    how: str = ""  # "rank map", "environment", "label" or "name"
    world_size: int | None = None
    locals: Mapping[int, int] = field(default_factory=dict)  # the rank for each local rank
    local: int | None = None  # the local rank of all lines
    gang: str = ""  # the job whose ranks these are; empty: those of its site


NOTHING = Known(0)


@frozen
class Mapped:
    """One entry of a rank map: the logs whose ``SITE/LOG`` matches *glob*, or only their lines of the rank *local*."""

    glob: str
    local: int | None
    rank: int


def rank_map(texts: Sequence[str]) -> tuple[Mapped, ...]:
    """Parse ``--rank-map``: ``SITE/LOG=RANK`` with globs, or ``SITE/LOG:LOCAL=RANK`` for lines with a prefix.

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
    """(rank, local rank) from the name of a log; None for a rank that is absent or ambiguous."""
    parts = log.split("/")
    found: dict[str, set[int]] = {"rank": set(), "worker": set()}
    local: set[int] = set()
    for part in parts:
        if "rank" not in part and "worker" not in part:
            continue  # spares most names a compiled pattern
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
    """The known ranks of *info*, stretch by stretch from offset 0 on."""
    by_name = named(info.stream.path)
    said = [
        entry for entry in mapping for name in info.stream.names if any_of((entry.glob,), f"{info.stream.site}/{name}")
    ]
    whole = next((entry.rank for entry in said if entry.local is None), None)
    locals_ = {entry.local: entry.rank for entry in reversed(said) if entry.local is not None}
    return [
        _of(stretch, values, whole, locals_, by_name) for stretch, values in _merged(_filled(list(_stretches(info))))
    ]


Values = Mapping[str, str]


def _stretches(info: StreamInfo) -> Iterator[tuple[int, Values, bool]]:
    """(start, attributes, over) of each stretch: a generation's first attributes hold from its beginning on."""
    latest: dict[str, Values] = {}  # by identity: a rotated file may resume
    start, values, identity, told = 0, dict[str, str](), "", False
    for mark in info.marks:
        match mark:
            case Generation():
                if mark.identity == identity:  # the same file resumes behind a gap
                    continue
                if mark.offset > start:
                    yield start, values, True
                start, identity = mark.offset, mark.identity
                values, told = dict(latest.get(identity, {})), identity in latest
            case Attributes() if found := {name: mark.values[name] for name in _WORDS if name in mark.values}:
                found |= {name: mark.values[name] for name in (_SOURCE, *_GANGS) if name in mark.values}
                labelled = _SOURCE in values and _SOURCE not in found  # the truth was not known yet
                if told and mark.offset > start and not labelled:
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
    """Copy the attributes of two equal stretches to a finished one between them, which was too short to be read."""
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
    base = Known(
        start,
        world_size=size,
        locals={**gang, **locals_},
        local=local if local is not None else by_name[1],
        gang="/".join(filter(None, map(values.get, _GANGS[-1:] + _GANGS[:2]))) if _SOURCE in values else "",
    )
    if whole is not None:
        return changed(base, rank=whole, how="rank map")
    if rank is not None:
        return changed(base, rank=rank, how="label" if _SOURCE in values else "environment")
    if base.locals:
        how = "rank map" if locals_ else "environment"
        return changed(base, rank=None if base.local is None else base.locals.get(base.local), how=how)
    return changed(base, rank=by_name[0], how="name" if by_name[0] is not None else "")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,7}", text) else None


def rank_of(stretch: Known, text: str) -> int | None:
    """The rank that wrote the line *text*, given without colours; None: unknown."""
    if stretch.how in ("rank map", "environment") and stretch.rank is not None:
        return stretch.rank
    if not text.startswith("["):
        after = recorded(text)
        if after is None or not after[1].startswith("["):
            return stretch.rank
        text = after[1]
    if match := _PREFIX.match(text):
        return int(match[1])
    if match := _LOCAL_PREFIX.match(text):
        text = text[match.end() :].lstrip()
        inner = _PREFIX.match(text)  # torch's own, behind torchrun's
        return stretch.locals.get(int(match[1]), int(inner[1]) if inner else None)
    return stretch.rank


class Verdict(enum.Enum):
    SHOW = "show"
    BY_LINE = "by line"  # the lines differ: ask for each
    ERRORS = "errors"  # an unwanted rank whose errors are shown
    HIDE = "hide"
    WAIT = "wait"  # not known yet: stop reading, and resume at the stretch's start once it is known


@frozen
class RankChoice:
    """The ranks to show."""

    globs: tuple[str, ...] = ()  # --rank: globs of numbers, such as "0", "1?" or "[0-3]"
    first: bool = False  # --ranks first: rank 0
    last: bool = False  # --ranks last: the world size less one
    mapping: tuple[Mapped, ...] = ()

    @classmethod
    def of(cls, globs: Sequence[str], ranks: str, mapping: Sequence[str]) -> RankChoice:
        """Parse ``--rank``, ``--ranks`` and ``--rank-map``. Raises InvalidOption."""
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
    """Decide for each line whether its rank is wanted. Call ``learn`` with each listing of the receiver."""

    def __init__(self, choice: RankChoice) -> None:
        self.choice = choice
        self._known: dict[str, list[Known]] = {}
        self._largest: dict[tuple[str, str], int] = {}  # by run, and job or site: the largest rank of any stretch
        self._over = False  # the run is over: no more ranks become known
        self._seen = set[int]()  # ranks of lines
        self._nameless = False  # a line's rank was unknown
        self._unranked = False  # nothing tells the rank of the latest line, or of others around it
        self._hidden = set[str]()  # streams of which such lines were not shown
        self._matched = False  # a line of a wanted rank was fed
        self.shown = False  # any line was shown

    def learn(self, infos: Iterable[StreamInfo], *, over: bool = False) -> None:
        """Take in the present listing of all streams of a run. *over*: no more ranks will become known."""
        self._over = over
        for info in infos:
            stretches = self._known[info.stream.key] = known(info, self.choice.mapping)
            for stretch in stretches:
                gang = info.stream.run, stretch.gang or info.stream.site
                self._largest[gang] = max(self._largest.get(gang, 0), stretch.rank or 0)

    def stretch(self, stream: str, offset: int) -> Known:
        """The stretch that holds *offset* of *stream*, which is ``run/site/log``."""
        found = NOTHING
        for one in self._known.get(stream, ()):
            if one.start > offset:
                break
            found = one
        return found

    def verdict(self, stream: str, offset: int) -> Verdict:
        """The verdict on the lines of *stream* from *offset* to the end of its stretch."""
        if self.choice.everything:
            return Verdict.SHOW
        stretch = self.stretch(stream, offset)
        if stretch.rank is None:
            if stretch.locals:
                return Verdict.BY_LINE
            # Once the run is over, only a line's prefix can tell its rank, and errors are still worth showing.
            return Verdict.BY_LINE if self._over else Verdict.WAIT
        found = self._of(stream, stretch, stretch.rank)
        return Verdict.BY_LINE if stretch.how in ("label", "name") and found is not Verdict.WAIT else found

    def readable(self, stream: str, offset: int) -> int | None:
        """The offset up to which *stream* may be read from *offset* without waiting for a rank; None: to its end."""
        if self.choice.everything:
            return None
        starts = [offset, *(one.start for one in self._known.get(stream, ()) if one.start > offset)]
        return next((start for start in starts if self.verdict(stream, start) is Verdict.WAIT), None)

    def line(self, stream: str, offset: int, text: str) -> Verdict:
        """The verdict on the line *text*, without colours, at *offset* of *stream*: SHOW, ERRORS or HIDE."""
        stretch = self.stretch(stream, offset)
        rank = rank_of(stretch, text)
        self._unranked = rank is None and not stretch.locals
        if self.choice.everything:
            return Verdict.SHOW
        if rank is None:
            self._nameless = True
            console = self.choice.first or self.choice.last
            theirs = (self._of(stream, stretch, one) for one in stretch.locals.values() if console)
            return Verdict.SHOW if Verdict.SHOW in theirs else self._others()
        if len(self._seen) < _SEEN:
            self._seen.add(rank)
        found = self._of(stream, stretch, rank)
        self._matched = self._matched or found is Verdict.SHOW
        return self._others() if found is Verdict.WAIT else found

    def hide(self, stream: str) -> None:
        """Note that the latest line, of *stream*, was not shown."""
        if self._unranked:
            self._hidden.add(stream)

    def unranked(self) -> str:
        """The sentence that lines were not shown because their rank is not known; empty: there were none."""
        if not self._hidden:
            return ""
        first = min(self._hidden).partition("/")[2]
        logs = first if len(self._hidden) == 1 else f"{len(self._hidden)} logs, such as {first},"
        return f"lines of {logs} are not shown, because their rank is not known: --rank-map tells it"

    def concerns(self, stream: str, offset: int) -> bool:
        """Whether to show a note at *offset* of *stream*: not in a log whose rank is known and not wanted."""
        stretch = self.stretch(stream, offset)
        return stretch.rank is None or self._of(stream, stretch, stretch.rank) is not Verdict.HIDE

    def unmatched(self) -> str:
        """The sentence why no line had a wanted rank; empty if one had, or if there were no lines."""
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
        """The rank that wrote the line *text*, at *offset* of *stream*; None: unknown."""
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
        """The last rank of the gang; None while a higher one may still appear."""
        if stretch.world_size is not None:
            return stretch.world_size - 1
        if self.choice.mapping and stretch.how == "rank map":
            return max(entry.rank for entry in self.choice.mapping)
        run, site, _ = stream.split("/", 2)
        return self._largest.get((run, stretch.gang or site), 0) if self._over else None

    def _others(self) -> Verdict:
        return Verdict.ERRORS if self.choice.first or self.choice.last else Verdict.HIDE


class RankedLines:
    """Filter the lines of one *stream*: lines of wanted ranks pass, and of ranks with the verdict ERRORS those whose
    level is an error's, which is that of whole tracebacks, panics and aborts. The lines are annotated with levels.
    """

    def __init__(self, chooser: RankChooser, stream: str) -> None:
        self._chooser, self._stream = chooser, stream

    def feed(self, lines: Iterable[Line]) -> list[Line]:
        found: list[Line] = []
        for line in lines:
            if isinstance(line, Note):
                found += [line] if self.concerns(line.offset) else []
                continue
            text = plain(line.text)
            verdict = self._chooser.line(self._stream, line.offset, text)
            if verdict is Verdict.SHOW or (verdict is Verdict.ERRORS and (line.level or Level.INFO) >= Level.ERROR):
                found.append(line)
                self._chooser.shown = True
            else:
                self._chooser.hide(self._stream)
        return found

    def concerns(self, offset: int) -> bool:
        """Whether to show a note at *offset*."""
        return self._chooser.concerns(self._stream, offset)


def _spans(ranks: Sequence[int]) -> str:
    """Format *ranks* as in ``0 to 3, 7``, with at most _SPANS spans."""
    spans: list[tuple[int, int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], rank
        else:
            spans.append((rank, rank))
    said = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    return ", ".join([*said[:_SPANS], *(["..."] if len(said) > _SPANS else [])])
