"""The receiver's messages about the simulation's logs, which outlive the memory of a killed process."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

RUN = "poc"
MISSED, OPENED, PAUSED = "EXECUTION_EXCEPTION", "opened", "PAUSE"


def told(work: Path, what: str) -> Counter[tuple[str, str]]:
    """How often the receiver logged *what* for each (site, log)."""
    said = re.compile(rf" {RUN}/([^/ ]+)/([^ ]+): {what} at offset \d")
    with open(work / "receiver.log", errors="replace") as talk:
        return Counter((found[1], found[2]) for line in talk if (found := said.search(line)))
