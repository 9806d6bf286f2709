"""The policy's file: read at the start, and again when it has changed.

A policy that is wrong at the start ends the receiver with a sentence. One that is changed into something wrong while
streams run changes nothing: the last good one holds, and the sentence is said once.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flarelog.errors import InvalidFile, InvalidOption, NotAllowed
from flarelog.policy import Policy, parse

log = logging.getLogger(__name__)

MAX_FILE = 1 << 20  # bytes


def load(path: str | os.PathLike[str]) -> Policy:
    """The policy in the file at *path*. Raises NotAllowed, InvalidFile."""
    try:
        with open(path, "rb") as file:
            mode, raw = os.fstat(file.fileno()).st_mode, file.read(MAX_FILE + 1)
    except OSError as error:
        raise InvalidFile(f"the policy {path} cannot be read: {error.strerror}") from error
    if mode & 0o002:
        raise NotAllowed(f"the policy {path} can be written by everyone; chmod o-w it, and look who did")
    if len(raw) > MAX_FILE:
        raise InvalidFile(f"the policy {path} has more than {MAX_FILE} bytes; grant by patterns")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidFile(f"the policy {path} is no UTF-8 at byte {error.start}") from error
    try:
        return parse(text, f"the policy {path}")
    except InvalidOption as error:
        raise InvalidFile(str(error)) from error


class PolicyFile:
    """The policy in the file at *path*, as it is now. Raises what ``load`` raises, when it is made."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seen: tuple[int, ...] | None = self._look()
        self._policy = load(path)

    @property
    def current(self) -> Policy:
        seen = self._look()
        if seen != self._seen:  # by ``reread`` as well
            self._seen = seen  # taken before the reading: what is replaced meanwhile is read again
            try:
                self._policy = load(self.path)
            except (NotAllowed, InvalidOption) as error:
                log.error("the policy stays as it was: %s", error)
            else:
                log.info("the policy %s was read again: %d grants", self.path, len(self._policy.grants))
        return self._policy

    def reread(self) -> Policy:
        """Read the file though it seems unchanged."""
        self._seen = None
        return self.current

    def _look(self) -> tuple[int, ...]:
        try:
            status = os.stat(self.path)
        except OSError:
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
