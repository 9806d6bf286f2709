"""The secrets in a text: values that a name announces, and tokens of a recognizable form.

The laws: no match crosses the end of a line or depends on another line. Every look back is bounded, and every look
ahead is bounded or ends in a match, after which the search continues: the time is linear in the length. Rare words are
searched first, with bytes.find; a regular expression runs only after such a hit. A value is masked to its very end, in
doubt further: a line must not look redacted while a part of a secret stays.

A new kind of token is a row in kinds; a new name of a secret goes into names; a new format of a name and its value goes
into value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from flarelog.sources.redaction.secret.names import (
    UNCOUNTED,
    auth,
    bearer,
    cookie,
    identified,
    key,
    logging_in,
    password,
    pw,
    secret,
    token,
    user_and_password,
)
from flarelog.sources.redaction.secret.places import ESCAPED, email, password_hash, userinfo
from flarelog.sources.redaction.secret.runs import tokens
from flarelog.sources.redaction.secret.view import Span, View

Probe = Callable[[bytes, bytes, int], Span | None]


def find(text: bytes, names: tuple[str, ...]) -> Iterator[Span]:
    """The spans of the secrets of *names* in *text*, any number of lines, each by itself. Spans may overlap."""
    if not names:
        return
    view = View(text)
    spans = _found(view.read, view.read.lower(), names)
    yield from spans if view.same else view.places(list(spans))


def _found(view: bytes, low: bytes, names: tuple[str, ...]) -> Iterator[Span]:
    for word, likely, probe in _probes(names):
        at = low.find(word)
        while at >= 0:
            if likely is not None:
                found = likely.search(low, at)
                if found is None:
                    break
                at = found.start()
            span = probe(view, low, at)
            if span is not None and span[0] < span[1]:
                yield span
            at = low.find(word, max(at + 1, span[1]) if span is not None else at + 1)
    if _TOLD & set(names):
        yield from tokens(view, low, names)


@lru_cache(16)
def _probes(names: tuple[str, ...]) -> list[tuple[bytes, re.Pattern[bytes] | None, Probe]]:
    likely = {b"token": UNCOUNTED, b"%": ESCAPED}
    return [(word, likely.get(word), probe) for word, of, probe in _PROBES if any(name in names for name in of)]


_TOLD = {"tokens", "keys"}  # names with tokens of a recognizable form
_PROBES: tuple[tuple[bytes, tuple[str, ...], Probe], ...] = (
    (b"pass", ("passwords",), password),
    (b"secret", ("passwords",), secret),
    (b"identified", ("passwords",), identified),
    (b"pw", ("passwords",), pw),
    (b" -p ", ("passwords",), logging_in),
    (b"-u", ("passwords",), user_and_password),
    (b"@", ("passwords",), userinfo),
    (b"$", ("passwords",), password_hash),
    (b"token", ("tokens",), token),
    (b"auth", ("tokens",), auth),
    (b"bearer", ("tokens",), bearer),
    (b"cookie", ("tokens",), cookie),
    (b"key", ("tokens", "keys"), key),
    (b"@", ("email",), email),
    (b"%", ("email",), email),
)
