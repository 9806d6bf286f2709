"""What can be seen of a store on JetStream from outside, for ``flarelog doctor``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal, NamedTuple

from flarelog.errors import FlarelogError
from flarelog.stores.nats.engine import Engine, WrongLast
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.setup import NotSetUp, opened
from flarelog.stores.nats.standing import behind, leader
from flarelog.stores.nats.url import Url
from flarelog.text import several, sized

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
        yield Seen(
            "ok", "store", f"{url.shown} has {several(layout.shards, 'shard')}; its server is nats-server {version}"
        )
        streams = dict[str, dict[str, Any]]()
        for stream in (*map(layout.shard_stream, range(layout.shards)), layout.notes_stream):
            streams[stream] = await engine.patiently(lambda: engine.api(f"STREAM.INFO.{stream}"))  # noqa: B023
        yield _replicas(streams)
        yield _filled(streams)
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


def _replicas(streams: Mapping[str, dict[str, Any]]) -> Seen:
    leaders = Counter(leader(found) for found in streams.values())
    late = sorted({name for found in streams.values() for name in behind(found)})
    fewest = min(int(found["config"].get("num_replicas", 1)) for found in streams.values())
    led = ", ".join(f"{name} leads {several(count, 'stream')}" for name, count in sorted(leaders.items()))
    said = f"each byte is on {several(fewest, 'server')}: {led}"
    if late:
        return Seen("warn", "replicas", f"{said}; behind or away: {', '.join(late)}", "look at these servers")
    if fewest < 3:
        fix = "flarelog store init --replicas 3"
        return Seen("warn", "replicas", f"{said}; the store stands still while it is away", fix)
    return Seen("ok", "replicas", said)


def _filled(streams: Mapping[str, dict[str, Any]]) -> Seen:
    """The space of all streams, judged by the fullest: a site's logs are all in one stream."""

    def part(found: dict[str, Any]) -> float:
        return int(found["state"]["bytes"]) / int(found["config"]["max_bytes"])

    size = sum(int(found["state"]["bytes"]) for found in streams.values())
    most = sum(int(found["config"]["max_bytes"]) for found in streams.values())
    fullest = max(streams, key=lambda name: part(streams[name]))
    share = part(streams[fullest])
    said = f"{sized(size)} of {sized(most)} are used, and {100 * share:.0f} % of the fullest stream, {fullest}"
    fix = "remove runs, or give it more with flarelog store init --max-bytes"
    if share > FULL:
        return Seen("fail", "space", said, fix)
    return Seen("warn", "space", said, fix) if share > FILLED else Seen("ok", "space", said)


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
