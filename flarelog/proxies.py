"""The HTTP proxy on the way to a receiver: which one it is, why there is none, and what its failures mean.

This machine is never reached through a proxy. The variables are those of gRPC, and in capitals those of curl; the first
that is set counts, and an empty one means no proxy. A proxy's password is never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from flarelog.errors import InvalidOption
from flarelog.late import late
from flarelog.names import is_loopback, parse_address
from flarelog.text import quoted
from flarelog.values import frozen

VARIABLES = ("grpc_proxy", "https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY")
EXCEPTIONS = ("no_grpc_proxy", "no_proxy", "NO_PROXY")
OFF = "off"
PROXY = "HTTP proxy before the receiver; off: none.  [default: of grpc_proxy, https_proxy or http_proxy]"
"""The help of ``--proxy``."""
NO_ANSWER = "the proxy accepts connections, but does not answer"
CLOSES = "the proxy closes the connection without an answer"
NO_PROXY = "the program at the proxy's port is no HTTP proxy"
_WORDS = ("none", "no", "false", "direct", "never")  # for which people write off
_PORT = 80  # of a proxy whose URL has none
_HOSTS = "/etc/hosts"
_URL = late(r"(?:([A-Za-z][A-Za-z0-9+.-]*)://)?(?:(.*)@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/*")


@frozen
class Proxy:
    host: str
    port: int
    login: str  # USER:PASSWORD, decoded; empty: none
    source: str  # the variable or the option that names the proxy

    def __str__(self) -> str:
        return f"{self.source}=http://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL with the login, for gRPC."""
        from urllib.parse import quote

        user, colon, password = self.login.partition(":")
        login = f"{quote(user, safe='')}{colon}{quote(password, safe='')}@" if self.login else ""
        return f"http://{login}{self.host}:{self.port}"

    def refusal(self, status: int) -> str:
        """What the proxy's answer *status* to the request for a connection means, and what to do."""
        if status == 407:
            if self.login:
                return f"it refuses the login in {self.source} (status 407), which flarelog sends as Basic"
            return f"it requires a login (status 407): write {self.source}=http://USER:PASSWORD@HOST:PORT"
        if status in (502, 503, 504):
            return f"it cannot reach the receiver (status {status})"
        return f"it refuses the connection (status {status}): ask its administrator to allow the receiver's port"


@frozen
class Route:
    """The way to a receiver: through *proxy*, or directly. *note*: why a proxy that is set is not used."""

    proxy: Proxy | None = None
    note: str = ""

    def to(self, address: str) -> str:
        """*address*, and the proxy before it if there is one."""
        return f"{address} through the proxy {self.proxy}" if self.proxy is not None else address

    def instead(self, address: str) -> str:
        """The end of a sentence about a failed connection to *address*: how to connect without the proxy, or why a
        proxy that is set was not used.
        """
        if self.proxy is None:
            return f"; {self.note}" if _UNUSABLE in self.note else ""
        host = parse_address(address)[0].strip("[]")
        how = "--proxy off" if self.proxy.source == "--proxy" else f"no_proxy={host}"
        return f"; to connect without the proxy, set {how}"


_UNUSABLE = "is not used: "


def route(address: str, asked: str = "", environ: Mapping[str, str] | None = None, hosts: str = _HOSTS) -> Route:
    """The way to the receiver at *address*. *asked*: the value of ``--proxy``; empty: the environment decides.

    ``no_proxy`` also limits a proxy from ``--proxy``, as with curl and because gRPC does so itself. *hosts*: the file
    with this machine's names. Raises InvalidOption if *asked* is not a proxy.
    """
    environ = os.environ if environ is None else environ
    if asked == OFF:
        return Route(note="--proxy off: no proxy is used")
    source = "--proxy" if asked else next((name for name in VARIABLES if name in environ), "")
    url = asked or environ.get(source, "")
    if not url:
        return Route()
    proxy = _parsed(url, source)
    if isinstance(proxy, str):
        if asked:
            raise InvalidOption(f"proxy must be off or http://HOST:PORT: {proxy}")
        return Route(note=f"{source} {_UNUSABLE}{proxy}")
    host, port = parse_address(address)
    if _is_here(host, hosts):
        return Route(note=f"{proxy} is not needed: {host} is this machine")
    excepting = next((name for name in EXCEPTIONS if name in environ), "")
    if excepting and _excepted(host.strip("[]"), port, environ[excepting]):
        return Route(note=f"{proxy} is not used for {host}, because of {excepting}")
    return Route(proxy)


def _parsed(url: str, source: str) -> Proxy | str:
    """The proxy at *url*, or what is wrong with the URL."""
    found = _URL.fullmatch(url.strip())
    if found is None or int(found[4] or _PORT) > 65535:
        return "its value is no URL of a proxy" if "@" in url else f"{quoted(url)} is no URL of a proxy"
    if found[3].lower() in _WORDS:
        return f"{quoted(url)} is no proxy; off means none"
    if found[1] and found[1].lower() != "http":
        return f"{found[1]}:// proxies are not supported, only http://"
    from urllib.parse import unquote

    return Proxy(found[3], int(found[4] or _PORT), unquote(found[2] or ""), source)


def has_password(url: object) -> bool:
    """Whether *url*, the value of ``--proxy``, has a password."""
    found = _parsed(url, "") if isinstance(url, str) else None
    return isinstance(found, Proxy) and ":" in found.login


def _is_here(host: str, hosts: str) -> bool:
    """Whether *host* is this machine: a loopback address, or a name that *hosts* gives only loopback addresses."""
    host = host.lower().rstrip(".")
    if is_loopback(host) or host in ("0.0.0.0", "[::]") or host.endswith(".localhost"):  # noqa: S104  to connect to
        return True
    if host.startswith("["):
        return False
    try:
        with open(hosts, encoding="utf-8", errors="replace") as file:
            entries = [line.partition("#")[0].lower().split() for line in file]
    except OSError:
        return False
    found = [entry[0] for entry in entries if host in entry[1:]]
    return bool(found) and all(is_loopback(f"[{one}]" if ":" in one else one) for one in found)


def _excepted(host: str, port: int, exceptions: str) -> bool:
    """Whether *exceptions*, the value of no_proxy, covers *host*: a network in CIDR notation, or the end of a name.

    gRPC applies the variable as well. What it excepts must be excepted here too: an entry ``ample.com`` covers
    ``example.com``.
    """
    entries = re.split(r"[,\s]+", exceptions.lower())
    return any(entry == "*" or _covers(entry.lstrip("*."), host.lower(), port) for entry in entries)


def _covers(entry: str, host: str, port: int) -> bool:
    if "/" in entry:
        import ipaddress

        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, its_port = entry.rpartition(":")
    if colon and its_port == str(port) and ":" not in name.strip("[]"):
        entry = name
    return bool(entry) and host.endswith(entry.strip("[]"))
