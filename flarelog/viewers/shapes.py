"""The shapes and the colours of standings and of signs in lanes: one language, which the page and the report share.

A shape is a path in a box of 16 by 16, filled by the rule evenodd. Each kind of trouble has a shape of its own, because
a colour alone would not tell them apart.
"""

from __future__ import annotations

_LACKS = "M8 2 15 14H1zm-.9 4.5.3 4h1.2l.3-4zm.1 5v1.4h1.6v-1.4z"
_EMPTY = "M3.5 2.5h9v11h-9zM5.1 4.1v7.8h5.8V4.1z"
SHAPES = {
    "live": "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
    "quiet": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm0 1.6v7.8a3.9 3.9 0 0 1 0-7.8z",
    "busy": "M3 9h2.2v4H3zM6.9 6h2.2v7H6.9zM10.8 3H13v10h-2.2z",
    "hung": "M4 2h8v2.2L9.2 8l2.8 3.8V14H4v-2.2L6.8 8 4 4.2z",
    "waiting": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM7.3 5h1.4v2.7l2 2-1 1-2.4-2.4z",
    "idle": "M5.3 6.9h5.4v2.2H5.3z",
    "gone": "M2.5 6.9h11v2.2h-11z",
    "silent": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm0 1.7a3.8 3.8 0 1 1 0 7.6 3.8 3.8 0 0 1 0-7.6z",
    "paused": "M4 3h3v10H4zM9 3h3v10H9z",
    "lost link": ("M3.6 2.4 8 6.8l4.4-4.4 1.2 1.2L9.2 8l4.4 4.4-1.2 1.2L8 9.2l-4.4 4.4-1.2-1.2L6.8 8 2.4 3.6z"),
    "not stored": _EMPTY,
    "unreadable": _EMPTY,
    "complete": "m6.4 12.8-4.2-4.2 1.4-1.4 2.8 2.8 6-6.2 1.4 1.4z",
    "gap": _LACKS,
    "incomplete": _LACKS,
    "unverified": _LACKS,
    "no receipt": _LACKS,
    "failed": (
        "M5 1.5h6L14.5 5v6L11 14.5H5L1.5 11V5zM5.3 4.2 4.2 5.3 6.9 8l-2.7 2.7 1.1 1.1L8 9.1l2.7 2.7"
        " 1.1-1.1L9.1 8l2.7-2.7-1.1-1.1L8 6.9z"
    ),
    "open": "M8 4.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z",
    "exit": "M4 4h8v8H4z",
    "restart": "M4 2l9 6-9 6z",
    "begun": "M7 0h2v16H7z",
    "rotation": "M7 0h2v6H7z",
}
KINDS = {
    **dict.fromkeys(("live", "complete"), "good"),
    **dict.fromkeys(("silent", "paused", "hung", "gone", "gap", "incomplete", "unverified", "no receipt"), "warn"),
    **dict.fromkeys(("lost link", "not stored", "unreadable", "failed"), "bad"),
}
"""How good a standing is; of others: calm."""

SIGNS = {"receipt": "complete", "closed": "no receipt"}
"""The shapes of a lane's signs that have another name."""

LEGEND = {
    "sending": "bytes came, the higher the more",
    "warning": "with warnings",
    "error": "with errors and a dash above",
    "quiet": "quiet: nothing came",
    "silent": "silent: no heartbeat",
    "lost link": "lost link",
    "paused": "paused by the receiver",
    "gap": "bytes lost, an end unseen, no receipt",
    "receipt": "receipt: all bytes are there",
    "failed": "a command failed",
    "restart": "a container was restarted",
    "exit": "a command ended well",
    "begun": "a log began",
    "rotation": "a new file",
    "round": "a round began",
    "late": "lines that came a minute or more late; orange: later than other sites",
}
"""What the forms in a lane mean: stretches of time, then signs."""


def kind_of(standing: str) -> str:
    """good, warn, bad or calm."""
    return KINDS.get(standing, "calm")


def shape_of(sign: str) -> str:
    """The name of the shape of a lane's *sign*."""
    return SIGNS.get(sign, sign)
