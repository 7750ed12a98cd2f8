"""Several strategies side by side on one recording, each in a world of its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trimtab.history.bundles.effect import Effect, EffectMeter, Ruler
from trimtab.history.bundles.replay import Scenario, first_state, step
from trimtab.model.bundles import ReportTick
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.decision import Decision

Told = Callable[[str, ReportTick, Decision], None]


@dataclass(frozen=True, eq=False)
class Comparison:
    """What several strategies did to one recording.

    Attributes
    ----------
    measured_by
        The ruler of all of them.
    unmoved
        The recording as it is, with nothing unloaded.
    effects
        By the scenario's name, in the order asked for.
    """

    measured_by: Ruler
    unmoved: Effect
    effects: Mapping[str, Effect]


def side_by_side(
    ticks: Iterable[ReportTick], scenarios: Mapping[str, Scenario]
) -> Iterator[tuple[ReportTick, dict[str, tuple[ReportTick, Decision]]]]:
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
    scenarios: Mapping[str, Scenario],
    measured_by: Ruler,
    told: Told | None = None,
) -> Comparison:
    """What each scenario does to the recording.

    Parameters
    ----------
    ticks, scenarios
        As for `side_by_side`; scenarios in which the world does not answer differ by their costs alone.
    measured_by
        One ruler for all, so that their figures can be compared.
    told
        Is told of every decision, with the scenario's name and the tick as it saw it.
    """
    unmoved = EffectMeter(measured_by)
    meters = {name: EffectMeter(measured_by) for name in scenarios}
    for tick, decided in side_by_side(ticks, scenarios):
        unmoved.add(tick, Decision())
        for name, (seen, decision) in decided.items():
            meters[name].add(seen, decision)
            if told is not None:
                told(name, seen, decision)
    return Comparison(measured_by, unmoved.effect(), {name: meter.effect() for name, meter in meters.items()})
