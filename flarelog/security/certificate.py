"""A peer's certificate: the names in it, and whether its CA, its dates and the revocation lists still permit it.

Names are read from the certificate itself, each with its kind: gRPC's own strings end at a NUL and mix DNS names,
e-mail addresses and URIs. A certificate that is unreadable, or has a NUL in a name, is refused. gRPC checks a
certificate only once a connection, at the handshake; this module checks it again, against the present files.
"""

from __future__ import annotations

import base64
import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from flarelog.errors import NotAllowed, NotInstalled, Unavailable
from flarelog.policy import NOBODY, Identity
from flarelog.security.callers import name_of
from flarelog.security.revocation import BROKEN, Revoked, anchors_of, day, lists
from flarelog.values import frozen

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID
except ImportError as error:
    raise NotInstalled(
        "the receiver needs the cryptography package to read certificates: pip install 'flarelog[tls]'"
    ) from error

MAX_PEM = 256 << 10  # bytes of a certificate with its chain; a handshake carries at most 100 kB of them
MAX_CHAIN = 8  # certificates between a peer's and its CA's
KNOWN = 4096  # certificates whose check is cached

_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


@frozen
class Presented:
    """A peer's certificate from its handshake, in PEM, and the chain between it and its CA."""

    pem: bytes
    chain: bytes = b""

    @classmethod
    def of(cls, properties: Mapping[str, Iterable[bytes]]) -> Presented | None:
        """The certificate in gRPC's ``auth_context()``; None if the peer gave none."""
        pem, chain = (b"".join(properties.get(name, ())) for name in ("x509_pem_cert", "x509_pem_cert_chain"))
        return cls(pem, chain) if pem else None

    def identity(self) -> Identity:
        """The names in the certificate. Raises NotAllowed if it is unreadable, or a name has a NUL."""
        return _read(self)[1]

    def fingerprint(self) -> str:
        """SHA-256 of the certificate, hexadecimal, even of an unreadable one: its CA can look it up."""
        found = _PEM_CERTIFICATE.search(self.pem)
        return hashlib.sha256(base64.b64decode(found[1] + b"==") if found else self.pem).hexdigest()


def identity(properties: Mapping[str, Iterable[bytes]]) -> Identity:
    """The identity of the certificate in gRPC's ``auth_context()``; NOBODY without one. Raises NotAllowed."""
    presented = Presented.of(properties)
    return presented.identity() if presented is not None else NOBODY


@lru_cache(KNOWN)
def _read(presented: Presented) -> tuple[tuple[x509.Certificate, ...], Identity]:
    """The certificates, the peer's own first, and its identity. Raises NotAllowed."""
    if len(presented.pem) + len(presented.chain) > MAX_PEM:
        raise NotAllowed(f"the certificate and its chain have more than {MAX_PEM} bytes: request a smaller one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a name that is too long
            own = x509.load_pem_x509_certificate(presented.pem)
            others = x509.load_pem_x509_certificates(presented.chain) if presented.chain.strip() else []
            return (own, *[one for one in others if one != own][:MAX_CHAIN]), _named(own)
    except NotAllowed:
        raise
    except Exception as error:  # a hostile certificate may raise anything in the parser
        raise NotAllowed("the certificate violates RFC 5280 and cannot be read: request a new one") from error


def _named(certificate: x509.Certificate) -> Identity:
    subject = [(one.oid, one.value) for one in certificate.subject]
    kinds: dict[type[x509.GeneralName], list[str]] = {
        x509.DNSName: [],
        x509.RFC822Name: [],
        x509.UniformResourceIdentifier: [],
    }
    directories: list[str] = []
    try:
        names: Iterable[x509.GeneralName] = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        names = ()
    for name in names:
        if type(name) in kinds:
            kinds[type(name)].append(str(name.value))
        elif isinstance(name, x509.DirectoryName):
            directories += [one.value for one in name.value if isinstance(one.value, str)]
    dns, emails, uris = kinds.values()
    texts = [value for _, value in subject if isinstance(value, str)]
    if any("\0" in text for text in (*texts, *dns, *emails, *uris, *directories)):
        raise NotAllowed("the certificate has a NUL in a name: request a new one")

    def said(oid: x509.ObjectIdentifier) -> list[str]:
        return [value for kind, value in subject if kind == oid and isinstance(value, str)]

    common, roles = said(NameOID.COMMON_NAME), said(NameOID.UNSTRUCTURED_NAME)
    # Ignore a name that looks like one of another kind.
    sans = (*dns, *(one for one in emails if "@" in one), *(one for one in uris if ":" in one))
    return Identity(
        how="certificate",
        common_name=common[0] if len(common) == 1 else "",
        sans=tuple(dict.fromkeys(sans)),
        organizational_units=tuple(said(NameOID.ORGANIZATIONAL_UNIT_NAME)),
        nvflare_role=roles[0] if len(roles) == 1 else "",
        dns_names=tuple(dict.fromkeys(dns)),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )


# --- trust


class Outdated(Unavailable):
    """A certificate that was trusted once: its peer may have a newer one, and should reconnect."""


class Trust:
    """Trusts what the CAs in the file *ca* signed, except what the lists in the file *crl* name. Raises InvalidFile."""

    def __init__(self, ca: str, crl: str = "") -> None:
        self._ca = ca
        self._crl = crl
        self._anchors = anchors_of(ca)
        self._lists = tuple(lists(crl, self._anchors)) if crl else ()
        self._found: dict[Presented, float | None] = {}

    def check(self, presented: Presented, now: float) -> None:
        """Return if *presented* is trusted at *now*, in seconds since 1970.

        Raises:
            NotAllowed: the certificate is refused by ``Presented.identity``.
            Revoked: a list names it.
            Outdated: it has expired, or the CAs have changed.
        """
        certificates, identity = _read(presented)
        who = name_of(identity)
        if presented not in self._found:
            if len(self._found) >= KNOWN:
                self._found.clear()
            self._found[presented] = self._until(certificates[0], certificates[1:])
        until = self._found[presented]
        if until is None and any(one.names(certificates[0]) for one in self._lists):
            raise Revoked(
                f"{who} was revoked by its CA (serial {certificates[0].serial_number:X}): request a new certificate"
            )
        if until is None:
            raise Outdated(f"{who} was signed by no CA of this receiver: request a certificate from one of its CAs")
        if now > until:
            raise Outdated(f"{who} has expired: request a new certificate")

    def due(self, now: float) -> str:
        """A warning if a list in force should have been replaced before *now*; otherwise empty."""
        late = [one.until for one in self._lists if one.until < now]
        return (
            f"the revocation list in {self._crl} expired on {day(min(late))}; it stays"
            " in force, but later revocations are unknown: make a new list with the CA"
            if late
            else ""
        )

    def _until(self, certificate: x509.Certificate, others: Sequence[x509.Certificate]) -> float | None:
        """When the longest-lived chain from *certificate*, by *others*, to a CA expires; None without a chain."""
        if any(one.names(certificate) for one in self._lists):
            return None
        own = certificate.not_valid_after_utc.timestamp()
        if certificate in self._anchors:
            return own
        ways = [one.not_valid_after_utc.timestamp() for one in self._anchors if _signed(certificate, one)]
        for n, one in enumerate(others):
            if _is_ca(one) and _signed(certificate, one):
                rest = self._until(one, (*others[:n], *others[n + 1 :]))
                ways += [rest] if rest is not None else []
        return min(own, max(ways)) if ways else None


def _signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, *BROKEN):
        return False
    return True


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, *BROKEN):
        return False
