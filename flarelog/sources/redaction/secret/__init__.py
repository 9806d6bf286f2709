"""The secrets in a text: values that a name announces, and tokens of a recognizable form.

The laws: no match crosses the end of a line, and only ``announced`` looks at the lines before one. Every look back is
bounded, and every look ahead is bounded or ends in a match, after which the search continues: the time is linear in the
length. Rare words are searched first, with bytes.find; a regular expression runs only after such a hit. A value is
masked to its very end, in doubt further: a line must not look redacted while a part of a secret stays.

A new kind of token is a row in kinds; a new name of a secret goes into names; a new format of a name and its value goes
into value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from flarelog.sources.redaction.secret.announced import DIGITS, SHORT, announced, goes_on, may_announce
from flarelog.sources.redaction.secret.commands import WORDS, given, option, pgpass, session, wireguard
from flarelog.sources.redaction.secret.names import (
    UNCOUNTED,
    auth,
    bearer,
    before_its_name,
    code,
    cookie,
    docker,
    identified,
    key,
    logging_in,
    password,
    psk,
    pw,
    saml,
    secret,
    seed,
    sid,
    token,
    user_and_password,
)
from flarelog.sources.redaction.secret.places import ESCAPED, email, login, password_hash, path, userinfo
from flarelog.sources.redaction.secret.runs import tokens
from flarelog.sources.redaction.secret.view import Span, View

Probe = Callable[[bytes, bytes, int], Span | None]


def find(text: bytes, names: tuple[str, ...], above: bytes = b"") -> Iterator[Span]:
    """The spans of the secrets of *names* in *text*, any number of lines, each by itself, except for the values that
    the lines before, and those *above* the text, announce. Spans may overlap.
    """
    if not names:
        return
    view = View(text)
    low = view.read.lower()
    short = len(low) < SHORT
    bones = low.translate(None, DIGITS)
    likely = _repeated(bones, names) if short else _likely(b"\n".join({*bones.split(b"\n")}) + b"\n", names)
    spans = _found(view.read, low, likely.probes, names)
    yield from spans if view.same else view.places(list(spans))
    if likely.announces or (above and goes_on(above, text)):
        shift = len(above)
        for begin, end in announced(above + text, names, find):
            if end > shift:
                yield max(0, begin - shift), end - shift


Row = tuple[bytes, re.Pattern[bytes] | None, Probe]
"""A word, what its places look like, and the probe for them."""


class Likely(NamedTuple):
    probes: list[Row]
    announces: bool  # a line that announces the value of another


def _likely(bones: bytes, names: tuple[str, ...]) -> Likely:
    """What a text with the *bones* may have: its different lines in lower case, without hexadecimal digits. The lines
    of a log differ in their numbers, so there are few. A text has a word only if its bones have the word's.
    """
    return Likely([row for bone, row in _probes(names) if bone in bones], may_announce(bones))


_repeated = lru_cache(1 << 10)(_likely)  # for single lines: most logs repeat them but for the numbers


def _found(view: bytes, low: bytes, probes: list[Row], names: tuple[str, ...]) -> Iterator[Span]:
    for word, likely, probe in probes:
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
def _probes(names: tuple[str, ...]) -> list[tuple[bytes, Row]]:
    """The probes for *names*, each with the bones of its word."""
    likely = {b"token": UNCOUNTED, b"%": ESCAPED}
    rows = [(word, probe) for word, of, probe in _PROBES if any(name in names for name in of)]
    return [(word.translate(None, DIGITS), (word, likely.get(word), probe)) for word, probe in rows]


_SEEDS = (
    b"mnemonic|privkey|master_seed|secret_seed|secret seed|wallet_seed|wallet seed|seed_phrase|seed phrase|seed_hex"
).split(b"|")
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
    *((b" -%b" % letter, ("passwords",), option) for letter in (b"p", b"a ", b"w ", b"u ")),
    *((word, ("passwords", "tokens"), given) for word in WORDS),
    (b"value", ("passwords", "tokens"), before_its_name),
    (b"session", ("tokens",), session),
    (b"saml", ("tokens",), saml),
    (b"s%3a", ("tokens",), sid),
    (b"://", ("tokens",), path),
    *((word, ("tokens",), login) for word in (b"login=", b"?code=", b"&code=", b"ticket=", b"samlart=")),
    (b"dockerc", ("passwords",), docker),
    (b"psk", ("passwords",), psk),
    *((word, ("passwords",), code) for word in (b"recovery", b"backup", b"pin_code", b"pincode")),
    *((word, ("passwords", "keys"), seed) for word in _SEEDS),
    (b"=\t", ("keys",), wireguard),
    (b":54", ("passwords",), pgpass),
)
