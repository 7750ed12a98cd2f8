"""trimtab's store as a system of the balancer `masters`: its port and its live status."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from trimtab.act.execution.port import calling
from trimtab.act.masters import MastersObservation, TransferRequestResult
from trimtab.model.errors import Finding, broken, fine, missing
from trimtab.model.load import FloatArray
from trimtab.model.masters import group_number
from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.columns import Row
from trimtab.observe.lake.status import signed_deviation
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab.systems.paxos.collector import open_collector, store_problems
from trimtab_common.errors import ConnectError
from trimtab_store.format.configuration import STORE


class PaxosPort:
    """An adapter for the nodes of one store; the map stands in the store, or in a file that they watch."""

    claim_rights = "let the user write into the folder of the preferred map"

    def __init__(self, nodes: PaxosNodes) -> None:
        self._nodes = nodes

    def observe(self, groups: Collection[str]) -> MastersObservation:
        """Read the masters of these groups; missing groups are left out."""
        reports = calling(self._nodes.reports)
        version = calling(self._nodes.preferred_map).version
        # A node further behind than that would refuse to take over.
        max_lag_entries = self._nodes.configuration.settings.max_lag_entries
        masters: dict[str, str | None] = {}
        able: dict[str, frozenset[str]] = {}
        for name in groups:
            number = self._number(name)
            standing = {node: told[number] for node, told in reports.items() if number in told}
            if not standing:
                continue
            newest = max(one.applied for one in standing.values())
            masters[name] = next((str(node) for node, one in sorted(standing.items()) if one.holds), None)
            able[name] = frozenset(
                str(node)
                for node, one in standing.items()
                if newest - one.applied <= max_lag_entries and one.votes
            )
        return MastersObservation(
            self._nodes.cluster,
            self._nodes.cluster,
            version,
            masters,
            able,
            frozenset(map(str, reports)),
        )

    def request_transfers(self, base: int, targets: Mapping[str, str]) -> TransferRequestResult:
        """See `MastersPort.request_transfers`: the next map; groups that are not asked for stay as they are
        in it.
        """

        def publish() -> int | None:
            found = self._nodes.preferred_map()
            if found.version != base:
                return None  # it may also be older: a node has ended that knew more than those that answer
            preferred = list(found.preferred)
            for name, node in targets.items():
                preferred[self._number(name)] = int(node)
            return self._nodes.publish(base, tuple(preferred))

        return TransferRequestResult(calling(publish))

    def read_claims(self) -> frozenset[str]:
        """Read the claims of all trimtabs in this store."""
        return calling(self._nodes.claims)

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Add and remove claims in one change."""
        calling(lambda: self._nodes.change_claims(added, removed))

    def _number(self, name: str) -> int:
        """The number of a group by its name; -1 for one that cannot be of this store."""
        number = group_number(name)
        return number if number is not None and number < self._nodes.configuration.groups else -1


@contextmanager
def open_port(connection: PaxosConnection, clock: Callable[[], float]) -> Iterator[PaxosPort]:
    """A store to act on.

    Raises
    ------
    ConnectError
        If its configuration cannot be read.
    """
    yield PaxosPort(PaxosNodes(connection))


@dataclass(frozen=True)
class NodeStatus:
    """A node's number, its address, and whether it answers."""

    node: int
    address: str
    alive: bool

    @property
    def name(self) -> str:
        """Name of the node in tables."""
        return f"node {self.node}"


@dataclass(frozen=True, eq=False)
class MastersStatus:
    """Masterships of one store.

    Attributes
    ----------
    brokers
        The nodes; the name is that of all balancers.
    values
        Groups of which it is master, and slots that it is behind in all groups together: shape (nodes, 2).
    deviation
        Signed, of the mean, shape (nodes, 2); NaN for nodes that do not answer, and for lags.
    masters, preferred
        Node of each group, -1 where there is none, or none is named.
    version
        Of the map.
    problems
        As `TickSample.problems`.
    """

    cluster: str
    brokers: tuple[NodeStatus, ...]
    values: FloatArray
    deviation: FloatArray
    masters: tuple[int, ...]
    preferred: tuple[int, ...]
    version: int
    problems: tuple[str, ...]

    @property
    def misplaced_groups(self) -> int:
        """Groups whose master is another than the map names."""
        pairs = zip(self.masters, self.preferred, strict=True)
        return sum(preferred not in (-1, master) for master, preferred in pairs)


def read_status(connection: PaxosConnection, settings: CollectSettings) -> MastersStatus:
    """The masterships now, read directly from the nodes.

    Raises
    ------
    TrimtabError
        If no node answers.
    """
    with open_collector(connection, settings, CapacitySettings()) as collector:
        return masters_status(collector.sample())


def masters_status(sample: TickSample) -> MastersStatus:
    """The masterships by one tick's samples."""
    nodes = tuple(
        NodeStatus(row["node"], row["address"], row["alive"]) for row in sample.rows_of("paxos_node")
    )
    rows = list(sample.rows_of("paxos_group"))
    groups = 1 + max((row["group_number"] for row in rows), default=-1)
    masters, newest = [-1] * groups, [0] * groups
    for row in rows:
        group = row["group_number"]
        newest[group] = max(newest[group], row["applied"])
        if row["holds"]:
            masters[group] = row["node"]
    values = np.zeros((len(nodes), 2))
    for node in masters:
        if node >= 0:
            values[node, 0] += 1
    for row in rows:
        values[row["node"], 1] += newest[row["group_number"]] - row["applied"]
    alive = np.array([one.alive for one in nodes], dtype=np.bool_)
    known = np.where(alive[:, None], values, np.nan)
    deviation = signed_deviation(known)
    deviation[:, 1] = np.nan
    told: Row = next(iter(sample.rows_of("paxos_map")), {"version": 0, "preferred": [-1] * groups})
    return MastersStatus(
        sample.cluster, nodes, values, deviation, tuple(masters), tuple(told["preferred"]), told["version"],
        sample.problems,
    )  # fmt: skip


PART: Final = "Paxos groups"


def store_findings(
    connection: PaxosConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a store; changes nothing."""
    try:
        nodes = PaxosNodes(connection)
        reports = nodes.reports()
    except ConnectError as error:
        yield broken(PART, str(connection.node), str(error))
        return
    addresses = nodes.configuration.addresses
    for node, address in enumerate(addresses):
        if node in reports:
            yield fine(PART, address, f"node {node} answers, with {len(reports[node])} groups")
        else:
            yield missing(PART, address, f"node {node} does not answer", "start it, or see why it ended")
    if 2 * len(reports) <= len(addresses):
        told = f"{len(reports)} of {len(addresses)} nodes answer: no majority, nothing is stored"
        yield broken(PART, nodes.cluster, told, "start the others")
    for problem in store_problems(reports):
        yield missing(PART, nodes.cluster, problem)
    path = nodes.configuration.map
    if not path:
        told = "no map is watched: plans can be made, and not applied"
        remedy = f'set "map" in each node.json to "{STORE}", or to a file that all nodes see'
        yield missing(PART, "map", told, remedy)
    elif nodes.configuration.map_in_store:
        yield _map_in_store(nodes)
    elif not os.access(Path(path).parent, os.W_OK):
        yield missing(PART, path, "cannot be written from here", "run apply where the map's folder is")
    else:
        yield fine(PART, path, f"version {nodes.preferred_map().version} of the preferred map")


def _map_in_store(nodes: PaxosNodes) -> Finding:
    """The map where it is published in the store itself."""
    try:
        version = nodes.preferred_map().version
    except ConnectError as error:
        return broken(PART, "map", str(error))
    if version:
        return fine(PART, "map", f"version {version} of the preferred map, in the store")
    return missing(PART, "map", "none is published in the store", "publish one: `trimtab masters publish`")
