"""The keys of an archive. "=" is in no name, so no log has another object's key.

=archive                         says that this is an archive
RUN/SITE/LOG=manifest            a stream; what it does not name does not exist
RUN/=KIND    RUN/SITE=KIND       notes of a run and of a site; =KIND: of the store
=parts/RUN/SITE/LOG=NUMBER.ID    full frames of a stream; ID is the writer's, so writers never share a key
=index/RUN                       copies of a run's manifests, each with its tag: a list trusts those that agree
"""

from __future__ import annotations

from flarelog.errors import InvalidName
from flarelog.model import StreamId
from flarelog.stores.notes import Kind

ARCHIVE = "=archive"
_MANIFEST = "=manifest"
_PARTS = "=parts"


def manifest_key(stream: StreamId) -> str:
    return f"{stream.key}{_MANIFEST}"


def part_key(stream: StreamId, name: str) -> str:
    return f"{_PARTS}/{stream.key}={name}"


def parts_of(run: str, site: str = "") -> str:
    """The prefix of all parts of *run*, or of *site* in it."""
    return "/".join(filter(None, (_PARTS, run, site)))


def index_key(run: str) -> str:
    return f"=index/{run}"


def note_key(kind: Kind, run: str = "", site: str = "") -> str:
    return f"{f'{run}/' if run else ''}{site}={kind.name}"


def is_run(name: str) -> bool:
    return not name.startswith("=")


def stream_of(key: str) -> StreamId | None:
    """The stream whose manifest has *key*; None if it is no manifest's. Raises InvalidName."""
    if not key.endswith(_MANIFEST):
        return None
    names = key.removesuffix(_MANIFEST).split("/", 2)
    if len(names) < 3:
        raise InvalidName(f"{key} is no log")
    return StreamId(*names)
