"""A plan of the balancer `bundles`: splits and unloads in order, each with its reason, and what they cost.

`trimtab.files.bundles.plan` reads and writes it: format `trimtab/plan/1`, as for every balancer.
"""

from dataclasses import dataclass
from enum import StrEnum

from trimtab.model.plan import Plan
from trimtab.model.values import Amount, Bundle, Hash, Order
from trimtab_common.documents import Count, Name


class BundleMoveKind(StrEnum):
    """The change that a move of this balancer makes."""

    UNLOAD = "unload"
    """The bundle leaves `source` and is owned by `target` afterwards; its clients reconnect."""
    SPLIT = "split"
    """The bundle is cut at `boundaries`; its parts stay on `source` unless later moves unload them."""


@dataclass(frozen=True, slots=True)
class BundleReason:
    """The goal and the broker that a move serves.

    Attributes
    ----------
    goal
        `theta`, `epsilon`, `drain`, `policy` (an isolation policy forbids the owner), `unowned`, `hot` (a
        bundle too big for its broker), or, for moves of Pulsar's own strategies, the class that chose it.
    resource, view
        Resource and view (`BundlesSnapshot.views`) where the goal was furthest from being met; None for goals
        without numbers.
    broker
        The broker that the move relieves or fills.
    before, after, limit
        The broker's value of the goal's measure before and after this move, and the bound that it should
        meet; None where the goal has no number.
    text
        The same for people, with why this bundle and this destination.
    """

    goal: Name
    resource: Name | None
    view: Name | None
    broker: Name
    before: float | None
    after: float | None
    limit: float | None
    text: str


@dataclass(frozen=True, slots=True)
class BundleMove:
    """One step.

    Attributes
    ----------
    bundle
        Its key; it may be a part that an earlier split of the plan makes.
    source
        Its owner; None where it has none.
    target
        For an unload, who shall own it.
    boundaries
        For a split, where to cut: strictly inside the bundle, rising.
    sessions, topics
        How many clients are disconnected for a moment, and of how many topics; a split alone disturbs nobody.
    bytes_per_second
        Traffic interrupted, in and out.
    """

    order: Order
    kind: BundleMoveKind
    bundle: Bundle
    source: Name | None
    target: Name | None
    boundaries: tuple[Hash, ...]
    sessions: Count
    topics: Count
    bytes_per_second: Amount
    reason: BundleReason


@dataclass(frozen=True, slots=True)
class BundleAssignment:
    """The owner of a bundle before and after the whole plan; `before` is None for a part of a split."""

    bundle: Bundle
    before: Name | None
    after: Name | None


@dataclass(frozen=True, slots=True)
class BundleCost:
    """The price of carrying the plan out."""

    sessions: Count
    unloads: Count
    splits: Count
    bytes_per_second: Amount


@dataclass(frozen=True, slots=True)
class BundleBound:
    """No plan that meets the same goals disturbs fewer clients; `proof` says why."""

    sessions: Count
    proof: str


@dataclass(frozen=True, kw_only=True)
class BundlePlan(Plan[BundleMove]):
    """A plan of the balancer `bundles`: the moves, who owns each bundle after them, and their price.

    Attributes
    ----------
    predicted
        In the newest view; how the others fare is part of `problems`, if any goal does not hold there.
    """

    assignments: tuple[BundleAssignment, ...]
    cost: BundleCost
    bound: BundleBound
