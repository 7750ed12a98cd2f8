"""Nodes of the balancer `masters` in the process of a test, on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from trimtab.lab.sandbox.masters.sandbox import settings_for
from trimtab.lab.sandbox.processes import free_ports
from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.core.messages import Promised
from trimtab_store.core.paxos import ALL_RESTARTED
from trimtab_store.core.token import CLUSTER
from trimtab_store.format.configuration import CONFIGURATION_FORMAT, NodeConfiguration
from trimtab_store.format.log import NodeLog
from trimtab_store.node.process import NodeProcess

HOST: Final = "127.0.0.1"


def free_addresses(nodes: int) -> list[str]:
    """Where so many nodes may listen."""
    return [f"{HOST}:{port}" for port in free_ports(nodes)]


def node_configuration(
    folder: Path, node: int, addresses: list[str], lease_seconds: float = 2.0, **more: Any
) -> NodeConfiguration:
    """A node of one group, whose leases are short."""
    return NodeConfiguration(
        format=CONFIGURATION_FORMAT,
        cluster="c",
        node=node,
        addresses=addresses,
        folder=str(folder / f"node-{node}"),
        groups=1,
        settings=settings_for(lease_seconds),
        **more,
    )


def with_log(given: NodeConfiguration) -> NodeConfiguration:
    """The same node, which has voted before: such nodes need a majority to begin, new ones need all."""
    Path(given.folder).mkdir(parents=True, exist_ok=True)
    log = NodeLog(Path(given.folder) / "log", given.cluster, given.node)
    for group in range(CLUSTER, given.groups):
        log.write(group, Promised(ALL_RESTARTED))
    log.put(log.next_flush())
    log.close()
    return given


@asynccontextmanager
async def nodes_running(given: Sequence[NodeConfiguration]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """A task for each, until the end."""
    tasks = [asyncio.create_task(NodeProcess(one).run()) for one in given]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def cluster_of(given: NodeConfiguration) -> StoreConfig:
    """The cluster as a client knows it that has no guard."""
    return StoreConfig("c", tuple(given.addresses), 1)


def lines_without_pauses(text: str) -> list[str]:
    """The lines of nodes on standard error, but for those that report a pause: a busy machine causes them."""
    return [line for line in text.splitlines() if " stood still for " not in line]
