"""Regular expressions that people give, in google-re2, whose time grows with the length of a text alone, whatever the
expression: a search that has begun cannot be given up, and holds the program that flarelog is embedded in.
"""

from __future__ import annotations

import re
from typing import Any

from flarelog.errors import InvalidOption

MAX_MEMORY = 2 << 20  # bytes that a compiled pattern and its states may take

# What only Python's engine reads, and what RE2 reads in its place. Where that matches more, more is found: a
# possessive repetition is a plain one, an atomic group a plain one.
_PYTHON = re.compile(
    rb"\\Z|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<atomic>\(\?>)|(?P<times>[*+?]|\{(?P<least>\d*),?\d*\})(?P<possessive>\+?)",
    re.DOTALL,
)


def compiled(text: str, whose: str, *, of_bytes: bool, ignore_case: bool = False) -> Any:
    """*text* as a pattern of RE2, in which a character is a byte if it is *of_bytes*. *whose*: subject of the sentence
    that says what is to be installed.

    Raises InvalidOption, also for a pattern that matches the empty string.
    """
    try:
        import re2
    except ImportError as error:
        raise InvalidOption(f"{whose} need google-re2: pip install 'flarelog[re2]'") from error
    shown = repr(text[:80])
    options = re2.Options()
    if of_bytes:
        options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem, options.log_errors, options.case_sensitive = MAX_MEMORY, False, not ignore_case
    try:
        source = _PYTHON.sub(_translated, text.encode())
        pattern = re2.compile(source if of_bytes else source.decode(), options)
    except (re2.error, UnicodeError) as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise InvalidOption(
            f"the pattern {shown} is not a regular expression of RE2, which has no"
            f" lookaround and no backreferences: {why!r}; correct it"
        ) from error
    if pattern.match(b"" if of_bytes else "") is not None:
        raise InvalidOption(f"the pattern {shown} also matches the empty string: add what a match must contain")
    return pattern


def _translated(found: re.Match[bytes]) -> bytes:
    if found[0] == b"\\Z":
        return b"\\z"
    if found["atomic"] is not None:
        return b"(?:"
    if found["times"] is None:
        return found[0]
    return found["times"].replace(b"{,", b"{0,", 1) if found["least"] or found["times"] != b"{,}" else found[0]
