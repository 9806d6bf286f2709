"""A search of one large log, as the page's server does it, without a browser and without a network: when the first hits
are there, and when all are known or counted.

Run it alone: ``python -m bench.searching --mib 1024``. It prints wall and CPU seconds, and compares nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from bench import content, processes
from flarelog.model import StreamId, StreamInfo
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.web.search import LIMIT, Query, Search
from flarelog.viewers.web.trouble import stamps_here
from flarelog.viewers.web.windows import Windows

STREAM = StreamId("bench", "site", "log.txt")
COMMON, ABSENT = "loss", "there is no such text"
SCREEN, WINDOW = (
    16 << 10,
    256 << 10,
)  # bytes to the end: from the last screen, from where the hit above it is looked for


async def stored(root: Path, length: int) -> None:
    content.write(root / "log.txt", length)
    async with LocalStore(root / "store", "memory") as store:
        appender = await store.appender(STREAM, b"bench")
        with open(root / "log.txt", "rb") as file:
            while data := file.read(1 << 20):
                await appender.append(appender.committed, data)
        await appender.close()


async def searched(origin: StoreOrigin, info: StreamInfo, text: str, **how: Any) -> None:
    """Print when the first hits and the end of a search came."""
    began, cpu, first, said = time.perf_counter(), time.process_time(), float("nan"), b""
    query = Query.of([text], "", ignore=True, level=None)
    starts = {STREAM: how.pop("start", 0)}
    search = Search(origin, [info], query, plain_of=Windows().plain, stamps=stamps_here(), starts=starts, **how)
    found = 0
    async for said in search.said():
        answer = json.loads(said)
        found += len(answer.get("hits", ())) + answer.get("counted", [0, 0])[1]
        if found and first != first:
            first = time.perf_counter() - began
    took, used = time.perf_counter() - began, time.process_time() - cpu
    sys.stdout.write(
        f"{found:>12,} hits, first after {first * 1e3:6.0f} ms, all after {took:5.2f} s, {used:5.2f} s of CPU\n"
    )


async def measure(root: Path, length: int) -> None:
    await stored(root, length)
    async with StoreOrigin(root / "store") as origin:
        (info,) = await origin.streams(STREAM.run)
        above = {"start": length - WINDOW, "stop": length - SCREEN, "last": True, "within": True}
        for what, text, how in (
            ("a common text, from the last screen on", COMMON, {"start": length - SCREEN}),
            ("the last hits above the last screen", COMMON, above),
            ("the first hits of the log", COMMON, {"limit": LIMIT}),
            ("the number of all hits", COMMON, {"counts": True}),
            ("an absent text", ABSENT, {}),
            ("an absent text, counted", ABSENT, {"counts": True}),
        ):
            sys.stdout.write(f"{what + ':':42}")
            await searched(origin, info, text, **how)


@click.command()
@click.option("--mib", default=1024, help="The length of the log in MiB.")
def main(mib: int) -> None:
    """Measure searches of one log."""
    with processes.scratch(Path(tempfile.gettempdir())) as root:
        asyncio.run(measure(root, mib << 20))


if __name__ == "__main__":
    main()
