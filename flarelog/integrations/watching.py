"""How a child process of the embedding program ends, as the program that waits for it sees it.

The counter of OOM kills is read while the process runs, so that it is known when it rose: a thread does so, where there
is a counter at all.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time

from flarelog.exit_marks import Exit
from flarelog.sources.process.evidence import Evidence


class Watching:
    """Of one process, from its start on."""

    def __init__(self) -> None:
        self._evidence = Evidence(time.monotonic())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="flarelog-watching", daemon=True)
        with contextlib.suppress(RuntimeError):  # there are too many threads
            if self._evidence.counts:
                self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(max(0.0, self._evidence.due - time.monotonic())):
            self._evidence.look(time.monotonic())
            if self._evidence.due == math.inf:
                return

    def stop(self) -> None:
        """Nobody will say how it ended."""
        self._over.set()

    def end(self, pid: int, code: int) -> Exit:
        """It has ended, *pid*, with *code* as of subprocess: negative where it died of a signal. What it used, and
        whether there is a core, only the system knows, and nobody asks it any more.
        """
        self.stop()
        if self._thread.is_alive():
            self._thread.join(1.0)
        status = -code if code < 0 else (code & 0xFF) << 8
        return self._evidence.end(os.urandom(8).hex(), pid, status, None, time.monotonic())
