"""The connection to boxes: the `[boxes]` table of trimtab.toml."""

from dataclasses import dataclass
from pathlib import Path

from trimtab.systems.connection import ClusterTable, connection_of


@dataclass(frozen=True)
class BoxesConnection:
    """The file that a cluster of boxes is."""

    path: Path


def boxes_connection(cluster: ClusterTable) -> BoxesConnection:
    """The file that the address names."""
    return connection_of(cluster, BoxesConnection, system="boxes")
