"""The state of a Pulsar sandbox: processes, ports, tokens and addresses for clients."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from trimtab.lab.sandbox.cgroups import make_control_group, remove
from trimtab.lab.sandbox.cluster import CERTIFICATE, KEYSTORE
from trimtab.lab.sandbox.processes import free_ports, require_free, this_process
from trimtab.lab.sandbox.state import SandboxState
from trimtab.model.errors import SandboxError
from trimtab.systems.pulsar.connection import PulsarConnection

ROLE = "trimtab"
PLUGINS = {
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
}


@dataclass(frozen=True)
class PulsarSecurity:
    """The key that signs tokens (base64), and the password of the brokers' key store.

    The role `trimtab` may do everything, any other nothing.
    """

    key: str = field(repr=False)
    store_password: str = field(repr=False)

    def token(self, role: str = ROLE) -> str:
        """A token for a role (a JSON web token, HMAC-SHA256) that does not expire."""
        head, claims = _part({"alg": "HS256"}), _part({"sub": role})
        signed = hmac.new(base64.b64decode(self.key), f"{head}.{claims}".encode(), hashlib.sha256)
        return f"{head}.{claims}.{_base64(signed.digest())}"


def new_security() -> PulsarSecurity:
    """A random key and password."""
    return PulsarSecurity(base64.b64encode(secrets.token_bytes(32)).decode(), secrets.token_urlsafe(18))


def security_settings(security: PulsarSecurity, folder: Path) -> dict[str, str]:
    """The brokers' settings: tokens over TLS, the key store in the sandbox's folder, one superuser."""
    return PLUGINS | {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "superUserRoles": ROLE,
        "tokenSecretKey": f"data:;base64,{security.key}",
        "tlsEnabledWithKeyStore": "true",
        "tlsKeyStoreType": "PKCS12",
        "tlsKeyStore": str(folder / KEYSTORE),
        "tlsKeyStorePassword": security.store_password,
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": str(folder / CERTIFICATE),
        "brokerClientAuthenticationParameters": f"token:{security.token()}",
    }


def _part(value: dict[str, str]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


CLUSTER = "c1"


@dataclass(frozen=True)
class PulsarNode:
    """One declared process of the cluster.

    Parameters
    ----------
    id
        Ours; brokers from 1.
    role
        `broker`, `bed` (metadata store and bookie in one), or `metadata-store` and `bookie`.
    port
        Of a broker: for clients' binary protocol; of the metadata store or the bookie: their own. A bed's
        bookie listens there.
    web_port
        Of a broker: for its admin API; of a bed: its metadata store's; else None.
    control_group
        Folders of its control group; empty without one.
    """

    id: int
    role: str
    port: int
    web_port: int | None = None
    control_group: tuple[Path, ...] = ()

    @property
    def broker_id(self) -> str:
        """The broker as Pulsar names it: address and web port."""
        return f"127.0.0.1:{self.web_port}"


@dataclass(frozen=True, kw_only=True)
class PulsarSandboxState(SandboxState):
    """A Pulsar sandbox.

    Parameters
    ----------
    version
        Of Pulsar.
    load_manager
        `modular` or `extensible`.
    nodes
        All declared processes; what brokers stand on comes first.
    security
        None for a cluster that lets everybody in.
    without_control_groups
        Why brokers have no control groups of their own although they were asked for; else empty.
    """

    system: ClassVar[str] = "pulsar"

    version: str
    load_manager: str
    nodes: tuple[PulsarNode, ...]
    security: PulsarSecurity | None = None
    without_control_groups: str = ""

    @property
    def brokers(self) -> tuple[PulsarNode, ...]:
        """The declared brokers, by id."""
        return tuple(node for node in self.nodes if node.role == "broker")

    @property
    def service_url(self) -> str:
        """The address for clients of the binary protocol: all declared brokers."""
        scheme = "pulsar+ssl" if self.security else "pulsar"
        return f"{scheme}://" + ",".join(f"127.0.0.1:{node.port}" for node in self.brokers)

    @property
    def web_urls(self) -> dict[str, str]:
        """The admin API of each declared broker, by Pulsar's broker id."""
        scheme = "https" if self.security else "http"
        return {node.broker_id: f"{scheme}://{node.broker_id}" for node in self.brokers}

    @property
    def connection(self) -> PulsarConnection:
        """The connection of a client to the sandbox: admin API and binary protocol."""
        return PulsarConnection(
            tuple(self.web_urls.values()),
            cluster=CLUSTER,
            service_url=self.service_url,
            token=self.security.token() if self.security else None,
            tls_ca=self.folder / CERTIFICATE if self.security else None,
        )


BED_ID, METADATA_STORE_ID, BOOKIE_ID = 100, 101, 102


def declare_nodes(
    brokers: int,
    folder: Path,
    *,
    first_port: int | None,
    has_bed: bool,
    version: str,
    load_manager: str,
    secured: bool,
) -> PulsarSandboxState:
    """Declare a sandbox; no process runs yet.

    Parameters
    ----------
    brokers
        Their number; ids from 1.
    folder
        Where it will live.
    first_port
        The first broker's web port; its port for clients is the next, and so on; None for any free ones.
    has_bed
        Whether metadata store and bookie share a process.
    version, load_manager
        Of the brokers.
    secured
        Whether clients must come with a token over TLS.

    Raises
    ------
    SandboxError
        If a port asked for is in use.
    """
    fixed = list(range(first_port, first_port + 2 * brokers)) if first_port is not None else []
    for port in fixed:
        require_free(port)
    chosen = free_ports(2 + (0 if fixed else 2 * brokers), without=fixed)
    metadata, bookie = chosen[:2]
    ports = fixed or chosen[2:]
    if has_bed:
        below = [PulsarNode(BED_ID, "bed", bookie, metadata)]
    else:
        below = [
            PulsarNode(METADATA_STORE_ID, "metadata-store", metadata),
            PulsarNode(BOOKIE_ID, "bookie", bookie),
        ]
    serving = [
        PulsarNode(index + 1, "broker", ports[2 * index + 1], ports[2 * index]) for index in range(brokers)
    ]
    return PulsarSandboxState(
        folder=folder,
        cluster_id=secrets.token_hex(8),
        owner=this_process(),
        version=version,
        load_manager=load_manager,
        nodes=(*below, *serving),
        security=new_security() if secured else None,
    )


def metadata_port(state: PulsarSandboxState) -> int:
    """The port of the metadata store."""
    for node in state.nodes:
        if node.role == "bed" and node.web_port is not None:
            return node.web_port
        if node.role == "metadata-store":
            return node.port
    raise SandboxError(
        f"the sandbox {state.folder.name} has no metadata store: delete the folder {state.folder}"
    )


def with_control_groups(state: PulsarSandboxState, cpus: float) -> PulsarSandboxState:
    """The same sandbox with a control group for each broker, or with the reason why there are none."""
    made: list[Path] = []
    nodes = []
    try:
        for node in state.nodes:
            if node.role == "broker":
                group = make_control_group(f"trimtab-{state.cluster_id}-{node.id}", cpus)
                made += group.folders
                node = replace(node, control_group=group.folders)
            nodes.append(node)
    except SandboxError as error:
        remove(made)
        return replace(state, without_control_groups=str(error))
    return replace(state, nodes=tuple(nodes), control_groups=tuple(made))
