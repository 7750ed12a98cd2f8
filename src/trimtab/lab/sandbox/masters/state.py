"""A sandbox of groups and masters as its file describes it: nodes, their addresses, and the preferred map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from trimtab.lab.sandbox.state import SandboxState
from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.format.transport_security import TransportSecurity


@dataclass(frozen=True)
class StoreNodeProcess:
    """One declared process.

    Parameters
    ----------
    id
        Its number, from 0; members of etcd come behind the nodes.
    role
        `node`, which may be master, or `etcd`.
    """

    id: int
    role: str = "node"


@dataclass(frozen=True, kw_only=True)
class MastersSandboxState(SandboxState):
    """A sandbox of groups and masters.

    Parameters
    ----------
    ports
        Of the nodes, on 127.0.0.1.
    groups
        How many.
    lease_seconds
        The lease of a mastership.
    secret
        Whether nodes and clients have one.
    map_in_store
        Whether the preferred map is published in the store itself, not in a file.
    etcd_program, etcd_ports
        What the members of etcd are started with, and two ports each: for clients, and for one another; none
        if the nodes choose themselves.
    """

    system: ClassVar[str] = "masters"
    restarts: ClassVar[bool] = True

    ports: tuple[int, ...]
    groups: int
    lease_seconds: float
    secret: bool = False
    map_in_store: bool = False
    etcd_program: str = ""
    etcd_ports: tuple[int, ...] = ()

    @property
    def nodes(self) -> tuple[StoreNodeProcess, ...]:
        """All nodes."""
        return tuple(map(StoreNodeProcess, range(len(self.ports))))

    @property
    def members(self) -> tuple[StoreNodeProcess, ...]:
        """All members of etcd."""
        first = len(self.ports)
        return tuple(StoreNodeProcess(first + number, "etcd") for number in range(len(self.etcd_ports) // 2))

    @property
    def election_seconds(self) -> float:
        """Of etcd: its own default, or as much shorter as a short lease asks for."""
        return min(1.0, self.lease_seconds / 8)

    @property
    def engine(self) -> str:
        """What chooses."""
        return "etcd" if self.etcd_ports else "embedded"

    @property
    def cluster(self) -> StoreConfig:
        """As its clients know it."""
        addresses = tuple(f"127.0.0.1:{port}" for port in self.ports)
        secret_file = str(self.secret_file) if self.secret else ""
        return StoreConfig(
            self.cluster_id, addresses, self.groups, TransportSecurity(secret_file=secret_file)
        )

    @property
    def secret_file(self) -> Path:
        """The secret of nodes and clients, if there is one."""
        return self.folder / "secret"

    @property
    def map(self) -> Path:
        """The file of the preferred map, watched by all nodes, unless it is in the store."""
        return self.folder / "map.json"

    def configuration(self, node: int) -> Path:
        """The configuration of a node, as `trimtab masters node --config` takes it."""
        return self.node_folder(node) / "node.json"
