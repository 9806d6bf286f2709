"""How a receiver serves: each option with its unit and its default."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flarelog.delivery.quota import Limits
from flarelog.errors import InvalidOption
from flarelog.model import is_loopback, parse_address
from flarelog.policy import Policy
from flarelog.security.access import PolicyFile
from flarelog.security.connections import AGE, MAX_AGE
from flarelog.security.tls import Tls
from flarelog.security.tokens import Tokens
from flarelog.wire.uplink import IDLE_TIMEOUT

LISTEN = "127.0.0.1:4721"


@dataclass(frozen=True, slots=True)
class ServerOptions(Limits):
    """How a receiver serves, and how much it takes. Raises InvalidOption."""

    listen: str = LISTEN  # HOST:PORT; port 0 takes a free one
    idle_timeout: float = IDLE_TIMEOUT  # seconds of silence after which a call is ended, and its streams with it
    announced_runs_only: bool = False  # a run that nobody announced is answered EXECUTION_EXCEPTION
    tls: Tls | None = None  # only certificates of this CA get in
    insecure: bool = False  # let other machines in without TLS
    policy: Policy | PolicyFile | None = None  # None: what Policy() says with TLS, and everything without
    reader_listen: str = ""  # HOST:PORT for readers and operators who show a token instead of a certificate
    tokens: Tokens | None = None  # who is let in there
    end_timeout: float = 60.0  # seconds that an ending run waits for its streams
    compression: bool = True  # take chunks that are compressed
    max_connection_age: float = AGE  # seconds after which a peer is to connect anew; what it sends goes on there

    def __post_init__(self) -> None:
        Limits.__post_init__(self)
        host, _ = parse_address(self.listen)
        if self.tls is None and not self.insecure and not is_loopback(host):
            raise InvalidOption(
                f"{self.listen} is open to other machines: give --tls-ca, --tls-cert and --tls-key, or say --insecure"
            )
        if self.tls is not None:
            self.tls.whole()
        if self.reader_listen:
            self._check_readers()
        if not 0.1 <= self.idle_timeout < math.inf:
            raise InvalidOption(f"idle_timeout must be a number of seconds from 0.1 on, not {self.idle_timeout:g}")
        if not 0 < self.end_timeout < math.inf:
            raise InvalidOption(f"end_timeout must be a positive number of seconds, not {self.end_timeout:g}")
        if not 1 <= self.max_connection_age <= MAX_AGE:
            raise InvalidOption(f"max_connection_age must be a number of seconds from 1 to {MAX_AGE}")

    def _check_readers(self) -> None:
        _, port = parse_address(self.reader_listen)
        if self.tls is None:
            raise InvalidOption(
                f"--reader-listen {self.reader_listen} is of no use without TLS: a token would go unencrypted, and"
                " everybody may read at --listen; give --tls-ca, --tls-cert and --tls-key, or leave it out"
            )
        if self.tokens is None:
            raise InvalidOption("reader_listen needs the tokens of those who are let in there")
        if self.reader_listen == self.listen and port:
            raise InvalidOption(
                f"--listen and --reader-listen are both {self.listen}: name two ports, one for certificates and one for"
                " tokens"
            )
