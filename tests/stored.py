"""A store for tests that need one and no directory of it."""

from __future__ import annotations

import shutil
import tempfile
import weakref

from obstore.store import MemoryStore

from flarelog.model import StreamId
from flarelog.stores.archive.bucket import Bucket
from flarelog.stores.archive.store import ArchiveStore
from flarelog.stores.base import Reader
from flarelog.stores.local.store import LocalStore


class TemporaryStore(LocalStore):
    """A local store that waits for no disk; its directory lives as long as the object."""

    def __init__(self) -> None:
        root = tempfile.mkdtemp(prefix="flarelog-test-")
        super().__init__(root, "memory")
        weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)


def archive(bucket: Bucket | None = None) -> ArchiveStore:
    """An archive in memory, or in *bucket*."""
    return ArchiveStore(bucket or Bucket(MemoryStore(), "s3://bucket/logs"), poll=0.005)


async def last_offset(store: Reader, stream: StreamId) -> int | None:
    """The committed offset of *stream*; None if there is no such stream."""
    info = await store.info(stream)
    return None if info is None else info.committed
