"""Whom we trust over TLS and who we are: PEM files as a context for sockets."""

from __future__ import annotations

import ssl
from pathlib import Path

from trimtab.model.errors import SettingsError


def tls_context_of(
    authority: Path | None, certificate: Path | None, key: Path | None, *, verify_hostname: bool
) -> ssl.SSLContext:
    """What we trust and, where servers ask, who we are.

    Parameters
    ----------
    authority
        Whom we trust; the system's own list when absent.
    certificate, key
        Ours; both or neither.
    verify_hostname
        Whether the server's certificate must name the host we called.

    Raises
    ------
    SettingsError
        If a PEM file cannot be used.
    """
    context = ssl.create_default_context()
    context.check_hostname = verify_hostname
    subject = authority
    try:
        if authority is not None:
            context.load_verify_locations(cafile=authority)
        subject = certificate
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(
            f"the TLS file {subject} cannot be used ({error}): it must be PEM, and a key must fit its "
            "certificate"
        ) from error
    return context
