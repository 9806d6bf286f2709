"""Certificates: whatever stands in one, it names whom it names, or nobody."""

from __future__ import annotations

import ssl

from flarelog.errors import NotAllowed
from flarelog.policy import site_of
from flarelog.security.certificate import Presented
from fuzz.steps import hold
from tests.certificates import Named, pem_of

_KINDS = (b"dns", b"email", b"uri")


def certificate(raw: bytes) -> None:
    """DER, as it comes; else COMMON|KIND:NAME|KIND:NAME..., of which a certificate is made.

    A site is one of the DNS names where there is any, else the common name, and no NUL is in any name of it.
    """
    if raw.startswith(b"\x30"):
        _identified(ssl.DER_cert_to_PEM_cert(raw).encode())
        return
    first, *rest = raw.split(b"|")
    common = first[:64].decode(errors="ignore")  # as much as a certificate holds
    sans: list[Named] = []
    for one in rest:
        kind, _, name = one.partition(b":")
        if kind in _KINDS:
            sans.append((kind.decode(), name))
    site = _identified(pem_of(common, sans))
    if site is None:
        return
    dns = [name for kind, name in sans if kind == "dns"]
    hold(site.encode() in (dns or [common.encode()]), (site, common, sans))
    hold(not any(b"\0" in name for name in (common.encode(), *(name for _, name in sans))), (common, sans))


def _identified(pem: bytes) -> str | None:
    """The site that a certificate is, if it is one."""
    try:
        identity = Presented(pem).identity()
        said = str(identity) + identity.fingerprint
        site: str | None = site_of(identity)
    except NotAllowed as refused:
        said, site = str(refused), None
    hold(said.isprintable() and len(said) < 1000, said)
    return site


SEEDS = [
    b"site-1|dns:site-1",
    b"evil|dns:site-1\0evil|email:site-1\0@evil.org|uri:site-1",
    b"site-1|dns:a.org|dns:site-1|email:a@b|uri:spiffe://a/b",
    b"|email:site-1",
    b"site-1\0.evil",
    ssl.PEM_cert_to_DER_cert(pem_of("site-1", [("dns", b"site-1"), ("email", b"a@b")], ["site"]).decode()),
]
