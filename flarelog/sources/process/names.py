"""The names of a command's logs, and the place of its spool.

``{RANK}`` in a name is the value of a variable, any variable. A name that another command holds gets a number: two
commands of one name are two logs.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import BinaryIO

from flarelog import locks
from flarelog.errors import InvalidName, NotAllowed
from flarelog.names import MAX_PART, log_of, run_name, site_name
from flarelog.replace import make_directory
from flarelog.text import quoted
from flarelog.values import frozen

MANY = 1000  # commands of one name at the same time
_MOST = 64 << 10  # bytes of a lock file that are read
_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_OWN = re.compile(  # hidden files that flarelog makes in a spool, and NFS where an open file is removed
    r"(?:[^./][^/]*/)*\.[^/]+\.(?:spool|lead|lead\.new|next)|\.[^/]+\.lock|(?:.*/)?\.nfs[0-9a-f]+"
)


def filled(name: str, env: Mapping[str, str]) -> str:
    """*name* with the values of the variables in braces; an unset one becomes ``none``."""
    return _BRACES.sub(lambda found: _UNFIT.sub("_", env.get(found[1], "")).strip(".") or "none", name)


def default_site(env: Mapping[str, str]) -> str:
    return _fit(env.get("SLURMD_NODENAME") or os.uname().nodename)


def default_run(command: str, env: Mapping[str, str], now: float) -> str:
    """The job's id if a scheduler set one; otherwise the command's name and the time."""
    job = env.get("SLURM_JOB_ID")
    if job:
        return _fit(f"slurm-{job}")
    return f"{_fit(os.path.basename(command))[:100]}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}"


def _fit(name: str) -> str:
    return _UNFIT.sub("_", name).strip(".")[:120] or "unnamed"


def own_directory(env: Mapping[str, str], say: Callable[[str], None], lasting: str = "/var/tmp") -> str:  # noqa: S108
    """A directory of this user alone for spools, in *lasting* where possible, which survives a reboot. If another user
    has taken its usual name, it has another one, and *say* gets a sentence. Raises OSError.
    """
    name = f"flarelog-{os.getuid()}"
    bases = (lasting, env.get("TMPDIR") or "/tmp")  # noqa: S108  it is this user's alone, or not taken
    trouble = OSError()
    for base in bases:
        path = os.path.join(base, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            if not _is_own(path):
                other = _private(base, f"{name}-")
                say(f"{path} is not a directory of this user alone: the spool is in {other}")
                return other
            if os.access(path, os.W_OK | os.X_OK):
                return path
            raise PermissionError(13, "it cannot be written", path)
        except OSError as error:
            trouble = error
    raise trouble


def _is_own(path: str) -> bool:
    """Whether *path* is a directory, not a link to one, that only this user can write. Raises OSError."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _private(base: str, prefix: str) -> str:
    """A directory of this user alone in *base*: an earlier one, which may have unsent output, or a new one with an
    unpredictable name. Raises OSError.
    """
    for name in sorted(name for name in os.listdir(base) if name.startswith(prefix)):
        with contextlib.suppress(OSError):
            path = os.path.join(base, name)
            if _is_own(path) and os.access(path, os.W_OK | os.X_OK):
                return path
    import tempfile  # imported late, to keep a command's start fast

    return tempfile.mkdtemp(prefix=prefix, dir=base)


@frozen
class Place:
    """The place of one command's logs. The lock is held until every copy of its descriptor is closed."""

    root: str
    log: str  # as requested, or with a number
    held: str  # the lock's path
    lock: int


def hold(base: str, log: str, *, apart: bool, logs: Callable[[str], Collection[str]]) -> Place:
    """Lock a place in *base* that no other command holds. *apart*: in a directory of its own; *logs*: the logs that the
    command writes under a name. The lock is beside the logs, because a nested command looks there.

    Raises OSError, InvalidName.
    """
    for number in range(1, MANY):
        named = log if number == 1 else f"{log or 'run'}-{number}"
        key = _key(named)
        root = os.path.join(base, key) if apart else base
        held = os.path.join(root, lock_name(key))
        make_directory(root, 0o700)
        try:
            lock = _lock(held)
        except FileNotFoundError:  # a command that ended removed the directory in the meantime
            make_directory(root, 0o700)
            lock = _lock(held)
        if lock is None:
            continue
        place = Place(root, named, held, lock)
        if not named or _fits(os.path.join(root, named), named in logs(named)):
            claim = _Claim(tuple(logs(named)), apart, log)
            _write(lock, claim)  # before the other locks are read: of two concurrent commands, one sees the other
            if not any(_in_the_way(path, claim.logs) for path in _locks_beside(place, apart=apart)):
                return place
        if apart:
            discard(place)
        os.close(lock)
    raise FileExistsError(17, f"{MANY} commands with that name are running", base)


def _fits(path: str, single: bool) -> bool:
    """Whether *path* is free, or left by an earlier command with the same number of logs."""
    return not os.path.lexists(path) or os.path.isdir(path) != single


@frozen
class _Claim:
    """The content of a lock file: its holder's logs, and whether their directory is the holder's own."""

    logs: tuple[str, ...]
    apart: bool
    name: str | None = None  # as requested, without a number


def _key(log: str) -> str:
    """The name of the directory of a command's log. Raises InvalidName."""
    return (log and spooled_log(log).replace("/", "+")) or "run"


def spooled_log(log: str) -> str:
    """The name of the log in the file at *log*. Raises InvalidName if it cannot be a file of a spool."""
    if any(len(os.fsencode(part)) > MAX_PART for part in log.split("/")):
        raise InvalidName(f"the log's name {quoted(log)} has a part of more than {MAX_PART} bytes: shorten it")
    if "{" in log or "}" in log:
        raise InvalidName(
            f"the log's name is {quoted(log)}; braces stand around the name of a variable, as in {{RANK}}"
        )
    return log_of(log)


def lock_name(key: str) -> str:
    """The name of the lock in the directory of the spool *key*."""
    return f".{key}.lock"


def is_spool(directory: str, names: Collection[str]) -> bool:
    """Whether *directory*, with the files *names*, is that of a command that has a place of its own."""
    return lock_name(os.path.basename(directory)) in names


def _write(lock: int, claim: _Claim) -> None:
    with contextlib.suppress(OSError):  # on a full disk the lock still guards its own name
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"logs": claim.logs, "apart": claim.apart, "name": claim.name}).encode(), 0)


def _claim(path: str) -> _Claim:
    """The content of the lock at *path*; empty if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), _opened(path) as file:
        said = json.loads(file.read(_MOST))
        return _Claim(tuple(map(str, said["logs"])), bool(said["apart"]), said.get("name"))
    return _Claim((), apart=False)


def _opened(path: str) -> BinaryIO:
    """Open *path* without blocking, because a user's directory may hold a FIFO. Raises OSError."""
    return open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def _locks_beside(place: Place, *, apart: bool) -> Iterator[str]:
    """The locks of the other commands of the same run and site, in the directories known here."""
    root = os.path.abspath(place.root)
    own = os.path.join(root, os.path.basename(place.held))
    roots = [root]
    if apart or _claim(os.path.join(root, lock_name(os.path.basename(root)))).apart:  # of the command around this one
        above = os.path.dirname(root)
        roots = [os.path.join(above, name) for name in os.listdir(above)]
    for directory in roots:
        with contextlib.suppress(OSError):  # a file, or a directory that is gone
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                if name.startswith(".") and name.endswith(".lock") and path != own:
                    yield path


def _in_the_way(path: str, logs: Collection[str]) -> bool:
    """Whether the holder of the lock at *path* writes one of *logs*, or a path that conflicts with one."""
    others = _claim(path).logs
    return any(_meet(log, other) for log in logs for other in others) and _is_held(path)


def _meet(log: str, other: str) -> bool:
    # A file *other* above the directory of *log* is left out: a number after the name would not help.
    return log == other or other.startswith(f"{log}/") or os.path.dirname(log) == other


def _is_held(path: str) -> bool:
    with contextlib.suppress(OSError), _opened(path) as file:
        return locks.take(file.fileno(), shared=True) is False
    return False  # the lock file is gone


def left_beside(place: Place, log: str) -> Iterator[Place]:
    """The spools beside *place* that other commands of the name *log* left, in the order of their numbers. Each is
    locked until the next one is asked for. Those that somebody has are left out.
    """
    key = _key(log)
    numbered = re.compile(re.escape(key) + r"(?:-([0-9]{1,9}))?")
    base = os.path.dirname(place.root)
    with contextlib.suppress(OSError):
        found = {name: int(number[1] or 1) for name in os.listdir(base) if (number := numbered.fullmatch(name))}
        for name in sorted(found, key=found.__getitem__):
            root = os.path.join(base, name)
            held = os.path.join(root, lock_name(name))
            if root == place.root or _claim(held).name != log:
                continue
            with contextlib.suppress(OSError):  # it goes at this moment
                lock = _lock(held)
                if lock is None:
                    continue
                try:
                    yield Place(root, log if found[name] == 1 else f"{log or 'run'}-{found[name]}", held, lock)
                finally:
                    os.close(lock)


@frozen
class Spool:
    """A spool in a directory of spools: RUN/SITE/NAME."""

    run: str
    site: str
    root: str


def spools(base: str) -> Iterator[Spool]:
    """The spools that commands of ``flarelog run`` made in *base*, and may still write."""
    for lock in sorted(glob.iglob(os.path.join(glob.escape(base), "*", "*", "*", ".*.lock"))):
        run, site, _, name = lock.split("/")[-4:]
        if is_spool(root := os.path.dirname(lock), [name]):
            yield Spool(run, site, root)


def lock_all(root: str) -> list[int]:
    """Lock the spool *root* until this process ends: no flarelog run writes to it then. Raises NotAllowed, OSError."""
    found = [name for name in os.listdir(root) if name.startswith(".") and name.endswith(".lock")]
    held = [_lock(os.path.join(root, name)) for name in found]
    if None in held:
        raise NotAllowed(f"a flarelog run, or this command, has the spool {root}: run this command after its end")
    return [lock for lock in held if lock is not None]


def hidden_files(root: str) -> list[str]:
    """The paths, relative to the spool *root*, of the hidden files that flarelog did not make: a sidecar sends none."""
    found = []
    for directory, _, files in os.walk(root):
        for name in files:
            path = os.path.join(directory, name)
            within = os.path.relpath(path, root)
            if "/." in f"/{within}" and not _OWN.fullmatch(within):
                with contextlib.suppress(OSError):
                    if stat.S_ISREG(os.lstat(path).st_mode):  # a link or a FIFO has no bytes of its own
                        found.append(within)
    return sorted(found)


def remove(root: str) -> None:
    """Remove the spool *root*, and the empty directories of its site and run."""
    import shutil  # imported late, to keep a command's start fast

    shutil.rmtree(root, ignore_errors=True)
    with contextlib.suppress(OSError):
        _leave(root)


def discard(place: Place) -> None:
    """Remove the empty directories of a command that had a place of its own, and the empty ones of its site and run;
    keep the directory that the user named.
    """
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):  # the lock file went with its directory
            os.unlink(place.held)
        for directory, _, _ in os.walk(place.root, topdown=False):
            os.rmdir(directory)
        _leave(place.root)


def _leave(root: str) -> None:
    """Remove the directories of the site and the run of the removed spool *root*. Raises OSError if one has files."""
    of_site = os.path.dirname(root)
    os.rmdir(of_site)
    os.rmdir(os.path.dirname(of_site))


def _lock(path: str) -> int | None:
    """A descriptor of the file at *path*, locked; None where another process holds the lock. Raises OSError."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if locks.take(lock) is False:
            os.close(lock)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        os.close(lock)  # the previous holder removed the file in the meantime


def checked(run: str, site: str, log: str, *, alone: bool = False) -> None:
    """Check the names. *alone*: *log* is a file, not a directory of two. Raises InvalidName."""
    run_name(run)
    site_name(site)
    if log:
        spooled_log(log)
    if alone and os.path.basename(log).startswith("."):
        raise InvalidName(f"the log's name is {quoted(log)}; a hidden file is not sent: choose a name without the dot")
