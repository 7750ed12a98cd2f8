"""The base of all plans: moves, what they achieve and predict, and why a goal cannot be met."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from trimtab.model.documents import SnapshotReference
from trimtab.model.load import ImbalanceSummary
from trimtab_common.documents import Count, Name


class Verdict(StrEnum):
    """The outcome that a plan promises."""

    BALANCED = "balanced"
    """Every goal holds after the moves. A plan without moves has nothing to do: every goal holds already, or
    as far as the rules on placement allow. Then `problems` proves what they forbid."""
    IMPROVED = "improved"
    """The moves help, but some soft goal (ε, even numbers, even log dirs) does not hold after them.
    `problems` names it and its cause. Every request and every hard limit holds."""
    INCOMPLETE = "incomplete"
    """A request or a hard limit is not met after the moves, or goals are missed and the plan has no move, or
    what must move (off dead or draining brokers, out of crowded racks) lifts a broker above θ that was not
    above it. No proof shows that it is impossible; the plan's `problems` name what remains and why."""
    INFEASIBLE = "infeasible"
    """Some hard limit cannot be met by any plan; the plan's `problems` proves it."""

    @property
    def is_complete(self) -> bool:
        """Whether the plan does all that was requested: `trimtab plan` exits with 0, else with 3."""
        return self in (Verdict.BALANCED, Verdict.IMPROVED)


@dataclass(frozen=True, slots=True)
class Problem:
    """A goal that cannot be met, or not by this strategy, and why.

    Attributes
    ----------
    kind
        `add_brokers`, `indivisible_replica`, `conflicting_constraints`, `unmet_goal`, `no_capacity`, ...
    count
        How many brokers to add, for a proven `add_brokers`.
    proof
        The numbers that prove it, as plain JSON values; empty where nothing does.
    """

    kind: Name
    text: str
    count: Count | None = None
    resource: Name | None = None
    proof: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Measures of the snapshot, and of the placement after all moves, over the brokers in service."""

    before: ImbalanceSummary
    after: ImbalanceSummary


MoveT = TypeVar("MoveT")


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[MoveT]):
    """The part of a plan that every balancer has; assignments, cost and bound are the balancer's own.

    Attributes
    ----------
    balancer, strategy
        Names of the balancer and of the planner.
    settings
        Those that shaped the plan, as plain JSON values.
    moves
        In the order in which they are to be carried out.
    """

    balancer: str
    strategy: str
    seed: int
    settings: dict[str, object]
    snapshot: SnapshotReference
    verdict: Verdict
    moves: tuple[MoveT, ...]
    predicted: Prediction
    problems: tuple[Problem, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether the plan changes anything."""
        return bool(self.moves)

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether every goal holds already, or as far as the rules on placement allow."""
        return self.verdict is Verdict.BALANCED and not self.has_changes


AnyPlan = Plan[Any]
"""A plan of any balancer; its moves are the balancer's own."""
UNDO: Final = "undo"
"""Strategy of plans that undo an executed plan; every step of such a plan is needed."""


def goals_of(plan: AnyPlan) -> dict[str, object]:
    """The settings of a plan that measurements compare with, without requests such as `drain`."""
    names = ("goals", "theta", "epsilon", "min_utilization")
    return {name: plan.settings[name] for name in names if name in plan.settings}


def undo_problems(reasons: Iterable[str], *, any_move: bool) -> tuple[Verdict, tuple[Problem, ...]]:
    """The verdict and the problems of a plan that undoes another one, by what it cannot undo."""
    problems = tuple(Problem("not_undone", reason) for reason in reasons)
    if problems:
        return Verdict.INCOMPLETE, problems
    return (Verdict.IMPROVED if any_move else Verdict.BALANCED), ()


def settings_document(settings: Any, resources: tuple[str, ...]) -> dict[str, object]:
    """A balancer's settings as plain JSON values; θ and ε by resource, without what has settings of its own.

    Settings that a goal has to itself (`goals` of a field's metadata) are told where it is asked for; with no
    goal named there, where they are given.
    """
    told: dict[str, object] = {}
    for one in fields(settings):
        name, value = one.name, getattr(settings, one.name)
        goals = one.metadata.get("goals")
        if goals is not None and not (set(goals) & set(settings.goals) if goals else value):
            continue
        if name in ("theta", "epsilon", "host_theta", "host_epsilon"):
            limits = {key: limit for key, limit in zip(resources, value, strict=True) if limit is not None}
            told |= {name: limits} if limits else {}
        elif not is_dataclass(value):
            told[name] = list(value) if isinstance(value, tuple) else value
    return told
