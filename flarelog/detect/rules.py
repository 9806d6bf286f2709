"""Users' own signatures, from TOML: the text of a file in, rows of the table out. docs/findings.md has an example.

An error names its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from flarelog.detect.base import Role, Signature
from flarelog.detect.table import SIGNATURES, Absence, Table
from flarelog.errors import FlarelogError, InvalidFile
from flarelog.linear import compiled
from flarelog.lines.levels import NAMES, Level
from flarelog.names import meant
from flarelog.values import frozen

MOST = 200  # rules of one file
LONGEST = 500  # characters of a text
_KEYS = ("id", "literal", "pattern", "role", "severity", "meaning", "action", "absent", "for")
_LIKE = 0.7  # similarity of a mistyped key: most keys are short, and foo is not for
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_FOR = re.compile(r"(\d{1,6})\s?([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@frozen
class _Rule:
    """One rule of a file, and its place."""

    name: str  # of the file
    number: int
    values: Mapping[str, Any]
    heads: Sequence[str]  # the file's lines

    def wrong(self, key: str, sentence: str) -> InvalidFile:
        line, column = self._place(key)
        return InvalidFile(f"{self.name}, line {line}, column {column}: {sentence}")

    def _place(self, key: str) -> tuple[int, int]:
        """The line and column, from 1 on, of the value of *key*; without one, of the rule."""
        begun, count = 1, -1
        for number, line in enumerate(self.heads, 1):
            if re.match(r"\s*\[\[\s*rule\s*\]\]", line):
                count += 1
                if count == self.number:
                    begun = number
            elif count == self.number and (found := re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=\s*", line)):
                return number, found.end() + 1
        return begun, 1

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"{key} is no text: put it between quotes")
        if len(value) > LONGEST:
            raise self.wrong(key, f"{key} has more than {LONGEST} characters: shorten it")
        return value


def more(table: Table, text: str, name: str) -> Table:
    """*table* with the rules of *text*, which come first. Raises InvalidFile."""
    import tomllib  # imported here, because most calls have no rules

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \((?:at line (\d+), column (\d+)|at end of document)\)$", str(error))
        line, column = (place[1], place[2]) if place is not None and place[1] else (str(text.count("\n") + 1), "1")
        why = str(error)[: place.start()] if place is not None else str(error)
        raise InvalidFile(f"{name}, line {line}, column {column}: this is not TOML: {why}") from error
    heads = text.splitlines()
    for key in values:
        if key != "rule":
            place_ = next((n for n, line in enumerate(heads, 1) if key in line), 1)
            raise InvalidFile(f"{name}, line {place_}, column 1: {key!r} is not known: begin each rule with [[rule]]")
    rules = values.get("rule")
    if not isinstance(rules, list) or not rules or not all(isinstance(each, dict) for each in rules):
        raise InvalidFile(f"{name}, line 1, column 1: the file has no rule: begin each with a line [[rule]]")
    if len(rules) > MOST:
        raise InvalidFile(f"{name}, line 1, column 1: the file has more than {MOST} rules: use fewer")
    own = {each.id for each in SIGNATURES}
    taken = {each.id for each in (*table.signatures, *(one.signature for one in table.absences))} - own
    signatures, absences = [], []
    for number, each in enumerate(rules):
        rule = _Rule(name, number, each, heads)
        made = _rule(rule)
        if made.id in taken:
            raise rule.wrong("id", f"another rule has the id {made.id}: give each its own")
        taken.add(made.id)
        if "absent" in each:
            absences.append(_absence(rule, made))
        else:
            signatures.append(made)
    return table.with_more(signatures, absences)


def _rule(rule: _Rule) -> Signature:
    for key in rule.values:
        if key not in _KEYS:
            raise rule.wrong(key, f"a rule has no {key!r}{meant(key, _KEYS, _LIKE)}")
    id_ = rule.text("id")
    if not _ID.fullmatch(id_):
        raise rule.wrong("id", "a rule needs an id of small letters, digits, '.', '-' and '_', as in loader.slow")
    role, severity = rule.text("role", "root"), rule.text("severity", "error")
    known = {str(each): each for each in get_args(Role)}
    if role not in known:
        raise rule.wrong("role", f"role is one of {', '.join(known)}")
    if severity not in NAMES:
        raise rule.wrong("severity", f"severity is one of {', '.join(NAMES)}")
    meaning = rule.text("meaning", f"A line that the rule {id_} names.")
    action = rule.text("action", f"See the rule {id_}.")
    literals = () if "absent" in rule.values else _literals(rule)
    return Signature(id_, known[role], Level[severity.upper()], literals, _pattern(rule), meaning, action)


def _literals(rule: _Rule) -> tuple[str, ...]:
    given = rule.values.get("literal")
    texts = [given] if isinstance(given, str) else given
    if not texts or not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise rule.wrong("literal", "a rule needs a literal: a text, or a list, of which each line has one")
    for each in texts:
        if not 2 <= len(each) <= LONGEST or not each.isprintable():
            raise rule.wrong("literal", "a literal has at least 2 characters, all of which can be seen")
    return tuple(texts)


def _pattern(rule: _Rule) -> Any:
    text = rule.text("pattern")
    if not text:
        return None
    try:
        return compiled(text, "patterns of your own", of_bytes=False)
    except FlarelogError as error:
        raise rule.wrong("pattern", str(error)) from error


def _absence(rule: _Rule, made: Signature) -> Absence:
    literal = rule.text("absent")
    for key in ("literal", "pattern"):
        if key in rule.values:
            raise rule.wrong(key, f"a rule with absent has no {key}: leave it out")
    if len(literal) < 2:
        raise rule.wrong("absent", "absent has at least 2 characters")
    span = _FOR.fullmatch(rule.text("for"))
    if span is None or not int(span[1]):
        raise rule.wrong("for", 'absent needs for: a time, as in for = "10m" (s, m or h)')
    return Absence(made, literal, int(span[1]) * _SECONDS[span[2]])
