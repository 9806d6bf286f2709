"""A small private CA, in one directory, for users without one.

A certificate states its purpose: a site's or a reader's key cannot pose as a receiver, nor a receiver's as a client,
and a policy tells sites and readers apart by their OU. The extensions are those that RFC 5280, section 4.2, requires.
"""

from __future__ import annotations

import enum
import ipaddress
import os
import re
import shlex
import stat
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flarelog.errors import InvalidName, InvalidOption, NotAllowed, NotFound, NotInstalled
from flarelog.names import site_name
from flarelog.replace import replace_file
from flarelog.security.pairs import MAX_DAYS, at_work, check_days, keep, no_ca
from flarelog.values import frozen

try:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise NotInstalled("certificates need the cryptography package: pip install 'flarelog[tls]'") from error

from flarelog.security.certificate import is_signed

CA_DAYS = MAX_DAYS
LEAF_DAYS = 365
SKEW = timedelta(minutes=5)  # how far behind another machine's clock may be
SOON = timedelta(days=30)  # certificates that expire within it are marked
MAX_COMMON_NAME = 64  # RFC 5280, ub-common-name

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


class Role(enum.Enum):
    """The purpose of a certificate; the value is its OU."""

    CA = "ca"
    SERVER = "server"
    SITE = "site"
    READER = "reader"
    OPERATOR = "operator"


@frozen
class Issued:
    """A certificate in the directory."""

    name: str  # its CN
    role: Role | None  # None: its OU is no role
    serial: int
    not_before: datetime
    not_after: datetime
    certificate: Path
    key: Path  # may have been moved elsewhere
    by_this_ca: bool = True
    revoked: bool = False

    def days_left(self, now: datetime) -> int:
        """Whole days until the certificate expires; negative afterwards."""
        return (self.not_after - now).days

    def state(self, now: datetime) -> str:
        """One of ``other CA``, ``revoked``, ``EXPIRED``, ``not yet valid``, ``expires soon`` and ``valid``."""
        if not self.by_this_ca:
            return "other CA"
        if self.revoked:
            return "revoked"
        if now > self.not_after:
            return "EXPIRED"
        if now < self.not_before:
            return "not yet valid"
        return "expires soon" if self.not_after - now <= SOON else "valid"


def init(directory: Path, *, now: datetime) -> Issued:
    """Create *directory*, readable by its owner alone, and a CA in it: ``ca.crt``, ``ca.key``, and an empty revocation
    list ``ca.crl``, so that a receiver can start with the list before the first certificate is revoked.

    Raises:
        NotAllowed: there is a CA already, or the directory is unusable or open to others.
    """
    with at_work(directory, make=True):
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        # Certificates of a CA with an equal name would be refused as forged, instead of as another CA's.
        subject = _subject(f"flarelog CA {identifier.digest.hex()[:8]}", Role.CA)
        certificate = (
            _builder(subject, subject, key.public_key(), now, now + timedelta(days=CA_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(key, hashes.SHA256())
        )
        one = _keep(directory, "ca", key, certificate)
        _list(directory, certificate, key, [], now)
    return one


def issue_server(directory: Path, hosts: Sequence[str], *, days: int = LEAF_DAYS, now: datetime) -> Issued:
    """Issue ``server.crt`` and ``server.key`` for a receiver reachable as *hosts*: DNS names and IP addresses.

    Raises:
        InvalidOption: a host is neither, or *days* is out of bounds.
        NotFound, NotAllowed: as ``issue``.
    """
    if not hosts:
        raise InvalidOption("a server's certificate needs a host: give the receiver's DNS names and IP addresses")
    names = list(dict.fromkeys(_host(host) for host in hosts))
    common = str(names[0].value)
    common = common if len(common) <= MAX_COMMON_NAME else "server"
    return _issue(directory, "server", _subject(common, Role.SERVER), names, ExtendedKeyUsageOID.SERVER_AUTH, days, now)


def issue(directory: Path, role: Role, name: str, *, days: int = LEAF_DAYS, now: datetime) -> Issued:
    """Issue ``NAME.crt`` and ``NAME.key`` for a site, a reader or an operator. It expires no later than the CA.

    Its CN is *name*; so is its SAN, if *name* can be a DNS name.

    Raises:
        InvalidName: *name* cannot name a site, or stand in a certificate.
        InvalidOption: *days* is out of bounds.
        NotFound: there is no CA in *directory*.
        NotAllowed: a file of that name exists; the CA has expired; a file cannot be read or written.
    """
    if role not in (Role.SITE, Role.READER, Role.OPERATOR):
        raise ValueError(f"{role} is not issued by name")
    site_name(name, role.value)
    if name.lower() in ("ca", "server"):
        raise InvalidName(f"the {role.value}'s name is {name!r}, which is reserved for the CA's own files")
    if len(name) > MAX_COMMON_NAME:
        raise InvalidName(
            f"the {role.value}'s name has {len(name)} characters; a certificate holds at most {MAX_COMMON_NAME}"
        )
    names = [x509.DNSName(name)] if _is_dns_name(name) else []
    return _issue(directory, name, _subject(name, role), names, ExtendedKeyUsageOID.CLIENT_AUTH, days, now)


def issued(directory: Path) -> tuple[list[Issued], list[Path]]:
    """The certificates in *directory*, the CA's first, then by name; and the ``.crt`` files that hold none.

    Raises:
        NotFound: there is no CA in *directory*.
        NotAllowed: the directory cannot be read.
    """
    ca = _read_certificate(directory / "ca.crt", directory)
    gone = {one.serial_number for one in _revoked(directory, ca) or ()}
    found, broken = [], []
    try:
        paths = sorted(path for path in directory.glob("*.crt") if not path.name.startswith("."))
    except OSError as error:
        raise NotAllowed(f"the directory {directory} cannot be read: {error.strerror}") from error
    for path in paths:
        try:
            one = _issued(path, x509.load_pem_x509_certificate(path.read_bytes()), ca)
            found.append(replace(one, revoked=one.by_this_ca and one.serial in gone))
        except (OSError, ValueError, x509.DuplicateExtension):
            broken.append(path)
    return sorted(found, key=lambda one: (one.role is not Role.CA, one.certificate.name)), broken


def revoke(directory: Path, name: str, *, now: datetime) -> tuple[Issued, Path]:
    """Add the certificate *name* to the CA's revocation list, ``ca.crl``, which is valid as long as the CA. Returns the
    certificate and the list's path; the file is replaced. *name*: a file's name without ``.crt``, or else a name
    that the list shows, or a path, for a pair that was moved away. Harmless when repeated.

    Raises NotFound, NotAllowed.
    """
    with at_work(directory):
        ca, ca_key = _load_ca(directory, now)
        path = _file(directory, name)
        one = _issued(path, _read_certificate(path, directory), ca)
        if one.serial == ca.serial_number and one.by_this_ca:
            raise NotAllowed(
                f"the CA {path} cannot revoke itself: name a certificate that it signed, or"
                " give receivers and sites another CA (--tls-ca)"
            )
        if not one.by_this_ca:
            raise NotAllowed(f"{path} was not signed by this CA: revoke it with its own CA")
        there = list(_revoked(directory, ca) or ())
        if one.serial not in {each.serial_number for each in there}:
            there.append(x509.RevokedCertificateBuilder().serial_number(one.serial).revocation_date(now).build())
        listed = _list(directory, ca, ca_key, there, now)
    return replace(one, revoked=True), listed


def _file(directory: Path, name: str) -> Path:
    """The file of the certificate *name*, as in ``revoke``. Raises NotFound, NotAllowed."""
    path = directory / f"{name}.crt"
    if os.sep not in name and path.exists():
        return path
    found = [one.certificate for one in issued(directory)[0] if one.name == name and one.role is not Role.CA]
    if not found:
        named = [Path(name)] if os.sep in name else [directory / name, Path(name)]
        for file in named:
            if file.is_file():
                return file
        raise NotFound(
            f"there is no certificate {path}; flarelog certs list shows the existing ones; give the path of a"
            " certificate that is not there any more"
        )
    if len(found) > 1:
        files = ", ".join(path.stem for path in found)
        raise NotAllowed(f"{len(found)} certificates have the name {name}: revoke them by their files' names: {files}")
    return found[0]


def _list(
    directory: Path,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    revoked: list[x509.RevokedCertificate],
    now: datetime,
) -> Path:
    """Replace the CA's list by one of the *revoked* certificates."""
    builder = (
        x509.CertificateRevocationListBuilder(ca.subject, now, ca.not_valid_after_utc, [], revoked)
        .add_extension(x509.CRLNumber(len(revoked)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    path = directory / "ca.crl"
    pem = builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    replace_file(path, pem, 0o600, durable=True)
    path.chmod(0o600)  # undo the umask
    return path


def _revoked(directory: Path, ca: x509.Certificate) -> x509.CertificateRevocationList | None:
    """The CA's list; None if there is none yet. Raises NotAllowed."""
    path = directory / "ca.crl"
    key = ca.public_key()
    try:
        found = x509.load_pem_x509_crl(path.read_bytes())
        if isinstance(key, ec.EllipticCurvePublicKey) and found.is_signature_valid(key):
            return found
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotAllowed(f"{path} cannot be read: {error.strerror}") from error
    except ValueError:
        pass
    raise NotAllowed(f"{path} is not a revocation list of this CA: restore the CA's own, or move this file away")


def record(one: Issued, now: datetime) -> dict[str, object]:
    """*one* as ``flarelog certs list --json`` shows it."""
    return {
        "name": one.name,
        "role": one.role.value if one.role else None,
        "serial": f"{one.serial:X}",
        "not_before": one.not_before.isoformat(),
        "not_after": one.not_after.isoformat(),
        "days_left": one.days_left(now),
        "state": one.state(now),
        "certificate": str(one.certificate),
    }


# --- the contents of a certificate


def _subject(common_name: str, role: Role) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role.value),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _issue(
    directory: Path,
    name: str,
    subject: x509.Name,
    names: Sequence[x509.GeneralName],
    purpose: x509.ObjectIdentifier,
    days: int,
    now: datetime,
) -> Issued:
    check_days(days)
    with at_work(directory):
        ca, ca_key = _load_ca(directory, now)
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(now + timedelta(days=days), ca.not_valid_after_utc)
        builder = (
            _builder(subject, ca.subject, key.public_key(), now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _keep(directory, name, key, builder.sign(ca_key, hashes.SHA256()))


def _is_dns_name(text: str) -> bool:
    """Whether *text* is a DNS name; a last label of digits alone means an IP address (RFC 1123, section 2.1)."""
    labels = text.split(".")
    return len(text) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdecimal()


def _host(text: str) -> x509.GeneralName:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        if not _is_dns_name(text):
            raise InvalidOption(
                f"{text[:80]!r} is not a host: give a DNS name or an IP address, without a port or a wildcard"
            ) from None
        return x509.DNSName(text)
    if address.is_unspecified:
        raise InvalidOption(f"{text!r} is an address to listen on: give the addresses that clients connect to")
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise InvalidOption(f"{text!r} has a zone, which a certificate cannot hold: give the address without it")
    return x509.IPAddress(address)


# --- the contents of the directory


def _keep(directory: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Issued:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    keep(directory, name, private, certificate.public_bytes(serialization.Encoding.PEM))
    return _issued(directory / f"{name}.crt", certificate, certificate if name == "ca" else None)


def _load_ca(directory: Path, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    path = directory / "ca.key"
    certificate = _read_certificate(directory / "ca.crt", directory)
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise NotAllowed(f"{path} is readable for others: chmod 600 {shlex.quote(str(path))}")
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        raise NotFound(f"the CA's key {path} is missing: restore it, or make a new CA in another directory") from None
    except OSError as error:
        raise NotAllowed(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: the key has a passphrase
        raise NotAllowed(f"{path} does not hold an unencrypted private key in PEM: restore the CA's own") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise NotAllowed(f"{path} is not the key of ca.crt: restore the CA's own")
    if now > certificate.not_valid_after_utc:
        raise NotAllowed(
            f"the CA in {directory} expired on"
            f" {certificate.not_valid_after_utc:%Y-%m-%d}: make a new CA in another"
            " directory, and all certificates anew"
        )
    if now < certificate.not_valid_before_utc:
        raise NotAllowed(
            f"the CA in {directory} is not valid before"
            f" {certificate.not_valid_before_utc:%Y-%m-%d}: check this machine's clock"
        )
    return certificate, key


def _read_certificate(path: Path, directory: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise no_ca(directory) from None
    except OSError as error:
        raise NotAllowed(f"{path} cannot be read: {error.strerror}") from error
    except ValueError:
        what = "restore the CA's own" if path.parent == directory else "give the file of a certificate"
        raise NotAllowed(f"{path} holds no certificate in PEM: {what}") from None


def _issued(path: Path, certificate: x509.Certificate, ca: x509.Certificate | None) -> Issued:
    """*certificate* as an Issued; *ca* None means that its CA is known to be this one."""

    def said(oid: x509.ObjectIdentifier) -> str:
        return next((str(one.value) for one in certificate.subject.get_attributes_for_oid(oid)), "")

    unit = said(NameOID.ORGANIZATIONAL_UNIT_NAME)
    return Issued(
        said(NameOID.COMMON_NAME),
        Role(unit) if unit in {role.value for role in Role} else None,
        certificate.serial_number,
        certificate.not_valid_before_utc.astimezone(UTC),
        certificate.not_valid_after_utc.astimezone(UTC),
        path,
        path.with_suffix(".key"),
        ca is None or is_signed(certificate, ca),
    )
