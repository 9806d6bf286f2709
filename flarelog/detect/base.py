"""A signature, which is data, and a finding, which is a value.

A signature has *literals*: a line without any of them is skipped. Its pattern runs over one line of at most ``LOOKED``
characters, in time linear in the line's length: no nested repetition, and each gap has a bound. A pattern's named
groups are a finding's facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, Literal

from flarelog.late import late
from flarelog.lines.levels import Level
from flarelog.model import StreamId
from flarelog.render.rows import TAIL
from flarelog.text import legible
from flarelog.values import frozen

LOOKED = TAIL  # characters that are searched at each end of a line
SHOWN = 500  # characters of a line's text in a finding
FACT = 120  # characters of a fact
STOPPED = "stopped"  # the fact of what an exception stopped, it seems: PROGRAM or PART
PROGRAM, PART = "the program", "a part of the run"
CAUSE = "cause"  # the fact of an exception that another one caused
RELAYS = "relays"  # the fact of an exception of a thread that passes on what processes send
WENT_ON = "then"  # the fact of a finding that is no cause, because the program went on behind it


def words(text: str) -> tuple[str, ...]:
    """The words in *text*, with ``|`` between them."""
    return (*text.split("|"),)


PIECES = words(
    "rror|RRO|xception|raceback|ailed|ailur|atal|FATA|RITICAL|nvalid|_E|illed|Killing|ignal|SIG|bort|ABORT|panic"
    "|rash|ermina|xit|dead|dumped| fault|gfault|orrupt|blocked for|responding| reset|lost|Lost |isconnect"
    "|iolation|of memory|OutOf|o space left|xceed|xhaust|verflow|VERFLOW|NaN|NVRM|imed out|imeout|enied|efused"
    "|eachable|larger than|NCCL WARN|CANCELLED|reempt|REEMPT|vict|ack-off|ackOff|low on|ot found|not |n't "
    "|nable to|xpired|oo many|file handle|ad-only|No module|ndefined| line |llegal|ancel|ismatch|ERMINAT|code: -"
    "|stuck| hang|eadlock| down|nexpected|esource busy|recognized | in use|alling back|StatusCode.|NotReady|: F "
    "|: E |ritical|what()|losed by|roken pipe|ot enough|nsufficient| died|FAIL|nhealthy|Stop.|oom-kill|iving up"
    "|OOM|o such|o route|iverge|nterrupt|navailable|too old"
    # Not plain "nan": some trainings say in each line that they had none.
    "|: nan|=nan|= nan|s nan|to nan|  nan|(nan|d nan|nan lo|nan de|nan fo|nan en|nans"
    # The end of a run, at any distance behind what it got over.
    "|` reached"
    "|unknown authority|basic auth|o required "
    # glog's months, and levels that are numbers.
    '|E0|E1|F0|F1|vel":5|vel":6'
)
"""Every line that matches a signature has one of these, so other lines need not travel. There are no more than a
receiver takes in a sieve. Most lack their first letter, because a sentence may begin with it.
"""

Fact = str | int
Role = Literal["root", "cascade", "fallback", "symptom", "advice"]
"""*root*: it may be the cause. *cascade*: it is a root where nothing earlier is one; mostly another rank was the cause.
*fallback*: it is a root where no other finding of the run is one, and no line behind it shows that the program went on.
*symptom*: it follows from another failure. *advice*: it helps to read other findings.
"""


@frozen
class Signature:
    """A kind of trouble, and the text that shows it."""

    id: str
    role: Role
    severity: Level
    literals: tuple[str, ...]  # each line has one of them
    pattern: Any  # with ``search``; None: a literal is enough
    meaning: str
    action: str
    key: tuple[str, ...] = ()  # facts that tell findings of one log apart
    more: Callable[[dict[str, Fact]], dict[str, Fact]] | None = None  # adds facts that follow from the pattern's

    def place(self, text: str) -> tuple[int, int]:
        """The span that names the trouble in *text*, which is a line of this signature."""
        if self.pattern is not None:
            found = self.pattern.search(text[:LOOKED])
            return found.span() if found is not None else (0, 0)
        return next((at, at + len(each)) for each in self.literals if (at := text.find(each)) >= 0)

    def facts(self, text: str) -> dict[str, Fact] | None:
        """The facts in *text*; None: it does not match."""
        return self.facts_of(text) if any(literal in text for literal in self.literals) else None

    def facts_of(self, text: str) -> dict[str, Fact] | None:
        """The facts in *text*, which has one of the literals; None: it does not match."""
        if self.pattern is None:
            return {}
        found = self.pattern.search(text[:LOOKED])
        if found is None:
            return None
        facts = {name: as_fact(value) for name, value in found.groupdict().items() if value is not None}
        return self.more(facts) if self.more is not None else facts


@frozen
class Sieved:
    """A pattern, and words in small letters of which each line that it matches has one: to look for them takes a
    thirtieth of the time of its search.
    """

    words: tuple[str, ...]
    pattern: re.Pattern[str]

    def search(self, text: str, small: str = "") -> re.Match[str] | None:
        """The pattern's match in *text*; *small*: *text* in small letters, if the caller has it."""
        small = small or text.lower()
        return self.pattern.search(text) if any(word in small for word in self.words) else None


def sieved(text: str, pattern: str) -> Sieved:
    return Sieved(words(text), late(pattern))


def ends(text: str) -> tuple[str, ...]:
    """The parts of the line *text* that are searched."""
    if len(text) <= LOOKED:
        return (text,)
    return text[:LOOKED], text[max(LOOKED, len(text) - LOOKED) :]


def as_fact(value: str) -> Fact:
    if value.isascii() and len(value) < 19 and value.removeprefix("-").isdecimal():
        return int(value)
    return legible(value, FACT)


def signature(
    id: str,
    literals: str,
    pattern: str,
    meaning: str,
    action: str,
    *,
    role: Role,
    severity: Level | None = None,
    key: tuple[str, ...] = (),
    more: Callable[[dict[str, Fact]], dict[str, Fact]] | None = None,
) -> Signature:
    """A row of a table. *literals*: with ``|`` between them; *severity* None: that of most trouble of its *role*."""
    found = late(pattern) if pattern else None
    severity = {"root": Level.FATAL, "cascade": Level.ERROR}.get(role, Level.WARNING) if severity is None else severity
    return Signature(id, role, severity, words(literals), found, meaning, action, key, more)


# Rows of a table begin with their role.
root = partial(signature, role="root")
cascade = partial(signature, role="cascade")
fallback = partial(signature, role="fallback")
symptom = partial(signature, role="symptom")
advice = partial(signature, role="advice")


@frozen
class Finding:
    """A line of *stream* that matches a signature; the first of *count* such lines."""

    signature: str
    role: Role
    severity: Level
    stream: StreamId
    offset: int  # of the line in the stream
    length: int  # bytes, of all lines that belong to it
    text: str  # legible, and cut
    meaning: str
    action: str
    time: int | None = None  # ns since 1970, by the site's clock; the line's, else that of the line before it
    rank: int | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    count: int = 1
    last: int = 0  # the offset of the last such line
    # When the receiver had the line at the latest, in ms since 1970, if it tells no time; 0: unknown.
    came: int = field(default=0, compare=False)

    @property
    def is_root(self) -> bool:
        return self.role == "root"

    @property
    def evidence(self) -> str:
        """Evidence that no line of the log has: a command's end, a comparison of logs. Empty: its line is evidence."""
        return self.text if not self.length or self.signature == "nccl.desync" else ""

    def again(self, offset: int) -> Finding:
        """This finding, seen once more at *offset*; made in a tenth of the time that ``replace`` takes."""
        return Finding(
            self.signature, self.role, self.severity, self.stream, self.offset, self.length, self.text, self.meaning,
            self.action, self.time, self.rank, self.facts, self.count + 1, offset,
            self.came,
        )  # fmt: skip
