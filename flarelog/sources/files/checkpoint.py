"""The producer's memory of the files that it found, for a restart before the receiver knows them.

A checkpoint is a cache: the receiver's record is the authority, and a lost, torn or foreign checkpoint costs no byte.
It keeps only a file's log and the offset where its reading began (``--start-at end``). Each receiver has a checkpoint
of its own, because its own record decides which log a file belongs to.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from flarelog.checksum import extend
from flarelog.contents import contents
from flarelog.errors import NotAllowed
from flarelog.names import log_of, run_name, site_name
from flarelog.replace import make_directory, replace_file

log = logging.getLogger(__name__)

VERSION = 1
MAX_FILE = 256 << 20  # bytes
_LONGEST = 200  # characters of a file's name, to which the digest is added
Starts = dict[str, tuple[str, int]]
"""File identity: (log, the source offset where its reading began)."""


def state_directory(path: str) -> None:
    """Make the directory *path* of ``--state``. Raises NotAllowed."""
    try:
        make_directory(path)
    except OSError as error:
        raise NotAllowed(f"the state directory {path} cannot be created: {error.strerror}") from error


class Checkpoint:
    """One file in *directory*, ``RUN.SITE.DIGEST.json``, for the logs that *site* sends of *run* to *receiver*,
    replaced as a whole.

    Raises NotAllowed when the directory cannot be made.
    """

    def __init__(self, directory: str, run: str, site: str, receiver: str) -> None:
        name, self._owner = f"{run_name(run)}.{site_name(site)}", f"{run}/{site} to {receiver}"
        # The names alone tell neither receivers apart nor a.b of c from a of b.c, and may be too long together.
        digest = hashlib.blake2b(self._owner.encode(), digest_size=6).hexdigest()
        self.path = Path(directory) / f"{name[:_LONGEST]}.{digest}.json"
        self._saved: Starts | None = None
        state_directory(directory)

    def load(self) -> Starts:
        """The saved state; empty, with a warning, when it is invalid."""
        try:
            raw = contents(self.path, MAX_FILE)[1]
        except OSError:
            return {}
        try:
            checksum, _, body = raw.partition(b" ")
            if int(checksum, 16) != extend(0, body):
                raise ValueError("its checksum is wrong")
            state = json.loads(body)
            if state["version"] != VERSION or state["owner"] != self._owner:
                raise ValueError("it belongs to another version, run, site or receiver")
            return {str(key): (_path(name), _offset(start)) for key, (name, start) in state["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            log.warning("the state %s is ignored: %s; the receiver tells what it holds", self.path, error)
            return {}

    def save(self, starts: Starts) -> None:
        """Replace the saved state; a failure is logged and costs nothing."""
        if starts == self._saved:
            return
        body = json.dumps({"version": VERSION, "owner": self._owner, "files": starts}).encode()
        try:
            replace_file(self.path, b"%08x %b" % (extend(0, body), body), 0o640)
        except OSError as error:
            log.warning("the state %s could not be saved: %s", self.path, error.strerror)
        self._saved = dict(starts)


def _path(value: str) -> str:
    """Check the path of a log. Raises InvalidName."""
    log_of(value)
    return value


def _offset(value: object) -> int:
    """Check an offset. Raises ValueError for any other value."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.40} is not an offset in a file")
    return value
