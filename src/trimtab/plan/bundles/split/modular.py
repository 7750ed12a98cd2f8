"""`BundleSplitterTask`: the modular manager's leader finds the bundles that are too large."""

from collections import Counter
from itertools import pairwise

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import BundleRange, namespace_of, parse_bundle
from trimtab.model.bundles import BundleStats
from trimtab.plan.bundles.assign.candidates import Leaving, available_brokers, leaving
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.split.decision import (
    LEAST_TOPICS,
    BundleSize,
    Split,
    SplitDecision,
    bundle_counter,
    limits,
    reason_of,
)
from trimtab.plan.bundles.view import LoadView

NO_METADATA = ClusterMetadata()


def find_splits(view: LoadView, options: Options, metadata: ClusterMetadata = NO_METADATA) -> SplitDecision:
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
        return SplitDecision(why={"outcome": "loadBalancerAutoBundleSplitEnabled is off"})
    if len(available_brokers(view, metadata)) <= 1:
        return SplitDecision(why={"outcome": "a lone broker splits nothing"})
    found, bundles = _too_large(view, options, metadata)
    splits: list[Split] = []
    rules: dict[str, Leaving] = {}
    for key, (broker, reason) in found.items():
        bundle = parse_bundle(key)
        if not bundle.can_split:
            bundles[key]["outcome"] = "it holds a single hash"
        elif not _exists(bundle, metadata):
            bundles[key]["outcome"] = "it is no bundle of its namespace any more"
        else:
            if bundle.namespace not in rules:
                rules[bundle.namespace] = leaving(bundle.namespace, view, metadata)
            unload = options.auto_unload_split_bundles_enabled and rules[bundle.namespace].allowed(broker)
            bundles[key]["outcome"] = "split"
            splits.append(Split(key, broker, reason, unload=unload))
    return SplitDecision(tuple(splits), {"limits": limits(options), "bundles": bundles})


def _too_large(
    view: LoadView, options: Options, metadata: ClusterMetadata
) -> tuple[dict[str, tuple[str, str]], dict[str, dict[str, object]]]:
    """Owner and reason of every bundle that may be split, and the numbers of all that should be."""
    rates = dict(zip(view.bundles.names, view.bundles.long_rate.tolist(), strict=True))
    throughputs = dict(zip(view.bundles.names, view.bundles.long_throughput.tolist(), strict=True))
    count = bundle_counter(view, metadata)
    planned: Counter[str] = Counter()
    found: dict[str, tuple[str, str]] = {}
    why: dict[str, dict[str, object]] = {}
    for broker, report in view.reports.items():
        for bundle, stats in report.last_stats.items():
            if stats.topics < LEAST_TOPICS:
                continue
            size = _size(stats, rates.get(bundle, 0.0), throughputs.get(bundle, 0.0))
            reason = reason_of(size, options)
            if reason is None:
                continue
            namespace = namespace_of(bundle)
            number = count(namespace) + planned[namespace]
            why[bundle] = {**size.numbers(), "reason": reason, "namespace_bundles": number}
            if number >= options.namespace_maximum_bundles:
                why[bundle]["outcome"] = "its namespace has as many bundles as it may"
                continue
            found[bundle] = (broker, reason)
            planned[namespace] += 1
    return found, why


def _size(stats: BundleStats, rate: float, throughput: float) -> BundleSize:
    return BundleSize(stats.topics, stats.consumer_count + stats.producer_count, rate, throughput)


def _exists(bundle: BundleRange, metadata: ClusterMetadata) -> bool:
    """Whether the namespace still has this bundle; of one whose boundaries are not known it is believed."""
    boundaries = metadata.boundaries.get(bundle.namespace)
    return boundaries is None or (bundle.low, bundle.high) in pairwise(boundaries)
