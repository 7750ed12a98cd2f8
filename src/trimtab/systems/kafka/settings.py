"""The connection to a Kafka cluster, checked and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.systems.connection import ClusterTable, Connection, connection_of
from trimtab_common.errors import SettingsError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_VARIABLE = "TRIMTAB_KAFKA_PASSWORD"


@dataclass(frozen=True)
class KafkaConnection(Connection):
    """Connection to one Kafka cluster.

    Parameters
    ----------
    bootstrap
        Bootstrap brokers, `host:port`, at least one.
    security_protocol
        `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
    sasl_mechanism
        `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`, for the two SASL protocols.
    user
        User name of the two SASL protocols.
    password
        Password of `user`.
    client_id
        Client id in brokers' quotas and logs.
    timeout_seconds
        Time-out of the first response.
    """

    bootstrap: tuple[str, ...]
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str = "trimtab"
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        object.__setattr__(self, "bootstrap", tuple(address.strip() for address in self.bootstrap))
        for address in self.bootstrap:
            split_address(address)
        if not self.bootstrap:
            raise SettingsError(
                "no bootstrap broker is named: write the address like kafka://broker1:9092,broker2:9092"
            )
        _one_of("security_protocol", self.security_protocol, SECURITY_PROTOCOLS)
        if self.uses_sasl:
            if self.sasl_mechanism is None:
                raise SettingsError(
                    f"sasl_mechanism is missing, and {self.security_protocol} needs it: "
                    f"set one of {', '.join(SASL_MECHANISMS)}"
                )
            _one_of("sasl_mechanism", self.sasl_mechanism, SASL_MECHANISMS)
            if not self.user:
                raise SettingsError(f"user is missing, and {self.security_protocol} needs it: set it")
            if not self.password:
                raise SettingsError(
                    f"no password for Kafka user {self.user!r}: set password_file or password, "
                    f"or the environment variable {PASSWORD_VARIABLE}"
                )
        elif self.sasl_mechanism or self.user:
            raise SettingsError(
                "user or sasl_mechanism is set, but security_protocol is "
                f"{self.security_protocol}: set it to SASL_SSL (or SASL_PLAINTEXT), or leave the user out"
            )
        if not self.uses_tls and (self.tls_ca or self.tls_certificate or self.tls_key):
            raise SettingsError(
                f"a tls_ file is set, but security_protocol is {self.security_protocol}: "
                "set it to SSL or SASL_SSL, or leave the tls_ keys out"
            )
        super().__post_init__()
        if not self.timeout_seconds > 0:
            raise SettingsError(f"timeout_seconds is {self.timeout_seconds}: it must be above 0")

    @property
    def uses_tls(self) -> bool:
        """True if the connection is encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """True if the brokers are told a user and a password."""
        return self.security_protocol.startswith("SASL_")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts stand in square brackets.

    Raises
    ------
    SettingsError
        If either part is missing or the port is not 1 to 65535.
    """
    host, separator, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingsError(f"bootstrap address {address!r} is not host:port: write it like broker1:9092")
    return host, int(port)


def kafka_connection(cluster: ClusterTable) -> KafkaConnection:
    """The connection that the keys of a Kafka cluster describe; errors as in `connection_of`."""
    return connection_of(cluster, KafkaConnection, system="kafka", secret="password")


def spark_options(connection: KafkaConnection) -> dict[str, str]:
    """Options of Spark's Kafka source for a connection: those of the Java client, beginning with `kafka.`.

    They hold the password where there is one, so they must not be shown.
    """
    options = {
        "bootstrap.servers": ",".join(connection.bootstrap),
        "security.protocol": connection.security_protocol,
    }
    if connection.uses_tls:
        if connection.tls_ca is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(connection.tls_ca)}
        if connection.tls_certificate is not None and connection.tls_key is not None:
            # The Java client reads both from one file; given as text they may stay in two.
            options |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": connection.tls_certificate.read_text(),
                "ssl.keystore.key": connection.tls_key.read_text(),
            }
        if not connection.tls_verify_hostname:
            options["ssl.endpoint.identification.algorithm"] = ""
    if connection.uses_sasl and connection.sasl_mechanism is not None:
        login = "plain.PlainLoginModule" if connection.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        options["sasl.mechanism"] = connection.sasl_mechanism
        options["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{login} required "
            f"username={_quoted(connection.user or '')} password={_quoted(connection.password or '')};"
        )
    return {f"kafka.{key}": value for key, value in options.items()}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{key} is {value!r}: write one of {', '.join(allowed)}")
