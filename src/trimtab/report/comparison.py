"""The load before an execution, as predicted, and as measured after it: text, JSON and picture.

The comparison holds the figures of each side and the verdict. The table lists them, the heat map draws
brokers × resources side by side.
"""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.goals import Goals as Limits
from trimtab.model.goals import violations
from trimtab.model.load import ImbalanceSummary, resource_name, sigma_threshold
from trimtab.report.charts import FAINT, INK
from trimtab.report.formats import figure_text, known_value, signed_text
from trimtab.report.tables import RANGE, table_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trimtab.model.goals import GoalViolation
    from trimtab.report.measured import MeasuredLoad


@dataclass(frozen=True)
class MeasurementGoals:
    """The goals of balancing: θ and ε per resource name, in the order in which they are shown; the
    number of brokers gives η = ε/N.
    """

    theta: dict[str, float]
    epsilon: dict[str, float]
    brokers: int

    def eta(self, resource: str) -> float:
        """η, the σ that is reached whenever every deviation is within ε."""
        return sigma_threshold(self.epsilon[resource], self.brokers)


@dataclass(frozen=True)
class MeasurementVerdict:
    """Whether balancing helped, by measurement.

    Attributes
    ----------
    improved
        Resources that missed θ or ε, and whose σ fell.
    worse
        Resources that miss θ or ε, and whose σ and worst deviation or peak rose.
    unmet
        Resources that still miss θ or ε.
    """

    improved: tuple[str, ...]
    worse: tuple[str, ...]
    unmet: tuple[str, ...]

    @property
    def helped(self) -> bool:
        """True if some resource got more even and none became uneven."""
        return bool(self.improved) and not self.worse


def compare_measurements(
    before: ImbalanceSummary, after: ImbalanceSummary, goals: MeasurementGoals
) -> MeasurementVerdict:
    """Compare the measures before with the measures after.

    Goals are those of the planner: no broker above θ, none further than ε from the mean, by mean loads. η
    says how even a resource is, and decides nothing. A resource that keeps its goals before and after counts
    neither way, whatever the last digit of its σ does.
    """
    measured = [name for name in goals.epsilon if name in before.sigma and name in after.sigma]
    unmet = tuple(name for name in measured if not _holds(after, name, goals))
    return MeasurementVerdict(
        improved=tuple(
            name
            for name in measured
            if not _holds(before, name, goals) and after.sigma[name] < before.sigma[name]
        ),
        worse=tuple(name for name in unmet if _worse(before, after, name)),
        unmet=unmet,
    )


def met(measures: ImbalanceSummary, name: str, goals: MeasurementGoals) -> tuple[bool, bool, bool]:
    """Whether a resource's σ is within η, its worst deviation within ε, and its peak within θ."""
    peak, off = measures.peak_usage.get(name, 0.0), measures.worst_deviation[name]
    limits = Limits(*map(np.array, (goals.theta[name], goals.epsilon[name], 0.0)))
    above, apart = violations(np.array(peak), np.array(off), np.array(np.nan), limits)
    return measures.sigma[name] <= goals.eta(name), not apart, not above


def _holds(measures: ImbalanceSummary, name: str, goals: MeasurementGoals) -> bool:
    return all(met(measures, name, goals)[1:])


def _worse(before: ImbalanceSummary, after: ImbalanceSummary, name: str) -> bool:
    extremes = ((m.worst_deviation[name], m.peak_usage.get(name, 0.0)) for m in (before, after))
    (deviation, peak), (deviation_after, peak_after) = extremes
    return after.sigma[name] > before.sigma[name] and (deviation_after > deviation or peak_after > peak)


COMPARABLE = 0.25
"""The whole cluster's load may differ by this share; beyond it, it is another load."""


@dataclass(frozen=True, eq=False)
class MeasurementComparison:
    """A comparison of two time ranges of samples of one cluster.

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
        """The verdict, by mean loads."""
        return compare_measurements(self.before.means(), self.after.means(), self.goals)

    @property
    def load_change(self) -> dict[str, float]:
        """The relative change of the cluster's total load by resource; without idle resources."""
        was, now = _total(self.before), _total(self.after)
        return {
            name: float(now[place] / was[place] - 1)
            for place, name in enumerate(self.before.resources)
            if name not in self.idle and np.isfinite(now[place]) and was[place] > 0
        }

    @property
    def not_comparable(self) -> tuple[str, ...]:
        """Resources whose total load has changed by more than `COMPARABLE`."""
        return tuple(name for name, change in self.load_change.items() if abs(change) > COMPARABLE)

    @property
    def exit_code(self) -> int:
        """0 if every goal holds under a load like that of before, by samples and by snapshot; else 1."""
        return 1 if self.outcome.unmet or self.planned or self.not_comparable else 0

    def conclusion(self) -> str:
        """The conclusion in one line."""
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
            told += f" But the load has changed ({changes}): the two are not comparable."
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

    def document(self) -> dict[str, object]:
        """The same figures as plain JSON values."""
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


def _document(measured: MeasuredLoad) -> dict[str, object]:
    return {
        "ticks": [tick.isoformat() for tick in measured.ticks],
        "brokers": list(measured.brokers),
        "mean": {
            name: known_value(float(measured.mean[:, place].mean()))
            for place, name in enumerate(measured.resources)
        },
        **asdict(measured.means()),
    }


HEADING_LETTERS = 52
"""As many fit beside each other above a panel."""
LETTER_INCHES = 0.082
"""Width of a letter of a broker's name."""


def heatmap_figure(panels: Sequence[tuple[str, MeasuredLoad]], title: str, epsilon: float) -> Figure:
    """One panel per placement, side by side.

    Parameters
    ----------
    panels
        Heading and figures of each placement, in the order to be read.
    title
        What is seen, in one line.
    epsilon
        Deviation allowed, named in the legend.
    """
    from matplotlib.figure import Figure

    rows = max(len(measured.brokers) for _, measured in panels)
    headings = [textwrap.fill(heading, HEADING_LETTERS) for heading, _ in panels]
    above = 1.0 + 0.18 * max(heading.count("\n") for heading in headings)
    longest = max(len(line) for _, one in panels for name in one.names("\n") for line in name.splitlines())
    names = max(0.8, 0.2 + LETTER_INCHES * longest)
    figure = Figure(figsize=(names + 0.1 + 4.9 * len(panels), 1.3 + above + 0.56 * rows), facecolor="white")
    left = names / figure.get_figwidth()
    width = (0.965 - left) / len(panels)
    bottom, top = 1.25 / figure.get_figheight(), 1 - above / figure.get_figheight()
    for number, (heading, (_, measured)) in enumerate(zip(headings, panels, strict=True)):
        axes = figure.add_axes((left + number * width, bottom, width * 0.9, top - bottom))
        _panel(axes, heading, measured, labels=number == 0)
    figure.text(0.02, 1 - 0.34 / figure.get_figheight(), title, fontsize=14, fontweight="bold", color=INK)
    _legend(figure, epsilon)
    return figure


def _panel(axes: Axes, heading: str, measured: MeasuredLoad, *, labels: bool) -> None:
    deviation, usage = measured.signed_deviation(), measured.usage.mean(axis=0)
    sigma = measured.sigma.mean(axis=0)
    axes.imshow(
        np.nan_to_num(deviation),
        cmap=_colours(),
        vmin=-RANGE,
        vmax=RANGE,
        aspect="auto",
        interpolation="nearest",
    )
    for row, column in np.ndindex(*usage.shape):
        strong = abs(deviation[row, column]) > 0.62 * RANGE
        text = "–" if np.isnan(usage[row, column]) else f"{usage[row, column]:.0%}"
        ink = "white" if strong else INK
        axes.text(column, row - 0.13, text, ha="center", va="center", color=ink, fontsize=11.5)
        if not np.isnan(deviation[row, column]):
            small = signed_text(float(deviation[row, column]))
            axes.text(
                column, row + 0.25, small, ha="center", va="center", color=ink, fontsize=7.5, alpha=0.85
            )
    axes.set_xticks(range(len(measured.resources)))
    axes.set_xticklabels(
        [
            f"{resource_name(name)}\nσ {value:.4f}"
            if np.isfinite(value)
            else f"{resource_name(name)}\nnot measured"
            for name, value in zip(measured.resources, sigma, strict=True)
        ]
    )
    axes.set_yticks(range(len(measured.brokers)))
    axes.set_yticklabels(measured.names("\n") if labels else [])
    axes.tick_params(length=0, labelsize=9.5, colors=INK)
    axes.set_title(heading, loc="left", fontsize=11, color=FAINT, pad=8)
    axes.set_xticks(np.arange(len(measured.resources) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(measured.brokers) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=2.5)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _legend(figure: Figure, epsilon: float) -> None:
    height = figure.get_figheight()
    axes = figure.add_axes((0.075, 0.36 / height, 0.3, 0.13 / height))
    axes.imshow(
        np.linspace(-RANGE, RANGE, 256)[None, :], cmap=_colours(), aspect="auto", extent=(-RANGE, RANGE, 0, 1)
    )
    ticks = [-RANGE, -epsilon, epsilon, RANGE]
    axes.set_xticks(ticks)
    axes.set_xticklabels([f"{tick:+.0%}" for tick in ticks])
    axes.set_yticks([])
    axes.tick_params(labelsize=8, colors=FAINT, length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.text(
        0.40, 0.36 / height,
        f"colour: deviation from the resource's mean (small number); goal: within ±{epsilon:.0%}\n"
        "large number: share of the broker's capacity in use; σ: mean over the instants",
        fontsize=8.5, color=FAINT, va="center",
    )  # fmt: skip


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "trimtab", ["#1f5f9e", "#8db9de", "#f4f4f1", "#f0a878", "#b5341c"]
    )
