"""How a store on JetStream stands: who leads its streams, which replicas are behind, and how full it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from flarelog.errors import FlarelogError
from flarelog.stores.nats.engine import Engine
from flarelog.stores.nats.layout import Layout

WITHIN = 1.0  # seconds for all answers
KEPT = 1.0  # seconds for which they are kept


def behind(found: Mapping[str, Any]) -> list[str]:
    """The servers whose replicas are behind or away; *found*: JetStream's answer about a stream."""
    peers = (found.get("cluster") or {}).get("replicas") or []
    return [str(each["name"]) for each in peers if not each.get("current") or each.get("offline")]


def leader(found: Mapping[str, Any]) -> str:
    return str((found.get("cluster") or {}).get("leader") or "its only server")


class Look:
    """The looks at the store *name*, one at a time."""

    def __init__(self, engine: Engine, layout: Layout, name: str) -> None:
        self._engine, self._layout, self._name = engine, layout, name
        self._kept: tuple[float, Mapping[str, object]] | None = None
        self._one = asyncio.Lock()

    async def standing(self) -> Mapping[str, object]:
        """As ``Shared.standing``."""
        clock = asyncio.get_running_loop().time
        async with self._one:
            if self._kept is None or clock() - self._kept[0] > KEPT:
                found = await self._asked()
                self._kept = clock(), found
            return self._kept[1]

    async def _asked(self) -> Mapping[str, object]:
        layout = self._layout
        streams = [*map(layout.shard_stream, range(layout.shards)), layout.notes_stream]
        try:
            async with asyncio.timeout(WITHIN):
                infos = [await self._engine.api(f"STREAM.INFO.{stream}", within=WITHIN) for stream in streams]
        except (FlarelogError, TimeoutError) as error:
            return {"name": self._name, "trouble": str(error) or "its servers do not answer"}
        return {
            "name": self._name,
            "leaders": sorted({leader(one) for one in infos}),
            "behind": sorted({name for one in infos for name in behind(one)}),
            "bytes": sum(int(one["state"]["bytes"]) for one in infos),
            "max_bytes": sum(int(one["config"]["max_bytes"]) for one in infos),
        }
