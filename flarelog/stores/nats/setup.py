"""The streams of a store: made once, by whoever may administer JetStream, and checked at each opening.

Servers drop options that they do not know, so what was asked for is read back. Receivers need no such rights: they
publish, read, list and purge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flarelog.errors import CONFIGURATION, FlarelogError
from flarelog.stores.nats.engine import Engine, Refused
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.url import Url
from flarelog.values import frozen

VERSION = "1"
OLDEST = (2, 14, 0)
_NOTES = 32  # the notes may have this part of the bytes, or LEAST_NOTES
LEAST_NOTES = 64 << 20
LEAST = 1 << 30
_MISSING = 10059


class NotSetUp(FlarelogError):
    """The store's streams are missing, or have other settings than it needs."""

    exit_code = CONFIGURATION


@frozen
class Wanted:
    """How to make a store."""

    replicas: int
    shards: int
    max_bytes: int  # on each server that has a replica of everything


def configs(name: str, wanted: Wanted) -> list[dict[str, Any]]:
    """The configurations of the streams of the store *name*: its shards, then its notes."""
    layout = Layout(name, wanted.shards)
    notes = max(LEAST_NOTES, wanted.max_bytes // _NOTES)
    common = {
        "retention": "limits", "storage": "file", "discard": "new", "num_replicas": wanted.replicas, "max_age": 0,
        "max_msgs": -1, "max_msgs_per_subject": -1, "max_msg_size": -1, "allow_direct": True, "compression": "none",
        "metadata": {"flarelog": VERSION, "flarelog-shards": str(wanted.shards)},
    }  # fmt: skip
    shards = [
        {
            **common,
            "name": layout.shard_stream(shard),
            "subjects": [layout.shard_subjects(kind, shard) for kind in ("fl", "fm")],
            "max_bytes": (wanted.max_bytes - notes) // wanted.shards,
            "republish": {
                "src": layout.shard_subjects("fl", shard),
                "dest": layout.shard_subjects("fw", shard),
                "headers_only": True,
            },
        }
        for shard in range(wanted.shards)
    ]
    last = {"name": layout.notes_stream, "subjects": [f"fn.{name}.>"], "max_bytes": notes, "allow_rollup_hdrs": True}
    return [*shards, {**common, **last}]


async def init(engine: Engine, name: str, wanted: Wanted) -> None:
    """Make the streams of the store *name*, or change the limits of those that exist. Raises NotSetUp."""
    _demand_version(engine)
    for config in configs(name, wanted):
        stream = config["name"]
        before = await _config(engine, stream)
        if before is not None and (shards := _shards(before)) != wanted.shards:
            raise NotSetUp(f"the store {name} has {shards} shards, which cannot be changed: give --shards {shards}")
        await engine.api(f"STREAM.{'CREATE' if before is None else 'UPDATE'}.{stream}", {**(before or {}), **config})
        after = await _config(engine, stream)
        if after is None or (other := differing(config, after)):
            raise NotSetUp(
                f"the server did not take {other if after else 'the stream'} of {stream}: update nats-server"
            )


async def made(url: Url, replicas: int, shards: int, max_bytes: int) -> None:
    """Make the store at *url*; see ``init``. Raises CannotConnect, NotAllowed, NotSetUp."""
    engine = Engine(url)
    await engine.open()
    try:
        await init(engine, url.name, Wanted(replicas, shards, max_bytes))
    finally:
        await engine.close()


async def opened(engine: Engine, url: Url) -> Layout:
    """The layout of the store at *url*. Raises NotSetUp, in one sentence."""
    _demand_version(engine)
    again = f"flarelog store init {url.shown} repairs that"
    notes = await _config(engine, Layout(url.name, 1).notes_stream)
    if notes is None:
        raise NotSetUp(f"there is no store at {url.shown}: flarelog store init {url.shown} makes it")
    shards = _shards(notes)
    if not shards:
        raise NotSetUp(f"the store at {url.shown} is of another version of flarelog")
    for config in configs(url.name, Wanted(1, shards, LEAST)):
        found = notes if config["name"] == notes["name"] else await _config(engine, config["name"])
        if found is None:
            raise NotSetUp(f"the store at {url.shown} lacks the stream {config['name']}: {again}")
        if other := differing({key: value for key, value in config.items() if key not in _LIMITS}, found):
            raise NotSetUp(f"the stream {config['name']} at {url.shown} has another {other}: {again}")
        if int(found.get("max_bytes", -1)) <= 0:
            raise NotSetUp(
                f"the stream {config['name']} at {url.shown} has no max_bytes, so that"
                f" a full disk would stop the servers: {again}"
            )
    return Layout(url.name, shards)


_LIMITS = ("num_replicas", "max_bytes")


def _demand_version(engine: Engine) -> None:
    if engine.version < OLDEST:
        raise NotSetUp(
            f"the NATS server at {engine.where} is version {'.'.join(map(str, engine.version))}; flarelog needs"
            f" {'.'.join(map(str, OLDEST))} or later"
        )


async def _config(engine: Engine, stream: str) -> dict[str, Any] | None:
    async def asked() -> dict[str, Any]:
        return dict((await engine.api(f"STREAM.INFO.{stream}"))["config"])

    try:
        return await engine.patiently(asked)
    except Refused as error:
        if error.code == _MISSING:
            return None
        raise


def _shards(config: Mapping[str, Any]) -> int:
    said = config.get("metadata") or {}
    return int(said.get("flarelog-shards", "0")) if said.get("flarelog") == VERSION else 0


def differing(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The name of a setting in *found* that is not as *wanted*; empty: there is none. Servers omit some defaults."""
    for key, value in wanted.items():
        has = found.get(key)
        if isinstance(value, dict):
            if not isinstance(has, dict) or any(has.get(name) != each for name, each in value.items()):
                return key
        elif has != value and not (has is None and value in (0, False, "none")):
            return key
    return ""
