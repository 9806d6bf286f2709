"""A peer's certificate: whom it names, and whether its CA, its dates and the revocation lists still let it in.

Names are read from the certificate itself, each as the kind that it is: gRPC's own strings end at a NUL and mix DNS
names, e-mail addresses and URIs. What cannot be read, or holds a NUL in any name, names nobody. gRPC believes a
certificate at the handshake alone, once a connection; here it is asked again, of what the files say now.
"""

from __future__ import annotations

import base64
import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import cast

from flarelog.contents import contents
from flarelog.errors import InvalidFile, NotAllowed, NotAuthenticated, NotInstalled, Unavailable
from flarelog.policy import NOBODY, Identity
from flarelog.security.callers import name_of
from flarelog.values import frozen

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes
    from cryptography.x509.oid import ExtensionOID, NameOID
except ImportError as error:
    raise NotInstalled(
        "the receiver needs the cryptography package to read certificates: pip install 'flarelog[tls]'"
    ) from error

MAX_PEM = 256 << 10  # bytes of a certificate with its chain; a handshake has at most 100 kB of them
MAX_CHAIN = 8  # certificates between a peer's and its CA's
MAX_CRL = 64 << 20  # bytes; some 800,000 revoked certificates
KNOWN = 4096  # certificates of which is remembered what was found

_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_PEM_CRL = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----\r?\n?", re.DOTALL)
# What is wrong with bytes that are no certificate, or with those of one: cryptography parses when it is asked.
_BROKEN = (
    *(ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension),
    x509.UnsupportedGeneralNameType,
)
_KNOWN_IN_CRL = {
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.CRL_NUMBER,
    ExtensionOID.ISSUER_ALTERNATIVE_NAME,
}  # by which a list is not made to say less than it seems to


@frozen
class Presented:
    """What a peer showed at its handshake, in PEM: its certificate, and those between that and its CA's."""

    pem: bytes
    chain: bytes = b""

    @classmethod
    def of(cls, properties: Mapping[str, Iterable[bytes]]) -> Presented | None:
        """What gRPC's ``auth_context()`` holds; None where the peer gave no certificate."""
        pem, chain = (b"".join(properties.get(name, ())) for name in ("x509_pem_cert", "x509_pem_cert_chain"))
        return cls(pem, chain) if pem else None

    def identity(self) -> Identity:
        """Raises NotAllowed where the certificate cannot be read, or a name in it holds a NUL."""
        return _read(self)[1]

    def fingerprint(self) -> str:
        """SHA-256 of the certificate, hexadecimal, also of one that cannot be read: by it its CA finds whose it is."""
        found = _PEM_CERTIFICATE.search(self.pem)
        return hashlib.sha256(base64.b64decode(found[1] + b"==") if found else self.pem).hexdigest()


def identity(properties: Mapping[str, Iterable[bytes]]) -> Identity:
    """Whom the certificate in gRPC's ``auth_context()`` names; NOBODY where there is none. Raises NotAllowed."""
    presented = Presented.of(properties)
    return presented.identity() if presented is not None else NOBODY


@lru_cache(KNOWN)
def _read(presented: Presented) -> tuple[tuple[x509.Certificate, ...], Identity]:
    """The certificates, the peer's own first, and whom that names. Raises NotAllowed."""
    if len(presented.pem) + len(presented.chain) > MAX_PEM:
        raise NotAllowed(f"the certificate and its chain have more than {MAX_PEM} bytes: request a smaller one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that is longer than it should be
            own = x509.load_pem_x509_certificate(presented.pem)
            others = x509.load_pem_x509_certificates(presented.chain) if presented.chain.strip() else []
            return (own, *[one for one in others if one != own][:MAX_CHAIN]), _named(own)
    except NotAllowed:
        raise
    except Exception as error:  # whatever the parser makes of a hostile one
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
    # A name of one kind that looks like one of another kind is none.
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


# --- whether it is believed


class Revoked(NotAuthenticated):
    """A certificate that a revocation list names."""


class Outdated(Unavailable):
    """A certificate that was believed once: its peer may have a newer one, and should connect again."""


@frozen
class RevocationList:
    """A CRL that one of the CAs signed."""

    issuer: x509.Name
    listed: x509.CertificateRevocationList
    until: float  # seconds since 1970, when a newer one is due

    def names(self, certificate: x509.Certificate) -> bool:
        serial = certificate.serial_number
        return (
            certificate.issuer == self.issuer
            and self.listed.get_revoked_certificate_by_serial_number(serial) is not None
        )


class Trust:
    """Whom the CAs in the file *ca* signed, but for whom the lists in the file *crl* name. Raises InvalidFile."""

    def __init__(self, ca: str, crl: str = "") -> None:
        self._ca = ca
        self._crl = crl
        try:
            self._anchors = x509.load_pem_x509_certificates(_contents(ca))
        except _BROKEN as error:
            raise InvalidFile(f"{ca} holds no CA certificate in PEM") from error
        self._lists = tuple(_lists(crl, self._anchors)) if crl else ()
        self._found: dict[Presented, float | None] = {}

    def check(self, presented: Presented, now: float) -> None:
        """Return if *presented* is believed at *now*, in seconds since 1970.

        Raises:
            NotAllowed: it names nobody, as ``Presented.identity`` says.
            Revoked: a list names it.
            Outdated: it has expired, or the CAs are others now.
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
        """A sentence where a list in force should have been replaced before *now*; else nothing."""
        late = [one.until for one in self._lists if one.until < now]
        return (
            f"the revocation list in {self._crl} expired on {_day(min(late))}; it stays"
            " in force, but later revocations are unknown: make a new list with the CA"
            if late
            else ""
        )

    def _until(self, certificate: x509.Certificate, others: Sequence[x509.Certificate]) -> float | None:
        """When the best way from *certificate*, by *others*, to a CA ends; None where there is none."""
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


def revocations(ca: str, crl: str) -> tuple[int, float]:
    """How many certificates the lists in the file *crl* name, and when the first of them expires (seconds since 1970).

    Raises InvalidFile.
    """
    try:
        anchors = x509.load_pem_x509_certificates(_contents(ca))
    except _BROKEN as error:
        raise InvalidFile(f"{ca} holds no CA certificate in PEM") from error
    found = list(_lists(crl, anchors))
    return sum(len(one.listed) for one in found), min(one.until for one in found)


def _lists(crl: str, anchors: Sequence[x509.Certificate]) -> Iterator[RevocationList]:
    """The lists in the file *crl*, at least one. Raises InvalidFile."""
    raw = _contents(crl)
    found = _PEM_CRL.findall(raw)
    if not found or len(raw) > MAX_CRL:
        raise InvalidFile(f"{crl} holds no revocation list (X509 CRL) in PEM of at most {MAX_CRL >> 20} MiB")
    for pem in found:
        try:
            listed = x509.load_pem_x509_crl(pem)
            until = listed.next_update_utc
            strange = [one.oid for one in listed.extensions if one.critical and one.oid not in _KNOWN_IN_CRL]
            issuers = [one for one in anchors if one.subject == listed.issuer and _vouches(one, listed)]
        except _BROKEN as error:
            raise InvalidFile(f"{crl} holds an unreadable revocation list: make a new one with the CA") from error
        if strange:
            raise InvalidFile(
                f"{crl} holds a revocation list of an unknown kind"
                f" ({strange[0].dotted_string}): give a full list of its CA"
            )
        if not issuers:
            raise InvalidFile(f"{crl} holds a revocation list that no CA of --tls-ca signed: give a list of theirs")
        yield RevocationList(listed.issuer, listed, until.timestamp() if until is not None else float("inf"))


def demand_current(ca: str, crl: str, now: float) -> None:
    """Raises InvalidFile where a list in the file *crl* has expired at *now*: it is no news to begin with."""
    _, until = revocations(ca, crl)
    if until < now:
        raise InvalidFile(f"the revocation list in {crl} expired on {_day(until)}: make a new one with the CA")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _vouches(ca: x509.Certificate, listed: x509.CertificateRevocationList) -> bool:
    return listed.is_signature_valid(cast(CertificateIssuerPublicKeyTypes, ca.public_key()))


def _signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, *_BROKEN):
        return False
    return True


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, *_BROKEN):
        return False


def _contents(path: str) -> bytes:
    try:
        return contents(path, MAX_CRL, regular=True)[1]
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from error
