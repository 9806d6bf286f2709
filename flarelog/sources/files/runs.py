"""The directories below a root that are runs, by a pattern of their paths, and whether any of them has changed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from flarelog.errors import InvalidName, InvalidOption
from flarelog.names import run_of
from flarelog.sources.base import Contents
from flarelog.sources.files.identity import sight
from flarelog.sources.files.patterns import SourceOptions, below
from flarelog.sources.files.series import Series
from flarelog.sources.files.unmatched import files, sentence
from flarelog.sources.files.walk import listed
from flarelog.text import several
from flarelog.values import changed

KIND, RUN, BELOW = "path:", "{run}", "**"


class Holder(NamedTuple):
    """The directory that a run's name belongs to. Another directory of the same name is another run, whose logs would
    be taken for later ones of this run.
    """

    path: Path
    identity: tuple[tuple[int, int], int | None] | None  # device and inode, birth; None: the directory went away

    @classmethod
    def at(cls, path: Path) -> Holder:
        try:
            seen = sight(str(path))
        except OSError:
            return cls(path, None)
        return cls(path, (seen.is_of, seen.born))

    def is_now(self, other: Holder) -> bool:
        """Whether the directory was moved, and is *other* now."""
        return self.identity is not None and self.identity == other.identity

    def sentence(self, run: str) -> str:
        if os.path.isdir(self.path):
            return f"{self.path} is run {run} already"
        return f"run {run} was {self.path}, which is gone; a restarted agent adds it to the logs of that run"


class RunPattern:
    """``path:{run}/**``: the path of a run's directory below the root, where ``{run}`` is the run's name.

    A part may hold ``*``, which is any text without ``/``; ``path:*/job-{run}/logs/**`` has the run's logs in a
    directory below the run's. As for a shell, no directory whose name begins with a dot matches a part that does not.
    ``path:{run}-worker-*/**`` has *many* directories a run, because the part of the run's name holds a ``*`` as well.
    Raises InvalidOption.
    """

    def __init__(self, text: str) -> None:
        if not text.startswith(KIND):
            raise InvalidOption(f"--run-from {text!r} names no kind of pattern: write {KIND}{RUN}/{BELOW}")
        parts = text.removeprefix(KIND).removesuffix(f"/{BELOW}").split("/")
        if text.count(RUN) != 1:
            raise InvalidOption(f"--run-from {text!r} must hold {RUN} once: write {KIND}{RUN}/{BELOW}")
        if any(part in ("", ".", "..", BELOW) for part in parts):
            raise InvalidOption(
                f"--run-from {text!r} has an empty part, '.', '..' or an inner {BELOW}: write {KIND}*/{RUN}/{BELOW}"
            )
        if odd := re.search(r"[{}\[\]?]", "".join(parts).replace(RUN, "")):
            raise InvalidOption(f"--run-from {text!r} holds {odd[0]!r}: only * and {RUN} have a meaning there")
        self.text = text
        self.many = any(RUN in part and "*" in part for part in parts)
        self._parts = [_expression(part) for part in parts]
        self._dotted = [part[0] == "." for part in parts]

    def run_of(self, path: str) -> str:
        """The run of the log at *path* below the root; empty where its directories do not match."""
        parts = path.split("/")[:-1]
        found = [part.fullmatch(name) for part, name in zip(self._parts, parts, strict=False)]
        if len(parts) < len(self._parts) or not all(found):
            return ""
        names = [match.groupdict().get("run") for match in found if match is not None]
        return run_of(next(filter(None, names), ""))

    def find_many(self, root: str, own: Path | None = None) -> tuple[dict[str, list[Path]], list[str]]:
        """(the directories of each present run, a sentence for each directory that cannot be of a run)."""
        found: dict[str, list[Path]] = {}
        troubles: list[str] = []
        for directory, path in sorted(self._walk(Path(root), own, 0, "", troubles)):
            try:
                found.setdefault(run_of(directory), []).append(path)
            except InvalidName as error:
                troubles.append(_not_sent(path, error))
        return found, troubles

    def find(
        self, root: str, own: Path | None = None, holders: dict[str, Holder] | None = None
    ) -> tuple[dict[str, Path], list[str]]:
        """(the directory of each present run, a sentence for each directory that cannot be a run). *own*: a directory
        to skip; *holders*: the directories of earlier runs, which this call updates.
        """
        found: dict[str, Path] = {}
        troubles: list[str] = []
        holders = {} if holders is None else holders
        for directory, path in sorted(self._walk(Path(root), own, 0, "", troubles)):
            try:
                name = run_of(directory)
                listed(str(path))
            except (InvalidName, PermissionError) as error:
                troubles.append(_not_sent(path, error))
                continue
            except OSError:  # the directory went away: its sidecar ends
                pass
            holder = Holder.at(path)
            held = holders.setdefault(name, holder)
            if held.path != path and holder.identity is None:  # the directory has just moved away
                continue
            if held.path != path and not held.is_now(holder):
                troubles.append(f"directory {path} is not sent: {held.sentence(name)}")
            elif found.setdefault(name, path) == path:
                holders[name] = holder
        return found, troubles

    def _walk(
        self, directory: Path, own: Path | None, depth: int, run: str, troubles: list[str]
    ) -> Iterator[tuple[str, Path]]:
        if directory == own:
            return
        if depth == len(self._parts):
            yield run, directory
            return
        try:
            for entry in listed(str(directory)):
                match = self._parts[depth].fullmatch(entry.name)
                hidden = entry.name[0] == "." and not self._dotted[depth]
                if match is not None and not hidden and entry.is_dir(follow_symlinks=False):
                    name = match.groupdict().get("run") or run
                    yield from self._walk(directory / entry.name, own, depth + 1, name, troubles)
        except PermissionError as error:
            troubles.append(_not_sent(directory, error))
        except OSError:  # the directory went away
            pass


class Directories:
    """The runs below the root of *wanted*, each with the options of *wanted* for its own directory.

    A run that appears later is sent from its beginning: bytes written before its discovery are not skipped. *own* is a
    directory of flarelog's, anywhere: neither it nor anything in it is a run or part of one.
    """

    def __init__(self, pattern: RunPattern, wanted: SourceOptions, own: str | None = None) -> None:
        self._pattern, self._wanted = pattern, wanted
        # As a path that begins with the root, like those of runs.
        path = below(wanted.root, own)
        self._own = Path(wanted.root) / path if path else None
        self._holders: dict[str, Holder] = {}
        self._earliest: set[str] | None = None  # the runs that the first look found, without those that have gone

    @property
    def root(self) -> str:
        return self._wanted.root

    def look(self) -> tuple[dict[str, tuple[SourceOptions, Contents]], list[str]] | None:
        """(each run's options and its snapshot, a message for each entry that cannot be a run); None while the root
        does not exist.
        """
        if not os.path.isdir(self.root):
            return None
        if self._pattern.many:
            return self._look_at_many()
        found, troubles = self._pattern.find(self.root, self._own, self._holders)
        self._earliest = set(found) if self._earliest is None else self._earliest & set(found)
        later = changed(self._wanted, start_at="beginning")
        runs: dict[str, tuple[SourceOptions, Contents]] = {}
        for run, path in found.items():
            wanted = changed(self._wanted if run in self._earliest else later, root=str(path), goes=True)
            if self._own is not None and path in self._own.parents:
                wanted = wanted.without(str(self._own))
            seen, apart = contents(path, wanted.matches, series=wanted.series)
            for directory in apart:
                wanted = wanted.without(directory)
            runs[run] = wanted, seen
        return runs, troubles

    def _look_at_many(self) -> tuple[dict[str, tuple[SourceOptions, Contents]], list[str]]:
        """As ``look``, where a run has many directories: its logs are named from the root on."""
        found, troubles = self._pattern.find_many(self.root, self._own)
        self._earliest = set(found) if self._earliest is None else self._earliest & set(found)
        runs: dict[str, tuple[SourceOptions, Contents]] = {}
        for run, paths in found.items():
            wanted = self._wanted.without(str(self._own) if self._own is not None else None)
            start = wanted.start_at if run in self._earliest else "beginning"
            wanted, seen = changed(wanted, within=(self._pattern, run), start_at=start), []
            for path in paths:
                of_one, apart = contents(path, wanted.matches, Path(self.root), wanted.series)
                seen.append(of_one)
                for directory in apart:
                    wanted = wanted.without(directory)
            files, size = sum(each.files for each in seen), sum(each.size for each in seen)
            runs[run] = wanted, Contents(files, size, max(each.newest for each in seen))
        return runs, troubles

    def unknown(self) -> str:
        """As of containers' runs: a directory's path tells its run."""
        return ""

    def unmatched(self) -> str:
        """Why no run has a log, as a sentence; empty where there is no file. May block."""
        if self._pattern.many:
            many, _ = self._pattern.find_many(self.root, self._own)
            found = {str(path): path for paths in many.values() for path in paths}
        else:
            found, _ = self._pattern.find(self.root, self._own)
        if not found:
            count = _directories(self.root)
            what = several(count, "directory", "directories")
            return f"--run-from '{self._pattern.text}' leaves out {what}" if count else ""
        return sentence(self._wanted, chain.from_iterable(map(files, found.values())))


def _directories(root: str) -> int:
    """How many directories are in *root*, hidden ones excluded."""
    with contextlib.suppress(OSError):
        return sum(entry.is_dir(follow_symlinks=False) and entry.name[0] != "." for entry in listed(root))
    return 0


def _not_sent(directory: Path, error: InvalidName | OSError) -> str:
    return f"directory {directory} is not sent: {error.strerror if isinstance(error, OSError) else error}"


def _expression(part: str) -> re.Pattern[str]:
    pieces = {RUN: "(?P<run>[^/]+)", "*": "[^/]*"}
    return re.compile("".join(pieces.get(each) or re.escape(each) for each in re.split(r"(\{run\}|\*)", part)))


def contents(
    directory: Path, matches: Callable[[str], bool], root: Path | None = None, series: Series | None = None
) -> tuple[Contents, list[str]]:
    """A snapshot of the files below *directory* whose paths relative to *root*, or else to *directory*, *matches*
    takes; unreadable ones count. And the directories there that *series* keeps apart, whose files do not count.
    """
    files = size = newest = 0
    apart: list[str] = []

    def unseen(error: OSError) -> None:
        nonlocal files
        files += isinstance(error, PermissionError)

    for at, below_it, names in os.walk(directory, onerror=unseen):
        if series is not None and series.apart(at, names):
            below_it.clear()
            apart.append(at)
            continue
        place = os.path.relpath(at, root or directory)
        for name in names:
            if not matches(name if place == "." else f"{place}/{name}"):
                continue
            try:
                status = os.stat(os.path.join(at, name))
            except OSError as error:  # the file went away, is a broken link, or is not readable
                unseen(error)
                continue
            files, size, newest = files + 1, size + status.st_size, max(newest, status.st_mtime_ns)
    return Contents(files, size, newest), apart
