"""The lines behind a finding: if they show that the program goes on, the finding is no cause."""

from __future__ import annotations

from collections.abc import Sequence

from flarelog.detect import endings, network
from flarelog.detect.before import BEFORE, Before
from flarelog.detect.endings import ends_well, finishes
from flarelog.detect.found import Found
from flarelog.detect.going_on import (
    HEAD,
    TELLING,
    TELLING_SHORT,
    begun_test,
    gets_over,
    is_routine,
    is_step,
    item_of,
    revives,
    shape_of,
    starts_python,
)
from flarelog.detect.going_on import shows as goes_further
from flarelog.detect.meant import AT_ANY_LEVEL, DISPENSABLE, WARNED_OF
from flarelog.detect.speaking import goes_on
from flarelog.detect.table import OURS, SIGNATURES
from flarelog.lines.tracebacks import MOST
from flarelog.model import MAX_OFFSET

AFTER = MOST  # lines behind a finding that are read
NEAR = 5  # lines behind a failure in which a program says that it recovers
ROUTINE = 200  # shapes of routine lines that are kept
ON = 10  # lines of progress that clear a failure which may come from another program's end
ON_LINKS = 2  # lines of progress that clear a failed connection
_CASCADES = frozenset(each.id for each in SIGNATURES if each.role == "cascade")
_LINKS = _CASCADES & frozenset(each.id for each in network.SIGNATURES)
_TOO_LARGE = frozenset(("cuda.oom",))  # a program may try again with less
_GOT_OVER = WARNED_OF | {"container.start"}  # signatures that are no cause where the next lines go on
_COUNTED = _CASCADES - AT_ANY_LEVEL | {"loss.nan", "fs.denied", "fs.missing", "shell.command", "port.in-use"}
"""Signatures that are no cause after ON lines of progress."""
_HELPER = "github.com/wandb/wandb/core/"  # begins the frames of a process in Go that serves a program in Python
_TELLING = tuple(dict.fromkeys((*TELLING, *endings.TELLING)))
_CLEARED = {1: frozenset[str](), ON_LINKS: _LINKS, ON: _COUNTED}  # by lines of progress: signatures that are no cause


class Aftermath:
    """The lines behind the latest finding. *left*: lines still to read; *on*: lines that showed that the program goes
    on; *steps*: those of them that tell a step; *routine*: the shapes of the lines before the finding.
    """

    def __init__(self, found: Found, before: Before, left: int, on: int, steps: int, routine: frozenset[int]) -> None:
        self.left, self.on, self.steps, self.routine = left, on, steps, routine
        self._found, self._before = found, before

    def doubt(self, offset: int) -> None:
        """Start to read behind the finding at *offset*, for signs that it is no cause; the lines before are routine."""
        if not self.left or len(self.routine) > ROUTINE:
            self.routine = frozenset()
        self.routine |= {shape for said in self._before if said.line.offset < offset and (shape := shape_of(said.text))}
        self.left, self.on, self.steps = AFTER + 1, 0, 0

    def end(self, text: str) -> None:
        """Clear what the run got over if the line *text*, at any distance, says that the run came to its end."""
        if finishes(text, self.steps):
            self._found.finished(well=False)

    def read(self, texts: Sequence[str], count: int) -> None:
        """Read *texts*, of the next *count* lines, for signs that the program goes on."""
        left = self.left
        if not left:
            return
        for number, (text, tells) in enumerate(zip(texts[:left], telling(texts[:left]), strict=True)):
            if number >= left:
                break
            if number < NEAR and gets_over(text):
                recent = [said.line.offset for said in self._before][number - NEAR :]
                since = recent[0] if recent else MAX_OFFSET
                also = _GOT_OVER | _CASCADES if revives(text) else _GOT_OVER
                self._found.went_on(also, since, mild=goes_on(text))
                if goes_on(text, after=True):
                    self._found.did_without(_TOO_LARGE, since)
            if tells and (test := begun_test(text)):
                self._passed(test, texts[max(0, number - BEFORE) : number])
            if tells:
                self._found.came_back(text)
            if tells and starts_python(text):
                self._found.started()
            if text.startswith(_HELPER):
                self._found.helped()
            if "[" in text and (item := item_of(text)) is not None:
                self._found.next_item(*item)
            if tells:
                self.end(text)
            if tells and ends_well(text):
                self._found.finished(well=True)
            elif not self._counted(text):
                continue
            left = left if self._found.awaits() else min(left, number + NEAR)
        self.left = max(0, left - count)

    def _counted(self, text: str) -> bool:
        """Whether the line *text* shows that the program goes on, and count it, up to ``ON`` of a kind. True also where
        enough were counted and the line does not matter.
        """
        if self.steps >= ON:
            return True
        further = (self.on < ON or is_step(text)) and goes_further(text)
        if self.on < ON and (further or is_routine(text, self.routine)):
            self.on += 1
            if (also := _CLEARED.get(self.on)) is not None:
                self._found.went_on(also, raised=False)
        elif not further:
            return False
        if further and is_step(text):
            self.steps += 1
            if self.steps == ON:
                self._found.did_without(DISPENSABLE | _TOO_LARGE)
        return True

    def _passed(self, begin: str, since: Sequence[str]) -> None:
        """Clear the findings of a passed test, behind the last line that begins with the words *begin*. *since*: the
        lines behind those before; none of them is a finding.
        """
        words = begin.split(" ")
        if any(text.split(" ")[: len(words)] == words for text in since):
            return
        before = [*self._before]
        for said in reversed(before[max(0, len(before) + len(since) - BEFORE) :]):
            if said.text.split(" ")[: len(words)] == words:
                self._found.went_on(OURS, said.line.offset)
                return


def telling(texts: Sequence[str]) -> list[bool]:
    """Whether each of *texts* may tell that something is well, passed or came to an end. The words are first looked for
    in all lines at once, in a tenth of the time.
    """
    heads = [text[:HEAD].lower() for text in texts]
    block = "\n".join(heads)
    words = [word for word in _TELLING if word in block]
    if not words and TELLING_SHORT.search(block) is None:
        return [False] * len(heads)
    return [any(word in head for word in words) or TELLING_SHORT.search(head) is not None for head in heads]
