"""Unsent logs of jobs whose directories NVFlare removes: hard links keep the files.

A link needs no room for bytes, so that it works on a full disk, and it is the same file to whoever sends the logs.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil

from flarelog.replace import make_directory

log = logging.getLogger(__name__)


class Held:
    """The files of jobs, linked below *directory*, which is on the file system of the jobs' directories."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def _of(self, job: str) -> str:
        return os.path.join(self._directory, job)

    def begin(self, job: str) -> None:
        """Make the directory for *job* before its launch: a full disk may have no room for it later. Raises nothing."""
        with contextlib.suppress(OSError):
            make_directory(self._directory)
            make_directory(self._of(job))

    def hold(self, job: str, root: str, names: tuple[str, ...]) -> None:
        """Link the files in *root* whose names begin with one of *names*, which includes rotated ones. Raises nothing:
        what cannot be linked must not fail the job.
        """
        self.begin(job)
        try:
            with os.scandir(root) as found:
                for one in found:
                    if one.name.startswith(names) and one.is_file(follow_symlinks=False):
                        _link(one.path, os.path.join(self._of(job), one.name))
        except OSError as error:
            log.warning("job %s: logs that are not sent when it ends are lost with its directory: %s", job, error)

    def place(self, job: str) -> str:
        """The directory with the files of *job*; empty if none are held."""
        with contextlib.suppress(OSError):
            if os.listdir(self._of(job)):
                return self._of(job)
        return ""

    def release(self, job: str) -> None:
        """Remove the links of *job*; its logs are sent."""
        shutil.rmtree(self._of(job), ignore_errors=True)


def _link(path: str, name: str) -> None:
    """Link *path* as *name*. A file of an earlier attempt at the job gets the name of a rotated one. Raises OSError."""
    if os.path.lexists(name):
        if os.path.samefile(path, name):
            return
        numbers = itertools.count(1)
        os.rename(name, next(other for n in numbers if not os.path.lexists(other := f"{name}.{n}")))
    os.link(path, name)
