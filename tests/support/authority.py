"""A certificate authority of a test, and certificates that it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs for hosts and clients.

    Attributes
    ----------
    ca
        Its own certificate, a PEM file.
    """

    def __init__(self, folder: Path, name: str = "a test") -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca = folder / "ca.pem"
        own = self._builder(self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.ca.write_bytes(own.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def signed(self, who: str, *hosts: str) -> tuple[Path, Path]:
        """A certificate and its key, PEM files; hosts are names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)])
        builder = self._builder(subject, key.public_key())
        if hosts:
            names = x509.SubjectAlternativeName([_named(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate, private = self._folder / f"{who}.pem", self._folder / f"{who}.key"
        certificate.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, private

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )


def _named(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
