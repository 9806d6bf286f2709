"""Runs of letters and digits: which of them are a token, or a part of one.

Most logs have the same runs in most of their lines (a run's id, a path), so the decisions are cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from flarelog.sources.redaction.secret.kinds import (
    COMMIT,
    DIGESTS,
    HOOK,
    JOINTS,
    KINDS,
    LEAST_SIGNED,
    LOGIN,
    PARTED,
    PARTS,
    RUN,
    SERVICES,
    SIGNED,
    SIGNED_BASE64,
    WANDB,
)
from flarelog.sources.redaction.secret.value import value_at
from flarelog.sources.redaction.secret.view import BACK, BLANKS, TO_END, WORD, Span, end_of, ending, line_before, places


def _table() -> dict[bytes, list[tuple[str, re.Pattern[bytes]]]]:
    """The kinds by their first two letters: (name, pattern) of each kind."""
    table: dict[bytes, list[tuple[str, re.Pattern[bytes]]]] = {}
    for name, prefixes, body in KINDS:
        for prefix in prefixes.encode().split():
            table.setdefault(prefix[:2], []).append((name, re.compile(re.escape(prefix) + body)))
    return table


_BY_BEGINNING = _table()
_ALL_PREFIXES = [prefix for _, prefixes, _ in KINDS for prefix in prefixes.encode().split()]
_PREFIXES = {letters: tuple(p for p in _ALL_PREFIXES if p.startswith(letters)) for letters in _BY_BEGINNING}
_JWT = _BY_BEGINNING[b"ey"][-1][1]  # a JWT continues after its run with a dot: it is tried only there
_BEGINNINGS = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z0-9][\w-]")
_NEAR, _MANY_PARTS = 32, 64  # bytes before a run that matter; the second if the run may be a part
_HOOKED = re.compile(rb"[\w/@+-]*+")
_HEX32 = re.compile(rb"[0-9a-f]{32}")
_HEX40 = re.compile(rb"[0-9a-f]{40}(?![\w-])")

_VALUE = WORD + b"/+.%~"
_VALUE_PARTS = _VALUE + b":"
_SERVICE = WORD + b" ."
_OPENING = b" \t\"'`(["
_TO_A_NAME = b"=: \t\"'`])>"


_RUNS = bytes(ord("x") if byte in WORD else ord(" ") for byte in range(256))


def tokens(view: bytes, low: bytes, names: tuple[str, ...]) -> Iterator[Span]:
    """The spans in *view* of the tokens of *names* with a recognizable form."""
    if "tokens" in names:
        for at in places(view, b"+A"):
            for sign, back, kind in SIGNED_BASE64:
                found = kind.match(view, at - back) if at >= back and view.startswith(sign, at) else None
                if found is not None:
                    yield found.span()
    runs = view.translate(_RUNS)
    at = runs.find(b"x" * RUN)
    while at >= 0:
        end = runs.find(b" ", at)
        end = end if end >= 0 else len(runs)
        run = view[at:end]
        if (run.islower() and run.translate(None, b"_-").isalpha()) or _is_a_number(view, low, at, end, run):
            at = runs.find(b"x" * RUN, end)
            continue
        if end - at >= LEAST_SIGNED and "tokens" in names:
            for sign, back, kind in SIGNED:
                signed = view.find(sign, at + back, end)
                found = kind.match(view, signed - back) if signed >= 0 else None
                if found is not None:
                    yield found.span()
        near = min(at, _NEAR if view[at - 1] not in JOINTS else _MANY_PARTS)
        if not _tells_nothing(view[at - near : end + 1], near, end - at):
            for name, span in _of_a_run(view, low, at, end, near):
                if name in names:
                    yield span
                    end = max(end, span[1])
        at = runs.find(b"x" * RUN, end)


_HEXADECIMAL = re.compile(
    rb"(?!.*(?:%b))[0-9a-f-]*+\Z" % b"|".join(p for p in _ALL_PREFIXES if not p.strip(b"0123456789abcdef-"))
)


def _is_a_number(view: bytes, low: bytes, begin: int, end: int, run: bytes) -> bool:
    """Whether the *run* is a UUID, a hash or the like, and no text nearby makes it a secret: logs are full of them."""
    if _HEXADECIMAL.match(run) is None:
        return False
    before, behind = view[begin - 1 : begin], view[end : end + 1]
    if before == b"/" or behind == b"/":
        before = b"" if before == b"/" else before
        behind = b"" if behind == b"/" else behind
        if _OF_A_PATH.search(view, max(0, begin - _MANY_PARTS), begin):
            return False
    if before in _JOINT or behind in _JOINT:
        return False
    first = begin - _NEAR if begin > _NEAR else 0
    if b"login" in low[first:begin]:
        return False
    if len(run) == 40 and _WANDB_NEAR.search(low, max(0, begin - BACK), end + BACK):
        return False
    return not _told(view[first:begin])


_OF_A_PATH = re.compile(rb"hook|1//|ops_|glc_|sntrys|fm[12]|ABSK|ALTAK")  # paths with a part that may be hexadecimal
_WANDB_NEAR = re.compile(rb"w(?:andb|&b|eights)")
_JOINT = tuple(bytes((byte,)) for byte in JOINTS)


def _of_a_run(view: bytes, low: bytes, begin: int, end: int, near: int) -> Iterator[tuple[str, Span]]:
    """The tokens that the run from *begin* to *end* is, or belongs to; the *near* bytes before it tell."""
    done = begin
    for start in _BEGINNINGS.finditer(view, begin, end):
        for name, kind in _BY_BEGINNING.get(start[0], ()) if start.start() >= done else ():
            if kind is not _JWT or view[end : end + 1] == b".":
                found = kind.match(view, start.start())
                if found is not None:
                    done = found.end()
                    yield name, found.span()
    before = line_before(view, begin, _MANY_PARTS)
    for signs, kinds in PARTED:
        lead = ending(before, WORD + signs) if before[-1:] in signs and before else b""
        if lead or view[end : end + 1] in signs or signs == b".~":
            found = kinds.match(view, begin - len(lead))
            if found is not None and found.end() > begin:
                yield "tokens", found.span()
    hook = HOOK.search(before) if b"hook" in before else None
    if hook is not None:
        first = begin - len(before) + hook.end()
        last = end_of(_HOOKED, view, first)
        if last >= end:
            yield "tokens", (first, last)
    found = DIGESTS.match(view, begin)
    if found is not None:
        yield "tokens", found.span()
    around = before.lower()
    if LOGIN.search(around):
        yield "tokens", (begin, end)
    elif _HEX40.match(view, begin) and not COMMIT.search(around[-24:]):
        behind = low[end : end + BACK]
        if WANDB.search(around) or WANDB.search(behind[: end_of(TO_END, behind, 0)]):
            yield "tokens", (begin, end)
    before = before[-near:] if near else b""
    told = _told(before)
    if told:
        span = value_at(view, low, end_of(BLANKS, view, begin - len(before) + told))
        if span is not None:
            yield "tokens", span


def _told(before: bytes) -> int:
    """Where in *before*, the text before a random value, a service's name ends; 0 if there is none."""
    told = before.rstrip(_VALUE_PARTS if b":" in before[-3:] else _VALUE).rstrip(_OPENING)
    if told[-1:] not in (b"=", b":", b">", b"|") or not _is_a_service(ending(told.rstrip(_TO_A_NAME), _SERVICE)):
        return 0
    return len(told)


@lru_cache(1 << 10)
def _is_a_service(name: bytes) -> bool:
    name = name.lower()
    return SERVICES.search(name) is not None and not COMMIT.search(name[-24:])


@lru_cache(1 << 12)
def _tells_nothing(text: bytes, begin: int, length: int) -> bool:
    """Whether the run at *begin* can be no token; cached, because logs repeat the same runs in most lines."""
    before, run, behind = text[:begin], text[begin : begin + length], text[begin + length :]
    if run.islower() and run.translate(None, b"_-").isalpha():
        return True  # words
    joined = before[-1:] in JOINTS or behind in JOINTS
    if joined and (b"hook" in before or PARTS.search(before + run + behind)):
        return False
    for start in _BEGINNINGS.finditer(run):
        if run.startswith(_PREFIXES.get(start[0], ()), start.start()):
            return False
    return not (_HEX32.match(run) or b"login" in before.lower() or run.endswith(b"_mmk") or _told(before))
