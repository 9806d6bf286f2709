"""The opening of files within the limit of descriptors; further files wait until others are quiet.

Some descriptors always stay free: for connections and checkpoints, and for the run itself where a producer is embedded
in it.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import resource
from dataclasses import dataclass, field

from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.home import Home
from flarelog.sources.files.identity import lacks
from flarelog.sources.files.ledger import Ledger
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.walk import NO_DESCRIPTOR, Walk, directory_of
from flarelog.sources.redaction.file import RedactedFile
from flarelog.sources.redaction.mask import Rules

log = logging.getLogger(__name__)

SPARE = 64  # descriptors that logs leave free
SAY_EVERY = 30.0  # seconds


def descriptors() -> int:
    """How many descriptors this process may have before logs get none."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit - min(SPARE, limit // 2)


@dataclass(slots=True)
class Descriptors:
    walk: Walk
    ledger: Ledger
    rules: Rules  # the masking of each file
    waiting: set[str] = field(default_factory=set)  # paths of files that wait for a descriptor
    home: Home | None = None  # the root, if it is the directory of a run among those of an agent
    _said: float = -math.inf

    def open(self, path: str, now: float) -> SourceFile:
        """Open the file at *path*, with what its file system cannot tell. Raises OSError."""
        file = (RedactedFile if self.rules else SourceFile).open(self.walk.root, path, now)
        file.home = self.home
        if self.home is not None and self.home.left():
            file.close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        file.rules, file.called = self.rules, self.ledger.links.name(path)
        file.closed = self.ledger.name(path).closed
        unwatched = directory_of(path) in self.walk.unwatched
        file.lacks = (*lacks(file.fd, file.identity), *(["no-inotify"] if unwatched else []))
        file.part = self.ledger.options.series.part(os.path.join(self.walk.root, path), file.is_of[1])
        if self.rules:
            file.lacks = (*file.lacks, self.rules.note)
        return file

    def scarce(self, file: SourceFile) -> bool:
        """Whether *file* has a descriptor that must stay free."""
        return file.fd >= descriptors()

    def hold(self, path: str) -> None:
        """Let *path* wait for a descriptor until another file has come to rest."""
        self.waiting.add(path)
        file = self.ledger.at(path)
        known = self.ledger.known.get(file.identity) if file is not None else None
        if known is not None:
            known[0].waiting = True

    def rise(self, tail: Tail, file: SourceFile, path: str) -> None:
        """Reopen a file at rest that looks different."""
        if file.fd >= 0:
            return
        tail.waiting = False
        self.waiting.discard(path)
        file.path = path
        try:
            if not file.rise(self.walk.root):
                return
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self.hold(path)
            return
        if self.scarce(file):
            file.close()
            self.hold(path)
            return
        tail.files.insert(0, file)
        file.limit, file.graced = None, False

    def make_room(self, now: float) -> None:
        """Close quiet files that may still grow, if others wait; a file that grows is opened again."""
        if not self.waiting:
            return
        for tail in self.ledger.tails.values():
            tail.rest(now)
        if now - self._said >= SAY_EVERY:
            self._said = now
            sentence = "%d of the files under %s wait for their turn: only %d may be open at once; raise ulimit -n"
            log.warning(sentence, len(self.waiting), self.walk.root, descriptors())
