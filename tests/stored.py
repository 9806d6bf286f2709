"""A store for tests that need one and no directory of it."""

from __future__ import annotations

import shutil
import tempfile
import weakref

from flarelog.stores.local.store import LocalStore


class TemporaryStore(LocalStore):
    """A local store that waits for no disk; its directory lives as long as the object."""

    def __init__(self) -> None:
        root = tempfile.mkdtemp(prefix="flarelog-test-")
        super().__init__(root, "memory")
        weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
