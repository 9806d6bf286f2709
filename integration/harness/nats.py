"""The nats-servers of the tests. ``python -m integration.harness.nats`` builds nats-server: two minutes of CPU."""

from __future__ import annotations

from flarelog.poc.servers import VERSION as VERSION
from flarelog.poc.servers import Servers
from flarelog.poc.servers import built as built
from flarelog.poc.servers import cache as cache

Nats = Servers


def missing() -> str:
    """The reason why no server can run here; empty if one can. A test builds none: it would take minutes."""
    there = (cache() / "nats-server").exists()
    return "" if there else f"nats-server {VERSION} is not built: python -m integration.harness.nats (needs Go)"


if __name__ == "__main__":
    print(built())
