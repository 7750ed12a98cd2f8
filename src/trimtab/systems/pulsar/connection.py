"""The connection to a Pulsar cluster, and the client of its binary protocol."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trimtab.systems.connection import ClusterTable, Connection, connection_of
from trimtab_common.errors import ConnectError, SettingsError

if TYPE_CHECKING:
    import pulsar


TOKEN_VARIABLE = "TRIMTAB_PULSAR_TOKEN"
SERVICE_SCHEMES = ("pulsar", "pulsar+ssl")


@dataclass(frozen=True)
class PulsarConnection(Connection):
    """Connection to one Pulsar cluster.

    Parameters
    ----------
    admin
        Web addresses of brokers, `http://host:8080` or all `https://host:8443`, at least one. If one does not
        respond, the next is used.
    cluster
        Name of the cluster; none: the only cluster with brokers at these addresses.
    service_url
        Address of the binary protocol, `pulsar://host:6650` or `pulsar+ssl://host:6651`; none: from the
        cluster's metadata. Only load reports of the extensible load manager need it.
    token
        Token sent with every request.
    timeout_seconds
        Time-out of a response.
    change_timeout_seconds
        Time-out of an unload, a split or another change: brokers respond when it is done.
    """

    admin: tuple[str, ...]
    cluster: str | None = None
    service_url: str | None = None
    token: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0
    change_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Put addresses and token into their plain form, and refuse settings that no client could use."""
        plain = (address.strip().rstrip("/") for address in self.admin)
        addresses = tuple(address if "://" in address else f"http://{address}" for address in plain)
        object.__setattr__(self, "admin", addresses)
        object.__setattr__(self, "token", None if self.token is None else self.token.strip())
        if not self.admin:
            raise SettingsError("no broker is named: write the address like pulsar+http://broker1:8080")
        schemes = {_checked_url("admin", url, ("http", "https")) for url in self.admin}
        if len(schemes) > 1:
            raise SettingsError(
                f"the address mixes http and https ({', '.join(self.admin)}): a token sent to the first "
                "would be open to all; keep one of the two"
            )
        if self.service_url is not None:
            for one in self.service_url.split(","):
                _checked_url("service_url", one if "://" in one else f"pulsar://{one}", SERVICE_SCHEMES)
        if not self.uses_tls and (self.tls_ca or self.tls_certificate):
            raise SettingsError(
                "a tls_ file is set, but the address is plain http: write pulsar+https://, or leave the "
                "tls_ keys out"
            )
        super().__post_init__()
        if self.token is not None and (not self.token or not self.token.isascii() or " " in self.token):
            raise SettingsError(
                "the token for Pulsar is empty or holds a space or a letter no token has: give the bare "
                f"token in token_file, token or the environment variable {TOKEN_VARIABLE}"
            )
        for key in ("timeout_seconds", "change_timeout_seconds"):
            if not 0 < getattr(self, key) < float("inf"):
                raise SettingsError(f"{key} is {getattr(self, key)}: it must be above 0")

    @property
    def uses_tls(self) -> bool:
        """True if the connection is encrypted."""
        return self.admin[0].startswith("https://")


def pulsar_connection(cluster: ClusterTable) -> PulsarConnection:
    """The connection that the keys of a Pulsar cluster describe; errors as in `connection_of`."""
    return connection_of(cluster, PulsarConnection, system="pulsar", secret="token")


def _checked_url(key: str, url: str, schemes: tuple[str, ...]) -> str:
    """The scheme of an address that can be used."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound, parts = False, urlsplit("")
    if not sound or parts.username or parts.query or parts.fragment or parts.path not in ("", "/"):
        shown = "an address with a password in it" if parts.username else repr(url)
        raise SettingsError(
            f"{key} holds {shown}: write it like {schemes[0]}://broker1:{8080 if key == 'admin' else 6650}"
        )
    return parts.scheme


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
