"""Jobs of a site whose logs may be incomplete at the server: their logs are sent again until they are complete.

A job is recorded before its launch, and removed once its process has ended and its logs have their receipts. The record
is a file that says how the process has ended, if that is known. Logs left by a killed parent process or a failed drain
are sent when the next parent process starts, and retried now and then. Such a log may still grow, because a job's
process outlives its parent by seconds: a job is removed only when its logs have not changed for a while. Jobs without a
record are never sent.
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
from flarelog.exit_marks import Exit
from flarelog.replace import make_directory
from flarelog.sources.spool.record import ending, ending_line

log = logging.getLogger(__name__)

FIRST, LONGEST = 5.0, 600.0  # seconds between two attempts at a job, doubling
STILL = 60.0  # seconds without a change before the sent logs of a job count as ended
KEPT = 14 * 86_400.0  # seconds before a job is given up whose logs the server does not accept

Sizes = dict[str, tuple[int, int, int]]


@dataclass
class _Left:
    """A job that an earlier process recorded, or whose drain failed."""

    still: float  # time of the last change of its files
    due: float = 0.0
    failures: int = 0  # attempts in a row after which the server did not have all bytes
    sent: Sizes | None = None  # the files' sizes when all of them were sent


class Unsent:
    """The jobs recorded in *directory*. *look*: the sizes of a job's files, None if they are gone. *send*: sends the
    job's logs, and how its process has ended if known, and returns whether all have their receipts; it blocks.
    *forget*: called when a job is removed.
    """

    def __init__(
        self,
        directory: str,
        look: Callable[[str], Sizes | None],
        send: Callable[[str, Exit | None], bool],
        forget: Callable[[str], object] = lambda job: None,
    ) -> None:
        self._directory, self._look, self._send, self._forget = directory, look, send, forget
        self._running: set[str] = set()
        self._begun: set[str] = set()  # jobs of this process, which a full disk may keep from being recorded
        self._exits: dict[str, Exit] = {}  # by job: the end of its process that could not be recorded yet
        self._left: dict[str, _Left] = {}
        self._over = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flarelog-unsent", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Start no further job; the present one has its own bound."""
        self._over.set()
        self._wake.set()

    def begins(self, job: str) -> None:
        """Record *job* before its launch. Raises nothing: a full disk must not fail the job."""
        self._running.add(job)
        self._begun.add(job)
        try:
            make_directory(self._directory)
            with open(self._record(job), "a"):
                pass
        except OSError as error:
            log.warning("job %s: its logs are sent, but not after a crash: %s", job, error)

    def exited(self, job: str, how: Exit | None) -> None:
        """Record *how* the process of *job* has ended, for logs that are sent later; None: nobody knows."""
        if how is not None:
            self._exits[job] = how
            self._note(job)

    def _note(self, job: str) -> None:
        """Write down how the process of *job* has ended; a full disk delays that."""
        if (how := self._exits.get(job)) is not None:
            with contextlib.suppress(OSError):
                with open(self._record(job), "wb") as file:
                    file.write(ending_line(how))
                del self._exits[job]

    def _record(self, job: str) -> str:
        return os.path.join(self._directory, job)

    def ends(self, job: str, *, whole: bool) -> None:
        """The process of *job* has ended; *whole*: all of its logs have their receipts."""
        self._running.discard(job)
        if whole:
            self._strike(job)
        else:
            self._wake.set()

    def _strike(self, job: str) -> None:
        self._left.pop(job, None)
        self._exits.pop(job, None)
        self._begun.discard(job)
        with contextlib.suppress(OSError):
            os.unlink(self._record(job))
        self._forget(job)

    # --- recorded jobs

    def _run(self) -> None:
        while not self._over.is_set():
            self.attend(time.monotonic())
            self._wake.wait(FIRST)
            self._wake.clear()

    def attend(self, now: float) -> None:
        """Send the jobs that are due at *now* (monotonic seconds). Raises nothing: a job whose files cannot be read is
        retried like one that the server refuses.
        """
        for job in self._known():
            if job in self._running or self._over.is_set():
                continue
            left = self._left.setdefault(job, _Left(now))
            if now < left.due:
                continue
            whole = False
            self._note(job)
            try:
                whole = self._attended(job, left, now)
            except Exception as error:  # also exceptions of the framework's own objects
                log.warning("job %s: the rest of its logs was not sent: %s", job, error or type(error).__name__)
            left.due = now + delay(left.failures, FIRST, LONGEST)
            left.failures = 0 if whole else left.failures + 1
            if not whole and self._age(job) > KEPT:
                log.warning(
                    "job %s: no receiver accepted its logs for %g days; the rest is dropped", job, KEPT / 86_400
                )
                self._strike(job)

    def _known(self) -> list[str]:
        recorded = set[str]()
        with contextlib.suppress(OSError):
            recorded.update(os.listdir(self._directory))
        return sorted(recorded | self._begun)

    def _attended(self, job: str, left: _Left, now: float) -> bool:
        """Whether all of *job* is sent, or its files are gone."""
        found = self._look(job)
        if found is None:
            log.warning("job %s: its directory is gone; what the server does not have of its logs is lost", job)
            self._strike(job)
            return True
        if found == left.sent:
            if now - left.still >= STILL:
                self._strike(job)
            return True
        if not self._send(job, self._exits.get(job) or ending(self._record(job))):
            return False
        log.info("job %s: the rest of its logs, left by an earlier attempt, is sent", job)
        left.sent, left.still = found, now
        return True

    def _age(self, job: str) -> float:
        try:
            return time.time() - os.stat(self._record(job)).st_mtime
        except OSError:
            return 0.0
