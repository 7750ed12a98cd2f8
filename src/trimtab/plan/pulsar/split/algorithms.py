"""The positions where a bundle is cut: Pulsar's four split algorithms, over hash positions alone.

Every algorithm answers with the positions to cut at, in rising order, or with None where it finds none: a
result (Pulsar answers 204 to such a split), not an error. `cut` tells what becomes of the namespace.

References
----------
Pulsar 4.0.7 to 4.2.4, package org.apache.pulsar.common.naming; the article describes the first two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from trimtab.model.bundles.range import BundleRange
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.options import PulsarBrokerConfig

RANGE_EQUALLY_DIVIDE: Final = "range_equally_divide"
TOPIC_COUNT_EQUALLY_DIVIDE: Final = "topic_count_equally_divide"
SPECIFIED_POSITIONS_DIVIDE: Final = "specified_positions_divide"
FLOW_OR_QPS_EQUALLY_DIVIDE: Final = "flow_or_qps_equally_divide"

ALGORITHMS: Final = (
    RANGE_EQUALLY_DIVIDE,
    TOPIC_COUNT_EQUALLY_DIVIDE,
    SPECIFIED_POSITIONS_DIVIDE,
    FLOW_OR_QPS_EQUALLY_DIVIDE,
)
"""Pulsar's names, as in `supportedNamespaceBundleSplitAlgorithms`."""

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """The traffic of one topic of a bundle: messages and bytes per second, in and out together.

    Attributes
    ----------
    position
        The hash of its full name, 0 to 2**32 - 1.
    """

    position: int
    msg_rate: float
    msg_throughput: float


def range_equally_divide(bundle: BundleRange) -> list[int]:
    """The middle of the range, whatever lies in it.

    The whole ring is cut at 0x7fffffff: its upper end, 0xffffffff, is the last hash, not the one after it.

    References
    ----------
    RangeEquallyDivideBundleSplitAlgorithm, Pulsar's default.
    """
    return [bundle.low + (bundle.high - bundle.low) // 2]


def topic_count_equally_divide(positions: Sequence[int]) -> list[int] | None:
    """The middle between the two topics in the middle, so that each half holds as many topics.

    Parameters
    ----------
    positions
        The hash of every topic of the bundle, in any order; equal ones count each.

    Returns
    -------
    list of int or None
        None if there are fewer than two topics. Where the two middle topics have neighbouring or equal hashes
        this is the lower one's own hash, which then begins the upper half.

    References
    ----------
    TopicCountEquallyDivideBundleSplitAlgorithm.
    """
    if len(positions) <= 1:
        return None
    ordered = sorted(positions)
    middle = len(ordered) // 2
    start, end = ordered[middle - 1], ordered[middle]
    return [start + (end - start) // 2]


def specified_positions_divide(
    bundle: BundleRange, topics: int, request: Sequence[int], *, forced: bool = False
) -> list[int] | None:
    """Those of the positions asked for that lie strictly inside the range.

    Parameters
    ----------
    topics
        How many topics the bundle holds.
    request
        Positions to cut at, in any order. One given twice comes back twice, as in Pulsar.
    forced
        Cut even a bundle with at most one topic.

    Raises
    ------
    PlanError
        If no position is asked for.

    References
    ----------
    SpecifiedPositionsBundleSplitAlgorithm.
    """
    if not request:
        raise PlanError(
            f"split of {bundle.key} by {SPECIFIED_POSITIONS_DIVIDE} names no position; "
            "give at least one between the two ends"
        )
    if topics <= 1 and not forced:
        return None
    inside = [position for position in sorted(request) if bundle.low < position < bundle.high]
    return inside or None


def flow_or_qps_equally_divide(
    topics: Sequence[TopicTraffic],
    max_msg_rate: int,
    max_bandwidth_mbytes: int,
    difference_percentage: float = 10,
) -> list[int] | None:
    """Cut in front of every topic that would bring what is left of it over a limit.

    Parameters
    ----------
    topics
        Topics of which statistics are known, in the order in which the broker lists them: their sums are
        floating-point sums in that order. Of two with the same hash the later one's traffic counts for both,
        as in Pulsar, which keeps them in a map by hash.
    max_msg_rate
        `loadBalancerNamespaceBundleMaxMsgRate`, messages per second.
    max_bandwidth_mbytes
        `loadBalancerNamespaceBundleMaxBandwidthMbytes`, MiB per second.
    difference_percentage
        `flowOrQpsDifferenceThresholdPercentage`: by how much the bundle must reach over a limit at least.

    Returns
    -------
    list of int or None
        None if fewer than two different hashes carry traffic, or if the bundle is less than
        `difference_percentage` over both limits. Several positions are possible; the extensible load manager
        refuses all but one. An empty list only where a topic forgotten for its hash was what is over a limit.

    References
    ----------
    FlowOrQpsEquallyDivideBundleSplitAlgorithm.
    """
    busy = [topic for topic in topics if topic.msg_rate > 0 or topic.msg_throughput > 0]
    by_position = {topic.position: topic for topic in busy}
    if len(by_position) < 2:
        return None
    max_throughput = max_bandwidth_mbytes * MEBIBYTE
    slack = 1 + difference_percentage / 100.0
    rate = throughput = 0.0
    for topic in busy:
        rate += topic.msg_rate
        throughput += topic.msg_throughput
    if rate < max_msg_rate * slack and throughput < max_throughput * slack:
        return None
    # One entry a topic, not a hash: two topics of one hash make two steps of the walk.
    ordered = sorted(topic.position for topic in busy)
    first = by_position[ordered[0]]
    rate, throughput = first.msg_rate, first.msg_throughput
    cuts = []
    for before, position in pairwise(ordered):
        topic = by_position[position]
        if rate + topic.msg_rate > max_msg_rate or throughput + topic.msg_throughput > max_throughput:
            cuts.append(before + (position - before) // 2 + 1)
            rate, throughput = topic.msg_rate, topic.msg_throughput
        else:
            rate += topic.msg_rate
            throughput += topic.msg_throughput
    return cuts


def split_positions(
    bundle: BundleRange, options: PulsarBrokerConfig, topics: Sequence[TopicTraffic] = ()
) -> list[int] | None:
    """The positions where `defaultNamespaceBundleSplitAlgorithm` cuts a bundle.

    Parameters
    ----------
    topics
        Its topics, for the algorithms that cut between them.

    Raises
    ------
    PlanError
        If there is no such algorithm, or it needs positions to be named.
    """
    name = options.default_namespace_bundle_split_algorithm
    if name == RANGE_EQUALLY_DIVIDE:
        return range_equally_divide(bundle)
    if name == TOPIC_COUNT_EQUALLY_DIVIDE:
        return topic_count_equally_divide([topic.position for topic in topics])
    if name == FLOW_OR_QPS_EQUALLY_DIVIDE:
        return flow_or_qps_equally_divide(
            topics,
            options.namespace_bundle_max_msg_rate,
            options.namespace_bundle_max_bandwidth_mbytes,
            options.flow_or_qps_difference_threshold_percentage,
        )
    if name == SPECIFIED_POSITIONS_DIVIDE:
        return specified_positions_divide(bundle, len(topics), ())
    raise PlanError(
        f"defaultNamespaceBundleSplitAlgorithm {name!r} is not known; choose one of {', '.join(ALGORITHMS)}"
    )
