"""`LeastLongTermMessageRate`: the broker with the fewest messages per second over a long time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.plan.bundles.assign.pool import drawn
from trimtab.plan.bundles.decision import Placement, Placer
from trimtab.plan.bundles.hash_order import concurrent_hash_map_order
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView


@dataclass(frozen=True)
class LeastRateState:
    """Nothing is remembered."""


def choose(
    bundle: str,
    candidates: Sequence[str],
    view: LoadView,
    state: LeastRateState,
    options: Options,
    chance: np.random.Generator,
) -> tuple[Placement, LeastRateState]:
    """Any broker of the least score; any at all if every one is overloaded.

    The score is the long-term message rate, in and out, of all bundles that the broker reports and of those
    preallocated to it; infinite above the overload threshold (not on it). The article's text leaves out the
    preallocated bundles, and so does its variant. Candidates without a report are passed over.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate`; its comment
    says "at or above" the threshold, its code above. Resources count with their weights since 4.0 (PIP-358).
    """
    scores = {broker: score(broker, view, options) for broker in candidates if broker in view.brokers}
    least = min(scores.values(), default=math.inf)
    pool = [broker for broker, reached in scores.items() if reached == least]
    why: dict[str, object] = {
        "overload_threshold": options.broker_overloaded_threshold_percentage / 100.0,
        "least": least if math.isfinite(least) else None,
        "scores": {broker: reached if math.isfinite(reached) else None for broker, reached in scores.items()},
    }
    if scores and not math.isfinite(least):
        why["outcome"] = "every candidate is overloaded"
    return drawn(pool, why, chance), state


def score(broker: str, view: LoadView, options: Options) -> float:
    """Messages per second of a broker, or infinity if it is overloaded (`getScore`).

    The preallocated rates are summed first, in the order of Java's map of them, and the broker's own added
    last, as in Pulsar: which scores are equal depends on it.
    """
    load = view.brokers[broker]
    if load.report.weighted_usage(options.weights) > options.broker_overloaded_threshold_percentage / 100.0:
        return math.inf
    total = 0.0
    if options.variant != "article":
        for bundle in concurrent_hash_map_order(load.preallocated) if load.preallocated else ():
            data = load.preallocated[bundle]
            total += data.long.msg_rate_in + data.long.msg_rate_out
    return total + view.long_term_rates[broker]


class LeastLongTermMessageRate(Placer[LeastRateState]):
    """Its choice, and what it remembers at first: nothing."""

    def __init__(self) -> None:
        super().__init__(choose, LeastRateState())
