"""What a split decision is, and when a bundle is too large."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import namespace_of
from trimtab.model.bundles import BundleStats
from trimtab.plan.bundles.decision import Why
from trimtab.plan.bundles.java_int import wrapped
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.split.algorithms import MEBIBYTE
from trimtab.plan.bundles.view import LoadView

TOPICS: Final = "Topics"
SESSIONS: Final = "Sessions"
MSG_RATE: Final = "MsgRate"
BANDWIDTH: Final = "Bandwidth"
"""Reasons, as `SplitDecision.Reason` names them."""

LEAST_TOPICS: Final = 2
"""A bundle with fewer cannot be relieved by a split."""


@dataclass(frozen=True)
class Split:
    """A bundle to split.

    Attributes
    ----------
    bundle, broker
        Its key, and who owns it.
    reason
        The first limit that it is above.
    position
        Where to cut it; None leaves that to its owner.
    unload
        Whether the halves leave their broker, to be placed anew.
    """

    bundle: str
    broker: str
    reason: str
    position: int | None = None
    unload: bool = False


@dataclass(frozen=True)
class SplitDecision:
    """What is split now.

    Attributes
    ----------
    splits
        In the order in which they were found.
    why
        The numbers that decided, of every bundle that is above a limit.
    """

    splits: tuple[Split, ...] = ()
    why: Why = field(default_factory=dict)


@dataclass(frozen=True)
class BundleSize:
    """What is held against the limits.

    Attributes
    ----------
    topics, sessions
        How many; sessions are producers and consumers.
    msg_rate
        Messages per second, in and out.
    msg_throughput
        Bytes per second, in and out.
    """

    topics: int
    sessions: int
    msg_rate: float
    msg_throughput: float

    def numbers(self) -> dict[str, object]:
        """As they stand in `why`."""
        return {
            "topics": self.topics,
            "sessions": self.sessions,
            "msg_rate": self.msg_rate,
            "msg_throughput": self.msg_throughput,
        }


def size_now(stats: BundleStats) -> BundleSize:
    """A bundle's size by its newest statistics alone."""
    return BundleSize(
        stats.topics,
        stats.consumer_count + stats.producer_count,
        stats.msg_rate_in + stats.msg_rate_out,
        stats.msg_throughput_in + stats.msg_throughput_out,
    )


def reason_of(size: BundleSize, options: Options) -> str | None:
    """The first limit that a bundle is above, not on; None if it is above none.

    A limit of sessions that is not positive is none.
    """
    # Pulsar multiplies two ints: from 2,048 MB on the limit runs over and is another one, or negative.
    max_throughput = wrapped(options.namespace_bundle_max_bandwidth_mbytes * MEBIBYTE)
    if size.topics > options.namespace_bundle_max_topics:
        return TOPICS
    if 0 < options.namespace_bundle_max_sessions < size.sessions:
        return SESSIONS
    if size.msg_rate > options.namespace_bundle_max_msg_rate:
        return MSG_RATE
    if size.msg_throughput > max_throughput:
        return BANDWIDTH
    return None


def limits(options: Options) -> Mapping[str, object]:
    """The limits as they stand in `why`."""
    return {
        "topics": options.namespace_bundle_max_topics,
        "sessions": options.namespace_bundle_max_sessions,
        "msg_rate": options.namespace_bundle_max_msg_rate,
        "msg_throughput": wrapped(options.namespace_bundle_max_bandwidth_mbytes * MEBIBYTE),
        "namespace_bundles": options.namespace_maximum_bundles,
    }


def bundle_counter(view: LoadView, metadata: ClusterMetadata) -> Callable[[str], int]:
    """How many bundles a namespace has: by its boundaries, or else as many as are reported."""
    reported: Counter[str] | None = None

    def count(namespace: str) -> int:
        nonlocal reported
        boundaries = metadata.boundaries.get(namespace)
        if boundaries is not None:
            return len(boundaries) - 1
        if reported is None:
            bundles = {bundle for report in view.reports.values() for bundle in report.last_stats}
            reported = Counter(namespace_of(bundle) for bundle in bundles)
        return reported[namespace]

    return count
