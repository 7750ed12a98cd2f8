"""A cluster before an execution, as its plan predicted it, and after it: table, document and conclusion."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.load import resource_name
from trimtab.report.before_after import MeasurementGoals, MeasurementVerdict, compare_measurements, met
from trimtab.report.formats import figure_text, known_value
from trimtab.report.tables import table_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.model.goals import GoalViolation
    from trimtab.model.imbalance import ImbalanceSummary
    from trimtab.report.measured import MeasuredLoad

COMPARABLE = 0.25
"""The whole cluster's load may differ by this share; beyond it, it is another load."""


@dataclass(frozen=True, eq=False)
class MeasurementComparison:
    """Two stretches of samples of one cluster, held against each other.

    Attributes
    ----------
    predicted
        Of the placement after all moves, by the plan.
    goals
        Those of the plan; ε is infinite where it is not asked.
    idle
        Resources that are used too little to be balanced.
    planned
        Goals that the newest snapshot misses, by which `status` and the next plan judge.
    """

    before: MeasuredLoad
    after: MeasuredLoad
    predicted: ImbalanceSummary
    goals: MeasurementGoals
    idle: tuple[str, ...]
    planned: tuple[GoalViolation, ...] = ()

    @property
    def outcome(self) -> MeasurementVerdict:
        """The judgement, by mean loads."""
        return compare_measurements(self.before.means(), self.after.means(), self.goals)

    @property
    def load_change(self) -> dict[str, float]:
        """The change of the whole cluster's load by resource, parts of what it was; without what is idle."""
        was, now = _total(self.before), _total(self.after)
        return {
            name: float(now[place] / was[place] - 1)
            for place, name in enumerate(self.before.resources)
            if name not in self.idle and np.isfinite(now[place]) and was[place] > 0
        }

    @property
    def not_comparable(self) -> tuple[str, ...]:
        """Resources whose load as a whole is another one now."""
        return tuple(name for name, change in self.load_change.items() if abs(change) > COMPARABLE)

    @property
    def exit_code(self) -> int:
        """0 if every goal holds under a load like that of before, by samples and by snapshot; else 1."""
        return 1 if self.outcome.unmet or self.planned or self.not_comparable else 0

    def conclusion(self) -> str:
        """What is true, in one line."""
        outcome, before, after = self.outcome, self.before.means(), self.after.means()
        if outcome.unmet:
            missed = ", ".join(_missed(name, after, self.goals) for name in outcome.unmet)
            told = f"Not within every goal: {missed}."
            if outcome.helped:
                told = f"It helped: {_named(outcome.improved)} became more even. {told}"
            elif outcome.worse:
                told = f"This did not help: {_named(outcome.worse)} became less even. {told}"
        elif self.planned:
            missed = ", ".join(
                f"{resource_name(one.resource)} ({abs(one.value):.1%}, {one.goal} {one.limit:.1%})"
                for one in self.planned
            )
            told = (
                "Every goal holds by the samples since the execution, but not by the snapshot that plans use,"
                f" which looks back longer: {missed}. `trimtab status` shows it."
            )
        elif compare_measurements(before, before, self.goals).unmet:
            told = "Balanced: every goal holds, by measurement."
        else:
            told = "Every goal holds, by measurement, and did before."
        if self.not_comparable:
            changes = ", ".join(
                f"{resource_name(name)} {self.load_change[name]:+.0%}" for name in self.not_comparable
            )
            told += f" But the load is another one than before ({changes}): the two are not comparable."
        return told

    def lines(self) -> list[str]:
        """Mean, peak, worst deviation and σ of each resource: before, predicted, and measured after."""
        was, now = self.before.means(), self.after.means()
        rows = [["resource", "figure", "before", "predicted", "after", "goal"]]
        for place, name in enumerate(self.before.resources):
            if name not in was.sigma or name not in now.sigma:
                rows.append([resource_name(name), "not measured", *[""] * 4])
                continue
            limited = name in was.peak_usage and name in now.peak_usage
            means = [
                float(one.mean[:, place].mean()) if limited else np.nan for one in (self.before, self.after)
            ]
            told: list[tuple[str, str, float, float, float, float]] = [
                ("mean", ".0%", means[0], np.nan, means[1], np.nan),
                ("peak", ".0%", *_of("peak_usage", name, was, self.predicted, now), self.goals.theta[name]),
                (
                    "worst deviation",
                    ".1%",
                    *_of("worst_deviation", name, was, self.predicted, now),
                    self.goals.epsilon[name],
                ),
                ("σ", ".4f", *_of("sigma", name, was, self.predicted, now), np.nan),
            ]
            if not limited:
                told = told[2:]
            for number, (figure, form, *values, limit) in enumerate(told):
                goal = f"≤ {limit:{form}}" if np.isfinite(limit) else ""
                cells = (figure_text(value, form) for value in values)
                rows.append(["" if number else resource_name(name), figure, *cells, goal])
        lines = table_lines(rows, "llrrrr", indent="")
        changes = ", ".join(f"{resource_name(n)} {change:+.0%}" for n, change in self.load_change.items())
        lines.append(f"load of the whole cluster, after against before: {changes or 'not known'}")
        if self.idle:
            lines.append(f"used too little to be balanced: {_named(self.idle)}")
        return lines

    def document(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "before": _document(self.before),
            "predicted": asdict(self.predicted),
            "after": _document(self.after),
            "goals": {
                "theta": {name: known_value(value) for name, value in self.goals.theta.items()},
                "epsilon": {name: known_value(value) for name, value in self.goals.epsilon.items()},
            },
            "load_change": self.load_change,
            "not_comparable": list(self.not_comparable),
            "missed_by_snapshot": [one._asdict() for one in self.planned],
            "outcome": asdict(self.outcome),
            "conclusion": self.conclusion(),
            "exit_code": self.exit_code,
        }


def plan_goals(
    settings: Mapping[str, Any], usual: Any, measured: MeasuredLoad
) -> tuple[MeasurementGoals, tuple[str, ...]]:
    """The goals of a plan under a measured load, and the resources that are too idle for ε.

    Parameters
    ----------
    settings
        The plan's, as it records them.
    usual
        The balancer's settings, where the plan records none.
    """
    asked = settings.get("goals", ("theta", "epsilon"))

    def limits(goal: str) -> dict[str, float]:
        found = settings.get(goal)
        if not isinstance(found, dict):
            found = dict(zip(measured.resources, getattr(usual, goal), strict=True))
        return {name: float(found[name]) if goal in asked else np.inf for name in measured.resources}

    least = float(settings.get("min_utilization", getattr(usual, "min_utilization", 0.0)))
    limited = measured.means().peak_usage
    idle = tuple(
        name
        for place, name in enumerate(measured.resources)
        if name in limited and float(measured.mean[:, place].mean()) < least
    )
    epsilon = {name: np.inf if name in idle else value for name, value in limits("epsilon").items()}
    return MeasurementGoals(limits("theta"), epsilon, len(measured.brokers)), idle


def _total(measured: MeasuredLoad) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean over the instants of the load of all brokers together, shape (resources,); NaN if not told."""
    if measured.load is None:
        return np.full(len(measured.resources), np.nan)
    return np.asarray(measured.load.sum(axis=1).mean(axis=0))


def _of(figure: str, name: str, *measures: ImbalanceSummary) -> tuple[float, float, float]:
    values = [float(getattr(one, figure).get(name, np.nan)) for one in measures]
    return values[0], values[1], values[2]


def _missed(name: str, measures: ImbalanceSummary, goals: MeasurementGoals) -> str:
    _, even, below = met(measures, name, goals)
    parts = []
    if not even:
        parts.append(f"{measures.worst_deviation[name]:.1%} from the mean, goal {goals.epsilon[name]:.1%}")
    if not below:
        parts.append(f"peak {measures.peak_usage[name]:.1%}, goal {goals.theta[name]:.1%}")
    return f"{resource_name(name)} ({', '.join(parts)})"


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(resource_name(name) for name in names)


def _document(measured: MeasuredLoad) -> dict[str, Any]:
    return {
        "ticks": [tick.isoformat() for tick in measured.ticks],
        "brokers": list(measured.brokers),
        "mean": {
            name: known_value(float(measured.mean[:, place].mean()))
            for place, name in enumerate(measured.resources)
        },
        **asdict(measured.means()),
    }
