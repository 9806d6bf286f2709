"""Find the message of a line that is a JSON object, as the writers of structured logs name it: Python's formatters,
zap, bunyan, pino, zerolog, logrus, structlog, Serilog, journald, MongoDB, Google Cloud. Only a top-level key counts.
"""

from __future__ import annotations

from flarelog.late import late

_KEYS = 4096  # characters that are searched for a key
_TRIES = 4  # keys within other objects, or in strings, that are passed over at most
_NAMES = tuple(f'"{name}"' for name in ("message", "msg", "MESSAGE", "@message", "@m", "@mt", "textPayload", "event"))
_BODY = late(r"\s?:\s?\"((?:[^\"\\]|\\.)*+)\"")
_STRING = late(r"\"(?:[^\"\\]|\\.)*+(?:\"|$)")


def message_of(text: str) -> tuple[int, int] | None:
    """Where the message of *text* begins and ends, between its quotes, with JSON's escapes; None: it has no message, or
    is no whole object of JSON.
    """
    if text[:1] != "{" or text[-1:] != "}":
        return None
    tries = 0
    for name in _NAMES:
        at = text.find(name, 0, _KEYS)
        while at >= 0 and tries < _TRIES:
            if (body := _BODY.match(text, at + len(name))) is not None and _is_top(text[:at]):
                return body.span(1)
            tries += 1
            at = text.find(name, at + 1, _KEYS)
    return None


def _is_top(before: str) -> bool:
    """Whether a key of the object itself follows *before*, with which its text begins."""
    if before.count("{") == 1 and "[" not in before:
        return True
    between = _STRING.sub("", before)
    return between.count("{") - between.count("}") == 1 and between.count("[") == between.count("]")
