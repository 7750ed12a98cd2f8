"""Connections: their TLS, and how they are made of a table of settings, with its files and its secret."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from trimtab_common.errors import SettingsError
from trimtab_common.settings import Section, Settings, SettingValue, bind, convert, origin_of

TLS_FILES = ("tls_ca", "tls_certificate", "tls_key")


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The part of a connection that all systems share: TLS.

    Attributes
    ----------
    section
        The table of settings that describes it.
    tls_ca
        PEM file of the trusted certificate authorities; default: the system's list.
    tls_certificate
        PEM file of the client certificate, if servers require one.
    tls_key
        PEM file of the key of `tls_certificate`.
    tls_verify_hostname
        Whether the server's certificate must match its host name.
    """

    section: ClassVar[str]

    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_verify_hostname: bool = True

    def __post_init__(self) -> None:
        """Refuse a certificate without its key, and a key without its certificate."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SettingsError(
                f"{self.section}.tls_certificate and {self.section}.tls_key go together: set both or neither"
            )

    def tls_context(self) -> ssl.SSLContext:
        """The authorities that we trust and, where servers ask, who we are.

        Raises
        ------
        SettingsError
            If a PEM file cannot be used.
        """
        context = ssl.create_default_context()
        context.check_hostname = self.tls_verify_hostname
        subject = self.tls_ca
        try:
            if subject is not None:
                context.load_verify_locations(cafile=subject)
            if self.tls_certificate is not None:
                subject = self.tls_certificate
                context.load_cert_chain(subject, self.tls_key)
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(
                f"the TLS file {subject} cannot be used ({error}): it must be PEM, and a key must fit its "
                "certificate"
            ) from error
        return context


ConnectionT = TypeVar("ConnectionT", bound=Connection)


def connection_of(
    settings: Settings,
    kind: type[ConnectionT],
    *,
    options: Mapping[str, str | None],
    secret: str,
    first: tuple[str, str],
) -> ConnectionT:
    """The connection that a table of the settings describes.

    Parameters
    ----------
    kind
        Each key of the table is a field of it.
    options
        Values of the command line by key, which go before all else; None where nothing was said.
    secret
        The key of the secret, which may also stand in the file that the key of that name with `_file`
        names, or in an environment variable, which goes before files.
    first
        The key that must be there, and how else to give it.

    Raises
    ------
    SettingsError
        For an unknown key, a wrong type, a missing file or a combination that cannot work.
    """
    section = kind.section
    said = {
        key: SettingValue(value, f"option for {key}") for key, value in options.items() if value is not None
    }
    table = {**settings.values(section), **said}
    file_key = f"{secret}_file"
    Section(section, kind, further=(file_key,)).check_keys(table, settings.folder)
    if file_key in said:
        table.pop(secret, None)
    file, given = table.pop(file_key, None), table.get(secret)
    variable = f"environment variable TRIMTAB_{section}_{secret}".upper()
    if file is not None and given is not None and origin_of(given).upper() != variable:
        raise SettingsError(f"{section}.{secret} and {section}.{file_key} are both set: keep one")
    if file is not None and given is None:
        path = convert(file, Path, f"{section}.{file_key}", settings.folder)
        table[secret] = SettingValue(_secret_in(section, file_key, path), str(path))
    if first[0] not in table:
        raise SettingsError(
            f"{section}.{first[0]} is missing: {first[1]}, or in the [{section}] table of trimtab.toml"
        )
    found = bind(kind, table, section, settings.folder)
    for key in TLS_FILES:
        if (path := getattr(found, key)) is not None:
            _check_there(section, key, path)
    return found


def _secret_in(section: str, key: str, path: Path) -> str:
    """The text of a file, without the line end that is not part of it."""
    _check_there(section, key, path)
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{section}.{key} {path} cannot be read: {error}; correct it") from error


def _check_there(section: str, key: str, path: Path) -> None:
    if not path.is_file():
        raise SettingsError(f"{section}.{key} names {path}, and there is no such file: correct the path")
