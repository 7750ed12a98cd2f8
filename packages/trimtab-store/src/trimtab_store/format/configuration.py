"""The configuration of a node process, with its TLS files and its shared secret.

The file of a cluster's preferred map: the node that should be master of each group.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from trimtab_common.errors import InputError, SettingsError, did_you_mean
from trimtab_common.files import load_certificates, write_atomically
from trimtab_store.core.messages import MapChanged
from trimtab_store.core.settings import StoreSettings

SECRET_BYTES: Final = 16
"""Whoever poses as a node sees one proof, and may try secrets against it as long as he likes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSecurity:
    """Files that a node or client needs for its connections; none of them without options.

    Attributes
    ----------
    tls_ca
        PEM file of the authorities that sign certificates of this cluster, and no others.
    tls_certificate, tls_key
        PEM files of the own certificate and its key: nodes ask clients and one another for them.
    tls_verify_hostname
        Whether a node's certificate must name the host of its address, also where it calls.
    secret_file
        A file with the secret of the cluster, the same for nodes and clients.
    """

    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_verify_hostname: bool = True
    secret_file: str = ""

    def __post_init__(self) -> None:
        """Refuse half of TLS.

        Raises
        ------
        SettingsError
            If one file is given without the others.
        """
        files = {"tls_ca": self.tls_ca, "tls_certificate": self.tls_certificate, "tls_key": self.tls_key}
        missing = [name for name, file in files.items() if not file]
        if 0 < len(missing) < len(files):
            raise SettingsError(
                f"{' and '.join(missing)} of a masters cluster not set, expected tls_ca, tls_certificate and "
                "tls_key or none of them: both sides of a connection show a certificate; set all three"
            )

    def opened(self) -> TlsMaterial:
        """What stands in the files, read now.

        Raises
        ------
        SettingsError
            If one of them cannot be used.
        """
        return TlsMaterial(self)


class TlsMaterial:
    """What stood in the files of a guard.

    Attributes
    ----------
    secret
        Empty without one.
    serving, calling
        TLS of connections that come and of those that are made; None without.
    verify_hostname
        As in `TransportSecurity`.
    """

    def __init__(self, guard: TransportSecurity) -> None:
        self.secret = _secret(Path(guard.secret_file)) if guard.secret_file else b""
        self.verify_hostname = guard.tls_verify_hostname
        self.serving: ssl.SSLContext | None = None
        self.calling: ssl.SSLContext | None = None
        if guard.tls_ca:
            self.serving = _context(ssl.PROTOCOL_TLS_SERVER, guard)
            self.serving.verify_mode = ssl.CERT_REQUIRED
            self.calling = _context(ssl.PROTOCOL_TLS_CLIENT, guard)
            self.calling.check_hostname = guard.tls_verify_hostname

    def report_tls_errors(self, report: Callable[[str], None]) -> None:
        """Have it told when TLS of a connection that came does not come about; asyncio drops it silently."""
        if self.serving is None:
            return

        class ErrorReportingSSLObject(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as error:
                    report(f"its TLS does not come about ({error.reason or error}): refused")
                    raise

        self.serving.sslobject_class = ErrorReportingSSLObject


def _context(protocol: int, guard: TransportSecurity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificates(context, Path(guard.tls_ca), Path(guard.tls_certificate), Path(guard.tls_key))
    return context


def _secret(path: Path) -> bytes:
    try:
        found = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise SettingsError(f"secret_file {path} cannot be read ({error.strerror}): correct it") from None
    if len(found) < SECRET_BYTES:
        raise SettingsError(
            f"secret_file {path} has a secret of {len(found)} bytes, expected {SECRET_BYTES} or more: draw a "
            "longer one, as with `openssl rand -hex 32`"
        )
    return found


def names_host(certificate: Mapping[str, Any] | None, host: str) -> bool:
    """Whether a certificate that was verified is one of a host, by its alternative names."""
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind == "DNS":
            name, wanted = value.lower(), host.lower()
            if name == wanted or (name.startswith("*.") and wanted.partition(".")[2] == name[2:]):
                return True
        elif kind == "IP Address":
            try:
                if ipaddress.ip_address(value) == ipaddress.ip_address(host):
                    return True
            except ValueError:
                continue
    return False


CONFIGURATION_FORMAT: Final = "trimtab/masters-node/1"
STORE: Final = "store"
"""In the place of a path: the preferred map is in the store itself."""
MAX_BATCH_BYTES: Final = 512 << 10
Shared = tuple[tuple[str, object], ...]
"""Names and values that all nodes of a cluster must have alike."""
ELECTIONS: Final = 2.0
"""Elections that etcd may need until a call comes through again: 2.03 s were measured with one of a second,
.32 to .63 s with one of .3 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfiguration:
    """One node of a cluster; all but `node`, `folder` and files is the same on all nodes.

    Attributes
    ----------
    cluster
        A name that no other cluster has.
    node
        This node's place in `addresses`.
    addresses
        Of all nodes, each `host:port`.
    folder
        Where its log lies.
    groups
        How many.
    preferred_nodes
        Preferred node of each group, by index; -1 for any. Empty: any for all groups.
    map
        Where later versions of that are read while the node runs: a file, or `store` for the store itself;
        none if empty. All nodes must come to see the same.
    tls_ca, tls_certificate, tls_key, tls_verify_hostname, secret_file
        See `TransportSecurity`; none if empty.
    engine
        What chooses the entries of logs: the nodes themselves, up to five, or an etcd cluster.
    etcd
        Of its members, each `host:port`; only with that engine.
    etcd_election_seconds
        What `--election-timeout` is there.
    """

    format: str
    cluster: str
    node: int
    addresses: list[str]
    folder: str
    groups: int
    preferred_nodes: list[int] = field(default_factory=list)
    map: str = ""
    settings: StoreSettings = field(default_factory=StoreSettings)
    engine: Literal["embedded", "etcd"] = "embedded"
    etcd: list[str] = field(default_factory=list)
    etcd_election_seconds: float = 1.0
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_verify_hostname: bool = True
    secret_file: str = ""

    @property
    def shared(self) -> Shared:
        """What nodes tell one another before they talk. Addresses may differ: each calls by its own ways."""
        counts = (("nodes", len(self.addresses)), ("groups", self.groups), ("engine", self.engine))
        return counts + tuple(self.settings.shared.items())

    @property
    def map_in_store(self) -> bool:
        """Whether the preferred map is published in the store itself; it has no file then."""
        return self.map == STORE

    @property
    def guard(self) -> TransportSecurity:
        """What guards its connections; errors as in `TransportSecurity`."""
        return TransportSecurity(
            tls_ca=self.tls_ca,
            tls_certificate=self.tls_certificate,
            tls_key=self.tls_key,
            tls_verify_hostname=self.tls_verify_hostname,
            secret_file=self.secret_file,
        )


def read_configuration(path: Path) -> NodeConfiguration:
    """A configuration from JSON.

    Raises
    ------
    InputError
        If it is not there, or not of this form.
    SettingsError
        If a bound of the protocol is not kept, with what the engine needs to choose again after a failure.
    """
    try:
        data = path.read_bytes()
        _reject_unknown(path, msgspec.json.decode(data))
        found = msgspec.json.decode(data, type=NodeConfiguration)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} cannot be read as a node's configuration: {error}") from None
    if found.format != CONFIGURATION_FORMAT:
        raise InputError(f"{path} has format {found.format!r}, expected {CONFIGURATION_FORMAT!r}")
    for address in (*found.addresses, *found.etcd):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError(f"{path} has address {address!r}, expected host:port")
    if found.etcd and found.engine != "etcd":
        raise InputError(f"{path} has members of etcd and engine {found.engine}, expected engine etcd")
    if found.groups < 1:
        raise InputError(f"{path} has {found.groups} groups, expected 1 or more")
    if found.preferred_nodes and len(found.preferred_nodes) != found.groups:
        raise InputError(
            f"{path} has preferred nodes for {len(found.preferred_nodes)} groups, expected {found.groups}: "
            "one node per group, or -1 for any"
        )
    for place, node in enumerate(found.preferred_nodes):
        if not -1 <= node < len(found.addresses):
            known = len(found.addresses) - 1
            raise InputError(
                f"{path} names node {node} as preferred for group {place}, expected 0 to {known}, or -1"
            )
    return found if found.engine == "embedded" else _on_etcd(path, found)


def _reject_unknown(path: Path, values: object) -> None:
    """A key that nobody reads was meant for something; another format may have others."""
    if not isinstance(values, dict) or values.get("format") != CONFIGURATION_FORMAT:
        return
    tables = (("", values, NodeConfiguration), ("settings.", values.get("settings"), StoreSettings))
    for place, table, kind in tables:
        known = [one.name for one in fields(kind)]
        for name in table if isinstance(table, dict) else ():
            if name not in known:
                hint = did_you_mean(name, known, f"known are {', '.join(known)}", place)
                raise InputError(f"{path} has key {place}{name}, which a node does not know: {hint}")


def _on_etcd(path: Path, found: NodeConfiguration) -> NodeConfiguration:
    """With what etcd asks for; errors as in `read_configuration`."""
    if not 0 < found.etcd_election_seconds < inf:
        raise InputError(
            f"{path} has etcd_election_seconds {found.etcd_election_seconds:g}, expected a number above 0: "
            "name the --election-timeout of etcd"
        )
    if not found.etcd:
        raise InputError(f"{path} has engine etcd and no members, expected etcd = [host:port, ...]")
    if "/" in found.cluster:
        raise InputError(
            f"{path} has cluster {found.cluster!r}, expected a name without /: keys of etcd are parted by it"
        )
    settings = found.settings
    if settings.batch_bytes > MAX_BATCH_BYTES:
        raise SettingsError(
            f"masters.batch_bytes is {settings.batch_bytes:,}, expected {MAX_BATCH_BYTES:,} or fewer on "
            "etcd: it takes 1.5 MiB at once"
        )
    failover = max(settings.failover_seconds, ELECTIONS * found.etcd_election_seconds)
    return replace(found, settings=replace(settings, failover_seconds=failover))


MAP_FORMAT: Final = "trimtab/masters-map/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredMap:
    """A version of the map.

    Attributes
    ----------
    version
        Higher than that of any map before it.
    preferred
        One node per group, or -1 for any.
    """

    format: str
    version: int
    preferred: list[int]


def write_map(path: Path, observation: MapChanged) -> None:
    """Create or replace the file atomically; errors as in `write_atomically`."""
    found = PreferredMap(
        format=MAP_FORMAT, version=observation.version, preferred=list(observation.preferred)
    )
    write_atomically(path, msgspec.json.format(msgspec.json.encode(found), indent=1))


def read_map(path: Path, nodes: int, groups: int) -> MapChanged:
    """The map of a file.

    Parameters
    ----------
    nodes, groups
        Number of nodes and groups of the cluster.

    Raises
    ------
    InputError
        If it cannot be read, or names unknown nodes or groups.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=PreferredMap)
    except FileNotFoundError:
        raise InputError(
            f'{path} is not there, and is named as the preferred map: correct "map" in the configuration of '
            f'the node, or write {{"format": "{MAP_FORMAT}", "version": 1, "preferred": [...]}} there, with '
            f"a node or -1 for each of {groups} groups"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} cannot be read as a preferred map: {error}") from None
    if found.format != MAP_FORMAT:
        raise InputError(f"{path} has format {found.format!r}, expected {MAP_FORMAT!r}")
    if len(found.preferred) != groups:
        raise InputError(f"{path} has preferred nodes for {len(found.preferred)} groups, expected {groups}")
    for group, node in enumerate(found.preferred):
        if not -1 <= node < nodes:
            raise InputError(
                f"{path} names node {node} as preferred for group {group}, expected 0 to {nodes - 1}, or -1"
            )
    return MapChanged(found.version, tuple(found.preferred))


_MISSING: Final = (-1, -1)
"""In the place of when a file was changed, and which it is."""


class PreferredMapFile:
    """The file of a map, which is read again and again."""

    def __init__(self, path: Path, nodes: int, groups: int) -> None:
        self._path, self._nodes, self._groups = path, nodes, groups
        self._polled_at: tuple[int, int] | None = None
        self._known: MapChanged | None = None

    def changed(self) -> MapChanged | None:
        """The map if it has changed since the last call.

        Raises
        ------
        InputError
            As in `read_map`, or if it changed without a higher version; once for each change.
        """
        try:
            stat = self._path.stat()
            looked = stat.st_mtime_ns, stat.st_ino
        except OSError:
            looked = _MISSING
        if self._polled_at == looked:
            return None
        self._polled_at = looked
        found = read_map(self._path, self._nodes, self._groups)
        if self._known is not None and found != self._known and found.version <= self._known.version:
            raise InputError(
                f"{self._path} has another map in version {found.version}, and version {self._known.version} "
                "was seen: give a new map a higher version"
            )
        self._known = found
        return found
