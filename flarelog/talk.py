"""flarelog's log output: one line a record, whatever its text, beginning with the speaker's name.

Foreign text is escaped where it comes in; this module escapes records once more, for libraries' messages and omissions.
Records that repeat for each log are written for the first few logs in a minute, and summed up in one line for the rest.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from typing import NamedTuple

from flarelog.text import are, legible, several

MOST = 10  # records of a kind in a minute
MINUTE = 60.0  # seconds
LONGEST = 16 << 10  # characters of a line; the longest audit line is shorter
_ALL = logging.getLogger("flarelog")  # the parent of flarelog's loggers


class OneLine(logging.Formatter):
    """``2026-11-22T19:30:55.123Z INFO receiver: sentence``; a traceback's lines are indented, so that none looks like
    a record. *speaker*: the speaker's name; empty: none.
    """

    def __init__(self, speaker: str = "") -> None:
        named = f"{speaker}: " if speaker else ""
        super().__init__(f"%(asctime)s.%(msecs)03dZ %(levelname)s {named}%(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return legible(super().formatMessage(record), LONGEST)

    def formatException(self, ei: object) -> str:  # noqa: N802  # logging's name
        return _indented(super().formatException(ei))  # type: ignore[arg-type]  # logging's own stubs lack it

    def formatStack(self, stack_info: str) -> str:  # noqa: N802  # logging's name
        return _indented(stack_info)


def worth_saying(record: logging.LogRecord) -> bool:
    """Whether *record* is of use: gRPC logs a traceback for each peer that leaves during a send."""
    return not (record.name.startswith("grpc") and record.getMessage().startswith("ExecuteBatchError raised in core"))


class Each(NamedTuple):
    """Marks a record that repeats for each log."""

    kind: str  # what happens to these logs: are sealed, have gaps
    log: str
    whose: str = ""  # the beginning of the sentence
    ends: str = ""  # an earlier kind that no longer applies to the log


class _Kind:
    """The records of one kind in a minute."""

    def __init__(self, what: str, level: int) -> None:
        self.what, self.level, self.count = what, level, 0
        self.said = set[str]()  # logs with a record that was written
        self.others = set[str]()
        self.over = 0  # held-back logs and lines that no longer apply

    @property
    def rest(self) -> str:
        """A summary of the records that were held back; empty if there are none."""
        kind, logs, lines = self.what, len(self.others), self.count - MOST - len(self.others) - self.over
        found = []
        if logs:
            found.append(f"{several(logs, 'more log')} {_of_one(kind) if logs == 1 else kind}")
        if lines > 0:
            found.append(f"{several(lines, 'more line')} of logs that {kind} {are(lines)} left out")
        return "; ".join(found)


class Gathered:
    """Limits records that repeat for each log: the first MOST of a kind in a minute are written."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def says(self, one: Each, now: float, level: int = logging.INFO) -> bool:
        """Whether to write the record of *one* at *now*; otherwise it counts for the ``rest``."""
        self._began = now if self._began is None else self._began
        ended = self._kinds.get((one.whose, one.ends))
        if ended is not None and one.log in ended.others:
            ended.others.remove(one.log)
            ended.over += 1
        kind = self._kinds.get((one.whose, one.kind))
        if kind is None:
            kind = self._kinds[one.whose, one.kind] = _Kind(one.kind, level)
        kind.count += 1
        if kind.count <= MOST:
            kind.said.add(one.log)
        elif one.log not in kind.said:
            kind.others.add(one.log)
        return kind.count <= MOST

    def is_full(self, one: Each) -> bool:
        """Whether a record of *one* would be held back within this minute."""
        kind = self._kinds.get((one.whose, one.kind))
        return kind is not None and kind.count >= MOST

    @property
    def due(self) -> float | None:
        """When the minute ends; None: no record was held back."""
        held = any(kind.count > MOST for kind in self._kinds.values())  # some may no longer apply
        return self._began + MINUTE if held and self._began is not None else None

    def over(self, now: float) -> bool:
        """Whether the minute that began has ended by *now*."""
        return self._began is not None and now >= self._began + MINUTE

    def rest(self) -> list[tuple[int, str]]:
        """The level and a summary for each kind with held-back records; the next record begins a new minute."""
        found = [(kind.level, f"{whose}{kind.rest}") for (whose, _), kind in self._kinds.items() if kind.rest]
        self._began, self._kinds = None, {}
        return found


def each(kind: str, log: object, whose: str = "", *, ends: str = "") -> dict[str, Each]:
    """The *extra* of a record that repeats for each log; *kind* says what happens to them: ``are sealed``. *whose*
    begins the summary of held-back records. *ends*: an earlier kind that no longer applies to the log.
    """
    return {"each_log": Each(kind, str(log), whose, ends)}


def info_each(
    log: logging.Logger,
    kind: str,
    of: object,
    sentence: str,
    *values: object,
    whose: str = "",
    answer: object = None,
) -> None:
    """Log *sentence* at INFO, as a record that repeats for each log; see ``each``. *answer*: a log and the receiver's
    answer to it, for a handler that counts answers.

    A process with thousands of logs holds nearly all of these records back, and making one costs more than counting it:
    where a Talk alone writes flarelog's records, it is asked first.
    """
    if not log.isEnabledFor(logging.INFO):
        return
    one, handlers = Each(kind, str(of), whose), _ALL.handlers
    alone = len(handlers) == 1 and not _ALL.propagate
    if not (alone and isinstance(handlers[0], Talk) and handlers[0].holds_back(one)):
        log.info(sentence, *values, extra={"each_log": one, "answer": answer}, stacklevel=2)


def _of_one(kind: str) -> str:
    return kind.replace("are ", "is ", 1).replace("have ", "has ", 1)


class Talk(logging.StreamHandler):  # type: ignore[type-arg]  # writes to sys.stderr as it is when a record comes
    """Writes records to stderr; those that repeat for each log are limited by ``Gathered``, unless *all_of_them*."""

    def __init__(self, speaker: str = "", *, all_of_them: bool = False) -> None:
        super().__init__()
        self._all = all_of_them
        self._gathered = Gathered()
        self._timer: threading.Timer | None = None
        self.setFormatter(OneLine(speaker))

    def emit(self, record: logging.LogRecord) -> None:
        """Write or hold back *record*; called with the handler's lock."""
        one = getattr(record, "each_log", None)
        if one is None or self._all or self._says(one, time.monotonic(), record.levelno):
            super().emit(record)

    def holds_back(self, one: Each) -> bool:
        """Whether a record of *one*, at INFO, is held back now; it then counts, and need not be made."""
        if self._all:
            return False
        with self.lock or threading.RLock():
            now = time.monotonic()
            return self._gathered.is_full(one) and not self._gathered.over(now) and not self._says(one, now)

    def _says(self, one: Each, now: float, level: int = logging.INFO) -> bool:
        """Whether to write the record of *one*, which counts."""
        if self._gathered.over(now):
            self._say_rest()
        says = self._gathered.says(one, now, level)
        if not says and self._timer is None and (due := self._gathered.due) is not None:
            self._timer = threading.Timer(max(0.0, due - now), self.flush_rest)
            self._timer.daemon = True
            self._timer.start()
        return says

    def flush_rest(self) -> None:
        """Write the summaries of held-back records."""
        with self.lock or threading.RLock():
            self._say_rest()

    def _say_rest(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for level, sentence in self._gathered.rest():
            super().emit(logging.LogRecord("flarelog", level, "", 0, sentence, None, None))

    def close(self) -> None:
        self.flush_rest()
        super().close()


def one_line(record: logging.LogRecord) -> logging.LogRecord:
    """A copy of *record* for handlers of other libraries, with an escaped message: their formatters do not escape."""
    made = copy.copy(record)
    made.msg, made.args = legible(record.getMessage(), LONGEST), None
    return made


def _indented(text: str) -> str:
    return "\n".join(f"  {legible(line, LONGEST)}" for line in text.split("\n"))
