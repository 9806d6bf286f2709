"""The checks of a request before other code sees it, and the headers of each answer.

The checks are the same for every method and every path. A request with a foreign host name comes from a foreign page,
whose name was moved here (DNS rebinding); a request that another site's page makes does not come from a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flarelog.viewers.web.options import WebOptions

COOKIE = "flarelog"
LONGEST_BODY = 64 << 10  # bytes
METHODS = ("GET", "HEAD", "POST")

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script';"
    " trusted-types flarelog"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class Refusal(NamedTuple):
    status: int
    sentence: str


class Asked(NamedTuple):
    """The parts of a request that are checked here; *headers* by their names in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    twice: bool = False  # a checked header occurs more than once


def hosts_of(options: WebOptions) -> frozenset[str]:
    """The names by which browsers may ask for the page."""
    own = () if options.trust_proxy else ("127.0.0.1", "localhost", "[::1]")
    return frozenset({*(f"{name}:{options.port}" for name in own), *(host.lower() for host in options.hosts)})


def refusal(asked: Asked, hosts: frozenset[str], *, proxied: bool) -> Refusal | None:
    """The reason to refuse *asked*, or None. *proxied*: a proxy that ends TLS has passed it on."""
    headers = asked.headers
    if asked.twice:
        return Refusal(400, "a header stands twice in this request: send it once")
    if headers.get("host", "").lower() not in hosts:
        return Refusal(421, "this page has another name: ask for it by the address that flarelog web printed")
    if proxied and headers.get("x-forwarded-proto") != "https":
        return Refusal(403, "the proxy did not say X-Forwarded-Proto: https: set it there")
    if asked.method not in METHODS:
        return Refusal(405, "this page knows no such method: GET and POST are all")
    if not asked.path.startswith("/"):
        return Refusal(400, "this is no address of a page: it begins with /")
    return _of_others(asked, hosts, "https" if proxied else "http") or _of_no_json(asked)


def _of_others(asked: Asked, hosts: frozenset[str], scheme: str) -> Refusal | None:
    """The refusal of a request that a page of another site has made."""
    site, origin = asked.headers.get("sec-fetch-site"), asked.headers.get("origin")
    other = Refusal(403, "another site's page made this request: open the page itself")
    if origin is not None and not any(origin.lower() == f"{scheme}://{host}" for host in hosts):
        return other
    if site in (None, "same-origin"):
        return None
    # A link in a chat opens the page, which holds no data itself; an address that a person typed opens anything.
    navigates = asked.headers.get("sec-fetch-mode") == "navigate" and asked.headers.get("sec-fetch-dest") == "document"
    if asked.method == "GET" and navigates and (site == "none" or not asked.path.startswith(("/api/", "/static/"))):
        return None
    return other


def _of_no_json(asked: Asked) -> Refusal | None:
    if asked.method != "POST":
        return None
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return Refusal(415, "this page takes JSON alone: send Content-Type: application/json")
    length = asked.headers.get("content-length", "")
    if length and (not length.isdecimal() or int(length) > LONGEST_BODY):
        return Refusal(413, f"a request has at most {LONGEST_BODY} bytes")
    return None


def cookie_name(options: WebOptions) -> str:
    """The name of the cookie, one for each port: browsers send a cookie to all ports of a host, and keep one a name."""
    return f"__Host-{COOKIE}" if options.trust_proxy else f"{COOKIE}-{options.port}"


def cookie(name: str, value: str, seconds: int, *, secure: bool) -> str:
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{'; Secure' if secure else ''}"


def cookies_of(headers: Mapping[str, str], name: str) -> list[str]:
    """The values of the cookies *name*: another server of this host may have set one as well."""
    return [
        value.strip()
        for part in headers.get("cookie", "").split(";")
        for each, _, value in [part.strip().partition("=")]
        if each == name
    ]
