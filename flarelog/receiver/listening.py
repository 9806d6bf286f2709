"""The ports of a receiver: for producers, readers and operators; for readers with a token; and for probes, which have
no certificate and learn whether the receiver serves, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc

from flarelog.errors import CannotListen
from flarelog.names import parse_address
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.unbound import tried
from flarelog.security.connections import aging
from flarelog.security.guard import Guard
from flarelog.security.tls import ServerCertificates
from flarelog.wire import service

log = logging.getLogger(__name__)

Handlers = Callable[[service.Meet], list[Any]]
"""Makes gRPC's handlers of all calls; *meet* authenticates each call."""


class Listening:
    """The ports of one process. *shared*: other processes of this receiver use the same port."""

    def __init__(self, options: ServerOptions, guard: Guard, *, shared: bool) -> None:
        self.address = self.reader_address = ""
        self._options, self._guard, self._shared = options, guard, shared
        self._certificates: ServerCertificates | None = None
        self._servers: list[grpc.aio.Server] = []  # one a port

    async def start(self, handlers: Handlers) -> None:
        """Listen on the ports, and serve. Raises CannotListen."""
        options, guard = self._options, self._guard
        if options.tls is not None:
            self._certificates = guard.certificates = ServerCertificates(options.tls)
        self.address = self._bind(options.listen, handlers(guard.meet))
        if options.reader_listen:
            self.reader_address = self._bind(options.reader_listen, handlers(guard.meet_token), demanded=False)
        if options.health_listen:
            self._bind(options.health_listen, [service.health_handler()], plain=True)
        for server in self._servers:
            await server.start()

    def _bind(self, address: str, handlers: list[Any], *, demanded: bool = True, plain: bool = False) -> str:
        """Listen on *address*, return ``HOST:PORT``. *demanded*: clients need a certificate; *plain*: never with TLS.
        Raises CannotListen.
        """
        certificates = None if plain else self._certificates
        age = aging(self._options.max_connection_age) if certificates is not None else []
        server = service.server(self._options.max_connections, shared=self._shared, more=age)
        server.add_generic_rpc_handlers(handlers)
        host, port = parse_address(address)
        try:
            if certificates is not None:
                bound = server.add_secure_port(f"{host}:{port}", certificates.credentials(demanded=demanded))
            else:
                bound = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError:  # gRPC does not say whether the port or the certificates failed
            bound = 0
        if not bound:
            why = tried(address) or f"gRPC refuses the {'certificates' if certificates else 'address'}"
            raise CannotListen(f"the receiver cannot listen on {address}: {why}")
        self._servers.append(server)
        return f"{host}:{bound}"

    def stop(self, grace: float) -> list[asyncio.Task[None]]:
        """Accept no more calls; returns a task for each port, which gives running calls *grace* seconds to end."""
        return [asyncio.create_task(server.stop(grace)) for server in self._servers]

    def reread(self) -> None:
        """Read certificates, policy and tokens again, even if they seem unchanged, and log the result."""
        if self._certificates is not None:
            self._certificates.reread()
        if not self._guard.reread() and self._certificates is None:
            log.info("SIGHUP has nothing to read again: this receiver has neither certificates nor a policy file")
