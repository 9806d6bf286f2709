"""The file layout of a local store, which docs/internals.md shows: only this module maps names to paths.

StreamId has validated the names. A link, or another entry that flarelog did not create, is skipped and reported once:
it must not hide the rest of the store.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from flarelog.delivery.shares import Footprint
from flarelog.errors import InvalidName, Unavailable
from flarelog.model import StreamId
from flarelog.stores import events, fares, notes, runs, unopened
from flarelog.stores.directory import LOCK, Directory, link
from flarelog.stores.full import meaning, reason, unless_gone
from flarelog.text import legible, several

log = logging.getLogger(__name__)

T = TypeVar("T")

UNSTORED = f".{unopened.UNSTORED.name}"
NOTES = f".{events.EVENTS.name}", f".{notes.FINDINGS.name}", f".{fares.HEALTH.name}", UNSTORED
"""The ends of the names of notes about a site, beside its logs."""

STATES = f".{runs.STATES.name}"
"""The name of the file with a run's states."""

_OWN = re.compile(r"\..+\.(?:journal(?:\.\w+)?|quarantine\.\d+(?:\.old-journal)?)")
"""Files beside the logs in a site's directory: journals, and the files that were set aside with a warning."""


def record_name(site: str, kind: str) -> str:
    """The name of the file with the note *kind* of *site*; of a run or of the store if *site* is empty."""
    return f".{site}.{kind}" if site else f".{kind}"


class Layout:
    """The files below *root*. *durable*: sync a new directory before it is used."""

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.root, self.durable = Path(root), durable
        self.left_out: set[str] = set()  # a sentence for each skipped link or other foreign entry
        self._folds: bool | None = None

    def path(self, stream: StreamId) -> Path:
        return Path(self.files(stream)[1])

    def files(self, stream: StreamId) -> tuple[str, str]:
        """The paths of the journal and of the bytes; strings, because Path is slow when thousands of logs open."""
        below, slash, name = stream.log.rpartition("/")
        directory = f"{self.root}/{stream.run}/{stream.site}/{below}{slash}"
        return f"{directory}.{name}.journal", f"{directory}{name}"

    def at(self, *parts: str, make: bool = False, made: Callable[[int], None] = lambda number: None) -> Directory:
        """The directory *parts*. Raises as ``Directory`` does."""
        found = Directory(self.root, parts, make=make, durable=self.durable, made=made, folds=self._folds)
        self._folds = found.folds
        return found

    def directory(self, stream: StreamId, counted: Footprint | None = None) -> Directory:
        """The directory of the stream's files; with *counted*, missing directories are created and counted there.

        Raises OSError, and Unavailable where its path has a link.
        """
        parts = (stream.run, stream.site, *stream.log.split("/")[:-1])
        if counted is None:
            return self.at(*parts)

        def made(number: int) -> None:
            counted.add(directories=int(number >= len(("run", "site"))))

        return self.at(*parts, make=True, made=made)

    # --- listing

    def streams(
        self, run: str, site: str, behind: str = "", trouble: Callable[[OSError], None] = unless_gone
    ) -> Sequence[StreamId]:
        """The streams of *site* in *run* with a journal and a name behind *behind*, sorted by name. *trouble*: called
        for each directory that cannot be listed.
        """
        base = f"{self.root}/{run}/{site}"
        names, found = [], []
        if os.path.islink(base):  # os.walk would follow it
            trouble(OSError(errno.ELOOP, "", base))
            return []
        for directory, below, files in os.walk(base, onerror=trouble):
            here = set(files)
            unknown = (name for name in files if name[0] != "." and f".{name}.journal" not in here)
            for name in (*below, *unknown):  # os.walk takes a link that leads nowhere for a file
                if os.path.islink(path := os.path.join(directory, name)) and not os.path.isfile(path):
                    trouble(OSError(errno.ELOOP, "", path))
            before = f"{os.path.relpath(directory, base)}/" if directory != base else ""
            names += [
                f"{before}{file[1 : -len('.journal')]}"
                for file in (*files, *below)  # opening a directory in a journal's place reports it
                if file.startswith(".") and file.endswith(".journal")
            ]
        for name in sorted(name for name in names if name > behind):
            with suppress(InvalidName):  # flarelog has not written it
                found.append(StreamId(run, site, name))
        return found

    def names(
        self,
        *parts: str,
        only: str | None = None,
        trouble: Callable[[OSError], None] = unless_gone,
        links: bool = False,
    ) -> Sequence[str]:
        """The names of the directories below *parts*; with *only*, that name alone, if it exists; with *links*, those
        of links as well. *trouble*: called if they cannot be listed, and if a run's states cannot be read.
        """
        parent = self.root.joinpath(*parts)
        try:
            if only is not None:
                mode = os.lstat(parent / only).st_mode
                found = [(only, stat.S_ISLNK(mode), stat.S_ISDIR(mode))]
            else:
                with os.scandir(parent) as entries:
                    found = [(it.name, it.is_symlink(), it.is_dir(follow_symlinks=False)) for it in entries]
        except OSError as error:
            if not parts and isinstance(error, PermissionError):  # an unreadable store is not an empty one
                raise meaning(error, f"{parent} could not be read") from error
            trouble(error)
            return []
        if any(name == STATES for name, _, _ in found) and not os.access(
            parent / STATES, os.R_OK, follow_symlinks=False
        ):
            trouble(PermissionError(errno.EACCES, "", str(parent / STATES)))
        found = sorted(one for one in found if one[0] and not one[0].startswith("."))
        for name, is_link, _ in found:
            if is_link and not links:
                self.leave_out(link(parent / name))
        return [name for name, is_link, is_directory in found if is_directory or (links and is_link)]

    def strangers(self, run: str) -> Sequence[str]:
        """A sentence for each file in *run* that is a link, is in no site's directory, or has no journal."""
        found = self._beside_sites(run)
        for site in self.names(run):
            for directory, _, files in os.walk(f"{self.root}/{run}/{site}", onerror=unless_gone):
                for name in sorted(files):
                    path = os.path.join(directory, name)
                    if os.path.islink(path):
                        found.append(str(link(Path(path))))
                    elif not _OWN.fullmatch(name):
                        found += _unvouched(path, f"{directory}/.{name}.journal")
        return found

    def _beside_sites(self, run: str) -> list[str]:
        try:
            with os.scandir(self.root / run) as entries:
                found = [it.path for it in entries if it.name[0] != "." and not (it.is_dir() or it.is_symlink())]
        except OSError as error:
            unless_gone(error)
            return []
        return [
            f"{legible(path)} is no log, because it lies in no site's directory: move it away" for path in sorted(found)
        ]

    def raw(self, parts: Sequence[str], name: str) -> bytes:
        """The content of the file *name* in the directory *parts*; empty if it is unreadable."""
        try:
            return self.look(partial(self.at, *parts), lambda directory: directory.read(name)) or b""
        except OSError as error:
            unless_gone(error)
            return b""

    def notes(self, run: str, kind: str) -> Sequence[str]:
        """The sites of *run* with a note *kind*; empty for that of the run itself."""
        try:
            names, end = os.listdir(self.root / run), f".{kind}"
        except OSError as error:
            reason(error)  # a list of the run's streams has an entry for its directory
            return []
        return sorted(name[1 : -len(end)] for name in names if name[0] == "." and name.endswith(end))

    def note(self, kind: str, run: str = "", site: str = "") -> bytes:
        """The note *kind* of *site* in *run*, of *run*, or of the store; empty if it is unreadable."""
        return self.raw((run,) if run else (), record_name(site, kind))

    def journal(self, stream: StreamId) -> bytes:
        """The content of the journal of *stream*; empty if it is unreadable."""
        parts = (stream.run, stream.site, *stream.log.split("/"))
        return self.raw(parts[:-1], f".{parts[-1]}.journal")

    def look(self, where: Callable[[], Directory], read: Callable[[Directory], T]) -> T | None:
        """The result of *read* in the directory *where*; None if it is missing, or an entry that flarelog did not
        create. Raises OSError.
        """
        try:
            with where() as directory:
                return read(directory)
        except Unavailable as error:
            self.leave_out(error)
        except (FileNotFoundError, NotADirectoryError):
            pass
        return None

    def leave_out(self, error: Unavailable) -> None:
        """Log once why an entry is skipped."""
        if str(error) not in self.left_out:
            self.left_out.add(str(error))
            log.warning("%s; until then it is left out", error)


def _unvouched(path: str, journal: str) -> Iterator[str]:
    """A sentence if the log *path* has no file *journal*."""
    try:
        size = os.lstat(path).st_size
        regular = stat.S_ISREG(os.lstat(journal).st_mode)
    except FileNotFoundError:
        if os.path.lexists(path):
            yield f"{legible(path)} has no journal, so nothing vouches for its bytes: move it away"
        return
    if not regular:
        yield (
            f"{legible(path)} has no journal, so nothing vouches for its {several(size, 'byte')}:"
            f" {legible(journal)} is not a regular file: move it away"
        )


def is_store(root: str | os.PathLike[str]) -> bool:
    """Whether *root* is a store: it has a lock file, or, in a copy of a store, a journal. Raises PermissionError where
    *root* is unreadable.

    The parent directory of a store is no store: its seeming runs have lock files of their own.
    """
    if os.path.lexists(os.path.join(root, LOCK)):
        return True
    with os.scandir(root) as entries:
        runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."]
    return any(map(_is_run, runs))


def _is_run(directory: str) -> bool:
    names = _names(directory)
    if LOCK in names:
        return False
    if any(name == STATES or (name[0] == "." and name.endswith(NOTES)) for name in names):
        return True
    sites = (os.path.join(directory, name) for name in names if name[0] != ".")
    return any(name[0] == "." and name.endswith(".journal") for site in sites for name in _names(site))


def _names(directory: str) -> list[str]:
    try:
        return [] if os.path.islink(directory) else os.listdir(directory)
    except OSError:  # a file, or an unreadable directory
        return []
