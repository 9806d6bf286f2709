"""One log's lines, and the findings in them.

Batching of the lines makes no difference. A line without a piece of the table may be left out, unless it is among the
``BEFORE`` lines before or the ``AFTER`` lines behind a line with one. Repeated findings are counted, so that memory has
a bound: ``MOST`` findings of a log, and as many open tracebacks as ``tracebacks`` allows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from flarelog.detect.aftermath import Aftermath
from flarelog.detect.base import FACT, LOOKED, SHOWN, Fact, Finding, Signature, ends
from flarelog.detect.before import BEFORE, NEVER, Before, Said
from flarelog.detect.endings import ends_well, finishes
from flarelog.detect.exceptions import told
from flarelog.detect.found import CAUSES, NOTHING, Found, Key, Settled
from flarelog.detect.going_on import may_be_back
from flarelog.detect.meant import ENDED, doubted, is_handled, is_meant
from flarelog.detect.silence import Lack, Silence
from flarelog.detect.speaking import goes_on, is_message, without_nothing
from flarelog.detect.table import OURS, Table
from flarelog.detect.tracebacks import Traceback, Tracebacks, folded
from flarelog.exit_marks import Exit
from flarelog.lines.levels import Level, level_of
from flarelog.lines.line import Line, Note
from flarelog.lines.sgr import plain
from flarelog.lines.times import recorded
from flarelog.lines.tracebacks import TRACEBACK
from flarelog.model import StreamId
from flarelog.render.rows import WINDOW
from flarelog.text import legible

STATES, ROWS = 8, WINDOW  # states of one redrawn row; redrawn rows at once
CAUSED = ("Caused by: ", " ---> ")  # begin the next exception of a chain of Java or .NET; the last one is the cause
TRACE = 16 << 10  # bytes between two exceptions of a chain, at most
THREAD = "Exception in thread "  # begins Python's heading of a thread's traceback
_NEXT = re.compile(rf"^(?:{'|'.join(CAUSED)})")
_FRAME = re.compile(r"\s{1,8}at |\s{1,8}\.\.\. \d|\s*$|Driver stacktrace:")  # the last one is Spark's
_THROWN = re.compile(r"throwing an instance of '([^']{1,150})'")

Rank = Callable[[Line], int | None]


class Detector:
    """Finds trouble in the lines of *stream*. *rank* returns the rank of a line, *stamped* the time of a text at an
    offset. *known*: findings of another detector before the first line. *ends*: the ends of the commands that wrote the
    log, in its order. *came*: as of ``Silence``.
    """

    def __init__(
        self,
        stream: StreamId,
        table: Table,
        *,
        rank: Rank = lambda line: None,
        stamped: Callable[[str, int], int | None] = lambda text, offset: None,
        now: Callable[[int], int] = lambda offset: NEVER,
        known: Settled = NOTHING,
        ends: Sequence[Exit] = (),
        came: Callable[[Line], tuple[int, int] | None] = lambda line: None,
    ) -> None:
        self.stream = stream
        self._table, self._rank = table, rank
        self._found = Found(known.found, known.more, ends)
        self._before = Before(stamped, now)
        self._aftermath = Aftermath(self._found, self._before, known.left, known.on, known.steps, known.routine)
        self._silence = Silence(table.absences, ends, came)
        self._settled: Settled | None = None  # the state before the first of the open tracebacks
        self._tracebacks = Tracebacks()
        self._new: list[Finding] = []  # since the last call
        self._states: dict[int, list[str]] = {}  # by offset: the states with a piece, of each row that is not final

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, in the order of the log."""
        return self._found.in_order

    @property
    def more(self) -> int:
        """The number of findings over the limit."""
        return self._found.more

    def settled(self, end: int) -> Settled:
        """The state from which another detector can resume; *end*: the end of all lines that were fed."""
        if self._tracebacks and self._settled is not None:
            return self._settled
        return self._settled_at(end)

    def _settled_at(self, offset: int) -> Settled:
        after = self._aftermath
        return Settled(offset, self._found.by_key(), self._found.more, after.left, after.on, after.steps, after.routine)

    def recall(self, lines: Iterable[Line]) -> None:
        """Take *lines* from before those that are fed; another detector has searched them."""
        own = [line for line in lines if not isinstance(line, Note) and not line.bar]
        self._before.extend(map(Said, *_contents(own, [plain(line.text) for line in own])))

    def feed(self, items: Iterable[Line | None]) -> list[Finding]:
        """Search the next lines, and return the new findings. None among *items*: lines are left out there."""
        run: list[Line] = []
        for item in items:
            if item is None:
                self._look(run)
                self._closed()
                self._before.clear()
                run, self._aftermath.left = [], 0
            elif item.bar:
                self._state(item)
            elif not isinstance(item, Note):
                run.append(item)
        self._look(run)
        return self._taken()

    def close(self, now: int | None = None) -> list[Finding]:
        """End the log; return the new findings. *now*: ns since 1970 by the site's clock, if the log may still grow."""
        self._aftermath.left = 0
        self._closed()
        self._lacks(self._silence.close(now))
        return self._taken()

    def _taken(self) -> list[Finding]:
        new, self._new = self._new, []
        return new

    def _state(self, item: Line) -> None:
        text = plain(item.text)
        states = self._states.get(item.offset, [])
        if len(states) < STATES and text not in states and self._table.has(text):
            if not states and len(self._states) >= ROWS:
                del self._states[next(iter(self._states))]
            self._states[item.offset] = [*states, text]

    def _look(self, lines: Sequence[Line]) -> None:
        texts = [line.text for line in lines]
        if any("\x1b" in text for text in texts):
            texts = [plain(text) for text in texts]
        lines, texts = _contents(lines, texts)
        block = "\n".join(texts)
        hits = self._hit(block, texts)
        if self._states:
            hits = sorted({*hits, *(number for number, line in enumerate(lines) if line.offset in self._states)})
        if self._table.absences:
            for line, text in zip(lines, texts, strict=True):
                self._lacks(self._silence.line(line, text, self._before.told(line, text)))
        if not hits and not self._tracebacks:
            self._aftermath.read(texts, len(texts))
            self._before.extend(map(Said, lines[-BEFORE:], texts[-BEFORE:]))
            return
        at, wanted = 0, iter(hits)
        hit = next(wanted, len(texts))
        while at < len(texts):
            if not self._tracebacks and at < hit:
                self._aftermath.read(texts[at:hit], hit - at)
                first = max(at, hit - BEFORE)
                self._before.extend(map(Said, lines[first:hit], texts[first:hit]))
                at = hit
                continue
            self._line(lines[at], texts[at], at == hit)
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

    def _line(self, line: Line, text: str, hit: bool) -> None:
        last = next((each for each in reversed(self._before) if each.line.stream == line.stream), None)
        before = last.text if last is not None else ""
        begins = hit and TRACEBACK in text
        said = Said(line, text)
        time = self._before.time(said) if begins else None
        if begins and last is not None and level_of(before) is Level.WARNING:
            self._found.went_on(OURS, last.line.offset)  # the warning announces the traceback
        if begins and not self._tracebacks:
            self._settled = self._settled_at(line.offset)
        inside, whole = self._tracebacks.feed(line, text, before, time) if self._tracebacks or begins else (False, [])
        for each in whole:
            self._traceback(each)
        inside = inside or (begins and self._folded(said, time))
        states = self._states.pop(line.offset, []) if hit else []
        known = set[str]()
        if hit and self._aftermath.left and may_be_back(text):
            self._found.came_back(text, well=False)
        if hit and not inside:
            for state in (text, *states):
                found = self._known(state)
                if found is not None and found[0].id not in known and not self._is_message(text, found[0]):
                    known.add(found[0].id)
                    if found[0].id == "crash.exception" and (thrown := _THROWN.search(before)) is not None:
                        found[1]["exception"] = legible(thrown[1], FACT)
                    kind = doubted(found[0], text, before, [one.text for one in self._before])
                    if text.startswith(CAUSED) and kind.role in ("root", "cascade"):
                        self._caused(line, text)
                    self._add(kind, found[1], line, line.end, found[2], said)
        if self._aftermath.left:
            self._aftermath.read(
                (text,) if finishes(text) or goes_on(text) or ends_well(text) or not (inside or known) else (), 1
            )
        elif hit:
            self._aftermath.end(text)
        self._before.append(said)

    def _is_message(self, text: str, each: Signature) -> bool:
        """Whether the line *text*, which matches *each*, belongs to a commit's message."""
        return each.id in OURS and is_message(text, (said.text for said in reversed(self._before)))

    def _caused(self, line: Line, text: str) -> None:
        """Take the exception in the line *text* for the cause of that before its frames."""
        told = next(
            (
                said.line.offset
                for said in reversed(self._before)
                if said.line.stream == line.stream and _FRAME.match(said.text) is None
            ),
            None,
        )
        since, until = (max(0, line.offset - TRACE), line.offset) if told is None else (told, told)
        self._found.caused(legible(_NEXT.sub("", text, count=1).partition(":")[0], FACT), since, until)

    def _known(self, text: str) -> tuple[Signature, dict[str, Fact], str] | None:
        """The signature that the line *text* matches, its facts, and the part of the line that matched."""
        for part in ends(text):
            found, said = self._table.of(part), part
            if found is not None and found[0].id in OURS and (said := without_nothing(part)) != part:
                found = self._table.of(said)
            if found is not None and (found[0].id not in OURS or is_meant(text, said, found[0])):
                if found[0].id in OURS and is_handled(text, said, found[0]):
                    found = replace(found[0], role="fallback" if found[0].id in ENDED else "symptom"), found[1]
                if len(part) < SHOWN:
                    return *found, part
                at = min((at for one in found[0].literals if (at := part.find(one)) >= 0), default=0)
                return *found, part[at - SHOWN // 4 :] if at > SHOWN // 2 else part
        return None

    def _closed(self) -> None:
        for each in self._tracebacks.close():
            self._traceback(each)

    def _folded(self, said: Said, time: int | None) -> bool:
        """Take a traceback in a string within the line, as in a structured log; whether it has an exception."""
        found = folded(said.text)
        if found is None:
            return False
        rest, lines = found
        inner = Tracebacks()
        for text in lines:
            inner.feed(said.line, text, rest, time)
        whole = list(inner.close())
        for each in whole:
            self._traceback(each)
        return any(each.raised for each in whole)

    def _traceback(self, found: Traceback) -> None:
        if not found.raised:
            return
        said = told(found, self._table)
        if THREAD in found.before[:LOOKED]:
            self._found.no_heading(found.first.offset, CAUSES)
        elif said.reported:
            self._found.no_heading(found.first.offset)
        self._add(said.signature, said.facts, found.first, found.end, said.text, found.time, said.key)

    def _add(
        self,
        each: Signature,
        facts: Mapping[str, Fact],
        line: Line,
        end: int,
        text: str,
        time: int | Said | None,
        key: tuple[str, ...] = (),
    ) -> None:
        if each.role == "fallback" or (each.role in CAUSES and each.id in OURS):
            self._aftermath.doubt(line.offset)
        rank = self._rank(line)
        if rank is None and isinstance(facts.get("rank"), int):
            rank = int(facts["rank"])

        def made(count: int) -> Finding:
            return Finding(
                each.id, each.role, each.severity, self.stream, line.offset, max(0, end - line.offset),
                legible(text.strip(), SHOWN), each.meaning, each.action,
                self._before.time(time) if isinstance(time, Said) else time, rank,
                {name: value for name, value in facts.items() if name != "rank"}, count, line.offset,
            )  # fmt: skip

        known: Key = (each.id, each.role, rank, *(facts.get(name) for name in key or each.key))
        first = self._found.add(known, each.role, line.offset, made)
        self._new += [first] if first is not None else []

    def _lacks(self, lacking: Iterable[Lack]) -> None:
        for each in lacking:
            last, said = each.last, plain(each.last.text)
            text = f"no line with {each.absence.literal!r} for {each.seconds} s after: {said}"
            facts = {"seconds": each.seconds}
            self._add(each.absence.signature, facts, last, last.end, text, self._before.told(last, said))


def _contents(lines: Sequence[Line], texts: list[str]) -> tuple[Sequence[Line], list[str]]:
    """*lines* and their *texts* without the times that a runtime wrote before them, which are then the lines' times: as
    if they were a runtime's own records.
    """
    found = [recorded(text) for text in texts]
    if not any(found):
        return lines, texts
    own = [
        line if one is None else line._replace(text=one[1], time=one[0] if line.time is None else line.time)
        for line, one in zip(lines, found, strict=True)
    ]
    return own, [text if one is None else one[1] for text, one in zip(texts, found, strict=True)]
