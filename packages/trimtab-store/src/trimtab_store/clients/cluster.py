"""The cluster as its clients see it: addresses, groups, and the connections that clients share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from zlib import crc32

from trimtab_common.errors import ConnectError, InputError
from trimtab_store.connections import PeerIdentity, PeerLink
from trimtab_store.core.messages import NAME_BYTES, DescribeGroup, GroupStatus, SendMessage, name_bytes
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


def voters_of(statuses: GroupStatusByNode) -> set[int]:
    """The nodes that vote in all groups; only they count in a majority, whatever else they hold."""
    return {node for node, groups in statuses.items() if all(one.votes for one in groups.values())}


class StoreClient:
    """One client of a cluster; used with `async with`, in one event loop.

    It is connected to all nodes, as answers to messages that were forwarded come from another node than the
    one that was asked.

    Parameters
    ----------
    timeout_seconds
        What is not answered for that long fails with `ConnectError`; None for never.

    Raises
    ------
    InputError
        If the name of the topic is too long.
    """

    def __init__(self, cluster: StoreConfig, topic: str, timeout_seconds: float | None) -> None:
        check_name("a topic", topic)
        self._cluster, self._topic, self._timeout = cluster, topic, timeout_seconds
        self._client = secrets.token_hex(8)
        self._group = cluster.group_of(topic)
        speaker = PeerIdentity(cluster.cluster, self._client, cluster.guard.opened())
        self._links = [self._link(node, address, speaker) for node, address in enumerate(cluster.addresses)]
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def _link(self, node: int, address: str, speaker: PeerIdentity) -> PeerLink:
        return PeerLink(
            address,
            speaker,
            node,
            received=lambda message: self._on_connected(node, message),
            ended=lambda: self._on_disconnected(node),
        )

    async def __aenter__(self) -> Self:
        """Start connecting to all nodes."""
        self._tasks = [asyncio.create_task(link.run()) for link in self._links]
        self._tick()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections to all nodes."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------ for those who decide

    def _next_deadline(self) -> float:
        raise NotImplementedError

    def _woken(self, now: float) -> Sequence[SendMessage]:
        raise NotImplementedError

    def _handle_response(self, now: float, node: int, message: object) -> Sequence[SendMessage]:
        raise NotImplementedError

    def _lost(self, now: float, node: int) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------ what they are told, and what they order

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _on_connected(self, node: int, text: tuple[int, object]) -> None:
        group, message = text
        if group == self._group:
            self._carry_out(self._handle_response(self._now, node, message))
            self._tick()

    def _on_disconnected(self, node: int) -> None:
        self._lost(self._now, node)
        self._tick()

    def _tick(self) -> None:
        self._carry_out(self._woken(self._now))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._next_deadline()
        if due < float("inf"):
            self._timer = asyncio.get_running_loop().call_at(due, self._tick)

    def _carry_out(self, orders: Sequence[SendMessage]) -> None:
        for order in orders:
            assert isinstance(order.to, int)
            self._links[order.to].send(encoded((order.group, order.message)))

    def _silence(self, what: str) -> ConnectError:
        nodes = ", ".join(
            f"{address} ({link.trouble or 'connected'})"
            for address, link in zip(self._cluster.addresses, self._links, strict=True)
        )
        return ConnectError(
            f"{what} of topic {self._topic} was not answered in {self._timeout:g} s by cluster "
            f"{self._cluster.cluster}: {nodes}; a majority of the nodes must run, under this very name"
        )


def check_name(what: str, name: str) -> None:
    """Refuse a name that no node takes.

    Raises
    ------
    InputError
        If it is too long.
    """
    if name_bytes(name) > NAME_BYTES:
        raise InputError(
            f"the name of {what} has {name_bytes(name):,} bytes, expected {NAME_BYTES} or fewer: choose a "
            "shorter one"
        )
