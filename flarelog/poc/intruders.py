"""Those who try to send what they may not, and what they are told: the receiver refuses them, or they have got in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flarelog.errors import TimedOut
from flarelog.poc.certificates import STRANGER

if TYPE_CHECKING:
    from flarelog.poc.simulation import Simulation

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

    async def try_it(self, simulation: Simulation) -> None:
        """One attempt, until it is refused, has ended, or has heard nothing for a long time."""
        place = simulation.work / "intruders" / self.holder
        (place / "logs").mkdir(parents=True, exist_ok=True)
        with open(place / "logs" / self.log, "ab") as file:
            file.write(FORGED)
        self.attempts += 1
        self.answer = ""
        talk = place / "sidecar.log"
        talk.touch()
        before = talk.stat().st_size
        process = await simulation.run_sidecar(place, self.claims, self.holder, "--once")

        def answered() -> bool:
            heard = talk.read_text(errors="replace")[before:]
            lines = [line for line in heard.splitlines() if self.sentence in line]
            self.answer = re.sub(r"^\S+ (WARNING|ERROR) |; trying again$", "", lines[0]) if lines else ""
            return bool(lines) or process.returncode is not None

        with contextlib.suppress(TimedOut):
            await simulation.until(answered, f"{self.who} is told something")
        answered()  # what it said right before it ended
        self.refused += self.answer != ""
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def intruders(sites: Sequence[str]) -> list[Intruder]:
    """One whose certificate has a name that is known, of a CA that is not; and one of *sites* as another of them."""
    first, other = sites[0], sites[1] if len(sites) > 1 else "site-2"
    return [
        Intruder(f"another CA's {first}", STRANGER, first, "does not know the CA that signed"),
        Intruder(f"{first} as {other}", first, other, f"refuses: certificate '{first}' may not"),
    ]
