"""The nats-servers of the tests. ``python -m integration.harness.nats`` builds nats-server: two minutes of CPU."""

from __future__ import annotations

from flarelog.poc.servers import VERSION as VERSION
from flarelog.poc.servers import Servers
from flarelog.poc.servers import built as built
from flarelog.poc.servers import cache as cache
from flarelog.poc.servers import missing as missing

Nats = Servers

if __name__ == "__main__":
    print(built())
