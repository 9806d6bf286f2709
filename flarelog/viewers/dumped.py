"""JSON in one line, also for readers that split lines as Python's ``splitlines`` or JavaScript do."""

from __future__ import annotations

import json
from json.encoder import encode_basestring

_PARTING = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


def dumped(found: object) -> str:
    text = encode_basestring(found) if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text if text.isascii() else text.translate(_PARTING)
