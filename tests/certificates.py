"""Certificates for tests: good ones, and those that are expired, not yet valid, or of another CA or purpose."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flarelog.tls import Tls

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
    ) -> Tls:
        """A certificate for *name*, valid *days* from now to now; the files that go with it."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
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


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
