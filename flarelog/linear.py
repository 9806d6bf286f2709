"""Users' regular expressions, compiled by google-re2, whose search time is linear in the text for any pattern. A
search of ``re`` cannot be interrupted, and a slow one would block the process that embeds flarelog.
"""

from __future__ import annotations

import re
from typing import Any

from flarelog.errors import InvalidOption

MAX_MEMORY = 2 << 20  # bytes that a compiled pattern and its states may take

# Syntax of Python's engine, translated for RE2. The translation may match more: a possessive repetition becomes a
# greedy one, an atomic group a plain one.
_PYTHON = re.compile(
    rb"\\Z|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<atomic>\(\?>)|(?P<times>[*+?]|\{(?P<least>\d*),?\d*\})(?P<possessive>\+?)",
    re.DOTALL,
)


def compiled(text: str, whose: str, *, of_bytes: bool, ignore_case: bool = False) -> Any:
    """Compile *text* with RE2; *of_bytes*: a character is a byte. *whose*: subject of the error that tells to install
    google-re2.

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
