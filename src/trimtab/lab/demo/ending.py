"""The end of the demo: maps and tables of before and after, the judgement, and the files that are kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.files.atomic import write_atomically
from trimtab.lab.demo.screen import SIDE_BY_SIDE, DemoOutput
from trimtab.model.load import resource_name
from trimtab.report.before_after import MeasurementGoals, before_after_table
from trimtab.report.heatmap import draw_heatmap
from trimtab.report.terminal_heatmap import terminal_heatmap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimtab.lab.demo.sampling import MeasuredPeriod
    from trimtab.lab.sandbox.log_check import LogCheck
    from trimtab.model.imbalance import ImbalanceSummary
    from trimtab.model.load import FloatArray
    from trimtab.report.before_after import MeasurementVerdict
    from trimtab.report.measured import MeasuredLoad


def show_both(screen: DemoOutput, before: MeasuredLoad, after: MeasuredLoad, goals: MeasurementGoals) -> None:
    """The map and the table of before and after."""
    show_map(screen, np.array([goals.epsilon[name] for name in before.resources]), before, after)
    screen.table(before_after_table(before.means(), after.means(), goals))


def show_map(
    screen: DemoOutput, epsilon: FloatArray, before: MeasuredLoad, after: MeasuredLoad | None = None
) -> None:
    """Brokers × resources in the terminal, one panel or two, side by side where there is room."""
    names, columns = before.names(", "), [resource_name(name) for name in before.resources]
    first = before.cells("before" if after else "")
    second = after.cells("after") if after else None
    panels = (
        [(first, second)]
        if second is None or screen.console.width >= SIDE_BY_SIDE
        else [(first, None), (second, None)]
    )
    for left, right in panels:
        screen.table(terminal_heatmap(names, left, right, columns=columns, epsilon=epsilon))


def misses(
    outcome: MeasurementVerdict,
    predicted: ImbalanceSummary,
    after: ImbalanceSummary,
    by_loads: Mapping[str, float],
    goals: MeasurementGoals,
) -> list[str]:
    """The goals that are missed: by how much, what the plan predicted, and what made the difference.

    Parameters
    ----------
    by_loads
        The worst deviation of each resource in the newest snapshot, by the loads of its partitions.
    """
    lines = []
    for name in outcome.unmet:
        off, peak = after.worst_deviation[name], after.peak_usage.get(name, 0.0)
        if off > goals.epsilon[name]:
            told = predicted.worst_deviation.get(name, float("nan"))
            lines.append(
                f"{resource_name(name)}: {off:.1%} from the mean, goal {goals.epsilon[name]:.1%}; the plan "
                f"predicted {told:.1%}{_cause(name, off, told, by_loads.get(name))}"
            )
        if peak > goals.theta[name]:
            lines.append(
                f"{resource_name(name)}: peak {peak:.1%}, goal {goals.theta[name]:.0%}; the plan predicted "
                f"{predicted.peak_usage.get(name, float('nan')):.1%}"
            )
    return lines


def _cause(name: str, measured: float, predicted: float, by_loads: float | None) -> str:
    """Why a prediction did not come true, by what the newest snapshot makes of the same placement."""
    if by_loads is None or not np.isfinite(by_loads):
        return ""
    text = f", and {by_loads:.1%} by the loads of now: "
    if abs(by_loads - measured) > abs(by_loads - predicted):
        return text + "the brokers' use beside their partitions differs"
    return text + ("the fit of CPU to partitions has changed" if name == "cpu" else "the loads have changed")


def conclusion(outcome: MeasurementVerdict, plan: Any, log: LogCheck) -> str:
    """The end of the story in a sentence, as measurement tells it."""
    if not log.ok:
        return "This failed: what brokers had confirmed is not all there, once and in order."
    if plan.has_nothing_to_do:
        return "The cluster's own placement was balanced this time: run it again with another --seed."
    if not outcome.helped:
        worse = ", ".join(resource_name(name) for name in outcome.worse) or "nothing became more even"
        return f"By measurement this did not help ({worse})."
    if outcome.unmet:
        return (
            f"It helped: {', '.join(resource_name(name) for name in outcome.improved)} became more even. "
            f"Not within every goal yet: {', '.join(resource_name(name) for name in outcome.unmet)}."
        )
    return "It helped, and every goal holds, by measurement."


def sampling_facts(period: MeasuredPeriod) -> dict[str, object]:
    """Samples of a period for the result: how many were wanted, taken and disturbed, and by what."""
    disturbed = period.disturbed
    return {
        "wanted": period.required,
        "taken": period.ticks,
        "disturbed": len(disturbed),
        "why": sorted(set(disturbed.values())),
        "too_busy": period.too_busy,
    }


def keep(
    out: Path,
    panels: Sequence[tuple[str, MeasuredLoad]],
    title: str,
    goals: MeasurementGoals,
    plan: bytes,
    facts: Mapping[str, object],
) -> tuple[Path, ...]:
    """Write pictures, plan and result, each whole; the result last.

    Parameters
    ----------
    panels
        Heading and figures of before and after.
    title
        Of the picture.
    plan
        The plan's file.
    facts
        What else belongs to the result.
    """
    out.mkdir(parents=True, exist_ok=True)
    (_, before), (_, after) = panels
    pictures = draw_heatmap(panels, out, "heatmap", title, goals.epsilon[before.resources[0]])
    write_atomically(out / "plan.json", plan)
    result = {
        "format": "trimtab/demo-result/1",
        "before": asdict(before.means()),
        "after": asdict(after.means()),
        "peak_of_any_instant": [before.measures().peak_usage, after.measures().peak_usage],
        "instants": [before.instants, after.instants],
        **facts,
    }
    write_atomically(out / "result.json", (json.dumps(result, indent=1) + "\n").encode())
    return (*pictures, out / "plan.json", out / "result.json")
