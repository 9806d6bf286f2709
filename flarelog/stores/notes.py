"""Notes: small records beside the bytes, for people and for the next receiver, alike in every store.

A note belongs to a site in a run, to a run, or to the store, and is removed with it. Its kind says how it is kept; the
decoders of each kind are beside its meaning (``moments``, ``fares``, ``runs``, ``unopened``). Notes that are appended
to consist of lines in the format of ``lines``; a torn line costs only itself.
"""

from __future__ import annotations

from collections.abc import Callable

from flarelog.values import frozen

LIMIT = 256 << 10  # bytes of a note; of health about half a day of minutes, or a week of quarters of an hour
KEPT = 64 << 10  # bytes kept at an end of a note from which older lines are dropped


def latest(raw: bytes) -> bytes:
    """The last lines of *raw*, KEPT bytes at most."""
    return raw[raw.rfind(b"\n", 0, -KEPT) + 1 :]


@frozen
class Kind:
    """How the notes of one kind are kept. Their name has no dot, unless they belong to a run."""

    name: str
    limit: int = LIMIT  # bytes; a note that would exceed it is shortened first
    shortened: Callable[[bytes], bytes] = latest
    durable: bool = False  # survives a power cut, and creates its run; others may lose their last second in a kill
    counts_as_change: bool = True  # whether writing it makes its run younger

    def bounded(self, raw: bytes, said: bytes) -> bytes:
        """The note after the lines *said* were appended to *raw*."""
        if len(raw) + len(said) > self.limit:
            said = self.shortened(raw[-self.limit :]) + said
            return self.shortened(said) if len(said) > self.limit else said
        return raw + (b"\n" if raw and not raw.endswith(b"\n") else b"") + said


TOKENS = Kind("tokens")
"""The tokens of all receivers of a store that several share; those of a directory are a file, with an owner."""

FINDINGS = Kind("findings", counts_as_change=False)
"""The findings in a site's logs, which are made from these logs."""
