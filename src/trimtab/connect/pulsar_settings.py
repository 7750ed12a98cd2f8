"""How to reach a Pulsar cluster: the `[pulsar]` table of trimtab.toml, checked and frozen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimtab.connect.tables import file_of, refuse_unknown_keys, text_of
from trimtab.model.errors import SettingsError

TOKEN_VARIABLE = "TRIMTAB_PULSAR_TOKEN"
SERVICE_SCHEMES = ("pulsar", "pulsar+ssl")

_FILE_KEYS = ("tls_ca", "tls_certificate", "tls_key", "token_file")
_TEXT_KEYS = ("cluster", "service_url", "token", *_FILE_KEYS)
_NUMBER_KEYS = ("timeout_seconds", "change_timeout_seconds")
KEYS = ("admin", "tls_verify_hostname", *_NUMBER_KEYS, *_TEXT_KEYS)


@dataclass(frozen=True)
class PulsarConnection:
    """Everything a client needs to reach one Pulsar cluster.

    Parameters
    ----------
    admin
        Web addresses of brokers, `http://host:8080` or all `https://host:8443`, at least one; the next one is
        asked where one does not answer.
    cluster
        Its name; None: the only one that has brokers here, as it tells itself.
    service_url
        The brokers' binary protocol, `pulsar://host:6650` or `pulsar+ssl://host:6651`; None: as the cluster's
        metadata tell. Only the extensible load manager's reports need it.
    token
        Shown to brokers with every request.
    tls_ca, tls_certificate, tls_key
        PEM files: whom we trust (the system's own list when absent), and our certificate where brokers ask
        for one.
    tls_verify_hostname
        Whether the broker's certificate must name the host we called.
    timeout_seconds
        How long one answer may take.
    change_timeout_seconds
        How long an unload, a split or another change may take: brokers answer when it is done.
    """

    admin: tuple[str, ...]
    cluster: str | None = None
    service_url: str | None = None
    token: str | None = field(default=None, repr=False)
    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_verify_hostname: bool = True
    timeout_seconds: float = 5.0
    change_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what no client could use."""
        if not self.admin:
            raise SettingsError("pulsar.admin is empty: name at least one broker as http://host:8080")
        schemes = {_checked_url("admin", url, ("http", "https")) for url in self.admin}
        if len(schemes) > 1:
            raise SettingsError(
                f"pulsar.admin mixes http and https ({', '.join(self.admin)}): a token sent to the first "
                "would be open to all; keep one of the two"
            )
        if self.service_url is not None:
            for one in self.service_url.split(","):
                _checked_url("service_url", one if "://" in one else f"pulsar://{one}", SERVICE_SCHEMES)
        if not self.uses_tls and (self.tls_ca or self.tls_certificate):
            raise SettingsError(
                "a pulsar.tls_ file is set, but pulsar.admin is plain http: write https://, or leave the "
                "tls_ keys out"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingsError("pulsar.tls_certificate and pulsar.tls_key go together: set both or neither")
        if self.token is not None and (not self.token or not self.token.isascii() or " " in self.token):
            raise SettingsError(
                "the token for Pulsar is empty or holds a space or a letter no token has: give the bare "
                f"token in pulsar.token_file, pulsar.token or the environment variable {TOKEN_VARIABLE}"
            )
        for key in _NUMBER_KEYS:
            if not 0 < getattr(self, key) < float("inf"):
                raise SettingsError(f"pulsar.{key} is {getattr(self, key)}: it must be above 0")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.admin[0].startswith("https://")


def pulsar_connection_from_table(
    table: Mapping[str, object], environment: Mapping[str, str] = os.environ, folder: Path = Path()
) -> PulsarConnection:
    """The connection that the `[pulsar]` table of a settings file describes.

    Parameters
    ----------
    table
        The parsed table; its keys are `KEYS`.
    environment
        Where `TRIMTAB_PULSAR_TOKEN` is looked up when the table names no token.
    folder
        Relative file names count from here (the folder of the settings file).

    Raises
    ------
    SettingsError
        For an unknown key, a wrong type, a missing file or a combination that cannot work.
    """
    refuse_unknown_keys("pulsar", table, KEYS)
    text = {key: text_of("pulsar", table, key, secret=key == "token") for key in _TEXT_KEYS}
    files = {key: file_of("pulsar", key, text[key], folder) for key in _FILE_KEYS}
    given: dict[str, Any] = {
        "admin": _addresses(table.get("admin")),
        "cluster": text["cluster"],
        "service_url": text["service_url"],
        "token": _token(text["token"], files.pop("token_file"), environment),
        **files,
        "tls_verify_hostname": _flag(table, "tls_verify_hostname"),
        **{key: _number(table, key) for key in _NUMBER_KEYS},
    }
    return PulsarConnection(**{key: value for key, value in given.items() if value is not None})


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
            f"pulsar.{key} holds {shown}: write it like {schemes[0]}://broker1:"
            f"{8080 if key == 'admin' else 6650}"
        )
    return parts.scheme


def _addresses(value: object) -> tuple[str, ...]:
    if value is None:
        raise SettingsError(
            "pulsar.admin is missing: name a broker with --pulsar-admin http://host:8080, or in the [pulsar] "
            "table of trimtab.toml"
        )
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise SettingsError(
            f"pulsar.admin is {value!r}: write a string or a list of strings http://host:8080"
        )
    plain = (part.strip().rstrip("/") for part in value)
    return tuple(part if "://" in part else f"http://{part}" for part in plain)


def _flag(table: Mapping[str, object], key: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise SettingsError(f"pulsar.{key} is {value!r}: write true or false")
    return value


def _number(table: Mapping[str, object], key: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingsError(f"pulsar.{key} is {value!r}: write a number of seconds")
    return float(value)


def _token(given: str | None, file: Path | None, environment: Mapping[str, str]) -> str | None:
    # The variable reaches us as `given` too, and like that of every setting it goes before files.
    if given is not None and given == environment.get(TOKEN_VARIABLE):
        return given.strip()
    if given is not None and file is not None:
        raise SettingsError("pulsar.token and pulsar.token_file are both set: keep one")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"pulsar.token_file {file} cannot be read: {error}") from error
    return given.strip() if given is not None else environment.get(TOKEN_VARIABLE)
