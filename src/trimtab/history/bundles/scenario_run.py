"""One scenario over a whole recording, from the first tick to the last: the work of a task."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from trimtab.files.decisions import DecisionFile, decision_line
from trimtab.history.bundles.effect import Effect, EffectMeter, Ruler
from trimtab.history.bundles.replay import Scenario, replay
from trimtab.model.bundles import ReportTick
from trimtab.plan.bundles.decision import Decision

PROGRESS_SECONDS = 1.0

Passed = Callable[[int, float], None]
"""Is told how many ticks have passed, and the time of the last (seconds since 1970)."""


def run_scenario(
    ticks: Iterable[ReportTick],
    scenario: Scenario | None,
    measured_by: Ruler,
    out: Path | None = None,
    passed: Passed | None = None,
) -> Effect:
    """What a scenario does to a recording, of which no more than a tick is held.

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
    told = ticks if passed is None else telling(ticks, passed)
    if scenario is None:
        for tick in told:
            meter.add(tick, Decision())
    elif out is None:
        for seen, decision, _ in replay(told, scenario):
            meter.add(seen, decision)
    else:
        with DecisionFile(out) as file:
            for seen, decision, _ in replay(told, scenario):
                meter.add(seen, decision)
                file.write(decision_line(seen.at, decision.unloads, decision.destinations, decision.why))
    return meter.effect()


def telling(ticks: Iterable[ReportTick], passed: Passed) -> Iterator[ReportTick]:
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
