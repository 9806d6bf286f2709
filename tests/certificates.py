"""Certificates for tests: valid, expired, not yet valid, of another CA or for another purpose; and start-up kits."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from flarelog.security.tls import Tls

Named = tuple[str, bytes]
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True)
class Authority:
    """A CA in *directory*."""

    directory: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, directory: Path, name: str = "ca") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1000))
            .not_valid_after(now + timedelta(days=1000))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(directory, name, key, certificate)

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = (),
        units: Sequence[str] = (),
        days: tuple[float, float] = (-1, 100),
        purposes: Sequence[x509.ObjectIdentifier] = BOTH,
        common: str | None = None,
        named: Sequence[Named] = (),
    ) -> Tls:
        """Issue a certificate for *name*; return its files. *days*: its validity's begin and end, in days from now.

        *common*: its common name, where it differs from *name*; empty: none. *named*: SANs of any kind and bytes.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        common = name if common is None else common
        attributes = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units]
        subject = x509.Name([*attributes, *([x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else [])])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(self.certificate.subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), False)
        if named:
            builder = builder.add_extension(sans_of(named), False)
        certificate = builder.sign(self.key, hashes.SHA256())
        paths = Tls(
            str(self.directory / f"{self.name}.crt"),
            str(self.directory / f"{name}.crt"),
            str(self.directory / f"{name}.key"),
        )
        Path(paths.cert).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        Path(paths.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths

    def between(self, name: str = "between") -> Authority:
        """An intermediate CA that this CA signed. Its certificates' files hold no chain, and their ``ca`` is this CA's
        file.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(self.certificate.subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=200))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        return Authority(self.directory, self.name, key, certificate)

    def revokes(self, *certs: str, days: float = 10, critical: bool = False, name: str = "ca.crl") -> str:
        """Write a revocation list of the certificates in the files *certs*, which expires *days* from now; return its
        file.
        """
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - timedelta(days=30))
            .next_update(now + timedelta(days=days))
        )
        for cert in certs:
            serial = x509.load_pem_x509_certificate(Path(cert).read_bytes()).serial_number
            gone = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            builder = builder.add_revoked_certificate(gone)
        if critical:
            builder = builder.add_extension(x509.DeltaCRLIndicator(1), critical=True)
        path = self.directory / name
        path.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return str(path)


def sans_of(named: Sequence[Named]) -> x509.UnrecognizedExtension:
    """SANs with any bytes as a certificate encodes them: DER, built by hand."""
    names = b"".join(_der(0x80 | _KINDS[kind], raw) for kind, raw in named)
    return x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, _der(0x30, names))


_KINDS = {"email": 1, "dns": 2, "uri": 6, "ip": 7}


def _der(tag: int, raw: bytes) -> bytes:
    size = len(raw)
    length = (
        bytes([size]) if size < 128 else bytes([0x80 | (n := (size.bit_length() + 7) // 8)]) + size.to_bytes(n, "big")
    )
    return bytes([tag]) + length + raw


def pem_of(common: str, named: Sequence[Named] = (), units: Sequence[str] = ()) -> bytes:
    """A certificate with any names, whose private key is discarded."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units]
    subject = x509.Name([*attributes, *([x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else [])])
    now, key = datetime.now(UTC), _any_key()
    builder = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    if named:
        builder = builder.add_extension(sans_of(named), False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@cache
def _any_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def auth_context(common: str, *sans: str) -> dict[str, list[bytes]]:
    """The gRPC auth context of a peer whose certificate has the common name *common* and the DNS names *sans*."""
    return {"x509_pem_cert": [pem_of(common, [("dns", san.encode()) for san in sans])]}


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def nvflare_kits(directory: Path, server: str, hosts: Sequence[str], sites: Sequence[str], admin: str) -> Path:
    """Start-up kits whose certificates are like those of NVFlare 2.9.0: NAME/startup/ in *directory*.

    The keys are plain RSA. A certificate holds a common name, an organization, an admin's role and SANs, but neither
    purposes nor basic constraints. *hosts*: the server's ``default_host`` and ``host_names``; empty: the server's name.
    """
    project = _nvflare_name("federation", None, None)
    root = rsa.generate_private_key(65537, 2048)
    certificate = _nvflare_certificate(project, root, project, root, [x509.DNSName("federation")], is_ca=True)
    people: list[tuple[str, str, str | None, list[x509.GeneralName]]] = [
        (server, "server", None, [_host(host) for host in hosts] or [x509.DNSName(server)]),
        (admin, "client", "project_admin", [x509.DNSName(admin)]),
    ]
    people += [(site, "client", None, [x509.DNSName(site)]) for site in sites]
    for name, stem, role, sans in people:
        startup = directory / name / "startup"
        startup.mkdir(parents=True)
        key = rsa.generate_private_key(65537, 2048)
        own = _nvflare_certificate(_nvflare_name(name, "nvidia", role), key, project, root, sans)
        (startup / "rootCA.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (startup / f"{stem}.crt").write_bytes(own.public_bytes(serialization.Encoding.PEM))
        (startup / f"{stem}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        )
    return directory


def kit(directory: Path, name: str) -> Tls:
    """The files of *name*'s start-up kit in *directory*."""
    startup = directory / name / "startup"
    stem = "server" if (startup / "server.crt").exists() else "client"
    return Tls(*(str(startup / file) for file in ("rootCA.pem", f"{stem}.crt", f"{stem}.key")))


def _nvflare_name(common: str, organization: str | None, role: str | None) -> x509.Name:
    said = (
        (NameOID.COMMON_NAME, common),
        (NameOID.ORGANIZATION_NAME, organization),
        (NameOID.UNSTRUCTURED_NAME, role),
    )
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in said if value is not None])


def _nvflare_certificate(
    subject: x509.Name,
    key: rsa.RSAPrivateKey,
    issuer: x509.Name,
    root: rsa.RSAPrivateKey,
    sans: Sequence[x509.GeneralName],
    *,
    is_ca: bool = False,
) -> x509.Certificate:
    now, public = datetime.now(UTC), key.public_key()
    builder = (
        x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=360))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)
    )
    if is_ca:
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage),
            critical=True,
        )
    return builder.add_extension(x509.SubjectAlternativeName(sans), critical=False).sign(root, hashes.SHA256())
