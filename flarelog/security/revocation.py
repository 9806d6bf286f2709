"""Certificate revocation lists: which CA signed a list, which certificates it names, when a newer one is due."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import cast

from flarelog.contents import demanded
from flarelog.errors import InvalidFile, NotAuthenticated, NotInstalled
from flarelog.values import frozen

try:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes
    from cryptography.x509.oid import ExtensionOID
except ImportError as error:
    raise NotInstalled(
        "the receiver needs the cryptography package to read certificates: pip install 'flarelog[tls]'"
    ) from error

MAX_CRL = 64 << 20  # bytes; some 800,000 revoked certificates

_PEM_CRL = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----\r?\n?", re.DOTALL)
# The errors of bytes that are no valid certificate: cryptography parses lazily.
BROKEN = (
    *(ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension),
    x509.UnsupportedGeneralNameType,
)
_KNOWN_IN_CRL = {
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.CRL_NUMBER,
    ExtensionOID.ISSUER_ALTERNATIVE_NAME,
}  # extensions that do not limit a list's scope


class Revoked(NotAuthenticated):
    """A revocation list names the certificate."""


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


def revocations(ca: str, crl: str) -> tuple[int, float]:
    """The number of certificates on the lists in the file *crl*, and when the first list expires (seconds since 1970).

    Raises InvalidFile.
    """
    found = list(lists(crl, anchors_of(ca)))
    return sum(len(one.listed) for one in found), min(one.until for one in found)


def lists(crl: str, anchors: Sequence[x509.Certificate]) -> Iterator[RevocationList]:
    """The lists in the file *crl*, at least one. Raises InvalidFile."""
    raw = demanded(crl, MAX_CRL, regular=True)[1]
    found = _PEM_CRL.findall(raw)
    if not found or len(raw) > MAX_CRL:
        raise InvalidFile(f"{crl} holds no revocation list (X509 CRL) in PEM of at most {MAX_CRL >> 20} MiB")
    for pem in found:
        try:
            listed = x509.load_pem_x509_crl(pem)
            until = listed.next_update_utc
            strange = [one.oid for one in listed.extensions if one.critical and one.oid not in _KNOWN_IN_CRL]
            named = [one.public_key() for one in anchors if one.subject == listed.issuer]
            vouched = any(listed.is_signature_valid(cast(CertificateIssuerPublicKeyTypes, key)) for key in named)
        except BROKEN as error:
            raise InvalidFile(f"{crl} holds an unreadable revocation list: make a new one with the CA") from error
        if strange:
            raise InvalidFile(
                f"{crl} holds a revocation list of an unknown kind"
                f" ({strange[0].dotted_string}): give a full list of its CA"
            )
        if not vouched:
            raise InvalidFile(f"{crl} holds a revocation list that no CA of --tls-ca signed: give a list of theirs")
        yield RevocationList(listed.issuer, listed, until.timestamp() if until is not None else float("inf"))


def demand_current(ca: str, crl: str, now: float) -> None:
    """Raises InvalidFile if a list in the file *crl* has expired at *now*: a receiver must not start with it."""
    _, until = revocations(ca, crl)
    if until < now:
        raise InvalidFile(f"the revocation list in {crl} expired on {day(until)}: make a new one with the CA")


def day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def anchors_of(ca: str) -> list[x509.Certificate]:
    """The CAs in the file *ca*. Raises InvalidFile."""
    try:
        return x509.load_pem_x509_certificates(demanded(ca, MAX_CRL, regular=True)[1])
    except BROKEN as error:
        raise InvalidFile(f"{ca} holds no CA certificate in PEM") from error
