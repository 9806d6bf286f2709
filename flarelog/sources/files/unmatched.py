"""The files under a root: what there is to send, and why no file, or not this one, is sent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from flarelog.globs import any_of
from flarelog.sources.files.patterns import NOT_LOGS, SourceOptions
from flarelog.text import legible, several


def unmatched(source: SourceOptions, *, empty: bool = False) -> str:
    """The sentence; empty where a file is to be sent, and, without *empty*, where there is no file at all."""
    return sentence(source, files(source.root), empty=empty)


def sentence(source: SourceOptions, paths: Iterable[str], *, empty: bool = False) -> str:
    """The sentence of ``unmatched`` for the files at *paths* under the root."""
    count, named, asked = 0, False, 0
    for path in paths:
        count += 1
        if source.matches(path):
            return ""
        if any_of(source.include, path) if source.include else not any_of(NOT_LOGS, path):
            named = True
            asked += not any_of(source.exclude, path)
    root = source.root
    if not count:
        return f"there is no file under {root}" if empty else ""
    left = several(asked or count, "file")
    if asked:
        return f"no file under {root} may leave the site: its policy leaves out {left}"
    if named:
        return f"no file under {root} is sent: --exclude {_quoted(source.exclude)} leaves out {left}"
    if source.include:
        return f"no file under {root} matches --include {_quoted(source.include)}, which leaves out {left}"
    return f"no file under {root} has the name of a log, which leaves out {left}: name them with --include"


def left_out(source: SourceOptions) -> list[str]:
    """The paths of files below the root that the site's policy excludes, without hidden ones."""
    paths = [path for path in files(source.root) if not any(part.startswith(".") for part in path.split(os.sep))]
    return [path for path in paths if not source.permits(path)]


def why_left_out(source: SourceOptions, log: str) -> str:
    """Why the file of *log* is not sent; empty where there is no file, or it is to be sent."""
    path = os.path.join(source.root, log)
    if {"", ".", ".."} & set(log.split("/")) or source.matches(log) or not os.path.isfile(path):
        return ""
    if any_of(source.exclude, log):
        why = f"exclude {_quoted(source.exclude)} leaves it out"
    elif source.include and not any_of(source.include, log):
        why = f"it does not match include {_quoted(source.include)}"
    elif source.include or not any_of(NOT_LOGS, log):
        why = "the site's policy leaves it out"
    else:
        why = "its name is not that of a log; name it with include"
    return f"{legible(path)} is not sent: {why}"


def _quoted(patterns: Iterable[str]) -> str:
    return ", ".join(f"'{pattern}'" for pattern in patterns)


def files(root: str | os.PathLike[str]) -> Iterator[str]:
    """The paths, relative to *root*, of the files below it."""
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                yield os.path.relpath(path, root)


def sizes(source: SourceOptions) -> dict[str, tuple[int, int, int]]:
    """(device, inode, bytes) of each file that *source* would send, by its path; without unreadable ones. Two equal
    results tell that nothing was written in between.
    """
    found = {}
    for path in filter(source.matches, files(source.root)):
        with contextlib.suppress(OSError):
            status = os.stat(os.path.join(source.root, path))
            found[path] = status.st_dev, status.st_ino, status.st_size
    return found
