"""How the groups of a cluster stand on each of its nodes, asked for once."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from functools import partial
from typing import Any

from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.connections.handshake import PeerIdentity
from trimtab_store.connections.links import PeerLink
from trimtab_store.core.messages import DescribeGroup, GroupStatus
from trimtab_store.format.frames import encoded

GroupStatusByNode = dict[int, dict[int, GroupStatus]]
"""Node to group to how that stands there; of nodes that have answered."""


async def query_group_status(cluster: StoreConfig, seconds: float = 2.0) -> GroupStatusByNode:
    """Ask all nodes, and wait until all have answered or time is up."""
    client, found = secrets.token_hex(8), GroupStatusByNode()
    missing = {(node, group) for node in range(len(cluster.addresses)) for group in range(cluster.groups)}
    complete = asyncio.Event()

    def received(node: int, text: Any) -> None:
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
