"""Checks of a site's logs: whether they may leave, can be read and named, and how changes are noticed."""

from __future__ import annotations

import os
import resource
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flarelog.checks.row import Row, fail, ok, warn
from flarelog.errors import FlarelogError
from flarelog.sources.consent import in_force
from flarelog.sources.files.identity import identity, remote, witness
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.unmatched import unmatched
from flarelog.sources.files.watch import InotifyWatch
from flarelog.sources.spool.series import of_spools
from flarelog.text import are, several, some

FILES = 200_000  # maximum of files checked under a root
_INOTIFY = "/proc/sys/fs/inotify"


def forbidden(site_policy: Sequence[str]) -> Row | None:
    """The row of a failed check if the site's policy forbids all logs, which includes a test record; else None."""
    try:
        for site in in_force(*site_policy):
            site.demand()
    except FlarelogError as error:
        return fail("consent", str(error), "ask the site's administrator")
    return None


def source_of(
    root: str, include: Sequence[str], exclude: Sequence[str], site_policy: Sequence[str]
) -> SourceOptions | Row:
    """The files that a sidecar would send; a row if the patterns are invalid."""
    try:
        return SourceOptions(root, tuple(include), tuple(exclude), sites=in_force(*site_policy), series=of_spools())
    except FlarelogError as error:
        return fail("consent", str(error), "ask the site's administrator, or correct the patterns")


def under(source: SourceOptions) -> Iterator[Row]:
    if source.sites:
        yield ok("consent", f"{', '.join(site.where for site in source.sites)}: logs may leave the site")
    root = source.root
    if os.path.lexists(root) and not os.path.isdir(root):
        what = "is a file" if os.path.isfile(root) else "is no directory"
        yield fail("root", f"{root} {what}: the logs are looked for below a directory", "name the directory it is in")
        return
    if not os.path.isdir(root):
        yield warn(
            "root", f"{root} does not exist", "create the directory, or correct the path; a sidecar waits for it"
        )
        return
    files, directories, closed, alike = _walked(source)
    if closed:
        yield fail(
            "root",
            f"{some(closed, 3)} cannot be read by this user",
            "grant read access: setfacl -R -m u:USER:rX, or a group",
        )
    if alike:
        fix = "rename one file: a receiver on macOS or Windows takes both names for one, and refuses the second"
        yield warn("names", f"{some(alike, 3)} differ only in case", fix)
    if not closed and not files and (sentence := unmatched(source)):
        yield warn("root", sentence, "correct --include, --exclude or the site's policy: a sidecar would send nothing")
    elif not closed:
        logs = f"{several(files, 'log')} {are(files)}"
        if files >= FILES:
            logs = f"{files:,} and more logs are"
        yield ok("root", f"{logs} readable; directories: {directories:,}")
    yield from _file_system(root)
    yield from _inotify(directories)
    yield descriptors(files, 1)


def _walked(source: SourceOptions) -> tuple[int, int, list[str], list[str]]:
    """(logs, directories, unreadable paths, pairs that differ in case alone)."""
    files, directories = 0, 0
    letters: dict[str, str] = {}
    alike: list[str] = []
    closed: list[str] = []
    for directory, below, names in os.walk(source.root, onerror=lambda error: closed.append(str(error.filename))):
        directories += 1
        if not os.access(directory, os.X_OK):  # a listing without x permission gives names, but no file can be opened
            closed.append(directory)
            below.clear()
            continue
        for name in names:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, source.root)
            if not source.matches(relative):
                continue
            try:
                if not stat.S_ISREG(os.stat(path).st_mode):
                    continue
            except PermissionError:  # a link leads to a place that this user may not access
                closed.append(relative)
                continue
            except OSError:
                continue
            files += 1
            if (other := letters.setdefault(relative.lower(), relative)) != relative:
                alike.append(f"{other} and {relative}")
            if not os.access(path, os.R_OK):
                closed.append(relative)
        if files + directories > FILES:
            break
    return files, directories, closed, alike


def _file_system(root: str) -> Iterator[Row]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return  # reported by _walked
    try:
        if remote(fd):
            fix = "run the sidecar on the machine that writes the logs"
            yield warn("file system", "the file system is remote: changes by other machines are seen with a delay", fix)
        elif not witness(identity(fd)):
            found = "the file system has neither file handles nor birth times: only its bytes tell a replaced file"
            yield warn("file system", found, "keep the logs on ext4, XFS or btrfs")
        else:
            yield ok("file system", "the file system is local, and tells files apart")
    finally:
        os.close(fd)


def _inotify(directories: int) -> Iterator[Row]:
    if sys.platform != "linux":
        yield warn(
            "inotify",
            "inotify does not exist on this system: files are polled",
            "run the sidecar on Linux, if possible",
        )
        return
    try:
        InotifyWatch().close()
    except OSError as error:
        fix = "raise the limit: sysctl fs.inotify.max_user_instances=1024 (and in /etc/sysctl.d)"
        yield warn("inotify", (f"inotify has no instance left for this user ({error.strerror}): files are polled"), fix)
        return
    limit = _number(f"{_INOTIFY}/max_user_watches")
    if limit is not None and directories > limit // 2:
        fix = (
            f"raise the limit: sysctl fs.inotify.max_user_watches={max(524288, 4 * directories)} (and in /etc/sysctl.d)"
        )
        needed = several(directories, "directory needs", "directories need")
        yield warn(
            "inotify",
            f"{needed} a watch each; all programs of this user share {limit:,} watches",
            fix,
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
        fix = "set LimitNOFILE=65536 in the unit, or ulimit -Hn 65536; until then the logs take turns"
        return warn("descriptors", f"{hard:,} files may be open at once, too few for {several(logs, 'log')}", fix)
    allowed = "open files are not limited" if hard == resource.RLIM_INFINITY else f"{hard:,} files may be open at once"
    return ok("descriptors", allowed)
