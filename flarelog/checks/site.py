"""The logs of a site: whether they may leave, can be read and named, and how their changes are noticed."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flarelog.checks.row import Row, fail, ok, warn
from flarelog.errors import FlarelogError
from flarelog.names import log_name
from flarelog.sources.consent import in_force
from flarelog.sources.files.identity import identity, remote, witness
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.watch import InotifyWatch

FILES = 200_000  # that are looked at under a root
_INOTIFY = "/proc/sys/fs/inotify"


def source_of(
    root: str, include: Sequence[str], exclude: Sequence[str], site_policy: Sequence[str]
) -> SourceOptions | Row:
    """What a sidecar would send; a row where nothing may be sent."""
    try:
        sites = in_force(*site_policy)
        for site in sites:
            site.demand()
        return SourceOptions(root, tuple(include), tuple(exclude), sites=sites)
    except FlarelogError as error:
        return fail("consent", str(error), "ask the site's administrator, or correct the patterns")


def under(source: SourceOptions) -> Iterator[Row]:
    if source.sites:
        yield ok("consent", f"{', '.join(site.where for site in source.sites)}: logs may leave")
    root = source.root
    if not os.path.isdir(root):
        yield warn("root", f"{root} is not there", "make it, or look at the path; a sidecar waits until it appears")
        return
    files, directories, closed, unnamed, alike = _walked(source)
    if closed:
        yield fail(
            "root", f"{_some(closed)} cannot be read by this user", "let it: setfacl -R -m u:USER:rX, or a group"
        )
    if unnamed:
        fix = "use letters, digits, '.', '_' and '-', or leave them out: --exclude"
        yield warn("names", f"{_some(unnamed)} cannot name a log and will not be sent", fix)
    if alike:
        fix = "rename one: a receiver on a file system that takes them for one (macOS, Windows) refuses the other"
        yield warn("names", f"{_some(alike)} differ in case alone", fix)
    if not closed:
        more = "" if files < FILES else " and more"
        yield ok("root", f"{files:,}{more} logs, all readable; directories: {directories:,}")
    yield from _file_system(root)
    yield from _inotify(directories)
    yield descriptors(files, 1)


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:3])}{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}"


def _walked(source: SourceOptions) -> tuple[int, int, list[str], list[str], list[str]]:
    """(logs, directories, what cannot be read, what cannot be named, pairs that differ in case alone)."""
    files, directories = 0, 0
    letters: dict[str, str] = {}
    alike: list[str] = []
    closed: list[str] = []
    unnamed: list[str] = []
    for directory, _, names in os.walk(source.root, onerror=lambda error: closed.append(str(error.filename))):
        directories += 1
        for name in names:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, source.root)
            if not source.matches(relative) or not os.path.isfile(path):
                continue
            files += 1
            if (other := letters.setdefault(relative.lower(), relative)) != relative:
                alike.append(f"{other} and {relative}")
            if not os.access(path, os.R_OK):
                closed.append(relative)
            try:
                log_name(relative)
            except FlarelogError:
                unnamed.append(relative)
        if files + directories > FILES:
            break
    return files, directories, closed, unnamed, alike


def _file_system(root: str) -> Iterator[Row]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return  # said already
    try:
        if remote(fd):
            fix = "run the sidecar where the logs are written, if that can be"
            yield warn("file system", "other machines may write there: what they add is seen with a delay", fix)
        elif not witness(identity(fd)):
            found = "neither file handles nor birth times: a file in another's place shows by its bytes alone"
            yield warn("file system", found, "keep the logs on ext4, XFS or btrfs")
        else:
            yield ok("file system", "local, and tells files apart")
    finally:
        os.close(fd)


def _inotify(directories: int) -> Iterator[Row]:
    if sys.platform != "linux":
        yield warn("inotify", "there is none on this system: files are polled", "run it on Linux, if that can be")
        return
    try:
        InotifyWatch().close()
    except OSError as error:
        fix = "sysctl fs.inotify.max_user_instances=1024 (and in /etc/sysctl.d)"
        yield warn("inotify", f"none is left for this user ({error.strerror}): files are polled", fix)
        return
    limit = _number(f"{_INOTIFY}/max_user_watches")
    if limit is not None and directories > limit // 2:
        fix = f"sysctl fs.inotify.max_user_watches={max(524288, 4 * directories)} (and in /etc/sysctl.d)"
        yield warn(
            "inotify", f"{directories:,} directories to watch, and {limit:,} watches for all of a user's programs", fix
        )
    else:
        watches = "watches without a known limit" if limit is None else f"{limit:,} watches"
        yield ok("inotify", f"{watches}; {directories:,} needed")


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def descriptors(logs: int, each: int) -> Row:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and logs * each + 100 > hard:
        fix = "LimitNOFILE=65536 in the unit, or ulimit -Hn 65536: the others take turns until then"
        return warn("descriptors", f"{hard:,} files may be open at once, for {logs:,} logs", fix)
    allowed = "without a limit" if hard == resource.RLIM_INFINITY else f"{hard:,} may be open at once"
    return ok("descriptors", allowed)
