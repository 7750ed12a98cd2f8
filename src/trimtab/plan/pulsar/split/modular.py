"""`BundleSplitterTask`: the modular manager's leader finds the bundles that are too large."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.range import BundleRange, namespace_of, parse_bundle
from trimtab.plan.pulsar.assign.candidates import DepartureRules, available_brokers, departure_rules
from trimtab.plan.pulsar.decision import DecisionFacts
from trimtab.plan.pulsar.java import wrapped
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.split.algorithms import MEBIBYTE
from trimtab.plan.pulsar.view import LeaderLoadView

NO_METADATA = ClusterMetadata()

REASONS: Final = ("Topics", "Sessions", "MsgRate", "Bandwidth")
"""As `SplitDecision.Reason` names them, in the order of a bundle's figures."""

MIN_TOPICS: Final = 2
"""A bundle with fewer cannot be relieved by a split."""


@dataclass(frozen=True)
class BundleSplit:
    """A bundle to split, who owns it, and the first limit that it is above.

    Attributes
    ----------
    unload
        Whether the halves leave their broker, to be placed anew.
    """

    bundle: str
    broker: str
    reason: str
    unload: bool = False


@dataclass(frozen=True)
class SplitDecision:
    """The bundles that are split now, as they were found, and the numbers of all that are above a limit."""

    splits: tuple[BundleSplit, ...] = ()
    facts: DecisionFacts = field(default_factory=dict)


class BundleSize(NamedTuple):
    """The figures that are held against the limits, or those limits.

    Sessions are producers and consumers; messages and bytes are per second, in and out.
    """

    topics: float
    sessions: float
    msg_rate: float
    msg_throughput: float


def find_splits(
    view: LeaderLoadView, options: PulsarBrokerConfig, metadata: ClusterMetadata = NO_METADATA
) -> SplitDecision:
    """Every bundle above a limit, as long as its namespace may have more bundles.

    Topics and sessions are those of the newest report, rate and throughput long-term means: a bundle that
    nothing is known of counts as carrying nothing. There is no hit count; one report is enough. The owner
    finds out where to cut, and the leader forgets what it knew of the bundle.

    Parameters
    ----------
    view
        The order of its brokers and of their statistics decides who is left out where a namespace may have a
        few bundles more, but not all that are asked for.
    metadata
        Gives how many bundles a namespace has, and where its bundles may be.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `BundleSplitterTask.findBundlesToSplit` and
    `ModularLoadManagerImpl.checkNamespaceBundleSplit`. A bundle that two brokers report counts twice among
    the planned ones, and is split once.
    """
    if not options.auto_bundle_split_enabled:
        return SplitDecision(facts={"outcome": "loadBalancerAutoBundleSplitEnabled is off"})
    if len(available_brokers(view, metadata)) <= 1:
        return SplitDecision(facts={"outcome": "a lone broker splits nothing"})
    found, bundles = _too_large(view, options, metadata)
    splits: list[BundleSplit] = []
    rules: dict[str, DepartureRules] = {}
    for key, (broker, reason) in found.items():
        bundle = parse_bundle(key)
        if not bundle.can_split:
            bundles[key]["outcome"] = "it holds a single hash"
        elif not _exists(bundle, metadata):
            bundles[key]["outcome"] = "it is no bundle of its namespace any more"
        else:
            if bundle.namespace not in rules:
                rules[bundle.namespace] = departure_rules(bundle.namespace, view, metadata)
            unload = options.auto_unload_split_bundles_enabled and rules[bundle.namespace].allowed(broker)
            bundles[key]["outcome"] = "split"
            splits.append(BundleSplit(key, broker, reason, unload=unload))
    return SplitDecision(tuple(splits), {"limits": limits(options)._asdict(), "bundles": bundles})


def _too_large(
    view: LeaderLoadView, options: PulsarBrokerConfig, metadata: ClusterMetadata
) -> tuple[dict[str, tuple[str, str]], dict[str, dict[str, object]]]:
    """Owner and reason of every bundle that may be split, and the numbers of all that should be."""
    rates = dict(zip(view.bundles.names, view.bundles.long_rate.tolist(), strict=True))
    throughputs = dict(zip(view.bundles.names, view.bundles.long_throughput.tolist(), strict=True))
    count, most = bundle_counter(view, metadata), limits(options)
    planned: Counter[str] = Counter()
    found: dict[str, tuple[str, str]] = {}
    why: dict[str, dict[str, object]] = {}
    for broker, report in view.reports.items():
        for bundle, stats in report.last_stats.items():
            if stats.topics < MIN_TOPICS:
                continue
            sessions = stats.consumer_count + stats.producer_count
            carried = rates.get(bundle, 0.0), throughputs.get(bundle, 0.0)
            size = BundleSize(stats.topics, sessions, *carried)
            reason = reason_of(size, most)
            if reason is None:
                continue
            namespace = namespace_of(bundle)
            number = count(namespace) + planned[namespace]
            why[bundle] = {**size._asdict(), "reason": reason, "namespace_bundles": number}
            if number >= options.namespace_maximum_bundles:
                why[bundle]["outcome"] = "its namespace has as many bundles as it may"
                continue
            found[bundle] = (broker, reason)
            planned[namespace] += 1
    return found, why


def _exists(bundle: BundleRange, metadata: ClusterMetadata) -> bool:
    """True if the namespace still has this bundle; where boundaries are not known it is believed."""
    boundaries = metadata.boundaries.get(bundle.namespace)
    return boundaries is None or (bundle.low, bundle.high) in pairwise(boundaries)


def reason_of(size: BundleSize, most: BundleSize) -> str | None:
    """The first limit that a bundle is above, not on; None if it is above none."""
    if size[0] <= most[0] and size[1] <= most[1] and size[2] <= most[2] and size[3] <= most[3]:
        return None  # Nearly all of them: replays ask for every bundle of every tick.
    above = (name for name, value, limit in zip(REASONS, size, most, strict=True) if value > limit)
    return next(above, None)


def limits(options: PulsarBrokerConfig) -> BundleSize:
    """The limits of a bundle; one of sessions that is not positive is none."""
    sessions = options.namespace_bundle_max_sessions
    return BundleSize(
        options.namespace_bundle_max_topics,
        sessions if sessions > 0 else math.inf,
        options.namespace_bundle_max_msg_rate,
        # Pulsar multiplies two ints: from 2,048 MB on the limit runs over and is another one, or negative.
        wrapped(options.namespace_bundle_max_bandwidth_mbytes * MEBIBYTE),
    )


def bundle_counter(view: LeaderLoadView, metadata: ClusterMetadata) -> Callable[[str], int]:
    """Counts the bundles of a namespace: by its boundaries, or else as many as are reported."""

    @cache
    def reported() -> Counter[str]:
        bundles = {bundle for report in view.reports.values() for bundle in report.last_stats}
        return Counter(namespace_of(bundle) for bundle in bundles)

    def count(namespace: str) -> int:
        boundaries = metadata.boundaries.get(namespace)
        return reported()[namespace] if boundaries is None else len(boundaries) - 1

    return count
