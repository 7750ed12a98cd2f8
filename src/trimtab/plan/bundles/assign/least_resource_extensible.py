"""`LeastResourceUsageWithWeight` of the extensible load manager: the same rule on what brokers publish."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.plan.bundles.assign.least_resource import below_average
from trimtab.plan.bundles.assign.pool import drawn
from trimtab.plan.bundles.decision import Placement, Placer
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.published import PublishedLoad, publish
from trimtab.plan.bundles.view import LoadView


@dataclass(frozen=True)
class PublishedState:
    """What is remembered from choice to choice.

    Attributes
    ----------
    published
        What each broker has published so far: one sample a report, however many choices there are between.
    """

    published: Mapping[str, PublishedLoad] = field(default_factory=dict)


def choose(
    bundle: str,
    candidates: Sequence[str],
    view: LoadView,
    state: PublishedState,
    options: Options,
    chance: np.random.Generator,
) -> tuple[Placement, PublishedState]:
    """Any broker whose published mean lies the threshold below the average; else any candidate.

    Candidates without load data do not count in the average, but may be drawn where none lies below it.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4,
    `org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight`.
    """
    after = publish(view, state.published, options)
    known = {broker: after[broker].weighted_max_ema for broker in candidates if broker in after}
    total = 0.0
    for mean in known.values():
        total += mean
    pool, why = below_average(known, total, options)
    why["without_load_data"] = [broker for broker in candidates if broker not in after]
    return drawn(pool or list(candidates), why, chance), PublishedState(after)


def noted(state: PublishedState, view: LoadView, options: Options) -> PublishedState:
    """The state with what brokers have published by now, whether bundles are placed or not."""
    return PublishedState(publish(view, state.published, options))


class LeastResourceUsageWithWeight(Placer[PublishedState]):
    """Its choice, and what it remembers at first."""

    def __init__(self) -> None:
        super().__init__(choose, PublishedState(), noted)
