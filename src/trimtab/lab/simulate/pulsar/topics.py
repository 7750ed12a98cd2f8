"""The topics of a simulated Pulsar: where their names fall, and what each of them carries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.range import FULL_UPPER, BundleRange, bundles_between, topic_hashes
from trimtab.model.bundles.reports import BundleStats
from trimtab.plan.pulsar.split.algorithms import TopicTraffic

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NamespaceTopics:
    """The topics of one namespace, by rising hash.

    Attributes
    ----------
    hashes
        Shape (topics,), rising.
    traffic
        Shape (topics, 4), `trimtab.model.bundles.reports.TRAFFIC`: bytes and messages per second.
    """

    hashes: NDArray[np.uint32]
    traffic: FloatArray

    def rows_in_bundle(self, bundle: BundleRange) -> slice:
        """The rows of the topics that a bundle holds."""
        low = int(np.searchsorted(self.hashes, np.uint32(bundle.low)))
        if bundle.high == FULL_UPPER:
            return slice(low, len(self.hashes))
        return slice(low, int(np.searchsorted(self.hashes, np.uint32(bundle.high))))


def topics_named(names: Sequence[str], traffic: FloatArray) -> NamespaceTopics:
    """Topics where their full names fall.

    Parameters
    ----------
    names
        `persistent://tenant/namespace/topic`.
    traffic
        Shape (topics, 4), of each name.
    """
    return topics_at(topic_hashes(names), traffic)


def topics_at(hashes: NDArray[np.uint32], traffic: FloatArray) -> NamespaceTopics:
    """Topics of given hashes, in any order."""
    order = np.argsort(hashes, kind="stable")
    return NamespaceTopics(hashes[order], traffic[order])


def one_topic_a_bundle(namespace: str, boundaries: Sequence[int], traffic: FloatArray) -> NamespaceTopics:
    """One topic in the middle of every bundle, for worlds in which each bundle's load is laid down.

    Parameters
    ----------
    traffic
        Shape (bundles, 4), of each bundle's topic.
    """
    bundles = bundles_between(namespace, boundaries)
    middles = [bundle.low + (bundle.high - bundle.low) // 2 for bundle in bundles]
    return topics_at(np.array(middles, dtype=np.uint32), traffic)


@dataclass(frozen=True, eq=False)
class ClusterTopics:
    """All topics of a cluster; every topic has a producer and a consumer.

    Attributes
    ----------
    namespaces
        By name.
    """

    namespaces: Mapping[str, NamespaceTopics]
    _known: dict[BundleRange, BundleStats] = field(default_factory=dict)

    def stats(self, bundle: BundleRange) -> BundleStats:
        """The load of a bundle."""
        if bundle not in self._known:
            own = self.namespaces[bundle.namespace]
            rows = own.rows_in_bundle(bundle)
            bytes_in, bytes_out, rate_in, rate_out = own.traffic[rows].sum(axis=0).tolist()
            count = rows.stop - rows.start
            self._known[bundle] = BundleStats(rate_in, rate_out, bytes_in, bytes_out, count, count, count)
        return self._known[bundle]

    def hashes(self, bundle: BundleRange) -> list[int]:
        """The hashes of a bundle's topics, rising."""
        own = self.namespaces[bundle.namespace]
        found: list[int] = own.hashes[own.rows_in_bundle(bundle)].tolist()
        return found

    def flows(self, bundle: BundleRange) -> list[TopicTraffic]:
        """The load of each topic of a bundle, by rising hash."""
        own = self.namespaces[bundle.namespace]
        rows = own.rows_in_bundle(bundle)
        return [
            TopicTraffic(position, rate_in + rate_out, bytes_in + bytes_out)
            for position, (bytes_in, bytes_out, rate_in, rate_out) in zip(
                own.hashes[rows].tolist(), own.traffic[rows].tolist(), strict=True
            )
        ]
