"""TLS of a connection: PEM files as a context for sockets."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Protocol

from trimtab.model.errors import SettingsError


class TlsFiles(Protocol):
    """The part of a connection that TLS asks about."""

    @property
    def tls_ca(self) -> Path | None:
        """The authorities that we trust; None: the system's own list."""

    @property
    def tls_certificate(self) -> Path | None:
        """Our certificate."""

    @property
    def tls_key(self) -> Path | None:
        """Its key."""

    @property
    def tls_verify_hostname(self) -> bool:
        """True if the server's certificate must name the host we called."""


def tls_context(connection: TlsFiles) -> ssl.SSLContext:
    """The authorities that we trust and, where servers ask, who we are.

    Raises
    ------
    SettingsError
        If a PEM file cannot be used.
    """
    context = ssl.create_default_context()
    context.check_hostname = connection.tls_verify_hostname
    subject = connection.tls_ca
    try:
        if subject is not None:
            context.load_verify_locations(cafile=subject)
        if connection.tls_certificate is not None:
            subject = connection.tls_certificate
            context.load_cert_chain(subject, connection.tls_key)
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(
            f"the TLS file {subject} cannot be used ({error}): it must be PEM, and a key must fit its "
            "certificate"
        ) from error
    return context
