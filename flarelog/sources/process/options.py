"""What of a command is kept and how: each option once, with its default and what is to be known of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from flarelog.errors import InvalidOption
from flarelog.options import option

SPOOL_MAX = 1 << 30
LEAST = 32 << 10


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a command is run. Raises InvalidOption."""

    log: str = option(
        "",
        "The directory of the two logs, stdout.log and stderr.log; with --merge and --pty the name of the one.",
        metavar="NAME",
    )
    merge: bool = option(False, "One log, output.log, of stdout and stderr together, in the order of their writes.")
    pty: bool = option(
        False,
        "Give the command a terminal to write to, so that it draws progress bars and writes line by line; one log.",
    )
    capture: Literal["both", "stdout", "stderr"] = option(
        "both", "Which outputs are kept; the other one stays as it is.", choices=("both", "stdout", "stderr")
    )
    copy: bool = option(True, "Write everything on to flarelog's own stdout and stderr.")
    spool: str | None = option(
        None,
        "Directory for what the command says until a receiver has it. Without --receiver the logs are files in it, for"
        " a sidecar with that --root.  [default: /var/tmp/flarelog-UID]",
        path="directory",
    )
    spool_max: int = option(
        SPOOL_MAX, "Bytes that the spool keeps of each log; the oldest go first, and become a gap.", least=LEAST
    )
    linger: float = option(
        5.0,
        "Seconds to wait, once the command has ended, for processes that it left behind; and, without progress, for"
        " the receiver.",
        least=0,
    )
    diagnostics: bool = option(
        False, "Let torch write down what went wrong: TORCHELASTIC_ERROR_FILE, and NCCL's flight recorder."
    )

    def __post_init__(self) -> None:
        if not 0 <= self.linger < math.inf:
            raise InvalidOption(f"linger must be a number of seconds, not {self.linger:g}")
        if self.spool_max < LEAST:
            raise InvalidOption(f"spool_max must be at least {LEAST} bytes, not {self.spool_max}")
