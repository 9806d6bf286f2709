"""Checks of a receiver's store: whether it exists and is free, its speed, and its space."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from flarelog.checks.row import Row, fail, ok, warn
from flarelog.checks.site import descriptors
from flarelog.errors import NotAllowed, NotFound
from flarelog.stores.choose import inspected, there
from flarelog.text import several, sized

SYNC = 0.1  # seconds for a small durable write before a row warns
LEAST_FREE, LITTLE_FREE = 64 << 20, 1 << 30  # bytes
_FREE = "free space and inodes there (df -h, df -i): remove old runs, or raise the quota"
_WRITABLE = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EROFS: "mount the file system for writing (mount -o remount,rw), or allow it: ReadWritePaths= in the unit",
}
EXPECTED = {"lost+found", ".tokens.json"}  # allowed before the first start of a receiver
LEAST_INODES, LITTLE_INODES = 100, 10_000


async def shared(url: str) -> AsyncGenerator[Row, None]:
    """The checks of a store that receivers share."""
    async for seen in inspected(url):
        yield Row(seen.check, seen.result, seen.found, seen.fix)


def store(root: Path) -> Iterator[Row]:
    if not root.exists():
        fix = "start flarelog serve, which creates the store; its user must be able to write to the directory above"
        yield warn("store", f"{root} does not exist yet", fix)
        root = next((parent for parent in root.absolute().parents if parent.is_dir()), Path("/"))
    elif not root.is_dir():
        yield fail("store", f"{root} is not a directory", "name a directory, or move the file away")
        return
    elif strangers := _strangers(root):
        found = f"{root} is no store: no receiver has stored anything there, and it holds {strangers}"
        yield fail("store", found, "name the directory that serve --store named, or an empty one")
        return
    else:
        yield _lock(root)
    try:
        took = _written(root)
    except OSError as error:
        fix = "make the store writable for the receiver's user: chown it, or ReadWritePaths= in the unit"
        yield fail("writing", f"{root} cannot be written: {error.strerror}", _WRITABLE.get(error.errno or 0, fix))
    else:
        if took > SYNC:
            fix = "use a faster disk, or serve --durability memory, which survives a kill but not a power cut"
            yield warn("writing", f"a small durable write takes {1000 * took:.0f} ms", fix)
        else:
            yield ok("writing", f"a small durable write takes {1000 * took:.1f} ms")
    yield from _letters(root)
    yield from _room(root)
    yield descriptors(5_000, 2)


def _strangers(root: Path) -> str:
    """The entries of *root* that belong to no store, in words; empty if it is a store, or may become one."""
    try:
        there(root)
    except NotFound:
        names = sorted(name for name in os.listdir(root) if name not in EXPECTED)
    except NotAllowed:  # _lock and _written report it
        return ""
    else:
        return ""
    more = len(names) - 1
    return names[0] + (f" and {several(more, 'other')}" if more else "") if names else ""


def _letters(root: Path) -> Iterator[Row]:
    """Whether the file system distinguishes names that differ in case alone."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".flarelog-doctor-a", dir=root) as file:
            other = Path(file.name)
            folds = other.with_name(other.name.swapcase()).exists()
    except OSError:
        return  # reported by _written
    if folds:
        fix = "put the store on a case-sensitive file system, or avoid names that differ only in case"
        yield warn("letters", (f"{root} ignores case in names; the receiver refuses the second of two such names"), fix)
    else:
        yield ok("letters", "the file system tells upper from lower case")


def _lock(root: Path) -> Row:
    """Whether a receiver uses the store. Taking the lock would make a receiver that starts at that moment fail."""
    try:
        inode = os.stat(root / ".lock").st_ino
        locks = Path("/proc/locks").read_text().splitlines()
    except FileNotFoundError:
        return ok("store", f"{root} is there")
    except OSError as error:
        return fail("store", f"{root} cannot be read: {error.strerror}", "run flarelog doctor as the receiver's user")
    taken = any(" FLOCK " in line and line.split()[5].rpartition(":")[2] == str(inode) for line in locks)
    return ok("store", f"{root} exists, and {('a' if taken else 'no')} receiver is using it")


def _written(directory: Path) -> float:
    """The median of the seconds that a small durable write takes. Raises OSError."""
    times = []
    with tempfile.NamedTemporaryFile(prefix=".flarelog-doctor-", dir=directory) as file:
        for _ in range(5):
            began = time.monotonic()
            file.write(b"a line of a log, as long as most of them are\n" * 20)
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - began)
    return sorted(times)[2]


def _room(root: Path) -> Iterator[Row]:
    found = os.statvfs(root)
    free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    said = f"{sized(free)} of {sized(whole)} are free"
    fix = f"free space on the file system of {root}, or limit runs with serve --max-run-bytes"
    yield _enough("space", free, LEAST_FREE, LITTLE_FREE, said, fix)
    if found.f_files:
        said = f"{found.f_favail:,} of {found.f_files:,} inodes are free; a log takes two"
        fix = f"remove old runs below {root}, or make the file system with more inodes"
        yield _enough("inodes", found.f_favail, LEAST_INODES, LITTLE_INODES, said, fix)


def _enough(check: str, free: int, least: int, little: int, said: str, fix: str) -> Row:
    if free < least:
        return fail(check, said, fix)
    return warn(check, said, fix) if free < little else ok(check, said)
