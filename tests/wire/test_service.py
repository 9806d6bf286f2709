"""The options that gRPC gets: it knows each, and accepts its value."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]

import flarelog
from flarelog.wire import service

SOURCES = sorted(Path(flarelog.__file__).parent.rglob("*.py"))


def test_grpc_knows_each_option_that_it_is_given() -> None:
    """gRPC ignores unknown options silently."""
    library = Path(cygrpc.__file__).read_bytes()
    given = {name for path in SOURCES for name in re.findall(r'\("(grpc\.[a-z0-9_.]+)"', path.read_text())}
    assert len(given) > 15
    assert {name for name in given if name.encode() not in library} == set()


@pytest.mark.parametrize("limit", [1, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1])
def test_no_limit_of_connections_ends_the_process(limit: int) -> None:
    async def serve() -> int:
        server = service.server(limit)
        port = int(server.add_insecure_port("127.0.0.1:0"))
        await server.stop(0)
        return port

    assert asyncio.run(serve()) > 0
