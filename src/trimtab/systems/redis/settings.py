"""The connection to a server of queues, checked and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

from trimtab.systems.connection import ClusterTable, Connection, connection_of
from trimtab_common.errors import InputError, SettingsError
from trimtab_queues.format.server import CLUSTER, full_address, is_cluster, nodes_of, without_password

SCHEMES: Final = ("redis", "rediss")


@dataclass(frozen=True)
class RedisConnection(Connection):
    """Connection to the server of one set of queues.

    Parameters
    ----------
    url
        Server `redis://host:port/database`, `rediss://` over TLS, or nodes of a cluster,
        `redis+cluster://host:port,host:port`.
    name
        Name of the set of queues, as in its brokers; samples are stored under it.
    password
        Password of the server.
    timeout_seconds
        Time-out of a response.
    """

    url: str
    name: str = "queues"
    password: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        parts = urlsplit("")
        try:
            parts = urlsplit(self.url)
            sound = bool(nodes_of(self.url)) if is_cluster(self.url) else _names_a_server(parts)
        except (ValueError, InputError):
            sound = False
        if not sound:
            example = f"{CLUSTER}://host:6379,host:6380" if parts.scheme == CLUSTER else "redis://host:6379/0"
            shown = "an address with a password in it" if parts.password else repr(self.url)
            raise SettingsError(f"the address is {shown}: write it like {example}")
        if parts.scheme != "rediss" and (self.tls_ca or self.tls_certificate):
            raise SettingsError(
                "a tls_ file is set, but the address is not over TLS: write rediss://, or leave the "
                "tls_ keys out"
            )
        if not self.name:
            raise SettingsError("name is empty: name the set of queues as its brokers do")
        super().__post_init__()
        if not 0 < self.timeout_seconds < float("inf"):
            raise SettingsError(f"timeout_seconds is {self.timeout_seconds}: it must be above 0")

    @property
    def safe_url(self) -> str:
        """The address without a password, for messages."""
        return without_password(self.url)

    @property
    def full_url(self) -> str:
        """The address as the client takes it, with password and TLS files."""
        if not self.url.startswith("rediss"):
            return full_address(self.url, self.password)
        return full_address(
            self.url,
            self.password,
            ssl_ca_certs=self.tls_ca,
            ssl_certfile=self.tls_certificate,
            ssl_keyfile=self.tls_key,
            ssl_check_hostname=None if self.tls_verify_hostname else "false",
        )


def _names_a_server(parts: SplitResult) -> bool:
    return parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)


def redis_connection(cluster: ClusterTable) -> RedisConnection:
    """The connection that the keys of a set of queues describe; errors as in `connection_of`."""
    return connection_of(cluster, RedisConnection, system="redis", secret="password")
