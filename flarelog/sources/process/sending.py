"""The sidecar of a spool: a process beside the command, restarted when it was killed.

The sidecar drains when its stdin closes, which guard and spooler hold: it drains once both are gone, however they
ended. Its last line on stdout names the files that the site's policy leaves out. Those files are always kept; without
that line nothing is removed.

A spool has one sidecar at a time, which holds the lock of the spool's directory. The sidecar of an earlier command may
outlive its guard, and has files open that the spool has dropped since: a second sidecar would take the streams away
from it, or lose them to it. So the guard waits for the lock before it starts its own; the command never waits.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from flarelog.errors import CONFIGURATION, GAPS, NOT_ALLOWED, OK, USAGE
from flarelog.locks import has_the_word, take
from flarelog.sources.process.names import Place, hidden_files, remove
from flarelog.sources.spool.record import beside, lead_path, log_of
from flarelog.text import legible, some

_FIRST, _LONGEST = 0.5, 30.0  # seconds before a restart
_TRIES = 3  # once the command has ended
_TURN = 0.1  # seconds between two tries for the lock
_ENDS = 1.0  # seconds that an earlier command's sidecar may take to end after its --linger
_WORD = 0.5  # seconds that the last messages wait for a line that the sidecar is writing
_NAMED = 3  # files that a message names
_FINAL = (USAGE, NOT_ALLOWED, CONFIGURATION)


class Sending:
    """The sidecar with the arguments *argv*, over the spool at *place*; *later*: the command that sends the rest;
    *linger*: seconds that the sidecar waits for a receiver once the command has ended; *what*: messages name the
    spool's content so.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        place: Place,
        later: str,
        say: Callable[[str], None],
        linger: float,
        what: str = "it",
    ) -> None:
        self.due = math.inf  # the time of the sidecar's next start, or of the end of one that is stopped
        self.over = False  # the sidecar has ended, and is not restarted
        self.stored = False  # the receiver has all of it, but for what the site's policy leaves out
        self._argv, self._env, self._later, self._say = list(argv), env, later, say
        self._root = place.root
        self._turn = -1  # the descriptor of the spool's directory, whose lock the sidecar shares
        self._linger = linger
        self._turn_at = math.inf  # the time at which the sidecar starts without the lock
        self._leash, self._hold = os.pipe2(os.O_CLOEXEC)
        self._pid = 0
        self._stopped = False  # by SIGSTOP
        self._said = -1
        self._finishing = False
        self._tries = 0
        self._wait = _FIRST
        self._began_again = 0.0
        self._what = what
        self._refused = False

    def act(self, mask: set[int]) -> None:
        """Do what is due: start the sidecar, or end one that is stopped."""
        self.due = math.inf
        if not self._stopped:
            self.start(mask)
            return
        self._say(f"the sidecar is stopped, and has not continued within {self._linger:g} s: it is killed")
        self.stop()
        self.over = True

    def start(self, mask: set[int]) -> None:
        """Start the sidecar, or set ``due`` while an earlier one has the lock. Its messages go to stderr."""
        if not self.is_alone():
            self.due = time.monotonic() + _TURN
            return
        self.due, self._began_again = math.inf, time.monotonic()
        if self._said >= 0:
            os.close(self._said)
        self._said = _paper()
        try:
            self._pid = os.posix_spawn(
                self._argv[0],
                self._argv,
                self._env,
                # A descriptor that is duplicated onto itself stays open in the sidecar, and so does the lock.
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, self._leash, 0),
                    (os.POSIX_SPAWN_DUP2, self._said, 1),
                    *([(os.POSIX_SPAWN_DUP2, self._turn, self._turn)] if self._turn >= 0 else []),
                ],
                setsigmask=mask,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
                setsid=True,
            )
        except OSError as error:
            self._say(f"the sidecar cannot be started: {error.strerror}")
            self._retry()

    def is_alone(self) -> bool:
        """Whether no sidecar of an earlier command sends from the spool, and none will; or the wait for it is over."""
        if self._turn < 0:
            self._turn_at = time.monotonic() + self._linger + _ENDS
            try:
                self._turn = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                return True
        return take(self._turn) is not False or time.monotonic() >= self._turn_at

    def ended(self, pid: int, status: int, now: float) -> None:
        """Handle the end of a process, which may be the sidecar."""
        if pid != self._pid:
            return
        self._pid, self._stopped = 0, False
        code = os.waitstatus_to_exitcode(status)
        self._refused = code == NOT_ALLOWED
        self.stored = self._finishing and code in (OK, GAPS)
        if code in (OK, GAPS, *_FINAL) or (code >= 0 and self._finishing):
            self.over = True  # OK and GAPS before the command's end: the run has ended at the receiver
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

    def stopped(self, pid: int) -> None:
        """Handle a stop of a process, which may be the sidecar: after the command's end it has *linger* seconds."""
        if pid == self._pid:
            self._stopped = True
            if self._finishing:
                self.due = time.monotonic() + self._linger

    def continued(self, pid: int) -> None:
        if pid == self._pid:
            self._stopped, self.due = False, math.inf

    def finish(self) -> None:
        """Let the sidecar drain: nothing more is spooled."""
        self._finishing = True
        self.let_go()
        if self._stopped:
            self.stopped(self._pid)
        elif not self._pid and self.due < math.inf:
            self.due, self._wait = 0.0, _FIRST

    def stop(self) -> None:
        """Kill the sidecar, so that a later sender is alone and no message follows the last ones. Unsent bytes stay."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Close this process's end of the sidecar's stdin."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def conclude(self, *, left: bool) -> None:
        """Remove what is stored, and say where the rest is. *left*: processes still write to the spool."""
        self._have_the_word()
        kept, hidden = self._left_out(), hidden_files(self._root)
        later = f"sends it: {self._later}"
        if kept == hidden == []:
            # Bytes already lost are no reason to keep the rest once it is stored.
            later = f"sends and removes it: {self._later} --accept-gaps --remove-spool"
        if left and self._stopped:
            self.stop()
            self._say(
                f"the sidecar is stopped, and is killed; {self._root} keeps the output, and when it has ended, this"
                f" command {later}"
            )
            return
        if left:
            self._say(
                f"the sidecar continues to send it from {self._root} for as long as a receiver answers; when the output"
                f" has ended, this command {later}"
            )
            return
        if self.stored and kept is not None:
            self._remove([*kept, *hidden])
        elif self._refused:
            self._say(
                f"not all of {self._what} was sent, for the reason above; {self._root} keeps it, and when that reason"
                f" is gone, this command {later}"
            )
        else:
            self._say(
                f"the receiver does not have all of {self._what}; {self._root} keeps the rest, and this command {later}"
            )
        if kept:
            logs = sorted({legible(log_of(self._root, path)) for path in kept})
            self._say(f"the site's policy leaves out {some(logs, _NAMED)}: {self._root} keeps what was not sent")
        if hidden:
            self._say(f"hidden files are not sent: {self._root} keeps {some(list(map(legible, hidden)), _NAMED)}")

    def close(self) -> None:
        """Release the descriptors. A sidecar that was killed has the spool's lock until the kernel has ended it."""
        self.let_go()
        for descriptor in (self._leash, self._turn, self._said):
            if descriptor >= 0:
                os.close(descriptor)

    def _have_the_word(self) -> None:
        """Silence the sidecar, which takes a lock before each line."""
        until = time.monotonic() + _WORD
        while self._said >= 0 and not has_the_word(self._said) and time.monotonic() < until:
            time.sleep(0.005)

    def _left_out(self) -> list[str] | None:
        """The files below the root that the site's policy leaves out; None where the sidecar has not named them."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            said = os.pread(self._said, os.fstat(self._said).st_size, 0)
            return list(map(str, json.loads(said.split(b"\n")[-2])))
        return None

    def _remove(self, kept: Sequence[str]) -> None:
        """Remove the spool except for the files *kept* and the records beside them."""
        if not kept:
            remove(self._root)
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


def _paper() -> int:
    """A file that the sidecar can write without blocking; the null device when out of memory."""
    try:
        return os.memfd_create("said", os.MFD_CLOEXEC)
    except OSError:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
