"""Where a cluster of groups is found, for its clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from zlib import crc32

from trimtab_store.format.configuration import read_configuration
from trimtab_store.format.transport_security import TransportSecurity


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """A cluster as its clients know it; the same fields as in the configuration of its nodes.

    Attributes
    ----------
    cluster
        Its name.
    addresses
        Of all nodes in their order, each `host:port`.
    groups
        How many.
    guard
        The client's own files for TLS, and that of the cluster's secret.
    """

    cluster: str
    addresses: tuple[str, ...]
    groups: int
    guard: TransportSecurity = field(default_factory=TransportSecurity)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The cluster of a node, by the node's configuration; also with what guards that node.

        Raises
        ------
        InputError
            If that is not there, or not of its form.
        """
        found = read_configuration(path)
        return cls(found.cluster, tuple(found.addresses), found.groups, found.guard)

    def group_of(self, topic: str) -> int:
        """The group of a topic: all its messages stand in that group's log."""
        return crc32(topic.encode()) % self.groups
