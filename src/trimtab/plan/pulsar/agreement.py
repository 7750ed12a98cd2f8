"""Agreement of a shedder and the placement: what one takes away the other should not put back.

Pulsar's leader asks the two one after the other, and neither knows the other's reasons: a bundle can be shed
from a broker and be given to the same, or to one that the next round will shed from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.model.bundles.reports import BrokerReport
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import PulsarBrokerConfig


@dataclass(frozen=True)
class Disagreement:
    """One bundle on which the two do not agree.

    Attributes
    ----------
    kind
        `back` (to the broker that it should leave), `overloaded` (to a broker that is, or would be then),
        `nowhere` (the placement finds none), `kept` (policies keep it where it is).
    """

    kind: str
    bundle: str
    source: str
    target: str | None
    text: str


def disagreements(
    decision: ShedDecision, reports: Mapping[str, BrokerReport], options: PulsarBrokerConfig
) -> tuple[Disagreement, ...]:
    """All that the placement does against what the shedder wants.

    Parameters
    ----------
    decision
        As the load manager leaves it: `why` says under `refused` what stays, and why.
    reports, options
        As the strategy saw them; `loadBalancerBrokerOverloadedThresholdPercentage` says who is overloaded.
    """
    found: list[Disagreement] = []
    owner = {bundle: name for name, report in reports.items() for bundle in report.bundles}
    refused: Mapping[str, Any] = decision.facts.get("refused", {})
    for bundle, why in refused.items():
        source = owner.get(bundle, "?")
        if why == "the placement would put it back on its broker":
            kind, target = "back", source
        elif why == "there is no broker for it":
            kind, target = "nowhere", None
        else:
            kind, target = "kept", source
        found.append(Disagreement(kind, bundle, source, target, f"{bundle} stays on {source}: {why}"))
    limit = options.broker_overloaded_threshold_percentage / 100
    arrived: dict[str, float] = {}
    for source, bundles in decision.unloads.items():
        for bundle in bundles:
            target = decision.destinations.get(bundle)
            if target is None or target not in reports:
                continue
            if target == source:
                text = f"{bundle} leaves {source} and is placed on {source} again"
                found.append(Disagreement("back", bundle, source, target, text))
                continue
            usage = reports[target].weighted_usage(options.weights)
            arrived[target] = arrived.get(target, 0.0) + _brought(reports[source], bundle, options)
            if usage + arrived[target] > limit:
                text = (
                    f"{bundle} goes from {source} to {target}, which is {usage:.0%} full and would be "
                    f"{usage + arrived[target]:.0%}, above {limit:.0%}"
                )
                found.append(Disagreement("overloaded", bundle, source, target, text))
    return tuple(found)


def _brought(source: BrokerReport, bundle: str, options: PulsarBrokerConfig) -> float:
    """The usage that a bundle would add to a broker alike, by its share of its own broker's traffic."""
    stats = source.last_stats.get(bundle)
    if stats is None or not source.throughput > 0:
        return 0.0
    return min(stats.throughput / source.throughput, 1.0) * source.weighted_usage(options.weights)
