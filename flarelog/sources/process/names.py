"""What a command's logs are called, and where its spool is.

``{RANK}`` in a name is the variable's value, whichever variable it is. A name that another command holds gets a number:
two commands of one name are two logs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Mapping

from flarelog.names import log_name, run_name, site_name
from flarelog.replace import make_directory
from flarelog.values import frozen

MANY = 1000  # commands of one name at once
_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def filled(name: str, env: Mapping[str, str]) -> str:
    """*name* with the values of the variables in braces; one that is not set is ``none``."""
    return _BRACES.sub(lambda found: _UNFIT.sub("_", env.get(found[1], "")).strip(".") or "none", name)


def default_site(env: Mapping[str, str]) -> str:
    return _fit(env.get("SLURMD_NODENAME") or os.uname().nodename)


def default_run(command: str, env: Mapping[str, str], now: float) -> str:
    """The job's id where a scheduler gave one; else the command's name and the time."""
    job = env.get("SLURM_JOB_ID")
    if job:
        return _fit(f"slurm-{job}")
    return f"{_fit(os.path.basename(command))[:100]}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}"


def _fit(name: str) -> str:
    return _UNFIT.sub("_", name).strip(".")[:120] or "unnamed"


def own_directory(env: Mapping[str, str]) -> str:
    """A directory of this user's for spools, which outlives a reboot where it can. Raises OSError."""
    name = f"flarelog-{os.getuid()}"
    trouble: OSError | None = None
    for base in ("/var/tmp", env.get("TMPDIR") or "/tmp"):  # noqa: S108  it is this user's alone, or not taken
        path = os.path.join(base, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                raise PermissionError(1, "it belongs to another user", path)
            if os.access(path, os.W_OK | os.X_OK):
                return path
            raise PermissionError(13, "it cannot be written", path)
        except OSError as error:
            trouble = error
    raise trouble or FileNotFoundError(base)


@frozen
class Place:
    """Where one command's logs are. The lock is held until the descriptor is closed everywhere."""

    root: str
    log: str  # as asked for, or with a number
    held: str  # the lock's path
    lock: int


def hold(base: str, log: str, *, apart: bool, single: bool = False) -> Place:
    """A place in *base* that no other command holds; *apart*: in a directory of its own. The lock is where the logs
    are: a command within this one asks there. *single*: the log's name is that of one file, and not of a directory.

    Raises OSError, InvalidName.
    """
    for number in range(1, MANY):
        named = log if number == 1 else f"{log or 'run'}-{number}"
        if named:
            log_name(named)
        key = named.replace("/", "+") or "run"
        root = os.path.join(base, key) if apart else base
        held = os.path.join(root, f".{key}.lock")
        make_directory(root, 0o700)
        try:
            lock = _lock(held)
        except FileNotFoundError:  # a command that ended removed the directory meanwhile
            make_directory(root, 0o700)
            lock = _lock(held)
        if lock is not None and (not named or _fits(os.path.join(root, named), single)):
            return Place(root, named, held, lock)
        if lock is not None:
            os.close(lock)
    raise FileExistsError(17, f"{MANY} commands with that name are running", base)


def _fits(path: str, single: bool) -> bool:
    """Whether nothing is at *path*, or what an earlier command of the same form left."""
    return not os.path.lexists(path) or os.path.isdir(path) != single


def discard(place: Place) -> None:
    """Remove the empty directories of a command that had a place of its own, and those of its site and run; not what
    the user named.
    """
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):  # it went with its directory
            os.unlink(place.held)
        for directory, _, _ in os.walk(place.root, topdown=False):
            os.rmdir(directory)
        of_site = os.path.dirname(place.root)
        os.rmdir(of_site)
        os.rmdir(os.path.dirname(of_site))


def _lock(path: str) -> int | None:
    """A descriptor of the file at *path*, locked; None where somebody has it. Raises OSError."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:  # a file system without locks: nobody can tell, and the name stands
            return lock
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        os.close(lock)  # the one who held it removed it meanwhile


def checked(run: str, site: str, log: str) -> None:
    """Raises InvalidName."""
    run_name(run)
    site_name(site)
    if log:
        log_name(log)
