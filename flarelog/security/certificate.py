"""A peer's certificate: the names in it, and whether its CA, its dates and the revocation lists still permit it.

Names are read from the certificate itself, each with its kind: gRPC's own strings end at a NUL and mix DNS names,
e-mail addresses and URIs. A certificate that is unreadable, or has a NUL in a name, is refused. gRPC checks a
certificate only once a connection, at the handshake; this module checks it again, against the present files.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import math
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from flarelog.errors import NotAllowed, Unavailable
from flarelog.policy import Identity, name_of
from flarelog.security.revocation import BROKEN, Revoked, anchors_of, day, lists
from flarelog.values import frozen

# Below revocation, which raises NotInstalled without this package.
# isort: split
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

MAX_PEM = 64 << 10  # bytes of a certificate with its chain
MAX_CHAIN = 8  # certificates between a peer's and its CA's
MAX_SIGNATURES = 32  # verified for one certificate with its chain
MAX_RSA, MAX_EXPONENT = 8192, 64  # bits of a key and of its exponent, between a peer's certificate and its CA's
KNOWN = 20_000  # certificates whose check is cached

_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
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
        """The names in the certificate. Raises NotAllowed if it is unreadable, or too large, or a name has a NUL."""
        if len(self.pem) + len(self.chain) > MAX_PEM:
            raise NotAllowed(f"the certificate and its chain have more than {MAX_PEM} bytes: request a smaller one")
        return _named_in(self.pem)

    def digest(self) -> bytes:
        """SHA-256 of certificate and chain."""
        return hashlib.sha256(b"%d " % len(self.pem) + self.pem + self.chain).digest()

    def fingerprint(self) -> str:
        """SHA-256 of the certificate, hexadecimal, even of an unreadable one: its CA can look it up."""
        found = _PEM_CERTIFICATE.search(self.pem)
        return hashlib.sha256(base64.b64decode(found[1] + b"==") if found else self.pem).hexdigest()


@lru_cache(KNOWN)
def _named_in(pem: bytes) -> Identity:
    """The identity of the certificate *pem*. Raises NotAllowed."""
    with _readable():
        return _named(x509.load_pem_x509_certificate(pem))


def _certificates(presented: Presented) -> list[x509.Certificate]:
    """The peer's own certificate, and the first of the chain. Raises NotAllowed."""
    with _readable():
        own = x509.load_pem_x509_certificate(presented.pem)
        others = x509.load_pem_x509_certificates(presented.chain) if presented.chain.strip() else []
        return [own, *[one for one in dict.fromkeys(others) if one != own][:MAX_CHAIN]]


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Raises NotAllowed for whatever a hostile certificate makes the parser raise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a name that is too long
            yield
    except NotAllowed:
        raise
    except Exception as error:
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


@frozen
class _Found:
    """The result of the search for a chain: when it expires, in seconds since 1970; None if there is none."""

    until: float | None
    who: str
    refusal: str = ""
    revoked: str = ""


class Trust:
    """Trusts what the CAs in the file *ca* signed, except what the lists in the file *crl* name. Raises InvalidFile.

    A search costs at most MAX_SIGNATURES verified signatures, whatever chain a peer presents. Any thread may search.
    """

    def __init__(self, ca: str, crl: str = "") -> None:
        self._ca = ca
        self._crl = crl
        self._anchors = anchors_of(ca)
        self._lists = tuple(lists(crl, self._anchors)) if crl else ()
        self._found = OrderedDict[bytes, _Found]()  # by the digest of certificate and chain, the latest use last
        self._lock = threading.Lock()

    def knows(self, presented: Presented) -> bool:
        """Whether ``check`` has a result and costs no verified signature."""
        return presented.digest() in self._found

    def check(self, presented: Presented, now: float) -> None:
        """Return if *presented* is trusted at *now*, in seconds since 1970.

        Raises:
            NotAllowed: the certificate is refused by ``Presented.identity``, or its chain is too large.
            Revoked: a list names it.
            Outdated: it has expired, or the CAs have changed.
        """
        found = self.search(presented)
        if found.refusal:
            raise NotAllowed(found.refusal)
        if found.revoked:
            raise Revoked(found.revoked)
        if found.until is None:
            raise Outdated(
                f"{found.who} was signed by no CA of this receiver: request a certificate from one of its CAs"
            )
        if now > found.until:
            raise Outdated(f"{found.who} has expired: request a new certificate")

    def search(self, presented: Presented) -> _Found:
        """The chain of *presented*. Takes milliseconds for a hostile one; a later call returns the same result."""
        digest = presented.digest()
        with self._lock:
            if (known := self._found.get(digest)) is not None:
                self._found.move_to_end(digest)
                return known
        try:
            found = self._searched(presented)
        except NotAllowed as error:
            found = _Found(None, "", str(error))
        with self._lock:
            self._found[digest] = found
            while len(self._found) > KNOWN:
                self._found.popitem(last=False)
        return found

    def _searched(self, presented: Presented) -> _Found:
        who, certificates = name_of(presented.identity()), _certificates(presented)
        until, serial = self._until(certificates), certificates[0].serial_number
        if until is None and self._is_revoked(certificates[0]):
            revoked = f"{who} was revoked by its CA (serial {serial:X}): request a new certificate"
            return _Found(None, who, revoked=revoked)
        return _Found(until, who)

    def _is_revoked(self, certificate: x509.Certificate) -> bool:
        return any(one.names(certificate) for one in self._lists)

    def due(self, now: float) -> str:
        """A warning if a list in force should have been replaced before *now*; otherwise empty."""
        late = [one.until for one in self._lists if one.until < now]
        return (
            f"the revocation list in {self._crl} expired on {day(min(late))}; it stays"
            " in force, but later revocations are unknown: make a new list with the CA"
            if late
            else ""
        )

    def _until(self, certificates: Sequence[x509.Certificate]) -> float | None:
        """When the longest-lived chain from the first of *certificates*, by the others, to a CA expires; None without a
        chain. Raises NotAllowed after MAX_SIGNATURES.
        """
        # Dijkstra's algorithm: the longest-lived way so far goes on, so that each certificate is visited once.
        ends = [one.not_valid_after_utc.timestamp() for one in certificates]
        left, ways, best = set(range(len(certificates))), {0: ends[0]}, -math.inf
        verified = 0

        def signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
            nonlocal verified
            if certificate.issuer != ca.subject:
                return False
            verified += 1
            if verified > MAX_SIGNATURES:
                raise NotAllowed(
                    f"the certificate's chain needs more than {MAX_SIGNATURES} verified signatures: present only the"
                    " certificates between it and its CA"
                )
            return is_signed(certificate, ca)

        while ways and max(ways.values()) > best:
            at = max(ways, key=ways.__getitem__)
            until, certificate = ways.pop(at), certificates[at]
            left.discard(at)
            if self._is_revoked(certificate):
                continue
            if certificate in self._anchors:
                best = max(best, until)
                continue
            for anchor in self._anchors:
                end = min(until, anchor.not_valid_after_utc.timestamp())
                if end > best and signed(certificate, anchor):
                    best = end
            for other in left:
                end = min(until, ends[other])
                longer = end > max(best, ways.get(other, -math.inf))
                if longer and _may_sign(certificates[other]) and signed(certificate, certificates[other]):
                    ways[other] = end
        return best if best > -math.inf else None


def is_signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, *BROKEN):
        return False
    return True


def _may_sign(certificate: x509.Certificate) -> bool:
    """Whether *certificate* is a CA's, with a key whose signatures take less than a millisecond to verify."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        key = certificate.public_key()
    except (x509.ExtensionNotFound, *BROKEN):
        return False
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size <= MAX_RSA and key.public_numbers().e < 1 << MAX_EXPONENT
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, _CURVES)
    return isinstance(key, ed25519.Ed25519PublicKey)
