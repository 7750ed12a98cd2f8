"""The bundles that a broker reports as its heaviest under the extensible load manager."""

import math
from collections.abc import Callable, Mapping

from trimtab.model.bundle_range import namespace_of
from trimtab.model.bundles import BundleStats

THROUGHPUT_RESOLUTION = 100_000
MSG_RATE_RESOLUTION = 100
CONNECTION_RESOLUTION = 500
CACHE_SIZE_RESOLUTION = 100_000
"""Bundles of the same multiple of these count as equally heavy."""

Weight = tuple[int, int, int, int, int]


def weight(stats: BundleStats) -> Weight:
    """How heavy a bundle counts: bandwidth in, then out, message rate, connections, cache, each in buckets.

    Traffic is rounded to the nearest multiple, half up, so that 149,999 bytes/s weigh as much as 50,000;
    counts are rounded down, so that 999 connections weigh as much as 500.

    References
    ----------
    NamespaceBundleStats.compareTo from 4.0.7 on (#24772): `Math.round` of doubles, division of longs. Before,
    it compared differences, and sorting could fail.
    """
    return (
        _rounded(stats.msg_throughput_in / THROUGHPUT_RESOLUTION),
        _rounded(stats.msg_throughput_out / THROUGHPUT_RESOLUTION),
        _rounded((stats.msg_rate_in + stats.msg_rate_out) / MSG_RATE_RESOLUTION),
        (stats.topics + stats.consumer_count + stats.producer_count) // CONNECTION_RESOLUTION,
        stats.cache_size // CACHE_SIZE_RESOLUTION,
    )


def _rounded(value: float) -> int:
    """Java's `Math.round`: half up, exactly; adding .5 first would round 0.49999999999999994 up."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


def top_bundles(
    stats: Mapping[str, BundleStats], most: int, left_out: Callable[[str], bool] = lambda _: False
) -> dict[str, BundleStats]:
    """The heaviest bundles of a broker, the least heavy of them first.

    Parameters
    ----------
    stats
        By key; the order matters among bundles of equal weight.
    most
        `loadBalancerMaxNumberOfBundlesInBundleLoadReport`; none for 0.
    left_out
        Whether a namespace stays out of it: a system namespace, one excluded from shedding, or one with
        isolation policies or an anti-affinity group while `loadBalancerSheddingBundlesWithPoliciesEnabled` is
        off. Bundles without throughput always stay out.

    Returns
    -------
    dict of str to BundleStats
        At most `most`, in ascending order of weight: the order in which TransferShedder tries them.

    References
    ----------
    org.apache.pulsar.broker.loadbalance.extensions.models.TopKBundles (4.0 and 4.2).
    """
    keys = [
        key
        for key, one in stats.items()
        if one.msg_throughput_in + one.msg_throughput_out != 0 and not left_out(namespace_of(key))
    ]
    weights = {key: weight(stats[key]) for key in keys}
    most = max(0, min(most, len(keys)))
    return {key: stats[key] for key in reversed(heaviest_first(keys, weights, most)[:most])}


def heaviest_first(keys: list[str], weights: Mapping[str, Weight], most: int) -> list[str]:
    """The keys with the `most` heaviest in front, in descending order.

    Which of several equally heavy bundles come in front, and in which order, is decided by how the selection
    swaps them; so it takes the same steps as Pulsar: a three-way partition around the last key of the stretch
    that holds the border, then a stable sort of what lies in front of it.
    """
    keys = list(keys)
    if most <= 0:
        return keys
    start, end, border = 0, len(keys) - 1, most - 1
    while start < end:
        pivot = weights[keys[end]]
        equal, behind, at = start, end, start
        while at <= behind:
            here = weights[keys[at]]
            if here > pivot:
                keys[equal], keys[at] = keys[at], keys[equal]
                equal, at = equal + 1, at + 1
            elif here < pivot:
                keys[at], keys[behind] = keys[behind], keys[at]
                behind -= 1
            else:
                at += 1
        if border < equal:
            end = equal - 1
        elif border < at:
            end = equal
            break
        else:
            start = at
    keys[:end] = sorted(keys[:end], key=weights.__getitem__, reverse=True)
    return keys
