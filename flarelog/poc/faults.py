"""The faults of a simulation. ``moments.py`` implements each."""

from __future__ import annotations

from collections.abc import Sequence

FAULTS = {
    "late-receiver": "the receiver starts after its producers, and the run is announced later still",
    "rotate": "the logs are rotated by renaming, with their tails unread",
    "restart-receiver": "the receiver is stopped and restarted",
    "kill-receiver": "the receiver is killed and restarted",
    "freeze-receiver": "the receiver is frozen, and continues later",
    "kill-sidecar": "a sidecar is killed and restarted",
    "replace-sidecar": "a sidecar is frozen, another takes over, and the first is fenced when it wakes up",
    "cut-connection": "all connections are cut mid-stream",
    "hang-connection": "a connection accepts data without delivering it, until it is cut",
    "truncate": "a log is truncated between sending and storing: the loss is known, and becomes a gap",
    "remove": "a log is removed with its tail unread, and created again",
    "full-disk": "the receiver's disk fills up, and gets space again",
    "renew-certificates": "the receiver and all sites get new certificates, and then all connections are cut",
    "intruders": "a site of another CA, and a site that claims another's name, try to send",
}
DEFAULT = ("late-receiver", "rotate")
OF_TLS = ("renew-certificates", "intruders")
"""The faults that need certificates."""
PROXIED = frozenset({"cut-connection", "hang-connection", "truncate", "renew-certificates"})
"""The faults that need a proxy between site and receiver."""
PROOF = "corrupt-store"
"""Not a fault that flarelog promises to survive: one stored byte is changed, to show that the table can fail."""


def chosen(named: Sequence[str], tls: bool) -> tuple[str, ...]:
    """The faults that *named* means: "all" is every possible one, and an empty list means the default."""
    if "all" in named:
        return tuple(name for name in FAULTS if tls or name not in OF_TLS)
    return tuple(named) or (DEFAULT + OF_TLS if tls else DEFAULT)
