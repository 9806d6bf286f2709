"""Where the files of a local store lie, and how they are reached: names become paths here and nowhere else.

    ROOT/RUN/SITE/LOG               the bytes of the stream and nothing else
    ROOT/RUN/SITE/.LOG.journal      what of them is durable, and the marks (see journal.py)
    ROOT/RUN/.run.journal           the run's state (see runs.py)
    ROOT/RUN/.SITE.events           what became of the site's streams, and when (see chronicle.py)
    ROOT/RUN/.SITE.findings         what went wrong in them, as the receiver found it (see troubles.py)
    ROOT/RUN/.SITE.health           how the site's machine fared, by the minute (see healths.py)
    ROOT/RUN/.SITE.unstored         the site's logs of which nothing was ever stored (see unstored.py)
    ROOT/.lock                      held by the receiver that writes here (see lock.py)

Names were validated when the StreamId was made. A link in the store, or something else that flarelog did not put there,
is left out and said once: it must not hide all the rest.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from flarelog.delivery.shares import Footprint
from flarelog.errors import InvalidName, Unavailable
from flarelog.model import StreamId
from flarelog.names import MAX_PARTS
from flarelog.stores.directory import Directory, link, unless_gone
from flarelog.text import legible, several

log = logging.getLogger(__name__)

T = TypeVar("T")

_OWN = re.compile(r"\..+\.(?:journal(?:\.\w+)?|quarantine\.\d+(?:\.old-journal)?)")
"""What a site's directory has beside its logs: their journals, and what was set aside with a warning."""


class Layout:
    """The files below *root*. *durable*: a directory that is made is durable before it is used."""

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.root, self.durable = Path(root), durable
        self.left_out: set[str] = set()  # a sentence for each link and the like that is not shown
        self._folds: bool | None = None

    def path(self, stream: StreamId) -> Path:
        return Path(self.files(stream)[1])

    def journal_path(self, stream: StreamId) -> Path:
        return Path(self.files(stream)[0])

    def files(self, stream: StreamId) -> tuple[str, str]:
        """The paths of the journal and of the bytes: as text, since thousands of logs may be opened at once."""
        below, slash, name = stream.log.rpartition("/")
        directory = f"{self.root}/{stream.run}/{stream.site}/{below}{slash}"
        return f"{directory}.{name}.journal", f"{directory}{name}"

    def at(self, *parts: str, make: bool = False, made: Callable[[int], None] = lambda number: None) -> Directory:
        """The directory *parts*. Raises as ``Directory`` does."""
        found = Directory(self.root, parts, make=make, durable=self.durable, made=made, folds=self._folds)
        self._folds = found.folds
        return found

    def directory(self, stream: StreamId, counted: Footprint | None = None) -> Directory:
        """The directory of the stream's files; what is missing of it is made if it is *counted* there.

        Raises OSError, and Unavailable where a link leads to it.
        """
        parts = (stream.run, stream.site, *stream.log.split("/")[:-1])
        if counted is None:
            return self.at(*parts)

        def made(number: int) -> None:
            counted.add(directories=int(number >= len(("run", "site"))))

        return self.at(*parts, make=True, made=made)

    # --- what is there

    def streams(self, run: str, site: str, behind: str = "") -> Sequence[StreamId]:
        """The streams of *site* in *run* that have a journal, and a name behind *behind*, in the order of names."""
        base = f"{self.root}/{run}/{site}"
        names, found = [], []
        for directory, below, files in os.walk(base, onerror=unless_gone):
            for name in below:
                if os.path.islink(path := os.path.join(directory, name)):
                    self.leave_out(link(Path(path)))
            before = f"{os.path.relpath(directory, base)}/" if directory != base else ""
            names += [
                f"{before}{file[1 : -len('.journal')]}"
                for file in (*files, *below)  # a directory in a journal's place is told as one
                if file.startswith(".") and file.endswith(".journal")
            ]
        for name in sorted(name for name in names if name > behind):
            try:
                found.append(StreamId(run, site, name))
            except InvalidName as error:
                if name.count("/") >= MAX_PARTS:  # an earlier version took it
                    self.leave_out(Unavailable(f"{run}/{site}/{name} is hidden: {error}; move it up"))
        return found

    def names(self, *parts: str, only: str | None = None) -> Sequence[str]:
        """The names of the directories below *parts*; with *only*, that one, if it is there."""
        parent = self.root.joinpath(*parts)
        try:
            if only is not None:
                mode = os.lstat(parent / only).st_mode
                found = [(only, stat.S_ISLNK(mode), stat.S_ISDIR(mode))]
            else:
                with os.scandir(parent) as entries:
                    found = [(it.name, it.is_symlink(), it.is_dir(follow_symlinks=False)) for it in entries]
        except OSError as error:
            unless_gone(error)
            return []
        found = sorted(one for one in found if one[0] and not one[0].startswith("."))
        for name, is_link, _ in found:
            if is_link:
                self.leave_out(link(parent / name))
        return [name for name, _, is_directory in found if is_directory]

    def strangers(self, run: str) -> Sequence[str]:
        """A sentence for each file in *run* that is a link, lies in no site, or has no journal that vouches for it."""
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
        """What the file *name* in the directory *parts* holds; nothing where it cannot be read."""
        return self.look(partial(self.at, *parts), lambda directory: directory.read(name)) or b""

    def journal(self, stream: StreamId) -> bytes:
        """What the journal of *stream* holds; nothing where it cannot be read."""
        parts = (stream.run, stream.site, *stream.log.split("/"))
        return self.raw(parts[:-1], f".{parts[-1]}.journal")

    def look(self, where: Callable[[], Directory], read: Callable[[Directory], T]) -> T | None:
        """What *read* finds there; None when nothing is there, or something that flarelog did not put there."""
        try:
            with where() as directory:
                return read(directory)
        except Unavailable as error:
            self.leave_out(error)
        except OSError as error:
            unless_gone(error)
        return None

    def leave_out(self, error: Unavailable) -> None:
        """Say once why something is not shown."""
        if str(error) not in self.left_out:
            self.left_out.add(str(error))
            log.warning("%s; until then it is left out", error)


def _unvouched(path: str, journal: str) -> Iterator[str]:
    """A sentence where there is no file *journal* for the log *path*."""
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
