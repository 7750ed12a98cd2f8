"""One look at a store of Paxos groups without a lake: who is master of how many groups, from one tick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.status import signed_deviation
from trimtab.systems.paxos.collector import open_collector
from trimtab.systems.paxos.settings import PaxosConnection


@dataclass(frozen=True)
class NodeStatus:
    """A node's number, its address, and whether it answers."""

    node: int
    address: str
    alive: bool

    @property
    def name(self) -> str:
        """As tables call it."""
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
    """The masterships now, straight from the nodes.

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
    told: dict[str, Any] = next(iter(sample.rows_of("paxos_map")), {"version": 0, "preferred": [-1] * groups})
    return MastersStatus(
        sample.cluster, nodes, values, deviation, tuple(masters), tuple(told["preferred"]), told["version"],
        sample.problems,
    )  # fmt: skip
