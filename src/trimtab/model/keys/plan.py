"""A plan of the balancer `keys`: key groups that move, hot keys that are split, partitions that are added."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from trimtab.model.documents import Amount, Order, Receipt, StepOutcome
from trimtab.model.plan import Plan, Prediction
from trimtab_common.documents import Count, Name

Places = tuple[Count, ...]
"""Partitions."""


class RoutingMoveKind(StrEnum):
    """The kind of a move."""

    ADD = "add_partitions"
    GROUP = "move_group"
    KEY = "split_key"
    """Also to another number of partitions, down to one."""


@dataclass(frozen=True, slots=True)
class RoutingReason:
    """Why a route changes.

    Attributes
    ----------
    goal
        `theta`, `epsilon`, `hot_key`, `capacity`, or `asked` of what is taken back.
    resource
        Of the goal; None for a hot key.
    """

    goal: Name
    resource: Name | None
    text: str


@dataclass(frozen=True, slots=True)
class RoutingMove:
    """One change.

    Attributes
    ----------
    name
        Number of the key group, text of the hot key (`trimtab.model.keys.snapshot`), or the topic.
    before, after
        Partitions that its records go to; of a topic, how many it has.
    records_per_second
        Of the group or key; 0 of a topic.
    """

    order: Order
    kind: RoutingMoveKind
    name: Name
    before: Places
    after: Places
    records_per_second: Amount
    reason: RoutingReason


@dataclass(frozen=True, slots=True)
class RouteAssignment:
    """One entry that the plan changes, before and after all of it."""

    kind: RoutingMoveKind
    name: Name
    before: Places
    after: Places


@dataclass(frozen=True, slots=True)
class PartitionDrain:
    """One partition before and after the plan.

    Attributes
    ----------
    before_per_second, after_per_second
        Records that arrive.
    drain_before_seconds, drain_after_seconds
        Until its backlog is worked off; None where it never is, or no capacity is known.
    """

    partition: Count
    backlog: Count
    before_per_second: Amount
    after_per_second: Amount
    drain_before_seconds: Amount | None = None
    drain_after_seconds: Amount | None = None


@dataclass(frozen=True, slots=True)
class RoutingCost:
    """How much changes; `records_per_second` go to other partitions than before."""

    groups: Count
    keys: Count
    partitions: Count
    records_per_second: Amount


@dataclass(frozen=True, slots=True)
class RoutingBound:
    """How much any plan has to move that meets the goals with as many partitions."""

    records_per_second: Amount
    proof: str


@dataclass(frozen=True, kw_only=True)
class KeysPlan(Plan[RoutingMove]):
    """A plan of this balancer.

    Attributes
    ----------
    topic, topic_id, consumers
        As in the snapshot.
    version
        Of the table in force when it was made.
    base, partitions
        Partitions that the hash divides by, and those there after the plan.
    drains
        One for each partition there after the plan.
    """

    topic: Name
    topic_id: Name
    consumers: str
    version: Count
    base: Count
    partitions: Count
    assignments: tuple[RouteAssignment, ...]
    cost: RoutingCost
    bound: RoutingBound
    drains: tuple[PartitionDrain, ...] = ()

    @property
    def max_over_mean(self) -> tuple[float, float] | None:
        """The fullest partition against their mean, before and after; None where nothing is told of them.

        Before, partitions that the plan adds do not count.
        """
        before = [one.before_per_second for one in self.drains[: self.partitions - self.cost.partitions]]
        after = [one.after_per_second for one in self.drains]
        if not sum(before) or not sum(after):
            return None
        return max(before) * len(before) / sum(before), max(after) * len(after) / sum(after)


def reverted(plan: KeysPlan) -> KeysPlan:
    """The plan that leads back: routes as they were before; partitions that were added stay."""
    moves = [move for move in plan.moves if move.kind is not RoutingMoveKind.ADD]
    back = tuple(
        replace(
            move,
            order=order,
            before=move.after,
            after=move.before,
            reason=RoutingReason("asked", None, "as it was before the plan that is taken back"),
        )
        for order, move in enumerate(moves, 1)
    )
    return replace(
        plan,
        moves=back,
        assignments=tuple(RouteAssignment(one.kind, one.name, one.before, one.after) for one in back),
        predicted=Prediction(plan.predicted.after, plan.predicted.before),
        problems=(),
        cost=replace(plan.cost, partitions=0),
        bound=RoutingBound(0.0, "nothing has to be taken back"),
        drains=(),
    )


@dataclass(frozen=True, slots=True)
class RoutingOutcome(StepOutcome):
    """The end of one step.

    Attributes
    ----------
    name
        What was done.
    version
        Of the table that it published; None where it published none.
    """

    name: str
    version: int | None


KeysReceipt = Receipt[RoutingOutcome]
