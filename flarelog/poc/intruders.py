"""The intruders, which try to send without the right to, and the receiver's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STRANGER = "stranger"  # another CA signed the certificate of this name

FORGED = b"this line was never written by the site whose name it bears\n"


@dataclass(slots=True)
class Intruder:
    """A sidecar that claims to be the site *claims*, with the certificate of *holder*."""

    who: str
    holder: str
    claims: str
    attempts: int = 0
    refused: int = 0  # refused attempts
    answer: str = ""  # to the last attempt

    @property
    def log(self) -> str:
        """A name that no site's own log has."""
        return f"forged-by-{self.holder}.txt"

    @property
    def tried(self) -> int:
        """How many bytes the intruder would have sent."""
        return self.attempts * len(FORGED)


def intruders(sites: Sequence[str]) -> list[Intruder]:
    """Two intruders: a known name with a certificate of an unknown CA; and one of *sites* that claims to be another."""
    first, other = sites[0], sites[1] if len(sites) > 1 else "site-2"
    return [
        Intruder(f"another CA's {first}", STRANGER, first),
        Intruder(f"{first} as {other}", first, other),
    ]
