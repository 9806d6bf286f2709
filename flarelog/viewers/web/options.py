"""The options of ``flarelog web``."""

from __future__ import annotations

from flarelog.errors import InvalidOption
from flarelog.names import is_loopback, parse_address
from flarelog.options import option
from flarelog.values import frozen

LISTEN = "127.0.0.1:4780"


@frozen
class WebOptions:
    """Raises InvalidOption."""

    listen: str = option(LISTEN, "HOST:PORT of the page. Plain HTTP is served on loopback only.")
    hosts: tuple[str, ...] = option(
        (),
        "HOST:PORT that browsers use for the page behind a proxy. Repeatable.",
        flag="host",
        metavar="HOST",
    )
    trust_proxy: bool = option(False, "Serve only requests of a proxy that ends TLS and sets X-Forwarded-Proto: https.")
    cache: str | None = option(
        None,
        "Directory that keeps the index of lines, so that a restart need not count them again.",
        metavar="DIR",
        path="directory",
    )
    session_hours: float = option(8.0, "Hours after which a login ends.", least=0.01, unit="hours")

    def __post_init__(self) -> None:
        parse_address(self.listen)
        if not self.trust_proxy and not is_loopback(self.host):
            raise InvalidOption(
                f"listen {self.listen} is not on loopback, where plain HTTP can be overheard: listen on 127.0.0.1,"
                " and put a proxy that ends TLS before it (trust_proxy)"
            )
        if self.trust_proxy and not self.hosts:
            raise InvalidOption("trust_proxy needs the name that browsers use: give it with --host")

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0]

    @property
    def port(self) -> str:
        return self.listen.rpartition(":")[2]

    @property
    def origin(self) -> str:
        """The page's own address, without a path."""
        return f"https://{self.hosts[0]}" if self.trust_proxy else f"http://{self.listen}"

    @property
    def login(self) -> str:
        """The command that prints a login."""
        where = f" --listen {self.listen}" if self.listen != LISTEN else ""
        return f"flarelog web login{where}{f' --trust-proxy --host {self.hosts[0]}' if self.trust_proxy else ''}"
