"""Run a few sites in one process, each with its own ``Sidecar``, connection, root and log.

    python -m bench.probes READY-FILE PORT DIRECTORY FIRST COUNT

Site number N tails DIRECTORY/site-N, which another process writes. READY-FILE appears when all have begun.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bench.crowd import LINE, LOG
from flarelog.sender.options import SidecarOptions
from flarelog.sender.sidecar import Sidecar
from flarelog.sources.files.patterns import SourceOptions


async def main(ready: str, port: int, directory: Path, first: int, count: int) -> None:
    tasks = []
    for number in range(first, first + count):
        root = directory / f"site-{number}"
        root.mkdir()
        (root / LOG).write_bytes(LINE)
        options = SidecarOptions(f"127.0.0.1:{port}", "bench", f"site-{number}", SourceOptions(str(root)), ranks=False)
        sidecar = Sidecar(options)
        tasks.append(asyncio.create_task(sidecar.run()))
        while sidecar.unsent()[0] or not sidecar.finder.logs:
            await asyncio.sleep(0.01)
    Path(ready).write_text("all have begun\n")
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    where, port, directory, *numbers = sys.argv[1:]
    asyncio.run(main(where, int(port), Path(directory), *map(int, numbers)))
