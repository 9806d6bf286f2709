"""How a sidecar ended, log by log, and what of it was flarelog's own mistake."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from flarelog import errors
from flarelog.errors import FlarelogError, StreamFenced
from flarelog.model import Receipt, StreamId
from flarelog.text import legible, several
from flarelog.values import frozen


@frozen
class StreamOutcome:
    """How one log ended."""

    stream: StreamId
    committed: int | None  # None: no receiver has said how much it holds
    receipt: Receipt | None
    misses: int
    reconnects: int
    generations: int
    gaps: int
    error: FlarelogError | None
    unsent: int = 0  # bytes that its files hold, and that the receiver has not acknowledged
    trouble: str = ""  # why it was not being sent when the sidecar ended


@frozen
class Outcome:
    """How a sidecar ended; ``exit_code`` is a command's."""

    streams: tuple[StreamOutcome, ...]
    troubles: tuple[str, ...]  # a sentence for each file that could not be sent
    error: FlarelogError | None = None  # why the whole ended early; what ended one log alone is that stream's

    @property
    def fenced(self) -> StreamFenced | None:
        """Why this sidecar must not be started again."""
        return next((s.error for s in self.streams if isinstance(s.error, StreamFenced)), None)

    def then(self, later: Outcome) -> Outcome:
        """This outcome and that of a *later* look at the same logs."""
        streams = {one.stream: one for one in (*self.streams, *later.streams)}
        return Outcome(tuple(streams.values()), self.troubles or later.troubles, later.error)

    @property
    def exit_code(self) -> int:
        codes = [stream.error.exit_code for stream in self.streams if stream.error is not None]
        if self.error is not None:
            codes.append(self.error.exit_code)
        if errors.NOT_ALLOWED in codes:  # whatever else happened: it must not be started again
            return errors.NOT_ALLOWED
        if self.troubles:
            codes.append(errors.FAILED)
        if not codes and any(stream.gaps for stream in self.streams):
            codes.append(errors.GAPS)
        return codes[0] if codes else errors.OK

    def why(self, log: str, path: str) -> str:
        """Why *log*, whose file was *path*, cannot be had; empty: all of it was sent."""
        one = next((one for one in self.streams if one.stream.log == log), None)
        if one is not None and one.error is not None:
            return str(one.error)
        if one is not None and one.receipt is not None:
            return ""
        if found := trouble_of(path, self.troubles):
            return found
        if one is not None and one.trouble:
            return one.trouble
        if self.error is not None:
            return str(self.error)
        if one is None:
            return f"no log was found at {legible(path)}"
        return f"{several(one.unsent, 'byte')} of it {'was' if one.unsent == 1 else 'were'} not sent"


def trouble_of(path: str, troubles: Iterable[str]) -> str:
    """That of *troubles* which is about *path*; empty where none is."""
    return next((one for one in troubles if one.startswith(f"{legible(path)} ")), "")


class Mistake(FlarelogError):
    """Flarelog itself was wrong; the cause says how."""

    def __init__(self, what: str, bug: BaseException) -> None:
        super().__init__(f"{what}: {in_words(bug)}")
        self.__cause__ = _first(bug)


def traced(error: FlarelogError) -> BaseException | None:
    """What a traceback is to be shown of."""
    return error.__cause__ if isinstance(error, Mistake) else None


def in_words(bug: BaseException) -> str:
    """What a traceback would end with."""
    return traceback.format_exception_only(_first(bug))[-1].strip()


def _first(bug: BaseException) -> BaseException:
    """The first of several, which led to the others."""
    return _first(bug.exceptions[0]) if isinstance(bug, BaseExceptionGroup) else bug
