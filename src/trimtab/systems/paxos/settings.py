"""The connection to a store of Paxos groups, checked and frozen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimtab.systems.connection import ClusterTable, connection_of
from trimtab_common.errors import SettingsError


@dataclass(frozen=True)
class PaxosConnection:
    """Connection to the nodes of one store.

    Parameters
    ----------
    node
        Configuration file of any node. It has all addresses, the groups, the location of the preferred map,
        and TLS and the secret.
    timeout_seconds
        Time-out of one node's responses.
    """

    node: Path
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        if not 0 < self.timeout_seconds < float("inf"):
            raise SettingsError(f"timeout_seconds is {self.timeout_seconds}: it must be above 0")


def paxos_connection(cluster: ClusterTable) -> PaxosConnection:
    """The connection that the keys of a store describe; errors as in `connection_of`."""
    return connection_of(cluster, PaxosConnection, system="paxos")
