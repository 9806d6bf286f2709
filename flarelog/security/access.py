"""The policy file: read at the start, and reread after a change.

An invalid policy at the start ends the receiver with a sentence. If a change makes the file invalid while streams run,
the last valid policy stays in force, and the error is logged once.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flarelog.contents import text_of
from flarelog.errors import FlarelogError, InvalidFile, InvalidOption, NotAllowed
from flarelog.policy import Policy, parse
from flarelog.watched import Watched

log = logging.getLogger(__name__)

MAX_FILE = 1 << 20  # bytes


def load(path: str | os.PathLike[str]) -> Policy:
    """The policy in the file at *path*. Raises NotAllowed, InvalidFile."""
    status, granted = text_of(path, MAX_FILE, f"the policy {path}")
    if status.st_mode & 0o002:
        raise NotAllowed(f"the policy {path} is writable for every user: chmod o-w it, and check for changes")
    try:
        return parse(granted, f"the policy {path}")
    except InvalidOption as error:
        raise InvalidFile(str(error)) from error


class PolicyFile:
    """The present policy in the file at *path*. The constructor raises what ``load`` raises."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file = Watched((path,), lambda: load(path), self._said)

    @property
    def current(self) -> Policy:
        return self._file.look()

    def reread(self) -> Policy:
        """Reread the file even if it seems unchanged."""
        return self._file.look(anyway=True)

    def _said(self, _: str, trouble: FlarelogError | None) -> None:
        if trouble is not None:
            log.error("the policy could not be read again, and the old one stays in force: %s", trouble)
        else:
            log.info("the policy %s was read again: %d grants", self.path, len(self._file.made.grants))
