"""Before and after for all resources of a balancer, with what it cost: the answer to "did it help?"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.goals import Goals as Limits
from trimtab.model.goals import violations
from trimtab.model.imbalance import ImbalanceSummary, sigma_threshold
from trimtab.model.load import resource_name
from trimtab.report.formats import drop_text
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from rich.table import Table


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
    """The judgement of measurement: whether balancing helped.

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
    """Compare what was measured before with what was measured after.

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


def before_after_table(before: ImbalanceSummary, after: ImbalanceSummary, goals: MeasurementGoals) -> Table:
    """One row per resource: σ with its drop, worst deviation and peak, each before and after.

    Figures within their goal are green, the others red; resources that were not measured say so.
    """
    headings = ["σ before", "after", "drop", "worst deviation", "after", "peak", "after"]
    table = figures_table(["resource"], headings)
    table.columns[2].min_width, table.columns[3].min_width = 6, 7
    for name in goals.epsilon:
        if name not in before.sigma or name not in after.sigma:
            table.add_row(resource_name(name), *["–"] * 7)
            continue
        was, now = met(before, name, goals), met(after, name, goals)
        table.add_row(
            resource_name(name),
            _coloured(f"{before.sigma[name]:.4f}", was[0]),
            _coloured(f"{after.sigma[name]:.4f}", now[0]),
            drop_text(before.sigma[name], after.sigma[name]),
            _coloured(f"{before.worst_deviation[name]:.1%}", was[1]),
            _coloured(f"{after.worst_deviation[name]:.1%}", now[1]),
            *(
                _coloured(f"{one.peak_usage[name]:.0%}", met[2]) if name in one.peak_usage else "–"
                for one, met in ((before, was), (after, now))
            ),
        )
    first = next(
        (name for name in goals.epsilon if np.isfinite(goals.epsilon[name])), next(iter(goals.epsilon))
    )
    eta, epsilon, theta = goals.eta(first), goals.epsilon[first], goals.theta[first]
    table.add_row("goal", "", "", "", "", f"{epsilon:.1%}", "", f"{theta:.0%}", style="dim")
    table.add_row("η, no goal", "", f"{eta:.4f}", *[""] * 5, style="dim")
    return table


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


def _coloured(text: str, met: bool) -> str:
    return f"[green]{text}[/]" if met else f"[red]{text}[/]"
