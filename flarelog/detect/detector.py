"""One log's lines, and what is found in them.

How the lines come in batches makes no difference, nor does leaving out lines that have none of the table's pieces,
but for ``BEFORE`` lines before and ``AFTER`` lines behind each that has one. What is found again is counted, so that
memory has a bound: ``MOST`` findings of a log, and as many open tracebacks as ``tracebacks`` says.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from flarelog.detect import network
from flarelog.detect.base import FACT, LOOKED, SHOWN, WENT_ON, Fact, Finding, Role, Signature, ends, signature
from flarelog.detect.going_on import (
    begun_test,
    does_without,
    ended_well,
    ends_well,
    gets_over,
    is_back,
    is_put_down,
    is_routine,
    is_well,
    is_well_again,
    may_be_back,
    revives,
    serves_others,
    shape_of,
)
from flarelog.detect.going_on import shows as goes_further
from flarelog.detect.speaking import denied, goes_on, is_message, is_retried, only_speaks, without_nothing
from flarelog.detect.table import SIGNATURES, Absence, Table
from flarelog.detect.tracebacks import BEGINS, Traceback, Tracebacks, folded, only_reports
from flarelog.detect.tracebacks import MOST as TRACEBACK
from flarelog.exit_marks import Exit, end_of
from flarelog.model import MAX_OFFSET, StreamId
from flarelog.render.levels import Level, level_of
from flarelog.render.rows import WINDOW, Line, Note
from flarelog.render.sgr import plain
from flarelog.render.times import has_year, in_year_of
from flarelog.text import legible

BEFORE, AFTER = 20, TRACEBACK  # lines around one that has a piece
NEAR = 5  # lines behind trouble in which a program says that it gets over it
ROUTINE = 200  # shapes of lines that a program is known to print
ON = 10  # lines that show that the program goes on, behind what may have come of another one's end
ON_LINKS = 2  # and behind a connection that failed
MOST = 1000  # findings of one log
STATES, ROWS = 8, WINDOW  # of a row that is drawn again and again; such rows at once
_OURS = frozenset(each.id for each in SIGNATURES)  # rules of somebody's own are taken at their word
_CASCADES = frozenset(each.id for each in SIGNATURES if each.role == "cascade")
_LINKS = _CASCADES & frozenset(each.id for each in network.SIGNATURES)
_QUOTED = re.compile(r'"[^"]*"|`[^`]*`|(?<!\w)\'[^\']*\'(?!\w)')
_STATUS = ("status': ", 'status": ')  # before what is so, and no text
_WARNS = "warnings.warn("  # Python shows the line that warned, behind what it says
_IGNORED = ("Exception ignored in", "Error in atexit", "Exception in thread")

TRACEBACK_ROOT = signature(
    "python.traceback", "root", Level.ERROR, BEGINS, "",
    "A Python program ended with an exception, or reported one.",
    "The last line of the traceback is the exception, the frame above it the place.",
)  # fmt: skip
_DIED = next(each for each in SIGNATURES if each.id == "process.died")
_MAY_BE_CAUSES = ("root", "cascade", "fallback")
_WARNED_OF = frozenset(
    (
        "torch.rendezvous",
        "net.dns",
        "net.unreachable",
        "net.offline",
        "http.status",
        "grpc.status",
        "ray.died",
        "k8s.volume",
        "fs.denied",
        "fs.missing",
        "process.died",
    )
)
"""What a program that only warns of it tries again or does without: others say at a low level how a job ended."""
_GOT_OVER = _WARNED_OF | {"container.start"}  # what no cause is where the next lines go on
_ENDED = ("ray.died", "process.died")  # it may be tried again, or be the end
_AT_ANY_LEVEL = frozenset(("job.failed", "nccl.warning", "flower.failures"))  # told of what ended, at whatever level
_PUT_DOWN = ("process.exit", "process.died", "process.signal", "torchrun.failed")  # it may be what was to be
_BOX = ("\u2502 ", "\u2570\u2500> ")  # of pip, around the sum of what its child said
_COUNTED = _CASCADES - _AT_ANY_LEVEL | {"loss.nan"}  # no cause, if more lines than one show that the program goes on
_BARE = re.compile(r"(?:\w{1,60}\.){0,8}[A-Z]\w{0,80}(?:Exception|Error)(?::|\s*$)")
_THROWN = re.compile(r"throwing an instance of '([^']{1,150})'")
_ENDED_WELL = "ended well"  # behind the key of what only commands said that had ended well before it was said again
_BETWEEN = "multiprocessing/"  # in its files a connection is one between processes of this machine
_ROLES: Mapping[str, tuple[Role, str]] = {
    "KeyboardInterrupt": ("symptom", "Somebody interrupted the program, by Ctrl-C or SIGINT."),
    "SystemExit": ("symptom", "The program ended itself."),
    "ChildFailedError": ("symptom", "A launcher reports that a worker failed."),
    "ConnectionResetError": ("cascade", "The other end of a connection ended it."),
    "ConnectionRefusedError": ("cascade", "Nobody listened at the other end of a connection."),
    "ConnectionError": ("cascade", "A connection failed."),
    "BrokenPipeError": ("cascade", "The process that reads from this one has ended."),
    "EOFError": ("cascade", "Another process or a file ended before its time."),
    "DistBackendError": ("cascade", "A collective failed, mostly because another rank did."),
    "DistNetworkError": ("cascade", "The network between ranks failed."),
    "DistStoreError": ("cascade", "The ranks' common store does not answer."),
    "TimeoutError": ("cascade", "Something did not answer in time."),
    "ActorDiedError": ("cascade", "A worker of Ray ended."),
    "CancelledError": ("symptom", "A task was cancelled."),
}
"""What the exceptions mean that mostly come of something else, and their roles."""

Rank = Callable[[Line], int | None]
Key = tuple[Fact | None, ...]
"""By which findings of one log are told apart."""


@dataclass(slots=True)
class _Said:
    """A line, and its time, once somebody wanted it."""

    line: Line
    text: str
    time: int | None = None
    read: bool = False  # the time was looked for
    dated: int | None = None  # the time, if the line tells its year


class Settled(NamedTuple):
    """What was found before a line at which nothing was open: another detector can go on from there."""

    at: int  # the line's offset
    found: Mapping[Key, Finding]
    more: int  # findings that were too many
    left: int = 0  # lines behind it in which may stand that the program went on behind what may be its end
    on: int = 0  # lines before it that showed that, since the latest of what was found
    routine: frozenset[int] = frozenset()  # the shapes of lines that stood before what was found


class Detector:
    """What goes wrong in *stream*. *rank* says whose a line is, *stamped* the time of the
    line that is a text at an offset. *known*: what another one had found before the first line. *ends*: of the commands
    whose output it is, in its order.
    """

    def __init__(
        self,
        stream: StreamId,
        table: Table,
        *,
        rank: Rank = lambda line: None,
        stamped: Callable[[str, int], int | None] = lambda text, offset: None,
        known: Settled | None = None,
        ends: Sequence[Exit] = (),
    ) -> None:
        self.stream, self.more = stream, known.more if known is not None else 0  # findings that were too many
        self._table, self._rank, self._stamped, self._ends = table, rank, stamped, ends
        self._found: dict[Key, Finding] = dict(known.found) if known is not None else {}
        self._settled: Settled | None = None  # when the first of the tracebacks that are open began
        self._tracebacks = Tracebacks()
        self._left, self._on = (known.left, known.on) if known is not None else (0, 0)
        self._routine = known.routine if known is not None else frozenset[int]()
        self._before: deque[_Said] = deque(maxlen=BEFORE)
        self._states: dict[int, list[str]] = {}  # of rows that are not final, by their offsets: those with a piece
        self._seen: dict[int, tuple[int, Line]] = {}  # by number of absence: when its text was last there, and where
        self._missed: set[int] = set()
        self._latest: tuple[int, Line] | None = None
        self._past = 0  # ends that stand before the latest line

    @property
    def findings(self) -> list[Finding]:
        """What was found so far, in the order of the log."""
        return sorted(self._found.values(), key=lambda each: each.offset)

    def settled(self, end: int) -> Settled:
        """From where on another one may go on with what was found before; *end*: of all that was fed."""
        if self._tracebacks and self._settled is not None:
            return self._settled
        return Settled(end, dict(self._found), self.more, self._left, self._on, self._routine)

    def recall(self, lines: Iterable[Line]) -> None:
        """Take *lines*, which stand before those that are fed, and which another one has looked at."""
        self._before.extend(
            _Said(line, plain(line.text)) for line in lines if not isinstance(line, Note) and not line.bar
        )

    def feed(self, items: Iterable[Line | None]) -> list[Finding]:
        """Take the next lines; None: some are left out there. What was found for the first time."""
        new: list[Finding] = []
        run: list[Line] = []
        for item in items:
            if item is None:
                self._look(run, new)
                self._closed(new)
                self._before.clear()
                run, self._left = [], 0
            elif item.bar:
                self._state(item)
            elif not isinstance(item, Note):
                run.append(item)
        self._look(run, new)
        return new

    def close(self, now: int | None = None) -> list[Finding]:
        """Nothing more comes. *now*: ns since 1970 by the site's clock, of a log that may still grow."""
        new: list[Finding] = []
        self._left = 0
        self._closed(new)
        self._command_ended(MAX_OFFSET, new)
        if now is not None and self._latest is not None:
            self._watch(now, self._latest[1], self._latest[1].text, new, at_end=True)
        return new

    def _state(self, item: Line) -> None:
        text = plain(item.text)
        states = self._states.get(item.offset, [])
        if len(states) < STATES and text not in states and self._table.has(text):
            if not states and len(self._states) >= ROWS:
                del self._states[next(iter(self._states))]
            self._states[item.offset] = [*states, text]

    def _look(self, lines: Sequence[Line], new: list[Finding]) -> None:
        texts = [line.text for line in lines]
        block = "\n".join(texts)
        if "\x1b" in block:
            texts = [plain(text) for text in texts]
            block = "\n".join(texts)
        hits = self._hit(block, texts)
        if self._states:
            hits = sorted({*hits, *(number for number, line in enumerate(lines) if line.offset in self._states)})
        if self._table.absences:
            for line, text in zip(lines, texts, strict=True):
                self._command_ended(line.offset, new)
                time = self._told(line, text)
                if time is not None:
                    self._watch(time, line, text, new)
        if not hits and not self._tracebacks:
            if self._left:
                self._pass(texts, len(texts))
            self._before.extend(map(_Said, lines[-BEFORE:], texts[-BEFORE:]))
            return
        at, wanted = 0, iter(hits)
        hit = next(wanted, len(texts))
        while at < len(texts):
            if not self._tracebacks and at < hit:
                if self._left:
                    self._pass(texts[at:hit], hit - at)
                first = max(at, hit - BEFORE)
                self._before.extend(map(_Said, lines[first:hit], texts[first:hit]))
                at = hit
                continue
            self._line(lines[at], texts[at], at == hit, new)
            if at == hit:
                hit = next(wanted, len(texts))
            at += 1

    def _hit(self, block: str, texts: list[str]) -> list[int]:
        """The numbers of the lines that have a piece."""
        places = self._table.hits(block)
        if not places:
            return []
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        return sorted({bisect_right(starts, place) - 1 for place in places})

    def _line(self, line: Line, text: str, hit: bool, new: list[Finding]) -> None:
        last = next((each for each in reversed(self._before) if each.line.stream == line.stream), None)
        before = last.text if last is not None else ""
        begins = hit and BEGINS in text
        said = _Said(line, text)
        time = self._time(said) if begins else None
        if begins and last is not None and level_of(before) is Level.WARNING:
            self._went_on(_OURS, last.line.offset)  # that it warns of
        if begins and not self._tracebacks:
            self._settled = Settled(line.offset, dict(self._found), self.more, self._left, self._on, self._routine)
        inside, whole = self._tracebacks.feed(line, text, before, time) if self._tracebacks or hit else (False, [])
        for each in whole:
            self._traceback(each, new)
        inside = inside or (begins and self._folded(said, time, new))
        states = self._states.pop(line.offset, []) if hit else []
        known = set[str]()
        if hit and not inside:
            for state in (text, *states):
                found = self._known(state)
                if found is not None and found[0].id not in known and not self._is_message(text, found[0]):
                    known.add(found[0].id)
                    if found[0].id == "crash.exception" and (thrown := _THROWN.search(before)) is not None:
                        found[1]["exception"] = legible(thrown[1], FACT)
                    kind = self._doubted(found[0], text, before)
                    self._add(kind, found[1], line, line.end, found[2], said, new)
        if self._left:
            self._pass((text,) if goes_on(text) or ends_well(text) or not (inside or known) else (), 1)
        self._before.append(said)

    def _is_message(self, text: str, each: Signature) -> bool:
        """Whether the line *text*, in which *each* is found, is one of a commit's message."""
        return each.id in _OURS and is_message(text, (said.text for said in reversed(self._before)))

    def _doubted(self, each: Signature, text: str, before: str) -> Signature:
        """*each*, of which the lines behind *text* may tell that it is a symptom; or one already, if the program had
        said before that it came to a good end, or if *text* goes on with a warning.
        """
        if each.role == "cascade" and level_of(before) is Level.WARNING and _BARE.match(text) is not None:
            each = replace(each, role="fallback")  # it is what the line before warns of
        if each.id == "process.exit" and text.lstrip().startswith(_BOX):
            return replace(each, role="symptom")
        if each.id in _PUT_DOWN and is_put_down(text, (said.text for said in self._before)):
            return replace(each, role="symptom")
        if each.role != "fallback":
            return each
        warned = level_of(before) is Level.WARNING and level_of(text) is None
        if warned or any(ended_well(said.text) for said in self._before):
            return replace(each, role="symptom")
        return each

    def _pass(self, texts: Sequence[str], count: int) -> None:
        """Look whether *texts*, of the next *count* lines, show that the program goes on after what may be its end."""
        left = self._left
        for number, text in enumerate(texts[:left]):
            if number >= left:
                break
            if number < NEAR and gets_over(text):
                recent = [said.line.offset for said in self._before][number - NEAR :]
                also = _GOT_OVER | _CASCADES if revives(text) else _GOT_OVER
                self._went_on(also, recent[0] if recent else MAX_OFFSET, mild=goes_on(text))
            if test := begun_test(text):
                self._passed(test, texts[max(0, number - BEFORE) : number])
            if may_be_back(text) or is_well(text):
                self._came_back(text)
            if ends_well(text):
                self._went_on(_OURS)
            elif goes_further(text) or is_routine(text, self._routine):
                self._on += 1
                self._went_on(_COUNTED if self._on >= ON else _LINKS if self._on >= ON_LINKS else ())
            else:
                continue
            left = left if self._awaits() else min(left, number + NEAR)
        self._left = max(0, left - count)

    def _passed(self, begin: str, since: Sequence[str]) -> None:
        """What was found behind the last line that begins with the words *begin* was one of a test, which went well.
        *since*: the lines behind those before; none of them is a finding.
        """
        words = begin.split(" ")
        if any(text.split(" ")[: len(words)] == words for text in since):
            return
        for said in reversed([*self._before][max(0, len(self._before) + len(since) - BEFORE) :]):
            if said.text.split(" ")[: len(words)] == words:
                self._went_on(_OURS, said.line.offset)
                return

    def _went_on(self, also: Container[str] = (), since: int = 0, *, mild: bool = False) -> None:
        """The program went on after each fallback that was found from *since* on, and after *also*: it is no cause.
        *mild*: after what it warned of too.
        """
        for key, each in self._found.items():
            if each.offset < since or each.role not in _MAY_BE_CAUSES:
                continue
            if (
                each.role == "fallback"
                or each.signature in also
                or (mild and each.signature in _OURS and level_of(each.text) is Level.WARNING)
            ):
                self._found[key] = _gone_on(each)

    def _no_heading(self, offset: int) -> None:
        """What stands right before *offset* is the heading of what was no cause."""
        for key, each in self._found.items():
            if each.role == "fallback" and each.offset + each.length == offset:
                self._found[key] = replace(each, role="symptom")

    def _awaits(self) -> bool:
        """Whether something was found that later lines may tell to be no cause."""
        return any(each.role in _MAY_BE_CAUSES and each.signature in _OURS for each in self._found.values())

    def _came_back(self, text: str) -> None:
        """What was lost is no cause where the line *text* says that it is back, or well again."""
        for key, each in self._found.items():
            if (
                each.role in _MAY_BE_CAUSES
                and each.signature in _OURS
                and (is_back(text, each.signature, each.text) or is_well_again(text, each.text))
            ):
                self._found[key] = _gone_on(each)

    def _known(self, text: str) -> tuple[Signature, dict[str, Fact], str] | None:
        """The signature that the line *text* is one of, its facts, and where in the line it was found."""
        for part in ends(text):
            found, said = self._table.of(part), part
            if found is not None and found[0].id in _OURS and (said := without_nothing(part)) != part:
                found = self._table.of(said)
            if found is not None and not (found[0].id in _OURS and _is_not_meant(text, said, found[0])):
                if found[0].id in _OURS and _is_handled(text, said, found[0]):
                    found = replace(found[0], role="fallback" if found[0].id in _ENDED else "symptom"), found[1]
                if len(part) < SHOWN:
                    return *found, part
                at = min((at for one in found[0].literals if (at := part.find(one)) >= 0), default=0)
                return *found, part[at - SHOWN // 4 :] if at > SHOWN // 2 else part
        return None

    def _closed(self, new: list[Finding]) -> None:
        for each in self._tracebacks.close():
            self._traceback(each, new)

    def _folded(self, said: _Said, time: int | None, new: list[Finding]) -> bool:
        """Whether the line has a traceback in a string, as a structured log does."""
        found = folded(said.text)
        if found is None:
            return False
        rest, lines = found
        inner = Tracebacks()
        for text in lines:
            inner.feed(said.line, text, rest, time)
        whole = list(inner.close())
        for each in whole:
            self._traceback(each, new)
        return any(each.raised for each in whole)

    def _traceback(self, found: Traceback, new: list[Finding]) -> None:
        """A whole block: the first exception of its chain that a signature knows, else a traceback by itself."""
        if not found.raised:
            return
        last, first, after = found.raised[-1], found.raised[0], found.after
        facts: dict[str, Fact] = {"exception": legible(last.type, 120)}
        if len(found.raised) > 1 and first.type != last.type:
            facts["cause"] = legible(first.type, 120)
        if found.frame is not None:
            facts["at"] = legible(f"{found.frame[0]}:{found.frame[1]}", 200)
        handled = self._handled(found)
        warned = _warned(found.before, after)
        went_on = (
            goes_on(after, after=True)
            or (warned and level_of(after) is Level.WARNING)
            or (bool(after) and (self._is_told(found.before) or warned) and not self._table.has(after))
        )
        went_on = went_on or after.lstrip().startswith(_WARNS)
        if went_on or handled:
            self._no_heading(found.first.offset)
        known = [(one, self._table.of(one.text, general=False)) for one in found.raised]
        for one, which in known:
            if which is not None:
                each, more = which
                if each.id == "net.unreachable" and found.frame is not None and _BETWEEN in found.frame[0]:
                    each, more = _DIED, {}
                if handled == "advice" or went_on:
                    each = replace(each, role="advice" if handled == "advice" else "symptom")
                self._add(each, {**facts, **more}, found.first, found.end, one.text, found.time, new)
                return
        each = TRACEBACK_ROOT
        known_role = _ROLES.get(last.type.rpartition(".")[2])
        if known_role and (len(found.raised) == 1 or first.type.rpartition(".")[2] in _ROLES):
            each = replace(each, role=known_role[0], meaning=known_role[1])
        elif only_reports(last.text):
            each = replace(each, role="cascade", meaning="Another process failed; this exception does not say why.")
        if handled or went_on:
            each = replace(each, role=handled or "symptom", meaning="A program reported an exception, and went on.")
        self._add(each, facts, found.first, found.end, last.text, found.time, new, key=("exception", "at"))

    def _handled(self, found: Traceback) -> Role | None:
        """The role of what was reported and not raised: at a program's end, or as a warning."""
        said = found.before[:LOOKED]
        if any(text in said for text in _IGNORED[:2]):
            return "advice"
        return "symptom" if level_of(said) is Level.WARNING else None

    def _is_told(self, before: str) -> bool:
        """Whether a logger said at a low level what the program does about the exception that follows."""
        level = level_of(before)
        return level is not None and level <= Level.WARNING and goes_on(before)

    def _add(
        self,
        each: Signature,
        facts: Mapping[str, Fact],
        line: Line,
        end: int,
        text: str,
        time: int | _Said | None,
        new: list[Finding],
        *,
        key: tuple[str, ...] = (),
    ) -> None:
        if each.role in _MAY_BE_CAUSES and each.id in _OURS:
            self._doubt(line)
        rank = self._rank(line)
        if rank is None and isinstance(facts.get("rank"), int):
            rank = int(facts["rank"])
        known: Key = (each.id, each.role, rank, *(facts.get(name) for name in key or each.key))
        found = self._found.get(known)
        if found is not None and self._ended_well(found, line.offset):
            self._put_aside(known, found)
            found = None
        if found is not None and found.role == each.role:
            self._found[known] = found.again(line.offset)
        elif found is None and len(self._found) >= MOST:
            self.more += 1
        else:  # of what the program went on after, the next one counts
            time = self._time(time) if isinstance(time, _Said) else time
            first, count = found is None, found.count + 1 if found is not None else 1
            self._found[known] = found = Finding(
                each.id, each.role, each.severity, self.stream, line.offset, max(0, end - line.offset),
                legible(text.strip(), SHOWN), each.meaning, each.action, time, rank,
                {name: value for name, value in facts.items() if name != "rank"}, count, line.offset,
            )  # fmt: skip
            new += [found] if first else []

    def _doubt(self, line: Line) -> None:
        """The lines behind *line* may tell that what was found there is no cause. Those before it are its routine."""
        if not self._left or len(self._routine) > ROUTINE:
            self._routine = frozenset()
        self._routine |= {
            shape for said in self._before if said.line.offset < line.offset and (shape := shape_of(said.text))
        }
        self._left, self._on = AFTER + 1, 0

    def _ended_well(self, found: Finding, before: int) -> bool:
        """Whether the command that said *found* first had ended with 0 before an offset: then it was no cause, and may
        be one of what comes behind.
        """
        end = end_of(self._ends, found.offset + found.length)
        return end is not None and end.well and end.offset <= before

    def _put_aside(self, key: Key, found: Finding) -> None:
        """Keep *found* beside what has its *key* from here on, in one finding with all that was put aside before."""
        aside: Key = (*key, _ENDED_WELL)
        old, full = self._found.get(aside), len(self._found) >= MOST
        del self._found[key]
        if old is not None:
            self._found[aside] = replace(old, count=old.count + found.count, last=found.last)
        elif full:
            self.more += 1  # what may be a cause has its place
        else:
            self._found[aside] = found

    def _told(self, line: Line, text: str) -> int | None:
        return line.time if line.time is not None else self._stamped(text, line.offset)

    def _time(self, said: _Said) -> int | None:
        """When it was said: its own time, else that of the nearest line before it that tells one."""
        lines = (said, *reversed(self._before))
        for number, each in enumerate(lines):
            time = self._read(each).time
            if time is None:
                continue
            if each.dated is not None:
                return time
            near = next((one.dated for one in lines[number + 1 :] if self._read(one).dated is not None), None)
            return time if near is None else in_year_of(time, near)
        return None

    def _read(self, said: _Said) -> _Said:
        """*said*, with its time."""
        if not said.read:
            said.read, said.time = True, self._told(said.line, said.text)
            if said.time is not None and (said.line.time is not None or has_year(said.text)):
                said.dated = said.time
        return said

    # --- what is not there

    def _watch(self, time: int, line: Line, text: str, new: list[Finding], *, at_end: bool = False) -> None:
        self._latest = time, line
        for number, absence in enumerate(self._table.absences):
            last = self._seen.get(number)
            if last is None or (absence.literal in text and not at_end):
                self._seen[number] = time, line
                self._missed.discard(number)
            elif time - last[0] >= absence.seconds * 1e9 and number not in self._missed:
                self._missed.add(number)
                self._lacks(absence, (time - last[0]) // 1_000_000_000, last[1], new)

    def _command_ended(self, offset: int, new: list[Finding]) -> None:
        """Silence lasts to the end of each command that ended up to *offset*, and of the next one it begins anew."""
        while self._past < len(self._ends) and self._ends[self._past].offset <= offset:
            end = self._ends[self._past]
            self._past += 1
            when = end.ended or end.clock  # what a sidecar sends hours later has the clock of that time
            if self._latest is not None and when:
                self._watch(when * 1_000_000, self._latest[1], self._latest[1].text, new, at_end=True)
            self._seen.clear()
            self._missed.clear()
            self._latest = None

    def _lacks(self, absence: Absence, seconds: int, last: Line, new: list[Finding]) -> None:
        text = f"no line with {absence.literal!r} for {seconds} s after: {plain(last.text)}"
        self._add(
            absence.signature, {"seconds": seconds}, last, last.end, text, self._told(last, plain(last.text)), new
        )


def _gone_on(each: Finding) -> Finding:
    """*each*, which was no cause, because the program went on behind it."""
    return replace(each, role="symptom", facts={**each.facts, WENT_ON: "the program went on"})


def _warned(before: str, after: str) -> bool:
    """Whether a WARNING stands before a traceback, and behind it what a program says that goes on."""
    return level_of(before) is Level.WARNING and (said := level_of(after)) is not None and said <= Level.WARNING


def _is_not_meant(text: str, part: str, signature: Signature) -> bool:
    """Whether *part* of the line *text* only names the trouble that *signature* finds there."""
    if _quotes(text, part, signature):
        return True
    begin, end = signature.place(part)
    return only_speaks(part, begin, end) if signature.role in ("root", "cascade") else denied(part, end)


def _is_handled(text: str, part: str, signature: Signature) -> bool:
    """Whether *part* of the line *text* says of the trouble that *signature* finds there that the program goes on."""
    if signature.role not in ("root", "cascade", "fallback"):
        return False
    begin, end = signature.place(part)
    if signature.role == "fallback" and (
        (signature.id not in _AT_ANY_LEVEL and (level_of(part) or Level.ERROR) <= Level.WARNING)
        or only_speaks(part, begin, end)
        or does_without(part, begin)
    ):
        return True
    if signature.id in _WARNED_OF and (level := level_of(part)) is not None and level <= Level.WARNING:
        return True
    if (signature.role == "fallback" or signature.id in _WARNED_OF) and serves_others(text):
        return True
    return is_retried(part, begin, end)


def _quotes(text: str, part: str, signature: Signature) -> bool:
    """Whether what *signature* finds in *part* of the line *text* stands in quotes there, in a prompt or a setting say.
    A line that is a warning or worse, or has no level, quotes what went wrong. In JSON all texts are in quotes.
    """
    if text.lstrip().startswith("{") or (level := level_of(text)) is None or level >= Level.WARNING:
        return False
    said = _QUOTED.sub(lambda quoted: quoted[0] if part[: quoted.start()].endswith(_STATUS) else "", part)
    return signature.facts(said) is None
