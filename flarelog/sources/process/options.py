"""The options of a command's output: each once, with its default and its help."""

from __future__ import annotations

import math
from typing import Literal

from flarelog.errors import InvalidOption
from flarelog.options import option
from flarelog.values import frozen

SPOOL_MAX = 1 << 30
LEAST = 32 << 10


@frozen
class RunOptions:
    """How a command is run. Raises InvalidOption."""

    log: str = option(
        "",
        "Directory of the logs stdout.log and stderr.log; with --merge and --pty the name of the one log.",
        metavar="NAME",
    )
    merge: bool = option(False, "Keep one log, output.log, of stdout and stderr, in the order of their writes.")
    pty: bool = option(
        False,
        "Give the command a terminal, so that it draws bars and writes line by line. Keep one log.",
    )
    capture: Literal["both", "stdout", "stderr"] = option(
        "both",
        "Keep both outputs, or only this one. The other one passes through unchanged.",
        choices=("both", "stdout", "stderr"),
    )
    copy: bool = option(True, "Copy the output to flarelog's own stdout and stderr.")
    spool: str | None = option(
        None,
        "Directory that keeps the output until it is sent.  [default: in /var/tmp]",
        path="directory",
    )
    spool_max: int = option(
        SPOOL_MAX,
        "Bytes that the spool keeps of each log. The oldest bytes are dropped first.",
        least=LEAST,
        unit="bytes",
    )
    linger: float = option(
        5.0,
        "Seconds to wait at the command's end for its remaining processes and for a receiver.",
        least=0,
        unit="seconds",
    )
    diagnostics: bool = option(
        False, "Turn on torch's error files (TORCHELASTIC_ERROR_FILE) and NCCL's flight recorder."
    )

    def __post_init__(self) -> None:
        if not 0 <= self.linger < math.inf:
            raise InvalidOption(f"linger must be a number of seconds, not {self.linger:g}")
        if self.capture != "both" and (self.merge or self.pty):
            way = "pty" if self.pty else "merge"
            raise InvalidOption(f"{way} keeps both outputs in one log: leave out capture, or {way}")
        if self.spool_max < LEAST:
            raise InvalidOption(f"spool_max must be at least {LEAST} bytes, not {self.spool_max}")
