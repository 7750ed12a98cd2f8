"""Access of clients to a store: addresses, groups and credentials, and the status of each group."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self
from zlib import crc32

from trimtab_store.connections import PeerIdentity, PeerLink
from trimtab_store.core.messages import DescribeGroup, GroupStatus
from trimtab_store.format.configuration import TransportSecurity, read_configuration
from trimtab_store.format.wire import encoded


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


GroupStatusByNode = dict[int, dict[int, GroupStatus]]
"""Node to group to how that stands there; of nodes that have answered."""


async def query_group_status(cluster: StoreConfig, seconds: float = 2.0) -> GroupStatusByNode:
    """Ask all nodes, and wait until all have answered or time is up."""
    client, found = secrets.token_hex(8), GroupStatusByNode()
    missing = {(node, group) for node in range(len(cluster.addresses)) for group in range(cluster.groups)}
    complete = asyncio.Event()

    def received(node: int, text: tuple[int, GroupStatus]) -> None:
        group, message = text
        found.setdefault(node, {})[group] = message
        missing.discard((node, group))
        if not missing:
            complete.set()

    def timed_out(node: int) -> None:
        missing.difference_update({(node, group) for group in range(cluster.groups)})
        if not missing:
            complete.set()

    tasks, speaker = [], PeerIdentity(cluster.cluster, client, cluster.guard.opened())
    for node, address in enumerate(cluster.addresses):
        link = PeerLink(
            address, speaker, node, received=partial(received, node), ended=partial(timed_out, node)
        )
        for group in range(cluster.groups):
            link.send(encoded((group, DescribeGroup(client))))
        tasks.append(asyncio.create_task(link.run()))
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(complete.wait(), seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


def masters_of(statuses: GroupStatusByNode, groups: int) -> list[int]:
    """The node that counts itself as master of each group; -1 where none does.

    Where several have said so, since a transfer came between their answers, the one by the newest version.
    """
    masters, newest = [-1] * groups, [-1] * groups
    for node, groups_there in statuses.items():
        for group, standing in groups_there.items():
            if standing.holds and standing.version > newest[group]:
                masters[group], newest[group] = node, standing.version
    return masters
