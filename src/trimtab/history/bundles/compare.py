"""Scenarios over a whole recording: one from the first tick to the last, or several side by side."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from trimtab.files.bundles.decisions import decision_file, decision_line
from trimtab.history.bundles.effect import EffectMeter, MetricSpec, ReplayEffect
from trimtab.history.bundles.replay import ShedderScenario, first_state, replay, step
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.decision import ShedDecision

ProgressCallback = Callable[[str, ReportTick, ShedDecision], None]
PROGRESS_SECONDS = 1.0

Passed = Callable[[int, float], None]
"""Is told how many ticks have passed, and the time of the last (seconds since 1970)."""


@dataclass(frozen=True, eq=False)
class StrategyComparison:
    """The effects of several strategies on one recording.

    Attributes
    ----------
    measured_by
        The ruler of all of them.
    unmoved
        The recording as it is, with nothing unloaded.
    effects
        By the scenario's name, in the order asked for.
    """

    measured_by: MetricSpec
    unmoved: ReplayEffect
    effects: Mapping[str, ReplayEffect]


def side_by_side(
    ticks: Iterable[ReportTick], scenarios: Mapping[str, ShedderScenario]
) -> Iterator[tuple[ReportTick, dict[str, tuple[ReportTick, ShedDecision]]]]:
    """Every tick through every scenario; the recording is gone through once.

    Parameters
    ----------
    ticks
        In order of time.
    scenarios
        By name. None knows of the others: each decides as it would alone.

    Yields
    ------
    tuple
        The tick as it was recorded, and by name the tick as that scenario saw it, with its decision.

    Raises
    ------
    PlanError
        If one of them cannot go on; its name comes first.
    """
    states = {name: first_state(scenario) for name, scenario in scenarios.items()}
    for tick in ticks:
        decided = {}
        for name, scenario in scenarios.items():
            try:
                seen, decision, states[name] = step(tick, scenario, states[name])
            except PlanError as error:
                raise PlanError(f"{name}: {error}") from None
            decided[name] = (seen, decision)
        yield tick, decided


def compare(
    ticks: Iterable[ReportTick],
    scenarios: Mapping[str, ShedderScenario],
    measured_by: MetricSpec,
    text: ProgressCallback | None = None,
) -> StrategyComparison:
    """The effect of each scenario on the recording.

    Parameters
    ----------
    ticks, scenarios
        As for `side_by_side`; scenarios in which the world does not answer differ by their costs alone.
    measured_by
        One ruler for all, so that their figures can be compared.
    text
        Is told of every decision, with the scenario's name and the tick as it saw it.
    """
    unmoved = EffectMeter(measured_by)
    meters = {name: EffectMeter(measured_by) for name in scenarios}
    for tick, decided in side_by_side(ticks, scenarios):
        unmoved.add(tick, ShedDecision())
        for name, (seen, decision) in decided.items():
            meters[name].add(seen, decision)
            if text is not None:
                text(name, seen, decision)
    return StrategyComparison(
        measured_by, unmoved.effect(), {name: meter.effect() for name, meter in meters.items()}
    )


def run_scenario(
    ticks: Iterable[ReportTick],
    scenario: ShedderScenario | None,
    measured_by: MetricSpec,
    out: Path | None = None,
    passed: Passed | None = None,
) -> ReplayEffect:
    """The effect of a scenario on a recording, of which no more than a tick is held.

    Parameters
    ----------
    ticks
        In order of time.
    scenario
        What decides; None moves nothing.
    measured_by
        The ruler.
    out
        File for the decisions, a line a tick, the same that `trimtab replay bundles` writes of one strategy;
        it appears as a whole or not at all.
    passed
        Is told of the progress, once a second.

    Raises
    ------
    PlanError
        If the scenario cannot go on.
    InputError
        If `out` cannot be written, or the recording is not sound.
    """
    meter = EffectMeter(measured_by)
    told = ticks if passed is None else progress_text(ticks, passed)
    if scenario is None:
        for tick in told:
            meter.add(tick, ShedDecision())
        return meter.effect()
    with nullcontext() if out is None else decision_file(out) as write:
        for seen, decision, _ in replay(told, scenario):
            meter.add(seen, decision)
            if write is not None:
                write(decision_line(seen.at, decision.unloads, decision.destinations, decision.facts))
    return meter.effect()


def progress_text(ticks: Iterable[ReportTick], passed: Passed) -> Iterator[ReportTick]:
    """The same ticks; now and then somebody is told how far they have come, and once more at the end."""
    count, last, due = 0, None, time.monotonic() + PROGRESS_SECONDS
    for tick in ticks:
        yield tick
        count, last = count + 1, tick.at
        if time.monotonic() >= due:
            passed(count, last)
            due = time.monotonic() + PROGRESS_SECONDS
    if last is not None:
        passed(count, last)
