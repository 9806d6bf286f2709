"""What flarelog says to a log is a line a record, whatever is in it.

Text of others is made legible where it comes in. What got past that, and what a library said, meets it here again.
"""

from __future__ import annotations

import copy
import logging
import time

from flarelog.text import legible

LONGEST = 16 << 10  # characters of a line; the longest audit line is shorter


class OneLine(logging.Formatter):
    """``2026-11-22T19:30:55.123Z INFO sentence``; a traceback's lines are indented: none looks like a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return legible(super().formatMessage(record), LONGEST)

    def formatException(self, ei: object) -> str:  # noqa: N802  # logging's name
        return _indented(super().formatException(ei))  # type: ignore[arg-type]  # as logging's own stubs have it

    def formatStack(self, stack_info: str) -> str:  # noqa: N802  # logging's name
        return _indented(stack_info)


def worth_saying(record: logging.LogRecord) -> bool:
    """Whether *record* tells anything: gRPC has a traceback for each peer that left while something was sent to it."""
    return not (record.name.startswith("grpc") and record.getMessage().startswith("ExecuteBatchError raised in core"))


def one_line(record: logging.LogRecord) -> logging.LogRecord:
    """A copy of *record* for handlers of others, whose formatters are theirs: its message is legible already."""
    made = copy.copy(record)
    made.msg, made.args = legible(record.getMessage(), LONGEST), None
    return made


def _indented(text: str) -> str:
    return "\n".join(f"  {legible(line, LONGEST)}" for line in text.split("\n"))
