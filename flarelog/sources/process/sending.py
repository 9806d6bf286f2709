"""The sidecar of a spool: a process that is started beside the command, and again when it was killed.

It drains when its stdin ends, which guard and spooler hold: so it does when both are gone, however they ended. Its last
line on stdout names the files that the site's policy leaves out. Those are kept, whatever became of the others; and
where no line told it, nothing is removed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from flarelog.errors import CONFIGURATION, GAPS, NOT_ALLOWED, OK, USAGE
from flarelog.locks import has_the_word
from flarelog.sources.process.names import Place, discard
from flarelog.sources.spool import beside, lead_path, log_of
from flarelog.text import legible

_FIRST, _LONGEST = 0.5, 30.0  # seconds before it is started again
_TRIES = 3  # once the command has ended
_WORD = 0.5  # seconds that the last words wait for a line that the sidecar is saying
_NAMED = 3  # logs that are named where some were left out
_FINAL = (USAGE, NOT_ALLOWED, CONFIGURATION)


class Sending:
    """The sidecar with the arguments *argv*, over the spool at *place*; *later* sends the rest by hand."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], place: Place, later: str, say: Callable[[str], None]
    ) -> None:
        self.due = math.inf  # when it is to be started again
        self.over = False  # it has ended, and is not started again
        self._argv, self._env, self._place, self._later, self._say = list(argv), env, place, later, say
        self._root = place.root
        self._leash, self._hold = os.pipe2(os.O_CLOEXEC)
        self._pid = 0
        self._said = -1
        self._finishing = False
        self._tries = 0
        self._wait = _FIRST
        self._began_again = 0.0
        self._stored = False
        self._refused = False

    def start(self, mask: set[int]) -> None:
        """Start the sidecar. What it says goes to stderr."""
        self.due, self._began_again = math.inf, time.monotonic()
        if self._said >= 0:
            os.close(self._said)
        self._said = _paper()
        try:
            self._pid = os.posix_spawn(
                self._argv[0],
                self._argv,
                self._env,
                file_actions=[(os.POSIX_SPAWN_DUP2, self._leash, 0), (os.POSIX_SPAWN_DUP2, self._said, 1)],
                setsigmask=mask,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
                setsid=True,
            )
        except OSError as error:
            self._say(f"the sidecar cannot be started: {error.strerror}")
            self._retry()

    def ended(self, pid: int, status: int, now: float) -> None:
        """A process ended that may have been the sidecar."""
        if pid != self._pid:
            return
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        self._refused = code == NOT_ALLOWED
        if self._finishing and code in (OK, GAPS):
            self.over = self._stored = True
        elif code in _FINAL or (code >= 0 and self._finishing):
            self.over = True
        elif code in (OK, GAPS):
            self.over = True  # the run has ended at the receiver
        else:
            if now - self._began_again > _LONGEST:
                self._wait = _FIRST
            self._retry()

    def _retry(self) -> None:
        self._tries += self._finishing
        if self._tries >= _TRIES:
            self.over = True
            return
        self.due = time.monotonic() + self._wait
        self._wait = min(2 * self._wait, _LONGEST)

    def finish(self) -> None:
        """Nothing more is spooled: the sidecar drains."""
        self._finishing = True
        self.let_go()
        if not self._pid and self.due < math.inf:
            self.due, self._wait = 0.0, _FIRST

    def stop(self) -> None:
        """What is not sent by now is left. Whoever sends it later is alone, nothing is said behind the last words."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Hold the sidecar no longer."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def conclude(self, *, left: bool) -> None:
        """Remove what is stored; of the rest, say where it is. *left*: the spool is still written to."""
        self._have_the_word()
        kept = self._left_out()
        later = f"sends it: {self._later}"
        if kept == []:
            # What is lost already keeps nobody from removing the rest once it is stored.
            later = f"sends and removes it: {self._later} --accept-gaps && {removal(self._root)}"
        if left:
            self._say(
                f"the sidecar continues to send it from {self._root} for as long as a receiver answers; when the output"
                f" has ended, this command {later}"
            )
            return
        if self._stored and kept is not None:
            self._remove(kept)
        elif self._refused:
            self._say(
                f"not all of it was sent, for the reason above; {self._root} keeps it, and when that reason is"
                f" gone, this command {later}"
            )
        else:
            self._say(f"the receiver does not have all of it; {self._root} keeps the rest, and this command {later}")
        if kept:
            logs = sorted({legible(log_of(self._root, path)) for path in kept})
            named = ", ".join(logs[:_NAMED]) + (f" and {len(logs) - _NAMED:,} more" if len(logs) > _NAMED else "")
            self._say(f"the site's policy leaves out {named}: {self._root} keeps what was not sent")

    def _have_the_word(self) -> None:
        """The sidecar, which asks for the word before each line, says nothing from now on."""
        until = time.monotonic() + _WORD
        while self._said >= 0 and not has_the_word(self._said) and time.monotonic() < until:
            time.sleep(0.005)

    def _left_out(self) -> list[str] | None:
        """The files below the root that the site's policy leaves out; None where the sidecar has not said it."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            said = os.pread(self._said, os.fstat(self._said).st_size, 0)
            return list(map(str, json.loads(said.split(b"\n")[-2])))
        return None

    def _remove(self, kept: Sequence[str]) -> None:
        """Remove the spool but the files *kept*, and what is written down beside them."""
        import shutil  # the command began long ago

        if not kept:
            shutil.rmtree(self._root, ignore_errors=True)
            discard(self._place)
            return
        paths = {os.path.join(self._root, path) for path in kept}
        records = {beside(path) for path in paths}
        paths |= records | {lead_path(path) for path in records}
        for directory, _, names in os.walk(self._root, topdown=False):
            for name in names:
                if (path := os.path.join(directory, name)) not in paths:
                    with contextlib.suppress(OSError):
                        os.unlink(path)
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def removal(root: str) -> str:
    """What a shell removes the spool *root* with, and the directories of its site and run where nothing else is in
    them, as ``discard`` does.
    """
    of_site = os.path.dirname(root)
    empty = ["rmdir", "--ignore-fail-on-non-empty", of_site, os.path.dirname(of_site)]
    return f"{shlex.join(['rm', '-r', root])} && {shlex.join(empty)}"


def _paper() -> int:
    """What the sidecar can write on without waiting; on the null device where there is no memory for it."""
    try:
        return os.memfd_create("said", os.MFD_CLOEXEC)
    except OSError:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
