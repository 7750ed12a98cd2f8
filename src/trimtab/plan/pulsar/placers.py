"""Pulsar's placement strategies: `RoundRobinBrokerSelector` and those that choose the least loaded broker.

`LeastResourceUsageWithWeight` is two: the modular load manager goes by the brokers' reports, the extensible
one by the load that they publish. `RoundRobinBrokerSelector` serves the namespaces that shedding leaves
alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.plan.pulsar.decision import BrokerChoice, NoState, Placer, drawn
from trimtab.plan.pulsar.java import LARGEST, concurrent_hash_map_order
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView, PublishedLoad, publish


@dataclass(frozen=True)
class RoundRobinState:
    """The memory from choice to choice.

    Attributes
    ----------
    count
        How many choices there were.
    brokers
        The candidates in the order in which turns are taken, as of when they last changed noticeably.
    """

    count: int = 0
    brokers: tuple[str, ...] = ()


def choose_in_turn(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: RoundRobinState,
    options: PulsarBrokerConfig,
    chance: np.random.Generator,
) -> tuple[BrokerChoice, RoundRobinState]:
    """Choose the broker whose turn it is.

    The remembered order is kept until the number of candidates changes, or the one whose turn it is is no
    candidate any more: another set of the same size is not noticed before. A broker that joins as another
    leaves therefore gets its turns late.

    References
    ----------
    Pulsar 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector`.
    """
    size = len(candidates)
    if not size:
        return BrokerChoice(None), state
    turn = state.count % size
    following = 0 if state.count == LARGEST else state.count + 1
    order = state.brokers if len(state.brokers) == size else tuple(candidates)
    if order[turn] not in candidates:
        order = tuple(candidates)
    why = {"turn": turn, "of": size}
    return BrokerChoice(order[turn], (order[turn],), why), RoundRobinState(following, order)


ROUND_ROBIN = Placer(choose_in_turn, RoundRobinState())
"""`RoundRobinBrokerSelector`."""


def choose_by_rate(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: NoState,
    options: PulsarBrokerConfig,
    chance: np.random.Generator,
) -> tuple[BrokerChoice, NoState]:
    """A random broker of the least score; any broker if all are overloaded.

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


def score(broker: str, view: LeaderLoadView, options: PulsarBrokerConfig) -> float:
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
            total += data.long.rate
    return total + view.long_term_rates[broker]


RATE = Placer(choose_by_rate, NoState())
"""`LeastLongTermMessageRate`, which has no state."""


@dataclass(frozen=True)
class LeastResourceState:
    """The memory from choice to choice.

    Attributes
    ----------
    usage
        Running mean of the usage of each broker that was a candidate once, as a fraction. It takes a sample
        with every choice, not with every report: many choices in a row make it forget sooner.
    """

    usage: Mapping[str, float] = field(default_factory=dict)


def choose_by_usage(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: LeastResourceState,
    options: PulsarBrokerConfig,
    chance: np.random.Generator,
) -> tuple[BrokerChoice, LeastResourceState]:
    """A random broker whose mean usage is the threshold below the candidates' average; otherwise any
    candidate.

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
    usage: Mapping[str, float], total: float, options: PulsarBrokerConfig
) -> tuple[list[str], dict[str, object]]:
    """The brokers at least the threshold below the average, with the numbers behind this.

    `total` is the sum of the usages (fractions), added up in their order in doubles, as in Pulsar.
    """
    threshold = options.average_resource_usage_difference_threshold_percentage / 100.0
    average = total / len(usage) if usage else 0.0
    # Pulsar adds the threshold to the usage; subtracting it from the average would round otherwise.
    pool = [broker for broker, mean in usage.items() if mean + threshold <= average]
    why: dict[str, object] = {"average": average, "threshold": threshold, "usage": dict(usage)}
    if usage and not pool:
        why["outcome"] = "no candidate lies the threshold below the average"
    return pool, why


def _updated(broker: str, history: float | None, view: LeaderLoadView, options: PulsarBrokerConfig) -> float:
    """The running mean after one more sample of the broker's weighted usage."""
    report = view.brokers[broker].report
    sample = report.weighted_usage(options.weights)
    silent = report.msg_rate_in == 0 and report.msg_rate_out == 0
    if history is None or not report.bundles or silent:
        return sample
    weight = options.history_resource_percentage
    return history * weight + (1 - weight) * sample


def noted_usage(
    state: LeastResourceState, view: LeaderLoadView, options: PulsarBrokerConfig
) -> LeastResourceState:
    """The state without the means of brokers that are gone (`onActiveBrokersChange`)."""
    return LeastResourceState({name: mean for name, mean in state.usage.items() if name in view.brokers})


MODULAR = Placer(choose_by_usage, LeastResourceState(), noted_usage)
"""`LeastResourceUsageWithWeight` of the modular load manager."""


@dataclass(frozen=True)
class PublishedLoadState:
    """The memory from choice to choice.

    Attributes
    ----------
    published
        Published loads of each broker: one sample per report, independent of the number of choices.
    """

    published: Mapping[str, PublishedLoad] = field(default_factory=dict)


def choose_published(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: PublishedLoadState,
    options: PulsarBrokerConfig,
    chance: np.random.Generator,
) -> tuple[BrokerChoice, PublishedLoadState]:
    """A random broker whose published mean is the threshold below the average; otherwise any candidate.

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
    return drawn(pool or list(candidates), why, chance), PublishedLoadState(after)


def noted_published(
    state: PublishedLoadState, view: LeaderLoadView, options: PulsarBrokerConfig
) -> PublishedLoadState:
    """The state with what brokers have published by now, whether bundles are placed or not."""
    return PublishedLoadState(publish(view, state.published, options))


EXTENSIBLE = Placer(choose_published, PublishedLoadState(), noted_published, extensible=True)
"""`LeastResourceUsageWithWeight` of the extensible load manager."""
