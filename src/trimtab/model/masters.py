"""The balancer `masters`: its snapshot, its plan and the receipt of an execution, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from trimtab.model.documents import Amount, Order, Quality, Receipt, SnapshotReference, StepOutcome
from trimtab.model.load import BoolArray, FloatArray, Imbalance, imbalance
from trimtab.model.plan import Plan
from trimtab_common.documents import Count, Name

GROUP: Final = "group "


def group_name(number: int) -> str:
    """The name of a group by its number."""
    return f"{GROUP}{number}"


def group_number(name: str) -> int | None:
    """The number of a group by its name; None where it is no name of that kind."""
    number = name.removeprefix(GROUP)
    return int(number) if name.startswith(GROUP) and number.isdecimal() else None


RESOURCES: Final = ("queries", "bytes")
"""What is balanced between nodes: questions of clients a second, and what goes in and out, bytes a second."""
NO_MASTER: Final = -1
MIN_LOAD: Final = 1e-9
"""A group with a lower load, requests or bytes per second, counts as idle."""


class NodeState(StrEnum):
    """What a node can be given."""

    ALIVE = "alive"
    DEAD = "dead"
    DRAINING = "draining"
    """It is being emptied: all its masterships are to leave."""
    EXCLUDED = "excluded"
    """It keeps what it has, and gets nothing."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """One node.

    Attributes
    ----------
    node
        As the system names it: a number, as text.
    state
        As it was seen; settings of a plan may ask for another.
    weight
        Its share of the load beside others of weight 1.
    """

    node: Name
    address: str
    state: NodeState
    weight: Amount = 1.0


@dataclass(frozen=True, slots=True)
class MasterGroupLoad:
    """One group, with what it costs its master.

    Attributes
    ----------
    group
        Its name.
    master, preferred
        Places in the snapshot's nodes: who is master, and who is to be by what is published; -1 for nobody.
    able
        Places of nodes that could be master now: alive, with a vote, and not behind.
    queries_per_second, bytes_per_second
        On average over the newest past.
    messages_per_second
        That are stored.
    propose_seconds
        What one proposal takes, on average; None where none was seen.
    held_seconds
        How long the master has been it; None where nobody knows.
    """

    group: Name
    master: int
    preferred: int
    able: tuple[Count, ...]
    queries_per_second: Amount
    bytes_per_second: Amount
    messages_per_second: Amount = 0.0
    propose_seconds: Amount | None = None
    held_seconds: Amount | None = None


@dataclass(frozen=True)
class MastersSnapshot:
    """All masterships of one cluster at a moment.

    Attributes
    ----------
    system
        Whose masters: of Paxos groups, or leaders of another system.
    version
        Of the map that is published; 0 where there is none.
    scheme
        How masterships change hands there; empty where that is not known.
    """

    reference: SnapshotReference
    quality: Quality
    system: Name
    version: Count
    scheme: str = ""
    nodes: tuple[NodeLoad, ...] = ()
    groups: tuple[MasterGroupLoad, ...] = ()

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`."""
        return tuple(f"node {one.node}" for one in self.nodes)

    @property
    def masters(self) -> tuple[int, ...]:
        """Shape (groups,): places of the masters; -1 for nobody."""
        return tuple(one.master for one in self.groups)

    @property
    def loads(self) -> FloatArray:
        """Shape (groups, resources): what each group costs its master.

        Without any load every group counts the same: then masterships themselves are balanced.
        """
        found = np.array(
            [(one.queries_per_second, one.bytes_per_second) for one in self.groups], dtype=np.float64
        ).reshape(-1, len(RESOURCES))
        # The capacity of a node is a share of the whole load, which would round to 0 near the least float.
        found[found < MIN_LOAD] = 0.0
        idle = found.sum(axis=0) == 0
        return np.where(idle, 1.0, found)

    @property
    def in_service(self) -> BoolArray:
        """Shape (nodes,): those that masterships are balanced over."""
        return np.array(
            [one.state in (NodeState.ALIVE, NodeState.EXCLUDED) and one.weight > 0 for one in self.nodes],
            dtype=np.bool_,
        )

    def with_overrides(self, request: Mapping[str, Any]) -> MastersSnapshot:
        """The same with the weights and states that settings of a plan ask for.

        The dead stay dead; nodes that are not there are passed over here, and refused where a plan is made.

        Parameters
        ----------
        request
            `weights` by node, and `drain` and `muted`, names of nodes.
        """
        weights: Mapping[str, float] = request.get("weights") or {}
        told = {
            NodeState.DRAINING: request.get("drain", ()),
            NodeState.EXCLUDED: request.get("excluded_nodes", ()),
        }

        def state(one: NodeLoad) -> NodeState:
            if one.state is NodeState.DEAD:
                return one.state
            return next((name for name, nodes in told.items() if one.node in nodes), one.state)

        nodes = tuple(
            replace(one, weight=weights.get(one.node, one.weight), state=state(one)) for one in self.nodes
        )
        return replace(self, nodes=nodes)

    def imbalance(self, masters: Sequence[int] | None = None) -> Imbalance:
        """The measures of the masters' load, or of that of other masters, shape (groups,).

        Capacities are nominal: what the nodes in service carry together, shared out by weight; so their mean
        is 1. What dead and drained nodes still carry counts nowhere.
        """
        where = np.array(self.masters if masters is None else masters, dtype=np.int64)
        load, each = np.zeros((len(self.nodes), len(RESOURCES))), self.loads
        led = where != NO_MASTER
        np.add.at(load, where[led], each[led])
        in_service = self.in_service
        weight = np.array([one.weight for one in self.nodes]) * in_service
        total = load[in_service].sum(axis=0)
        # Where they carry nothing any capacity does: all of them use 0 of it.
        each = np.where(total > 0, total, 1.0) / max(weight.sum(), 1e-12)
        capacity = np.where(weight[:, None] > 0, weight[:, None] * each, np.inf)
        return imbalance(load, capacity, in_service, RESOURCES)


@dataclass(frozen=True, slots=True)
class TransferReason:
    """Why a mastership moves.

    Attributes
    ----------
    goal
        `dead`, `drain`, `nobody`, `epsilon`, or `order`: it makes room for another.
    resource
        That was most uneven; None where it must move whatever the load.
    """

    goal: Name
    resource: Name | None
    text: str


class MastershipMoveKind(StrEnum):
    """The kind of a move: there is but one."""

    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True)
class MastershipTransfer:
    """One mastership that goes to another node.

    Attributes
    ----------
    source
        The master's name; None where there is none.
    target
        Name of the node that is to be master.
    pause_seconds
        How long the group is expected to have no master; None where nothing tells.
    """

    order: Order
    kind: MastershipMoveKind
    group: Name
    source: Name | None
    target: Name
    queries_per_second: Amount
    bytes_per_second: Amount
    reason: TransferReason
    pause_seconds: Amount | None = None


@dataclass(frozen=True, slots=True)
class MastershipAssignment:
    """The master of a group before and after the whole plan, moved or not; None for nobody."""

    group: Name
    before: Name | None
    after: Name | None


@dataclass(frozen=True, slots=True)
class TransferCost:
    """How many masterships move, and for how long their groups have none in all."""

    transfers: Count
    pause_seconds: Amount = 0.0


@dataclass(frozen=True, slots=True)
class TransferBound:
    """How many masterships any plan moves that meets the same goals."""

    transfers: Count
    proof: str


@dataclass(frozen=True, kw_only=True)
class MastersPlan(Plan[MastershipTransfer]):
    """A plan of this balancer.

    Attributes
    ----------
    system
        Whose masters move.
    version
        Of the map that was published when it was made.
    assignments
        The master of every group; it is published as the preferred map.
    """

    system: Name
    version: Count = 0
    assignments: tuple[MastershipAssignment, ...]
    cost: TransferCost
    bound: TransferBound


@dataclass(frozen=True, slots=True)
class TransferOutcome(StepOutcome):
    """The end of one step.

    Attributes
    ----------
    group, target
        Which mastership was to go where.
    """

    group: str
    target: str


MastersReceipt = Receipt[TransferOutcome]
