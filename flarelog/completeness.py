"""Whether a log is complete, and what it lacks otherwise: the one decision of every reader, report and exit code.

A log is complete if it has a receipt and its record shows no loss: no gap, no generation whose end was not seen, and no
bytes that are missing between two parts of a generation. What a site chose not to send, by patterns, a policy,
``--start-at`` or ``--ignore-older``, is no loss.

Of a log that was read from the Kubernetes API nobody can tell whether the API left out lines, unless the whole log was
compared at its end: then it is *unverified*.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from typing import TypeGuard

from flarelog.errors import GAPS, OK, TIMEOUT
from flarelog.model import API, Ended, Gap, Generation, Mark, StreamInfo, Unread
from flarelog.text import are, legible, several, some
from flarelog.values import changed, frozen

SEEN = frozenset(("rotated", "truncated", "replaced", "removed"))
"""The reasons of an Ended mark for which the generation was read to its end. Any other reason means that its last bytes
may be lost.
"""
INCOMPLETE = "incomplete"
UNVERIFIED = "unverified"  # also the reason of an Ended mark
_MAY_BE = "last bytes may be missing (they may still be at the site)"
NO_RECEIPT = f"it has no receipt, so its {_MAY_BE}"
_NAMED = 3  # generations that a sentence names


def is_loss(mark: Mark) -> TypeGuard[Gap | Ended]:
    """Whether bytes are lost at *mark*, or may be."""
    return isinstance(mark, Gap) or (isinstance(mark, Ended) and mark.reason not in SEEN)


def loss_sentence(mark: Gap | Ended, marks: Sequence[Mark]) -> str:
    """The text of *mark*, a loss; *marks* are those of its stream up to it, or more."""
    if isinstance(mark, Gap):
        return f"gap at offset {mark.offset}: {gap_sentence(mark)}"
    before = (one for one in reversed(marks[: marks.index(mark)]) if isinstance(one, Generation))
    path = next((one.path for one in before), "a generation")
    if mark.reason == UNVERIFIED:
        return f"{UNVERIFIED} at offset {mark.offset}: {unverified_text([path])}"
    return f"{INCOMPLETE} at offset {mark.offset}: {unseen_text([path])}"


def unseen_at(path: str, offset: int) -> str:
    """What happened to the generation of *path*, whose end, at *offset*, was not seen, and where the rest may be."""
    why = "the file was moved, replaced or removed before it was read to its end"
    return f"{unseen_text([path])}: {why}; what followed byte {offset:,} may still be at the site"


def first_loss(info: StreamInfo) -> tuple[int, str] | None:
    """The offset of the first loss in the log of *info*, and the sentence about it; None without one."""
    begin, all_losses = Generation(0, 0, info.stream.path, 0, ""), Losses(info.marks)
    for mark in info.marks:
        if isinstance(mark, Generation):
            begin = mark
        elif isinstance(mark, Gap):
            return mark.offset, f"gap at byte {mark.offset:,}: {gap_sentence(mark)}"
        elif is_loss(mark) and all_losses.is_unseen(begin.identity):
            return mark.offset, unseen_at(begin.path, mark.offset)
        elif is_loss(mark) and all_losses.is_unverified(begin.identity):
            return mark.offset, unverified_text([begin.path])
    return None


class Lack(enum.Enum):
    """A reason why a log is not complete; the value is the exit code for it."""

    GAP = GAPS, "bytes are known to be lost"
    UNSEEN = GAPS, "the end of a generation was not seen"
    UNVERIFIED = GAPS, "lines may be missing without a sign"
    SKIPPED = GAPS, "bytes within a generation are neither stored nor in a gap"
    DAMAGE = GAPS, "bytes that the store had are missing"
    RECEIPT = TIMEOUT, "the log has no receipt"
    STORED = TIMEOUT, "nothing of the log, or not all of it, was ever stored"

    @property
    def exit_code(self) -> int:
        return self.value[0]


@frozen
class Completeness:
    gaps: tuple[int, ...] = ()  # their lengths in bytes, 0: unknown
    unseen: tuple[str, ...] = ()  # the paths of generations whose end was not seen
    unverified: tuple[str, ...] = ()  # the paths of generations of which lines may be missing without a sign
    skipped: int = 0  # bytes
    receipt: bool = True
    stored: bool = True  # False: the log was refused, or its site cannot read it
    unread: bool = False  # its site cannot read the rest of it
    damage: tuple[str, ...] = ()  # a sentence for each log that the store has lost bytes of

    @property
    def lacks(self) -> tuple[Lack, ...]:
        """Empty: the log is complete."""
        found = {
            Lack.GAP: bool(self.gaps),
            Lack.UNSEEN: bool(self.unseen),
            Lack.UNVERIFIED: bool(self.unverified),
            Lack.SKIPPED: self.skipped > 0,
            Lack.DAMAGE: bool(self.damage),
            Lack.RECEIPT: not self.receipt and self.stored,
            Lack.STORED: not self.stored or self.unread,
        }
        return tuple(lack for lack, lacking in found.items() if lacking)

    @property
    def has_losses(self) -> bool:
        """Whether bytes are lost, or may be, that no retry would bring."""
        return bool(self.is_incomplete or self.unverified)

    @property
    def is_incomplete(self) -> bool:
        """Whether bytes are known to be lost, or places are known where they may be."""
        return bool(self.gaps or self.unseen or self.skipped or self.damage)

    @property
    def word(self) -> str:
        """What a log with losses is."""
        return INCOMPLETE if self.is_incomplete or not self.unverified else UNVERIFIED

    @property
    def doubts(self) -> int:
        """How many places beside the gaps may lack bytes, without those that are unverified."""
        return len(self.unseen) + (self.skipped > 0) + len(self.damage)

    @property
    def without_gaps(self) -> Completeness:
        return changed(self, gaps=())

    @property
    def losses(self) -> str:
        """``1 gap: 30 bytes are lost; the end of log.txt.1 was not seen``; empty: none are known."""
        found = [gaps_text(self.gaps)] if self.gaps else []
        found += [unseen_text(self.unseen)] if self.unseen else []
        found += [f"{several(self.skipped, 'byte')} {are(self.skipped)} missing without a gap"] if self.skipped else []
        found += [some(self.damage, _NAMED)] if self.damage else []
        if self.unverified:
            found.append(f"{f'{UNVERIFIED}: ' if found else ''}{unverified_text(self.unverified)}")
        return "; ".join(found)

    @property
    def loss(self) -> str:
        """The losses as a ``sentence``, whether the log has ended or not."""
        return f"{self.word}: {self.losses}" if self.has_losses else ""

    @property
    def sentence(self) -> str:
        """``incomplete: the end of log.txt.1 was not seen``; empty: the log is complete. Of a log that was never
        stored, the reason stands elsewhere.
        """
        why = [self.losses] if self.has_losses else []
        why += [NO_RECEIPT] if Lack.RECEIPT in self.lacks else []
        why += ["its site cannot read the rest of it"] if self.unread else []
        why += ["nothing of it is stored"] if not self.stored else []
        return f"{self.word}: {'; '.join(why)}" if why else ""


class Losses:
    """Collects the losses in a stream's marks, which are added in their order."""

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        self.gaps: list[int] = []  # their lengths in bytes, 0: unknown
        self.skipped = 0
        self.unread = False  # the site cannot read the rest
        self._unseen: dict[str, str] = {}  # by identity: the path of a generation whose end was not seen
        self._unverified: dict[str, str] = {}  # the same, of one that may lack lines
        # By identity: the offset in the file at which its last part ends, and the number of gaps before that part.
        self._parts: dict[str, tuple[int, int]] = {}
        self._current: tuple[Generation, int] | None = None  # with the number of gaps before it
        self.add(marks)

    def add(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            kind = type(mark)
            if kind is Gap:
                self.gaps.append(mark.length)  # type: ignore[union-attr]
            elif isinstance(mark, Generation):
                self._close(mark.offset)
                self._begin(mark)
            elif isinstance(mark, Ended):
                self._end(mark)
            elif kind is Unread:
                self.unread = bool(mark.reason)  # type: ignore[union-attr]

    def is_unseen(self, identity: str) -> bool:
        """Whether the end of that generation was not seen, up to the last mark."""
        return identity in self._unseen

    def is_unverified(self, identity: str) -> bool:
        """Whether lines of that generation may be missing without a sign, up to the last mark."""
        return identity in self._unverified

    def _begin(self, begin: Generation) -> None:
        end, gaps = self._parts.get(begin.identity, (begin.source_offset, 0))
        if begin.source_offset >= end:
            self._unverified.pop(begin.identity, None)
            self._unseen.pop(begin.identity, None)  # it goes on: its end may still be seen
        # The parts of a spool overlap, and a gap since the last part tells of what is missing.
        if begin.source_offset > end and gaps == len(self.gaps) and not begin.is_part:
            self.skipped += begin.source_offset - end
        self._current = begin, len(self.gaps)

    def _close(self, offset: int) -> None:
        if self._current is not None:
            begin, gaps = self._current
            self._parts[begin.identity] = begin.source_offset + offset - begin.offset, gaps

    def _end(self, end: Ended) -> None:
        if self._current is None:
            return
        begin = self._current[0]
        if end.reason == "truncated":
            self._parts.pop(begin.identity, None)
        else:
            self._close(end.offset)
        if end.reason == UNVERIFIED:
            self._unverified[begin.identity] = begin.path
        elif end.reason not in SEEN:
            self._unseen[begin.identity] = begin.path
        self._current = None

    def with_receipt(self, receipt: bool) -> Completeness:
        """The completeness of the stream; *receipt*: whether it is sealed."""
        unverified = dict(self._unverified)
        if receipt and self._current is not None and API in self._current[0].notes.split(","):
            unverified[self._current[0].identity] = self._current[0].path
        doubts = tuple(self._unseen.values()), tuple(unverified.values()), self.skipped
        return Completeness(tuple(self.gaps), *doubts, receipt, unread=self.unread)


def completeness(info: StreamInfo) -> Completeness:
    found = Losses(info.marks).with_receipt(info.sealed)
    if not (info.unstored or info.damage):
        return found
    damage = (info.damage,) if info.damage else ()
    return changed(found, damage=damage, stored=not info.unstored, unread=found.unread and not info.unstored)


def in_all(infos: Iterable[StreamInfo]) -> Completeness:
    """What the logs of *infos* lack together."""
    return together(map(completeness, infos))


def together(found: Iterable[Completeness]) -> Completeness:
    """What logs lack, of which each lacks one of *found*."""
    every = list(found)
    return Completeness(
        tuple(length for one in every for length in one.gaps),
        tuple(path for one in every for path in one.unseen),
        tuple(path for one in every for path in one.unverified),
        sum(one.skipped for one in every),
        all(one.receipt or not one.stored for one in every),
        all(one.stored for one in every),
        any(one.unread for one in every),
        tuple(sentence for one in every for sentence in one.damage),
    )


def exit_code(found: Iterable[Completeness]) -> int:
    """The exit code of a command that is asked whether all logs are complete: 0, 6 if bytes are or may be lost for
    good, else 7.
    """
    codes = {lack.exit_code for one in found for lack in one.lacks}
    return next((code for code in (GAPS, TIMEOUT) if code in codes), OK)


def incomplete_lines(infos: Iterable[StreamInfo]) -> list[str]:
    """A line for each stored log that has losses, also one that has not ended."""
    found = ((info.stream, completeness(info)) for info in infos)
    return [f"{one.word}: {stream}: {one.losses}" for stream, one in found if one.has_losses]


def open_line(infos: Iterable[StreamInfo]) -> str:
    """The line about the stored logs without a receipt; empty if there are none."""
    without = [str(info.stream) for info in infos if Lack.RECEIPT in completeness(info).lacks]
    if len(without) < 2:
        return f"{INCOMPLETE}: {without[0]}: {NO_RECEIPT}" if without else ""
    what = f"{several(len(without), 'log')} have no receipt, so their {_MAY_BE}"
    return f"{INCOMPLETE}: {what}: {some(without, _NAMED)}"


def gap_sentence(mark: Gap) -> str:
    """The text of *mark*, with its length once even if its reason has it too. Producers also write "1 bytes were"."""
    reason, length = legible(mark.reason), rf"\b{mark.length} bytes( were| are)? "
    if mark.length and re.search(length, reason):
        verbs = {" were": " was", " are": " is"} if mark.length == 1 else {}
        return re.sub(length, lambda it: f"{several(mark.length, 'byte')}{verbs.get(it[1], it[1] or '')} ", reason)
    return f"{_lost(mark.length)}: {reason}"


def gaps_text(lengths: Sequence[int]) -> str:
    """Gaps of *lengths* in bytes (0: unknown): ``2 gaps: 30,907 bytes are lost``."""
    count, least = several(len(lengths), "gap"), "" if all(lengths) else "at least "
    return f"{count}: {least if any(lengths) else ''}{_lost(sum(lengths))}"


def _lost(length: int) -> str:
    """``30 bytes are lost``; *length* 0: unknown."""
    return f"{several(length, 'byte') if length else 'bytes of unknown number'} {are(length)} lost"


def unseen_text(paths: Sequence[str]) -> str:
    """``the end of log.txt.1 was not seen``, for the generations of *paths*."""
    if len(paths) == 1:
        return f"the end of {legible(paths[0])} was not seen"
    named = some(list(dict.fromkeys(map(legible, paths))), _NAMED)
    return f"the ends of {several(len(paths), 'generation')} were not seen ({named})"


def doubts_text(unseen: int, unverified: int) -> str:
    """``1 unseen end, 2 unverified``; empty: neither."""
    found = [several(unseen, "unseen end")] if unseen else []
    return ", ".join([*found, f"{unverified:,} unverified"] if unverified else found)


def unverified_text(paths: Sequence[str]) -> str:
    """``the API may have left out lines of main/0.log``, for the generations of *paths*."""
    what = f"{several(len(paths), 'generation')} ({some(list(map(legible, paths)), _NAMED)})"
    return f"the API may have left out lines of {legible(paths[0]) if len(paths) == 1 else what}"
