"""The decision of a strategy now, fed with the ticks that led here."""

from collections.abc import Sequence
from dataclasses import replace

from trimtab.history.bundles.replay import Scenario, first_state, step
from trimtab.model.bundles.reports import ReportTick
from trimtab.plan.bundles.reported import departed, owners
from trimtab.plan.pulsar.decision import Decision


def decide_now(ticks: Sequence[ReportTick], scenario: Scenario) -> tuple[ReportTick, Decision]:
    """The decision at the last tick.

    The ticks before build up what a strategy remembers: averages, histories, hit counts. What it would have
    unloaded at them was not unloaded, and does not count as recent; what did change hands does.

    Parameters
    ----------
    ticks
        In order of time, at least one.

    Returns
    -------
    tuple
        The last tick as the strategy saw it, and its decision.
    """
    state = first_state(scenario)
    unloaded: dict[str, float] = {}
    left: dict[str, float] = {}
    owner: dict[str, str] = {}
    seen, decision = ticks[-1], Decision()
    for tick in ticks:
        now = owners(tick.brokers)
        for one in departed(owner, now, tick.at):
            unloaded[one.bundle] = left[one.broker] = one.at
        owner |= now
        state = replace(state, recently_unloaded=dict(unloaded), recently_unloaded_brokers=dict(left))
        seen, decision, state = step(tick, scenario, state)
    return seen, decision
