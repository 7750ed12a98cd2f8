"""What guards the connections of a cluster: TLS with certificates on both sides, and a secret."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trimtab_common.errors import SettingsError

SECRET_BYTES: Final = 16
"""Whoever poses as a node sees one proof, and may try secrets against it as long as he likes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSecurity:
    """Files that a node or client needs for its connections; none of them without options.

    Attributes
    ----------
    tls_ca
        PEM file of the authorities that sign certificates of this cluster, and no others.
    tls_certificate, tls_key
        PEM files of the own certificate and its key: nodes ask clients and one another for them.
    tls_verify_hostname
        Whether a node's certificate must name the host of its address, also where it calls.
    secret_file
        A file with the secret of the cluster, the same for nodes and clients.
    """

    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_verify_hostname: bool = True
    secret_file: str = ""

    def __post_init__(self) -> None:
        """Refuse half of TLS.

        Raises
        ------
        SettingsError
            If one file is given without the others.
        """
        files = {"tls_ca": self.tls_ca, "tls_certificate": self.tls_certificate, "tls_key": self.tls_key}
        missing = [name for name, file in files.items() if not file]
        if 0 < len(missing) < len(files):
            raise SettingsError(
                f"{' and '.join(missing)} of a masters cluster not set, expected tls_ca, tls_certificate and "
                "tls_key or none of them: both sides of a connection show a certificate; set all three"
            )

    def opened(self) -> TlsMaterial:
        """What stands in the files, read now.

        Raises
        ------
        SettingsError
            If one of them cannot be used.
        """
        return TlsMaterial(self)


class TlsMaterial:
    """What stood in the files of a guard.

    Attributes
    ----------
    secret
        Empty without one.
    serving, calling
        TLS of connections that come and of those that are made; None without.
    verify_hostname
        As in `TransportSecurity`.
    """

    def __init__(self, guard: TransportSecurity) -> None:
        self.secret = _secret(Path(guard.secret_file)) if guard.secret_file else b""
        self.verify_hostname = guard.tls_verify_hostname
        self.serving: ssl.SSLContext | None = None
        self.calling: ssl.SSLContext | None = None
        if guard.tls_ca:
            self.serving = _context(ssl.PROTOCOL_TLS_SERVER, guard)
            self.serving.verify_mode = ssl.CERT_REQUIRED
            self.calling = _context(ssl.PROTOCOL_TLS_CLIENT, guard)
            self.calling.check_hostname = guard.tls_verify_hostname

    def report_tls_errors(self, report: Callable[[str], None]) -> None:
        """Have it told when TLS of a connection that came does not come about; asyncio drops it silently."""
        if self.serving is None:
            return

        class ErrorReportingSSLObject(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as error:
                    report(f"its TLS does not come about ({error.reason or error}): refused")
                    raise

        self.serving.sslobject_class = ErrorReportingSSLObject


def _context(protocol: int, guard: TransportSecurity) -> ssl.SSLContext:
    context, subject = ssl.SSLContext(protocol), guard.tls_ca
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=subject)
        subject = guard.tls_certificate
        context.load_cert_chain(subject, guard.tls_key)
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(
            f"the TLS file {subject} cannot be used ({error}): it must be PEM, and a key must fit its "
            "certificate"
        ) from error
    return context


def _secret(path: Path) -> bytes:
    try:
        found = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise SettingsError(f"secret_file {path} cannot be read ({error.strerror}): correct it") from None
    if len(found) < SECRET_BYTES:
        raise SettingsError(
            f"secret_file {path} has a secret of {len(found)} bytes, expected {SECRET_BYTES} or more: draw a "
            "longer one, as with `openssl rand -hex 32`"
        )
    return found


def names_host(certificate: Mapping[str, Any] | None, host: str) -> bool:
    """Whether a certificate that was verified is one of a host, by its alternative names."""
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind == "DNS":
            name, wanted = value.lower(), host.lower()
            if name == wanted or (name.startswith("*.") and wanted.partition(".")[2] == name[2:]):
                return True
        elif kind == "IP Address":
            try:
                if ipaddress.ip_address(value) == ipaddress.ip_address(host):
                    return True
            except ValueError:
                continue
    return False
