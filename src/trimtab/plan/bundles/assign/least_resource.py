"""`LeastResourceUsageWithWeight` of the modular load manager: a broker well below the candidates' average."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.plan.bundles.assign.pool import drawn
from trimtab.plan.bundles.decision import Placement, Placer
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView


@dataclass(frozen=True)
class LeastResourceState:
    """What is remembered from choice to choice.

    Attributes
    ----------
    usage
        Running mean of the usage of each broker that was a candidate once, as a fraction. It takes a sample
        with every choice, not with every report: many choices in a row make it forget sooner.
    """

    usage: Mapping[str, float] = field(default_factory=dict)


def choose(
    bundle: str,
    candidates: Sequence[str],
    view: LoadView,
    state: LeastResourceState,
    options: Options,
    chance: np.random.Generator,
) -> tuple[Placement, LeastResourceState]:
    """Any broker whose mean usage lies the threshold below the candidates' average; else any candidate.

    A broker without bundles, or without any message, has no history: its mean begins anew. Candidates
    without a report are passed over.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight`.
    """
    known = [broker for broker in candidates if broker in view.brokers]
    usage = dict(state.usage)
    total = 0.0
    for broker in known:
        usage[broker] = _updated(broker, usage.get(broker), view, options)
        total += usage[broker]
    pool, why = below_average({broker: usage[broker] for broker in known}, total, options)
    return drawn(pool or known, why, chance), LeastResourceState(usage)


def below_average(
    usage: Mapping[str, float], total: float, options: Options
) -> tuple[list[str], dict[str, object]]:
    """The brokers at least the threshold below the average, with the numbers that say so.

    Parameters
    ----------
    usage
        Of each candidate, as a fraction.
    total
        Their sum, added up in their order in doubles, as in Pulsar.
    """
    threshold = options.average_resource_usage_difference_threshold_percentage / 100.0
    average = total / len(usage) if usage else 0.0
    # Pulsar adds the threshold to the usage; subtracting it from the average would round otherwise.
    pool = [broker for broker, mean in usage.items() if mean + threshold <= average]
    why: dict[str, object] = {"average": average, "threshold": threshold, "usage": dict(usage)}
    if usage and not pool:
        why["outcome"] = "no candidate lies the threshold below the average"
    return pool, why


def _updated(broker: str, history: float | None, view: LoadView, options: Options) -> float:
    """The running mean after one more sample of the broker's weighted usage."""
    report = view.brokers[broker].report
    sample = report.weighted_usage(options.weights)
    silent = report.msg_rate_in == 0 and report.msg_rate_out == 0
    if history is None or not report.bundles or silent:
        return sample
    weight = options.history_resource_percentage
    return history * weight + (1 - weight) * sample


def noted(state: LeastResourceState, view: LoadView, options: Options) -> LeastResourceState:
    """The state without the means of brokers that are gone (`onActiveBrokersChange`)."""
    return LeastResourceState({name: mean for name, mean in state.usage.items() if name in view.brokers})


class LeastResourceUsageWithWeight(Placer[LeastResourceState]):
    """Its choice, and what it remembers at first."""

    def __init__(self) -> None:
        super().__init__(choose, LeastResourceState(), noted)
