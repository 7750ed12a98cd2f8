"""Level or not: the one definition, by which plans, `trimtab status` and the demo judge.

A cluster is balanced where no broker that counts is above θ, and none further than ε from the mean; ε is not
asked of what is used too little. σ and η tell how even it is, and decide nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, Imbalance

ROUNDING = 1e-9
"""Relative: a value above its limit by no more than this share of the limit is equal to it."""


def exceeds(value: FloatArray | float, limit: FloatArray | float) -> BoolArray:
    """Whether a value is above a limit by more than rounding: exactly θ and exactly ε hold."""
    return np.asarray(value > np.asarray(limit) * (1 + ROUNDING))


def percent_above(value: float, limit: float) -> str:
    """A value above its limit in percent, with two digits or as many as tell it from the limit."""
    texts = (f"{value:.{digits}%}" for digits in range(2, 9))
    return next((text for text in texts if float(text[:-1]) / 100 > limit * (1 + ROUNDING)), f"{value:.8%}")


class Goals(NamedTuple):
    """θ, ε (infinite where no goal) and the mean below which ε is not asked; shape (columns,).

    Where a column counts `whole` things, the numbers next to its mean are never out.
    """

    theta: FloatArray
    epsilon: FloatArray
    idle: FloatArray
    is_integral: BoolArray | bool = False


def goals_of(settings: Any, resources: Sequence[str], nominal: Sequence[str]) -> Goals:
    """The goals of a balancer's settings; resources of nominal capacity are never idle."""
    asked = getattr(settings, "goals", ("theta", "epsilon"))
    theta = np.where("theta" in asked, np.array(settings.theta), np.inf)
    epsilon = np.where("epsilon" in asked, np.array(settings.epsilon), np.inf)
    least = getattr(settings, "min_utilization", 0.0)
    return Goals(theta, epsilon, np.where(np.isin(resources, nominal), 0.0, least))


def limit_goals(goals: Sequence[str]) -> tuple[str, ...]:
    """The limits among the goals of a balancer, for a plan of the fewest moves below θ.

    Racks are a limit too: such a plan must not crowd one.
    """
    return tuple(goal for goal in goals if goal in ("theta", "rack")) or ("theta",)


def violations(
    usage: FloatArray, deviation: FloatArray, mean: FloatArray, goals: Goals
) -> tuple[BoolArray, BoolArray]:
    """Who is above θ, and who is further than ε from the mean; shape of `usage`.

    Parameters
    ----------
    usage, deviation
        B and γ, shape (brokers, resources), 0 for what does not count; or only their maxima.
    mean
        B̄, shape (resources,); NaN where it is not known: then ε is asked.
    """
    near = np.asarray(goals.is_integral) & (np.abs(usage - mean) < 1)
    off = exceeds(deviation, goals.epsilon) & ~(mean < goals.idle) & ~near
    return exceeds(usage, goals.theta), off


class GoalViolation(NamedTuple):
    """A goal that a resource misses: the worst broker, its view, its B or signed γ, and how many miss it."""

    goal: str
    resource: str
    broker: int | str
    view: str
    value: float
    limit: float
    brokers: int


def violations_not_in(
    others: Iterable[GoalViolation], known: Iterable[GoalViolation]
) -> tuple[GoalViolation, ...]:
    """Those of `others` whose goal and resource none of `known` is about."""
    told = {(breach.goal, breach.resource) for breach in known}
    return tuple(breach for breach in others if (breach.goal, breach.resource) not in told)


class IntraBrokerBalance(NamedTuple):
    """Parts of brokers held against the others of the same broker: the worst, and how many miss their goal.

    Attributes
    ----------
    name
        Of such parts, `log dirs`.
    number, violation_count
        How many there are, and how many are above θ or further than ε from their broker's mean.
    peak_usage, worst_deviation
        The highest utilisation, and the furthest from the mean of its broker's.
    part, broker
        The one that is furthest.
    """

    name: str
    number: int
    violation_count: int
    peak_usage: float
    worst_deviation: float
    part: str
    broker: int | str


def topic_violation_text(violation: GoalViolation) -> str:
    """The worst broker of a topic that misses a goal, with what it has and the nearest that is asked for."""
    side = "most" if violation.value > violation.limit else "least"
    others = violation.brokers - 1
    more = f", {others} more broker{'s' if others > 1 else ''} off too" if others else ""
    return (
        f"topic {violation.resource}: broker {violation.broker} has {violation.value:.0f}, at {side} "
        f"{violation.limit:.0f} asked for{more}"
    )


class GoalEvaluation(Protocol):
    """What is judged besides brokers' load, by its kind: `host`, `number`, or one of a balancer's own."""

    @property
    def kind(self) -> str:
        """The singular of its name in documents."""

    def violations(self) -> tuple[GoalViolation, ...]:
        """The goals that are missed, each with its worst row."""


@dataclass(frozen=True, eq=False)
class SecondaryGoal:
    """What is judged besides brokers' load, such as the load of hosts.

    Attributes
    ----------
    kind
        `host` or `number`.
    rows
        Names of the rows of `measured.usage`: hosts, or brokers.
    theta
        Shape of `measured.usage`: θ of every row, which overrules that of `goals`.
    """

    kind: str
    rows: tuple[int | str, ...]
    measured: Imbalance
    goals: Goals
    theta: FloatArray

    def violations_by_row(self) -> tuple[BoolArray, BoolArray]:
        """Who is above θ, and who is further than ε from the mean; shape of `measured.usage`."""
        one = self.measured
        above = one.counted & exceeds(one.usage, self.theta)
        return above, one.counted & violations(one.usage, one.deviation, one.mean, self.goals)[1]

    def violations(self) -> tuple[GoalViolation, ...]:
        """The goals that are missed, each with its worst row."""
        one, found = self.measured, []
        above, off = self.violations_by_row()
        signed = np.where(one.usage < one.mean, -one.deviation, one.deviation)
        for column, name in enumerate(one.resources):
            for goal, out, values, limits in (
                ("theta", above, one.usage, self.theta[:, column]),
                ("epsilon", off, signed, np.broadcast_to(self.goals.epsilon[column], len(self.rows))),
            ):
                if out[:, column].any():
                    row = int(np.where(out[:, column], np.abs(values[:, column]), -1.0).argmax())
                    value, limit = float(values[row, column]), float(limits[row])
                    found.append(
                        GoalViolation(goal, name, self.rows[row], "", value, limit, int(out[:, column].sum()))
                    )
        return tuple(found)


@dataclass(frozen=True, eq=False)
class GoalStatus:
    """A snapshot's load by view, held against goals as a planner does; `nominal`: without known capacity.

    `within` is about parts of brokers, where brokers have several. `sampled` are goals that the brokers' own
    samples miss though the snapshot holds them: whoever judges by either must know of both.
    """

    taken_at: str
    measured: Mapping[str, Imbalance]
    goals: Goals
    nominal: tuple[str, ...]
    violations: tuple[GoalViolation, ...]
    intra_broker: IntraBrokerBalance | None = None
    secondary_goals: tuple[GoalEvaluation, ...] = ()
    sampled: tuple[GoalViolation, ...] = ()


def out_of_service(snapshot: Any, request: Mapping[str, object]) -> frozenset[int | str]:
    """Names of the brokers that no measure counts, under the settings of a plan: dead ones, and drained."""
    if hasattr(snapshot, "with_overrides"):
        snapshot = snapshot.with_overrides(request)
    views = getattr(snapshot, "by_view", None) or {"": snapshot.imbalance()}
    counted = [row.any() for row in np.concatenate([one.counted for one in views.values()], axis=1)]
    return frozenset(name for name, one in zip(snapshot.row_names, counted, strict=True) if not one)


def goal_status(snapshot: Any, settings: Any) -> GoalStatus:
    """The standing of a snapshot of any balancer by its planner's settings, with the states they ask for."""
    if hasattr(snapshot, "with_overrides"):
        snapshot = snapshot.with_overrides(vars(settings))
    nominal, names = snapshot.quality.nominal_capacity, snapshot.row_names
    measured = getattr(snapshot, "by_view", None) or {"": snapshot.imbalance()}
    views = list(measured.values())
    goals = goals_of(settings, views[0].resources, nominal)
    held = [violations(one.usage, one.deviation, one.mean, goals) for one in views]
    signed = [np.where(one.usage < one.mean, -one.deviation, one.deviation) for one in views]
    found = []
    for place, resource in enumerate(views[0].resources):
        for goal, out, values, limit in (
            ("theta", [above for above, _ in held], [one.usage for one in views], goals.theta),
            ("epsilon", [off for _, off in held], signed, goals.epsilon),
        ):
            broken, value = np.array(out)[:, :, place], np.array(values)[:, :, place]
            if broken.any():
                view, row = divmod(int(np.where(broken, np.abs(value), -1.0).argmax()), len(names))
                figures = float(value[view, row]), float(limit[place]), int(broken.any(axis=0).sum())
                found.append(GoalViolation(goal, resource, names[row], list(measured)[view], *figures))
    within = snapshot.intra_broker(settings) if hasattr(snapshot, "intra_broker") else None
    beside = snapshot.secondary_goals(settings) if hasattr(snapshot, "secondary_goals") else ()
    return GoalStatus(snapshot.reference.taken_at, measured, goals, nominal, tuple(found), within, beside)
