"""The command: its start, and the passing on of its end.

The command gets the signals unchanged, a process group of its own unless stdin is a terminal, and the descriptors that
it would have without flarelog, except for its outputs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import resource
import signal
import struct
import termios
from collections.abc import Mapping, Sequence

from flarelog.values import frozen

NOT_FOUND, NOT_STARTED = 127, 126
_SIZE_OF_TERMINAL = "HHHH"
ROWS, COLUMNS = 24, 80  # of a terminal of unknown size


@frozen
class Started:
    """A command that was started, or why it was not."""

    pid: int
    own_group: bool
    trouble: OSError | None = None

    @property
    def code(self) -> int:
        """The exit code of a shell where a command cannot be started."""
        missing = self.trouble is not None and self.trouble.errno == errno.ENOENT
        return NOT_FOUND if missing else NOT_STARTED


def start(
    command: Sequence[str], env: Mapping[str, str], out: int, err: int, mask: set[int], terminal: bool, typed: bool
) -> Started:
    """Start *command* with *out* and *err* as its outputs and the signals of *mask* blocked. *terminal*: *out* becomes
    its controlling terminal; *typed*: and its stdin.
    """
    told, tell = os.pipe2(os.O_CLOEXEC)
    own_group = terminal or not os.isatty(0)
    hears_of_children = hear_of_children()

    def become() -> None:
        if terminal:
            os.setsid()
            fcntl.ioctl(out, termios.TIOCSCTTY, 0)
        elif own_group:
            os.setpgid(0, 0)
        # Each descriptor may have the number that the other needs.
        own_out, own_err = (fcntl.fcntl(fd, fcntl.F_DUPFD, 3) for fd in (out, err))
        if typed:
            os.dup2(own_out, 0)
        os.dup2(own_out, 1)
        os.dup2(own_err, 2)
        os.close(own_out)
        os.close(own_err)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores both
            signal.signal(number, signal.SIG_DFL)
        if not hears_of_children:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if callable(signal.getsignal(signal.SIGINT)):  # Python's handler would turn a pending Ctrl-C into an exception
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], list(command), dict(env))  # noqa: S606  it is what is asked for

    pid = os.fork()
    if pid == 0:
        try:
            become()
        except OSError as error:
            os.write(tell, struct.pack("i", error.errno or errno.EIO))
        finally:
            os._exit(NOT_STARTED)
    os.close(tell)
    said = os.read(told, 4)  # ends when the child calls exec, or ends; so its process group is made
    os.close(told)
    if len(said) == 4:
        os.waitpid(pid, 0)
        number: int = struct.unpack("i", said)[0]
        return Started(0, own_group, OSError(number, os.strerror(number), command[0]))
    return Started(pid, own_group)


def advice(trouble: OSError, env: Mapping[str, str]) -> str:
    """The advice for *trouble*, as the end of its sentence: a shell runs a script without a ``#!`` line itself, and the
    kernel refuses it.
    """
    if trouble.errno != errno.ENOEXEC:
        return ""
    import shlex
    import shutil  # rarely needed

    name = str(trouble.filename)
    with contextlib.suppress(OSError):
        path = name if "/" in name else shutil.which(name, path=env.get("PATH")) or name
        with open(path, "rb") as file:
            if b"\0" not in file.read(256):
                return f": begin the script with #!/bin/sh, or run sh {shlex.quote(path)}"
    return ""


def hear_of_children() -> bool:
    """Make the kernel keep the status of ended children for this process; returns whether it did so before."""
    return signal.signal(signal.SIGCHLD, signal.SIG_DFL) != signal.SIG_IGN


def open_terminal(env: Mapping[str, str], *, alike: bool) -> tuple[int, int]:
    """(master, slave) of a new terminal without output processing, as large as flarelog's own; without one, as large as
    *env* says. *alike*: it gets the settings of stdin.
    """
    master, slave = os.openpty()
    set_up = termios.tcgetattr(slave)
    if alike:
        with contextlib.suppress(termios.error):
            set_up = termios.tcgetattr(0)
    set_up[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, set_up)
    if not resize(master):
        rows, columns = _number(env.get("LINES", ""), ROWS), _number(env.get("COLUMNS", ""), COLUMNS)
        with contextlib.suppress(OSError):
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack(_SIZE_OF_TERMINAL, rows, columns, 0, 0))
    return master, slave


def _number(said: str, otherwise: int) -> int:
    return int(said) if re.fullmatch(r"[1-9][0-9]{0,3}", said) else otherwise


def resize(master: int) -> bool:
    """Give the command's terminal the size of flarelog's own; returns whether flarelog has a terminal."""
    for fd in (1, 2, 0):
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(fd, termios.TIOCGWINSZ, struct.pack(_SIZE_OF_TERMINAL, 0, 0, 0, 0))
            if any(struct.unpack(_SIZE_OF_TERMINAL, size)[:2]):
                fcntl.ioctl(master, termios.TIOCSWINSZ, size)
                return True
    return False


def end_as(status: int) -> int:
    """End as a process with the wait *status* did: die of its signal, or return its code.

    PID 1 cannot die of a signal, and returns 128 plus the signal's number.
    """
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    if os.getpid() != 1:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core is enough
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    return 128 - code
