"""A plan of balancer `masters`: whose mastership goes where, in which order, and what clients feel of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.model.documents import Amount, Order, Receipt, StepOutcome
from trimtab.model.plan import Plan
from trimtab_common.documents import Count, Name


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
