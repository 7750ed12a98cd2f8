"""Settings, plan and receipt of the balancer `bundles`: splits and unloads in order, reasons, effects.

`trimtab.files.bundles.plan` reads and writes the plan:
format `trimtab/plan/1`, as for every balancer.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from trimtab.model.documents import Amount, Bundle, Hash, Order, Receipt, StepOutcome
from trimtab.model.plan import Plan
from trimtab_common.documents import Count, Fraction, Name, Seconds, Share, SmallShare, one_of

UNOWNED = ("leave", "assign")
"""The ways with bundles that nobody owns."""

OUTSIDE_POLICY = ("leave", "move")
"""The ways with bundles on brokers that the isolation policies do not allow them."""


@dataclass(frozen=True)
class BundlesSettings:
    """The goals and limits of a plan of the balancer `bundles`.

    Attributes
    ----------
    theta
        Highest utilisation θ in every view, per resource (cpu, bandwidth_in, bandwidth_out, message_rate), 0
        < θ <= 1.
    epsilon
        Highest deviation γ from the mean in every view, per resource, 0 < ε < 1.
    min_utilization
        Resources with mean utilisation below this share in a view are not balanced in that view. Resources
        without known capacity always are.
    grace_seconds
        Time for which a bundle does not return to a broker that it left.
    max_unloads
        Maximum number of unloads of a plan; none: no limit.
    max_sessions
        Maximum number of clients that a plan may disconnect; none: no limit.
    excluded_namespaces
        Names or glob patterns of namespaces whose bundles are not moved to balance the cluster.
    evacuate_excluded_namespaces
        Whether bundles of excluded namespaces leave brokers that are not in service.
    unowned_bundles
        `leave`: Pulsar places bundles without owner at their next lookup; `assign`: the plan assigns them to
        a broker.
    policy_violations
        A bundle on a broker that its namespace's isolation policy excludes. `leave`: the plan names it, and
        moves it only if the goals require it; `move`: the plan moves it to a broker that the policy allows.
    allow_splits
        Whether a plan may split a bundle that is too large for every broker.
    max_bundles_per_namespace
        Maximum number of bundles of a namespace after a split.
    seed
        Seed of random choices; the same seed gives the same plan.
    time_budget_seconds
        Search effort: 0 is the deterministic default; a larger value adds a fixed number of search steps per
        second, so that the same value gives the same plan on any machine.
    """

    theta: tuple[Share, ...] = (0.8, 0.8, 0.8, 0.8)
    epsilon: tuple[Fraction, ...] = (0.1, 0.1, 0.1, 0.1)
    min_utilization: SmallShare = 0.01
    grace_seconds: Seconds = 1800.0
    max_unloads: Count | None = None
    max_sessions: Count | None = None
    excluded_namespaces: tuple[Name, ...] = ()
    evacuate_excluded_namespaces: bool = True
    unowned_bundles: Annotated[str, one_of(*UNOWNED)] = "leave"
    policy_violations: Annotated[str, one_of(*OUTSIDE_POLICY)] = "leave"
    allow_splits: bool = True
    max_bundles_per_namespace: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 128
    seed: Count = 0
    time_budget_seconds: Seconds = 0.0


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


@dataclass(frozen=True, slots=True)
class BundleOutcome(StepOutcome):
    """The outcome of one step.

    Attributes
    ----------
    kind
        `unload` or `split`.
    source, target
        Who owned the bundle before, where that was known, and who shall own it, for an unload.
    boundaries
        Where it was to be cut, for a split.
    unloads
        How many times it was unloaded, as far as Pulsar's answers tell.
    sessions
        Clients that were disconnected for a moment, by the plan's count, each time it was unloaded.
    attempts
        How many times it was asked for in vain.
    in_flight_seconds
        For an unload that was done: from first asking for it until its owner was seen, with all attempts and
        pauses between them, and our looks; the bundle was without an owner for less. None where it was not
        measured.
    """

    bundle: str
    source: str | None
    target: str | None
    boundaries: tuple[int, ...]
    unloads: int
    sessions: int
    attempts: int
    in_flight_seconds: float | None


@dataclass(frozen=True)
class BundlesReceipt(Receipt[BundleOutcome]):
    """The end of an execution of the balancer `bundles`.

    Attributes
    ----------
    notes
        What others did meanwhile, and what was left to them.
    """

    notes: tuple[str, ...] = ()

    @property
    def unloads(self) -> int:
        """Unloads in all, also of bundles that did not get where they should."""
        return sum(outcome.unloads for outcome in self.outcomes)

    @property
    def sessions(self) -> int:
        """Number of clients that the unloads disconnect."""
        return sum(outcome.sessions for outcome in self.outcomes)
