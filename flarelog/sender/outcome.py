"""The outcome of a sidecar, log by log, and errors in flarelog itself."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from flarelog import errors
from flarelog.completeness import Completeness, together
from flarelog.errors import FlarelogError, NotAllowed, StreamFenced, StreamRefused
from flarelog.model import Receipt, StreamId
from flarelog.text import legible, several
from flarelog.values import frozen


@frozen
class StreamOutcome:
    stream: StreamId
    committed: int | None  # None: no receiver has answered
    receipt: Receipt | None
    misses: int
    reconnects: int
    generations: int
    lacks: Completeness  # by its record, with what earlier sidecars sent
    error: FlarelogError | None
    unsent: int = 0  # bytes in its files that the receiver has not acknowledged
    trouble: str = ""  # why the log was not being sent when the sidecar ended

    @property
    def gaps(self) -> int:
        """How many places have bytes that are known to be lost."""
        return len(self.lacks.gaps)


@frozen
class Outcome:
    """The outcome of a sidecar; ``exit_code`` is that of the command."""

    streams: tuple[StreamOutcome, ...]
    troubles: tuple[str, ...]  # a sentence for each file that could not be sent
    error: FlarelogError | None = None  # why the sidecar ended early; an error of one log is in its StreamOutcome
    kept: Completeness = Completeness()  # what the logs lack that had their receipts and were not opened

    @property
    def fenced(self) -> StreamFenced | None:
        """The error of a log that a newer sidecar has taken over: this sidecar must not be started again."""
        return next((s.error for s in self.streams if isinstance(s.error, StreamFenced)), None)

    def then(self, later: Outcome) -> Outcome:
        """This outcome merged with that of a *later* sidecar for the same logs."""
        streams = {one.stream: one for one in (*self.streams, *later.streams)}
        return Outcome(tuple(streams.values()), self.troubles or later.troubles, later.error, later.kept)

    @property
    def final(self) -> bool:
        """Whether another attempt would change nothing: all that is not stored was refused."""
        missing = [one.error for one in self.streams if one.receipt is None]
        refused = bool(missing) and all(isinstance(error, StreamRefused) for error in missing)
        return refused or isinstance(self.error, NotAllowed)

    @property
    def exit_code(self) -> int:
        codes = [stream.error.exit_code for stream in self.streams if stream.error is not None]
        if self.error is not None:
            codes.append(self.error.exit_code)
        if self.troubles:
            codes.append(errors.FAILED)
        return worst([*codes, *(lack.exit_code for lack in self.lacks.lacks)])

    @property
    def lacks(self) -> Completeness:
        """What the logs lack together, by their records."""
        return together((*(stream.lacks for stream in self.streams), self.kept))

    def why(self, log: str, path: str) -> str:
        """Why *log*, whose file was *path*, is not complete at the receiver; empty: it is."""
        one = next((one for one in self.streams if log in (one.stream.path, one.stream.log)), None)
        if one is not None and one.error is not None:
            return str(one.error)
        if one is not None and one.receipt is not None:
            return one.lacks.loss
        if found := trouble_of(path, self.troubles):
            return found
        if one is not None and one.trouble:
            return one.trouble
        if self.error is not None:
            return str(self.error)
        if one is None:
            return f"no log was found at {legible(path)}"
        return f"{several(one.unsent, 'byte')} of it {'was' if one.unsent == 1 else 'were'} not sent"


def worst(codes: Iterable[int]) -> int:
    """The exit code for senders that ended with *codes*: 5, because a supervisor must not miss it; else the first one
    that a restart may mend; else 6, if bytes are lost.
    """
    failed = [code for code in codes if code != errors.OK]
    if errors.NOT_ALLOWED in failed:
        return errors.NOT_ALLOWED
    return next((code for code in failed if code != errors.GAPS), errors.GAPS if failed else errors.OK)


def trouble_of(path: str, troubles: Iterable[str]) -> str:
    """The sentence in *troubles* that is about *path*; empty if there is none."""
    return next((one for one in troubles if one.startswith(f"{legible(path)} ")), "")


class Mistake(FlarelogError):
    """An error in flarelog itself; the cause is the exception."""

    def __init__(self, what: str, bug: BaseException) -> None:
        super().__init__(f"{what}: {in_words(bug)}")
        self.__cause__ = _first(bug)


def traced(error: FlarelogError) -> BaseException | None:
    """The exception whose traceback should be shown; None if *error* is no error in flarelog itself."""
    return error.__cause__ if isinstance(error, Mistake) else None


def in_words(bug: BaseException) -> str:
    """The last line of the traceback of *bug*."""
    return traceback.format_exception_only(_first(bug))[-1].strip()


def _first(bug: BaseException) -> BaseException:
    """The first exception of a group, which caused the others."""
    return _first(bug.exceptions[0]) if isinstance(bug, BaseExceptionGroup) else bug
