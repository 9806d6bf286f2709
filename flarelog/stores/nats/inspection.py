"""What can be seen of a store on JetStream from outside, for ``flarelog doctor``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Literal, NamedTuple

from flarelog.errors import FlarelogError
from flarelog.stores.nats.engine import Engine, WrongLast
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.setup import NotSetUp, opened
from flarelog.stores.nats.url import Url
from flarelog.text import sized

FILLED, FULL = 0.8, 0.95  # parts of max_bytes
SLOW = 0.1  # seconds for a small commit


class Seen(NamedTuple):
    result: Literal["ok", "warn", "fail"]
    check: str
    found: str
    fix: str = ""


async def inspected(place: str) -> AsyncGenerator[Seen, None]:
    """The checks of the store at the URL *place*; it writes one note of its own."""
    url = Url.of(place)
    engine = Engine(url)
    try:
        await engine.open()
    except FlarelogError as error:
        yield Seen(
            "fail", "store", str(error), "start nats-server there, or correct the URL, --nats-creds or --nats-ca"
        )
        return
    try:
        layout = await opened(engine, url)
        version = ".".join(map(str, engine.version))
        yield Seen("ok", "store", f"{url.shown} has {layout.shards} shards; its server is nats-server {version}")
        for stream in (*map(layout.shard_stream, range(layout.shards)), layout.notes_stream):
            found = await engine.patiently(lambda stream=stream: engine.api(f"STREAM.INFO.{stream}"))  # type: ignore[misc]
            yield _replicas(stream, found)
            yield _filled(stream, found)
        yield await _round_trip(engine, layout)
        yield Seen(
            "warn", "power", "whether the servers sync each write (sync_interval) cannot be seen from here",
            "put jetstream { sync_interval: always } into nats-server.conf if a power cut may hit a majority of them",
        )  # fmt: skip
    except NotSetUp as error:
        yield Seen("fail", "store", str(error), "flarelog store init makes and repairs the store's streams")
    except FlarelogError as error:
        yield Seen("fail", "store", str(error), "look at the logs of the NATS servers")
    finally:
        await engine.close()


def _replicas(stream: str, found: dict[str, Any]) -> Seen:
    wanted, cluster = int(found["config"].get("num_replicas", 1)), found.get("cluster") or {}
    peers = cluster.get("replicas") or []
    behind = [each["name"] for each in peers if not each.get("current") or each.get("offline")]
    said = f"{stream} is led by {cluster.get('leader', 'its only server')} and has {wanted} replicas"
    if behind:
        return Seen("warn", "replicas", f"{said}; behind or away: {', '.join(behind)}", "look at these servers")
    if wanted < 3:
        return Seen("warn", "replicas", f"{said}: one server's end stops it", "flarelog store init --replicas 3")
    return Seen("ok", "replicas", said)


def _filled(stream: str, found: dict[str, Any]) -> Seen:
    size, most = int(found["state"]["bytes"]), int(found["config"]["max_bytes"])
    said = f"{stream} has {sized(size)} of {sized(most)}"
    fix = "remove runs, or give it more with flarelog store init --max-bytes"
    if size > FULL * most:
        return Seen("fail", "space", said, fix)
    return Seen("warn", "space", said, fix) if size > FILLED * most else Seen("ok", "space", said)


async def _round_trip(engine: Engine, layout: Layout) -> Seen:
    """Whether a message is stored after the one before it, and after no other."""
    subject, clock = layout.note("doctor"), asyncio.get_running_loop().time
    last = await engine.patiently(lambda: engine.last(layout.notes_stream, subject))
    begun, before = clock(), last.sequence if last is not None else 0
    await engine.publish(subject, b"doctor\n", after=before, rollup=True)
    took = clock() - begun
    try:
        await engine.publish(subject, b"doctor\n", after=before, rollup=True)
    except WrongLast:
        said = f"a small commit takes {1000 * took:.1f} ms, and a second one after the same message is refused"
        return Seen("ok" if took < SLOW else "warn", "writing", said, "" if took < SLOW else "use faster disks")
    return Seen("fail", "writing", "two writers of one log are not kept apart", "update nats-server")
