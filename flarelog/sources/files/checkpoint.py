"""What a producer remembers of the files it has met, for the time when it starts again before the receiver knows them.

It is a cache: the receiver's record is the authority, and a checkpoint that is lost, torn or another's costs no byte.
It only keeps the log that a file belongs to, and where its reading began (``--start-at end``). Each receiver has one of
its own: what files belong to is what its own record says.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from flarelog.checksum import extend
from flarelog.contents import contents
from flarelog.errors import NotAllowed
from flarelog.names import log_name, run_name, site_name
from flarelog.replace import make_directory, replace_file

log = logging.getLogger(__name__)

VERSION = 1
MAX_FILE = 256 << 20  # bytes
_LONGEST = 200  # characters of a file's name, to which the digest is added
Starts = dict[str, tuple[str, int]]
"""File identity: (log, the source offset where its reading began)."""


class Checkpoint:
    """One file in *directory*, ``RUN.SITE.DIGEST.json``, for what *site* sends of *run* to *receiver*, replaced as a
    whole. Earlier versions had one for all receivers, ``RUN.SITE.json``, which is read where its successor is missing.

    Raises NotAllowed when the directory cannot be made.
    """

    def __init__(self, directory: str, run: str, site: str, receiver: str) -> None:
        name, self._before = f"{run_name(run)}.{site_name(site)}", f"{run}/{site}"
        self._owner = f"{self._before} to {receiver}"
        # The names alone tell neither receivers apart nor a.b of c from a of b.c, and may be too long together.
        digest = hashlib.blake2b(self._owner.encode(), digest_size=6).hexdigest()
        self.path = Path(directory) / f"{name[:_LONGEST]}.{digest}.json"
        self._earlier = Path(directory) / f"{name}.json"
        self._saved: Starts | None = None
        try:
            make_directory(directory)
        except OSError as error:
            raise NotAllowed(f"the state directory {directory} cannot be created: {error.strerror}") from error

    def load(self) -> Starts:
        """What was saved; nothing, with a warning, when it cannot be believed."""
        found = self._load(self.path, self._owner)
        return found if found is not None else self._load(self._earlier, self._before) or {}

    def _load(self, path: Path, owner: str) -> Starts | None:
        """None where nothing is there."""
        try:
            raw = contents(path, MAX_FILE)[1]
        except OSError:
            return None
        try:
            checksum, _, body = raw.partition(b" ")
            if int(checksum, 16) != extend(0, body):
                raise ValueError("its checksum is wrong")
            state = json.loads(body)
            if state["version"] != VERSION or state["owner"] != owner:
                raise ValueError("it belongs to another version, run, site or receiver")
            return {str(key): (log_name(name), _offset(start)) for key, (name, start) in state["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            log.warning("the state %s is ignored: %s; the receiver tells what it holds", path, error)
            return {}

    def save(self, starts: Starts) -> None:
        """Replace what was saved; a failure is said and costs nothing."""
        if starts == self._saved:
            return
        body = json.dumps({"version": VERSION, "owner": self._owner, "files": starts}).encode()
        try:
            replace_file(self.path, b"%08x %b" % (extend(0, body), body), 0o640)
        except OSError as error:
            log.warning("the state %s could not be saved: %s", self.path, error.strerror)
        self._saved = dict(starts)


def _offset(value: object) -> int:
    """Raises ValueError for what cannot be an offset in a file."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.40} is not an offset in a file")
    return value
