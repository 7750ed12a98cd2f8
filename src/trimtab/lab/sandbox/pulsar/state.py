"""A Pulsar sandbox as its file describes it: nodes, ports, and how clients get in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from trimtab.lab.sandbox.certificates import CERTIFICATE
from trimtab.lab.sandbox.pulsar.security import PulsarSecurity
from trimtab.lab.sandbox.state import SandboxState
from trimtab.systems.pulsar.settings import PulsarConnection

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
