"""Jobs of a site whose logs are not known to be whole at the server: they are sent until they are.

A job is written down before it is launched, and struck out when its process has ended and its logs have their receipts.
What a parent process that was killed left behind, or a drain that failed, is sent when the next one starts, and now and
then. A log may still grow then, because a job's process outlives its parent by seconds: a job is struck out when its
logs have been still for a while. Nothing is sent of jobs that were never written down.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from flarelog.backoff import delay
from flarelog.replace import make_directory

log = logging.getLogger(__name__)

FIRST, LONGEST = 5.0, 600.0  # seconds between two attempts at a job, doubling
STILL = 60.0  # seconds without a change after which the logs of a job that were sent are believed to have ended
KEPT = 14 * 86_400.0  # seconds after which a job is given up whose logs the server does not take

Sizes = dict[str, tuple[int, int, int]]


@dataclass
class _Left:
    """A job that was written down by an earlier process, or whose drain failed."""

    still: float  # since when its files have not changed
    due: float = 0.0
    failures: int = 0  # attempts in a row after which the server did not have all
    sent: Sizes | None = None  # what its files were when all of them were sent


class Unsent:
    """The jobs that are written down in *directory*. *look*: what a job's files are, None when they are gone; *send*:
    whether all of a job's logs have their receipts now; it blocks.
    """

    def __init__(self, directory: str, look: Callable[[str], Sizes | None], send: Callable[[str], bool]) -> None:
        self._directory, self._look, self._send = directory, look, send
        self._running: set[str] = set()
        self._left: dict[str, _Left] = {}
        self._over = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flarelog-unsent", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what is being sent has its own bound."""
        self._over.set()
        self._wake.set()

    def begins(self, job: str) -> None:
        """Write *job* down: it is about to be launched. Raises nothing: a full disk costs no job."""
        self._running.add(job)
        try:
            make_directory(self._directory)
            with open(os.path.join(self._directory, job), "a"):
                pass
        except OSError as error:
            log.warning("job %s: its logs are sent, but not after a crash: %s", job, error)

    def ends(self, job: str, *, whole: bool) -> None:
        """The process of *job* has ended; *whole*: and all of its logs have their receipts."""
        self._running.discard(job)
        if whole:
            self._strike(job)
        else:
            self._wake.set()

    def _strike(self, job: str) -> None:
        self._left.pop(job, None)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._directory, job))

    # --- what is left

    def _run(self) -> None:
        while not self._over.is_set():
            self.attend(time.monotonic())
            self._wake.wait(FIRST)
            self._wake.clear()

    def attend(self, now: float) -> None:
        """Send what is due at *now*, seconds of a clock that cannot be set. Raises nothing: a job whose files cannot be
        looked at is tried again like one that is not taken.
        """
        for job in self._written_down():
            if job in self._running or self._over.is_set():
                continue
            left = self._left.setdefault(job, _Left(now))
            if now < left.due:
                continue
            whole = False
            try:
                whole = self._attended(job, left, now)
            except Exception as error:  # also what the framework's own objects raise
                log.warning("job %s: the rest of its logs was not sent: %s", job, error or type(error).__name__)
            left.due = now + delay(left.failures, FIRST, LONGEST)
            left.failures = 0 if whole else left.failures + 1
            if not whole and self._age(job) > KEPT:
                log.warning(
                    "job %s: no receiver accepted its logs for %g days; the rest is dropped", job, KEPT / 86_400
                )
                self._strike(job)

    def _written_down(self) -> list[str]:
        try:
            return sorted(os.listdir(self._directory))
        except OSError:
            return []

    def _attended(self, job: str, left: _Left, now: float) -> bool:
        """Whether all that there is of *job* is sent, or there is nothing more."""
        found = self._look(job)
        if found is None:
            self._strike(job)
            return True
        if found == left.sent:
            if now - left.still >= STILL:
                self._strike(job)
            return True
        if not self._send(job):
            return False
        log.info("job %s: the rest of its logs, left by an earlier attempt, is sent", job)
        left.sent, left.still = found, now
        return True

    def _age(self, job: str) -> float:
        try:
            return time.time() - os.stat(os.path.join(self._directory, job)).st_mtime
        except OSError:
            return 0.0
