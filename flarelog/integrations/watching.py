"""How a child process of the embedding program ended, with the evidence for it.

A thread reads the counter of OOM kills while the process runs, so that the time of a rise is known. Without a counter
there is no thread.
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
    """The watch over one process, begun before its start."""

    def __init__(self) -> None:
        self._evidence = Evidence(time.monotonic())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="flarelog-watching", daemon=True)
        with contextlib.suppress(RuntimeError):  # there are too many threads
            if self._evidence.due < math.inf:
                self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(max(0.0, self._evidence.due - time.monotonic())):
            self._evidence.look(time.monotonic())

    def stop(self) -> None:
        """Stop watching: the end of the process will not be known."""
        self._over.set()

    def end(self, pid: int, code: int) -> Exit:
        """The end of the process *pid*, with *code* as in subprocess: negative for a signal. Its resource usage
        and whether it dumped core are unknown: only wait4(2) reports those, once.
        """
        self.stop()
        if self._thread.is_alive():
            self._thread.join(1.0)
        status = -code if code < 0 else (code & 0xFF) << 8
        return self._evidence.end(os.urandom(8).hex(), pid, status, None, time.monotonic())
