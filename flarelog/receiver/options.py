"""The options of a receiver and its limits: each option once, with its default and its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flarelog.delivery.quota import LONGEST, Limits
from flarelog.errors import InvalidOption
from flarelog.names import is_loopback, parse_address
from flarelog.options import option
from flarelog.policy import Policy
from flarelog.security.access import PolicyFile
from flarelog.security.connections import AGE, MAX_AGE
from flarelog.security.tls import Tls
from flarelog.security.tokens import Tokens
from flarelog.wire.heartbeat import IDLE_TIMEOUT
from flarelog.wire.packing import COMPRESSIONS, Compression, check

LISTEN = "127.0.0.1:4721"


@dataclass(frozen=True, slots=True)
class ServerOptions(Limits):
    """The options of a receiver, and its limits. Raises InvalidOption."""

    listen: str = option(LISTEN, "HOST:PORT to listen on. Port 0 takes a free port.")
    idle_timeout: float = option(
        IDLE_TIMEOUT,
        "Seconds without a message after which a sidecar counts as gone. It can return and continue.",
        unit="seconds",
    )
    # If set, the receiver answers an unannounced run with EXECUTION_EXCEPTION.
    announced_runs_only: bool = option(False, "Accept only runs that flarelog run-start announced.")
    tls: Tls | None = None  # peers need a certificate of its CA
    insecure: bool = option(False, "Accept other machines without TLS. Loopback does not need this.")
    policy: Policy | PolicyFile | None = None  # None: Policy() with TLS, and no restrictions without
    reader_listen: str = option(
        "",
        "HOST:PORT of a second port, for people with a token (flarelog token) and no certificate.",
    )
    tokens: Tokens | None = None  # the tokens that reader_listen accepts
    health_listen: str = option(
        "",
        "HOST:PORT of a port for probes: gRPC's health service alone, and always without TLS.",
    )
    end_timeout: float = 60.0  # seconds that an ending run waits for its streams
    compression: Compression = option(
        "auto",
        "Accept compressed logs. off: never; on: do not start where no decompressor is installed.",
        choices=COMPRESSIONS,
        flags={"no-compression": "off"},
    )
    findings: Literal["on", "off"] = option(
        "on",
        "Find known signs of trouble in logs as they come, for flarelog findings and status.",
        choices=("on", "off"),
    )
    max_connection_age: float = option(
        AGE, "Seconds after which a peer with a certificate must reconnect. Its streams continue.", unit="seconds"
    )

    def __post_init__(self) -> None:
        Limits.__post_init__(self)
        host, _ = parse_address(self.listen)
        if self.tls is None and not self.insecure and not is_loopback(host):
            raise InvalidOption(
                f"{self.listen} is open to other machines: give --tls-ca, --tls-cert and --tls-key, or --insecure"
            )
        if self.tls is not None:
            self.tls.whole()
        check(self.compression)
        if self.reader_listen:
            self._check_readers()
        if self.health_listen:
            self._check_health()
        if not 0.1 <= self.idle_timeout <= LONGEST:
            raise InvalidOption(
                f"idle_timeout must be a number of seconds from 0.1 to {LONGEST}, not {self.idle_timeout:g}"
            )
        if not 0 < self.end_timeout <= LONGEST:
            raise InvalidOption(f"end_timeout must be a positive number of seconds up to {LONGEST}")
        if not 1 <= self.max_connection_age <= MAX_AGE:
            raise InvalidOption(f"max_connection_age must be a number of seconds from 1 to {MAX_AGE}")

    def _check_readers(self) -> None:
        _, port = parse_address(self.reader_listen)
        if self.tls is None:
            raise InvalidOption(
                f"--reader-listen {self.reader_listen} needs TLS: without it a token would"
                " travel in clear text, and anybody could read at --listen; give --tls-ca,"
                " --tls-cert and --tls-key, or leave out --reader-listen"
            )
        if self.tokens is None:
            raise InvalidOption("reader_listen needs tokens")
        if self.reader_listen == self.listen and port:
            raise InvalidOption(
                f"--listen and --reader-listen are both {self.listen}: name two ports, one for certificates and one for"
                " tokens"
            )

    def _check_health(self) -> None:
        port = parse_address(self.health_listen)[1]
        if not port:
            raise InvalidOption(f"--health-listen {self.health_listen} needs a port, which a probe can name")
        if port in (parse_address(each)[1] for each in (self.listen, self.reader_listen) if each):
            raise InvalidOption(
                f"--health-listen {self.health_listen} has the port of another option: name another one"
            )
