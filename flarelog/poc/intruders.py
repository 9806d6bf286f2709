"""Those who try to send what they may not, and what they are told: the receiver refuses them, or they have got in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STRANGER = "stranger"  # whose certificate another CA signed

FORGED = b"this line was never written by the site whose name it bears\n"


@dataclass(slots=True)
class Intruder:
    """A sidecar that says it is the site *claims*, with the certificate of *holder*."""

    who: str
    holder: str
    claims: str
    sentence: str  # of the receiver's refusal, as the intruder's sidecar says it
    attempts: int = 0
    refused: int = 0  # of them
    answer: str = ""  # to the last one

    @property
    def log(self) -> str:
        """A name that no site's own log has."""
        return f"forged-by-{self.holder}.txt"

    @property
    def tried(self) -> int:
        """How many bytes it would have sent."""
        return self.attempts * len(FORGED)


def intruders(sites: Sequence[str]) -> list[Intruder]:
    """One whose certificate has a name that is known, of a CA that is not; and one of *sites* as another of them."""
    first, other = sites[0], sites[1] if len(sites) > 1 else "site-2"
    return [
        Intruder(f"another CA's {first}", STRANGER, first, "does not know the CA that signed"),
        Intruder(f"{first} as {other}", first, other, f"refuses: certificate '{first}' is of site"),
    ]
