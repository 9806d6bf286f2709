"""The lines of a store's records, each with its own checksum.

    CRC-32 of the JSON in 8 hexadecimal digits, a blank, JSON, LF

A torn or damaged line is dropped, and the lines behind it stay valid.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from flarelog.checksum import extend
from flarelog.model import MAX_OFFSET

T = TypeVar("T")

_REST_AFTER, _REST = 128 << 10, 0.0001  # bytes, seconds
_LENGTH = re.compile(
    rb'\{"t":"length","n":(0|[1-9]\d{,18}),"d":(0|[1-9]\d{,9}),"m":(0|[1-9]\d{,18}),"at":(0|[1-9]\d{,18})\}'
)
_JSON = json.JSONDecoder()
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode  # created once: opening and sealing a log encode five lines


def line(record: dict[str, Any]) -> bytes:
    return checked(_ENCODE(record).encode())


def checked(body: bytes) -> bytes:
    """The line with the JSON *body*."""
    return b"%08x %s\n" % (extend(0, body), body)


def records(raw: bytes) -> Iterable[dict[str, Any] | None]:
    """The records of *raw* in order; None for each line that is torn or damaged."""
    begin = rested = 0
    while (end := raw.find(b"\n", begin)) >= 0:  # one at a time: a split would copy the whole journal in memory
        line, begin = raw[begin:end], end + 1
        if begin - rested > _REST_AFTER:
            # CRC-32 of a long line releases the GIL and takes it back before a waiting thread has woken. Without this
            # sleep the event loop would wait until the whole journal is read.
            rested = begin
            time.sleep(_REST)
        try:
            record = _record(line[9:]) if len(line) > 9 and int(line[:8], 16) == extend(0, line[9:]) else None
        except (ValueError, RecursionError):  # nested deeper than Python's parser goes
            record = None
        yield record if isinstance(record, dict) else None
    if begin < len(raw):
        yield None


def parsed(raw: bytes, parse: Callable[[dict[str, Any]], T], kind: str) -> Iterator[T]:
    """What *parse* makes of each record of *kind* in *raw*. Skips those for which it raises KeyError, TypeError or
    ValueError.
    """
    for record in records(raw):
        if record is None or record.get("t") != kind:
            continue
        try:
            yield parse(record)
        except (KeyError, TypeError, ValueError):
            continue


def _record(body: bytes) -> Any:
    """The JSON value of a valid line. Raises ValueError, RecursionError."""
    if length := _LENGTH.fullmatch(body):  # nearly all lines of a long journal; five times as fast as JSON
        n, digest, marks, at = map(int, length.groups())
        return {"t": "length", "n": n, "d": digest, "m": marks, "at": at}
    text = body.decode()
    record, end = _JSON.raw_decode(text)
    return record if end == len(text) else None


def is_good(body: re.Match[bytes]) -> bool:
    """Whether *body*, the match of a line without its checksum, agrees with the checksum before it."""
    begin = body.start()
    checksum = body.string[max(0, begin - 9) : begin]
    return checksum == b"%08x " % extend(0, memoryview(body.string)[begin : body.end() - 1])


def number(value: Any, most: int = MAX_OFFSET) -> int:
    """*value*, an integer from 0 to *most*. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is no number from 0 to {most}")
    return value


def text(value: Any) -> str:
    """*value*, a string that can be encoded. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no text")  # noqa: TRY004  # one kind of error for an invalid value
    value.encode()  # a lone surrogate would end the call that sends it
    return value


def now() -> int:
    """The time of a line, by this machine's clock: milliseconds since 1970."""
    return time.time_ns() // 1_000_000
