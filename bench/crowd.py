"""Many sites in one process: a ``Sidecar`` each, with a connection, a root and a log of its own, all in one loop.

    python -m bench.crowd READY-FILE PORT DIRECTORY FIRST COUNT LINES-A-SECOND

Site number N has the root DIRECTORY/site-N. READY-FILE appears when all have begun; then each log gets so many lines a
second, all in turn, until the process is killed. What is written is told to the sidecars by the writer itself and not
by inotify, of which a user may have 128 only: what is measured is the receiver. With 0 lines a second somebody else
writes, and inotify tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import time
from pathlib import Path

from flarelog.cli import more_descriptors
from flarelog.sidecar import Sidecar, SidecarOptions
from flarelog.sources.patterns import SourceOptions
from flarelog.sources.watch import Change, What

LOG = "log.txt"
LINE = b"2025-06-01 08:00:00,370 - trainer - INFO - step=1234 loss=0.123456 lr=1e-4 gpu_mem=71.3GiB\n"
_EACH = 0.005  # seconds between two looks at what is due
_AT_ONCE = 100  # sidecars that begin in one go


class Told:
    """A watch that is told what changed by whoever changed it."""

    slow_poll = 600.0

    def __init__(self, directory: str) -> None:
        self._changes = [Change(What.MODIFIED, directory, LOG)]
        self._told = asyncio.Event()

    def add(self, directory: str) -> bool:
        return True

    def tell(self) -> None:
        self._told.set()

    async def changes(self, timeout: float) -> list[Change] | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._told.wait()
        return self.ready()

    def ready(self) -> list[Change] | None:
        found = self._changes if self._told.is_set() else []
        self._told.clear()
        return list(found)

    def close(self) -> None: ...


async def main(ready: str, port: int, directory: Path, first: int, count: int, rate: int) -> None:
    more_descriptors()
    files, watches, tasks = [], [], []
    for number in range(first, first + count):
        root = directory / f"site-{number}"
        root.mkdir()
        files.append(os.open(root / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640))
        os.write(files[-1], LINE)
        options = SidecarOptions(f"127.0.0.1:{port}", "bench", f"site-{number}", SourceOptions(str(root)), ranks=False)
        sidecar = Sidecar(options)
        if rate:
            sidecar.discovery.watch.close()
            watches.append(Told(str(root)))
            sidecar.discovery.watch = watches[-1]
        tasks.append(asyncio.create_task(sidecar.run()))
        if number % _AT_ONCE == 0:
            while sidecar.unsent()[0] or not sidecar.discovery.tails:
                await asyncio.sleep(0.01)
    Path(ready).write_text("all have begun\n")
    gc.collect()
    gc.freeze()
    await asyncio.sleep(1)
    begin, written = time.perf_counter(), 0
    while rate:
        due = int((time.perf_counter() - begin) * rate * count) - written
        for number in range(written, written + min(due, count)):
            os.write(files[number % count], LINE)
            watches[number % count].tell()
        written += due  # what there was no time for is left out: it shows in what is stored
        await asyncio.sleep(_EACH)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    where, port, directory, *numbers = sys.argv[1:]
    asyncio.run(main(where, int(port), Path(directory), *map(int, numbers)))
