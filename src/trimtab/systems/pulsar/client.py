"""A client of Pulsar's binary protocol, made from connection settings: plain, TLS, token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trimtab.systems.pulsar.settings import PulsarConnection
from trimtab_common.errors import ConnectError, SettingsError

if TYPE_CHECKING:
    import pulsar


def pulsar_client(
    connection: PulsarConnection, service_url: str | None = None, *, quiet: bool = False
) -> pulsar.Client:
    """A client of pulsar-client; it connects when it is first used, and its owner closes it.

    Parameters
    ----------
    connection
        Where and as whom.
    service_url
        Where the binary protocol is, if the connection does not say.
    quiet
        Whether lost connections are not worth a line of the client's own; it writes to standard output.

    Raises
    ------
    SettingsError
        If neither says where the binary protocol is.
    ConnectError
        If the client cannot be made of these settings.
    """
    import pulsar

    url = connection.service_url or service_url
    if url is None:
        raise SettingsError("service_url is not set: name the brokers' binary protocol as pulsar://host:6650")
    level = pulsar.LoggerLevel.Error
    secured = {
        "tls_trust_certs_file_path": connection.tls_ca,
        "tls_certificate_file_path": connection.tls_certificate,
        "tls_private_key_file_path": connection.tls_key,
    }
    try:
        return pulsar.Client(
            url,
            authentication=pulsar.AuthenticationToken(connection.token) if connection.token else None,
            operation_timeout_seconds=max(1, round(connection.change_timeout_seconds)),
            connection_timeout_ms=max(1, round(connection.timeout_seconds * 1000)),
            stats_interval_in_seconds=0,
            # Every lost connection is a line at lower levels, also where the client recovers by itself.
            logger=pulsar.FileLogger(level, os.devnull) if quiet else pulsar.ConsoleLogger(level),
            tls_validate_hostname=connection.tls_verify_hostname,
            **{name: str(path) for name, path in secured.items() if path is not None},
        )
    except (ValueError, pulsar.PulsarException) as error:
        raise ConnectError(f"no client of Pulsar can be made for {url}: {error}") from error
