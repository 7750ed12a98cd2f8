"""Connections: their TLS, and how the keys of a cluster become a connection, with files and a secret."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from trimtab_common.errors import SettingsError
from trimtab_common.files import check_file, load_certificates, read_secret
from trimtab_common.settings import (
    Section,
    SettingValue,
    Table,
    convert,
    values_of,
)

TLS_FILES = ("tls_ca", "tls_certificate", "tls_key")


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The part of a connection that all systems share: TLS.

    Attributes
    ----------
    tls_ca
        PEM file of the trusted certificate authorities; default: the system's list.
    tls_certificate
        PEM file of the client certificate, if servers require one.
    tls_key
        PEM file of the key of `tls_certificate`.
    tls_verify_hostname
        Whether the server's certificate must match its host name.
    """

    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_verify_hostname: bool = True

    def __post_init__(self) -> None:
        """Refuse a certificate without its key, and a key without its certificate."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingsError("tls_certificate and tls_key go together: set both or neither")

    def tls_context(self) -> ssl.SSLContext:
        """The authorities that we trust and, where servers ask, who we are.

        Raises
        ------
        SettingsError
            If a PEM file cannot be used.
        """
        context = ssl.create_default_context()
        context.check_hostname = self.tls_verify_hostname
        load_certificates(context, self.tls_ca, self.tls_certificate, self.tls_key)
        return context


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """The keys of one cluster: a table `[clusters.NAME]` of the settings, or an address on the command line.

    Attributes
    ----------
    label
        How messages name it: `clusters.prod`, or the address as it was typed.
    values
        Keys of the connection with their origins. The address is stored under the key of its system.
    folder
        Relative paths are relative to it.
    environment
        Environment variables that begin with `TRIMTAB_`, for secrets.
    """

    label: str
    values: Table
    folder: Path = Path()
    environment: Mapping[str, SettingValue] = field(default_factory=dict)


ConnectionT = TypeVar("ConnectionT")


def connection_of(
    cluster: ClusterTable, kind: type[ConnectionT], *, system: str, secret: str | None = None
) -> ConnectionT:
    """The connection that the keys of a cluster describe.

    Parameters
    ----------
    kind
        Each key of the table is a field of it.
    system
        Name of the system, as in the environment variable of its secret.
    secret
        The key of the secret. It may also be in the file that the key of that name with `_file` names, or
        in the environment variable `TRIMTAB_SYSTEM_SECRET`, which overrides both.

    Raises
    ------
    SettingsError
        For an unknown key, a wrong type, a missing file or a combination that cannot work.
    """
    label, table = cluster.label, dict(cluster.values)
    file_key = f"{secret}_file"
    Section(label, kind, further=() if secret is None else (file_key,)).check_keys(table, cluster.folder)
    if secret is not None:
        file, given = table.pop(file_key, None), table.get(secret)
        if file is not None and given is not None:
            raise SettingsError(f"{label}.{secret} and {label}.{file_key} are both set: keep one")
        if (variable := cluster.environment.get(f"TRIMTAB_{system}_{secret}".upper())) is not None:
            table[secret] = variable
        elif file is not None:
            path = convert(file, Path, f"{label}.{file_key}", cluster.folder)
            table[secret] = SettingValue(read_secret(f"{label}.{file_key}", path), str(path))
    values = values_of(kind, table, label, cluster.folder)
    try:
        found = kind(**values)
    except SettingsError as error:
        raise SettingsError(f"{label}: {error}") from None
    for key in TLS_FILES:
        if (path := getattr(found, key, None)) is not None:
            check_file(f"{label}.{key}", path)
    return found
