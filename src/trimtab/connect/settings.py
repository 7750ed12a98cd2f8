"""How to reach a Kafka cluster: the `[kafka]` table of trimtab.toml, checked and frozen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.connect.tables import file_of, refuse_unknown_keys, text_of
from trimtab.model.errors import SettingsError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_VARIABLE = "TRIMTAB_KAFKA_PASSWORD"

_FILE_KEYS = ("tls_ca", "tls_certificate", "tls_key", "password_file")
_TEXT_KEYS = ("security_protocol", "sasl_mechanism", "user", "password", "client_id", *_FILE_KEYS)
KEYS = ("bootstrap", "tls_verify_hostname", "timeout_seconds", *_TEXT_KEYS)


@dataclass(frozen=True)
class KafkaConnection:
    """Everything a client needs to reach one Kafka cluster.

    Parameters
    ----------
    bootstrap
        Addresses `host:port`, at least one.
    security_protocol
        One of `SECURITY_PROTOCOLS`.
    tls_ca, tls_certificate, tls_key
        PEM files: whom we trust (the system's own list when absent), and our certificate where brokers ask
        for one.
    tls_verify_hostname
        Whether the broker's certificate must name the host we called.
    sasl_mechanism, user, password
        For the two SASL protocols; one of `SASL_MECHANISMS`.
    client_id
        The name brokers see, for their quotas and logs.
    timeout_seconds
        How long to wait for the first answer before giving up.
    """

    bootstrap: tuple[str, ...]
    security_protocol: str = "PLAINTEXT"
    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_verify_hostname: bool = True
    sasl_mechanism: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str = "trimtab"
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what no client could use."""
        for address in self.bootstrap:
            split_address(address)
        if not self.bootstrap:
            raise SettingsError("kafka.bootstrap is empty: name at least one broker as host:port")
        _one_of("security_protocol", self.security_protocol, SECURITY_PROTOCOLS)
        if self.uses_sasl:
            if self.sasl_mechanism is None:
                raise SettingsError(
                    f"kafka.sasl_mechanism is missing, and {self.security_protocol} needs it: "
                    f"set one of {', '.join(SASL_MECHANISMS)}"
                )
            _one_of("sasl_mechanism", self.sasl_mechanism, SASL_MECHANISMS)
            if not self.user:
                raise SettingsError(f"kafka.user is missing, and {self.security_protocol} needs it: set it")
            if not self.password:
                raise SettingsError(
                    f"no password for Kafka user {self.user!r}: set kafka.password_file or kafka.password, "
                    f"or the environment variable {PASSWORD_VARIABLE}"
                )
        elif self.sasl_mechanism or self.user:
            raise SettingsError(
                "kafka.user or kafka.sasl_mechanism is set, but kafka.security_protocol is "
                f"{self.security_protocol}: set it to SASL_SSL (or SASL_PLAINTEXT), or leave the user out"
            )
        if not self.uses_tls and (self.tls_ca or self.tls_certificate or self.tls_key):
            raise SettingsError(
                f"a kafka.tls_ file is set, but kafka.security_protocol is {self.security_protocol}: "
                "set it to SSL or SASL_SSL, or leave the tls_ keys out"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingsError("kafka.tls_certificate and kafka.tls_key go together: set both or neither")
        if not self.timeout_seconds > 0:
            raise SettingsError(f"kafka.timeout_seconds is {self.timeout_seconds}: it must be above 0")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the brokers are told a user and a password."""
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


def connection_from_bootstrap(addresses: str) -> KafkaConnection:
    """A plain connection from the comma-separated list that `--bootstrap` takes."""
    return connection_from_table({"bootstrap": addresses})


def connection_from_table(
    table: Mapping[str, object], environment: Mapping[str, str] = os.environ, folder: Path = Path()
) -> KafkaConnection:
    """The connection that the `[kafka]` table of a settings file describes.

    Parameters
    ----------
    table
        The parsed table; its keys are `KEYS`.
    environment
        Where `TRIMTAB_KAFKA_PASSWORD` is looked up when the table names no password.
    folder
        Relative file names count from here (the folder of the settings file).

    Raises
    ------
    SettingsError
        For an unknown key, a wrong type, a missing file or a combination that cannot work.
    """
    refuse_unknown_keys("kafka", table, KEYS)
    text = {key: text_of("kafka", table, key, secret=key == "password") for key in _TEXT_KEYS}
    files = {key: file_of("kafka", key, text[key], folder) for key in _FILE_KEYS}
    verify = table.get("tls_verify_hostname", True)
    if not isinstance(verify, bool):
        raise SettingsError(f"kafka.tls_verify_hostname is {verify!r}: write true or false")
    timeout = table.get("timeout_seconds", KafkaConnection.timeout_seconds)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise SettingsError(f"kafka.timeout_seconds is {timeout!r}: write a number of seconds")
    protocol = text["security_protocol"] or "PLAINTEXT"
    return KafkaConnection(
        bootstrap=_addresses(table.get("bootstrap")),
        security_protocol=protocol,
        tls_ca=files["tls_ca"],
        tls_certificate=files["tls_certificate"],
        tls_key=files["tls_key"],
        tls_verify_hostname=verify,
        sasl_mechanism=text["sasl_mechanism"],
        user=text["user"],
        password=_password(text["password"], files["password_file"], environment),
        client_id=text["client_id"] or KafkaConnection.client_id,
        timeout_seconds=float(timeout),
    )


def _addresses(value: object) -> tuple[str, ...]:
    if value is None:
        raise SettingsError(
            "kafka.bootstrap is missing: name a broker with --bootstrap host:port, or in the [kafka] table "
            "of trimtab.toml"
        )
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise SettingsError(f"kafka.bootstrap is {value!r}: write a string or a list of strings host:port")
    return tuple(part.strip() for part in value)


def _password(given: str | None, file: Path | None, environment: Mapping[str, str]) -> str | None:
    # The variable reaches us as `given` too, and like that of every setting it goes before files.
    if given is not None and given == environment.get(PASSWORD_VARIABLE):
        return given
    if given is not None and file is not None:
        raise SettingsError("kafka.password and kafka.password_file are both set: keep one")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise SettingsError(f"kafka.password_file {file} cannot be read: {error.strerror}") from error
    return given if given is not None else environment.get(PASSWORD_VARIABLE)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"kafka.{key} is {value!r}: write one of {', '.join(allowed)}")
