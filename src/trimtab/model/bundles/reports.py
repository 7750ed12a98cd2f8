"""Load reports of Pulsar's brokers, and the averages that its leader keeps, as values.

Names are Pulsar's own in snake case: `ResourceUsage`, `NamespaceBundleStats`, `LocalBrokerData`,
`TimeAverageMessageData`, `BundleData` (4.0 and 4.2 alike).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

BROKER_RESOURCES: Final = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
"""Resources of a broker, in the order of every array of them."""

TRAFFIC: Final = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
"""Traffic of a bundle, in the order of every array of it: bytes per second, then messages per second."""
THROUGHPUT_IN, THROUGHPUT_OUT, RATE_IN, RATE_OUT = range(4)

SHORT_SAMPLES: Final = 10
LONG_SAMPLES: Final = 1000
"""The most samples that the two averages of a bundle remember (`ModularLoadManagerImpl`)."""

DEFAULT_MESSAGE_RATE: Final = 50.0
DEFAULT_MESSAGE_THROUGHPUT: Final = 50000.0
"""The traffic of a bundle that was never seen, each way: messages and bytes per second."""


@dataclass(frozen=True)
class ResourceUsage:
    """Usage and limit of a resource of a broker, in whatever unit the two share.

    Attributes
    ----------
    usage, limit
        CPU in percent of a core (200 is two cores), memory in MB, bandwidth in kbit/s.
    """

    usage: float = 0.0
    limit: float = 0.0


class _TrafficTotals:
    """Traffic in and out, added up in Pulsar's order: which of two are equal depends on it."""

    msg_throughput_in: float
    msg_throughput_out: float
    msg_rate_in: float
    msg_rate_out: float

    @property
    def throughput(self) -> float:
        """Bytes per second, in and out."""
        return self.msg_throughput_in + self.msg_throughput_out

    @property
    def rate(self) -> float:
        """Messages per second, in and out."""
        return self.msg_rate_in + self.msg_rate_out


@dataclass(frozen=True)
class BundleStats(_TrafficTotals):
    """Statistics of one bundle lately (`NamespaceBundleStats`).

    Attributes
    ----------
    msg_rate_in, msg_rate_out
        Messages per second.
    msg_throughput_in, msg_throughput_out
        Bytes per second.
    topics, consumer_count, producer_count
        How many.
    cache_size
        Bytes.
    """

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    topics: int = 0
    consumer_count: int = 0
    producer_count: int = 0
    cache_size: int = 0


@dataclass(frozen=True)
class BrokerReport(_TrafficTotals):
    """A broker's own load report (`LocalBrokerData`).

    Attributes
    ----------
    cpu, memory, direct_memory, bandwidth_in, bandwidth_out
        What the host or the process uses.
    msg_throughput_in, msg_throughput_out
        Bytes per second over all bundles, as reported (not recomputed from `last_stats`).
    msg_rate_in, msg_rate_out
        Messages per second over all bundles, as reported.
    bundles
        Keys of the bundles it owns, in the order of the report.
    last_stats
        What each of them did, in the order of the report; a bundle just gained may be missing.
    """

    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    direct_memory: ResourceUsage = ResourceUsage()
    bandwidth_in: ResourceUsage = ResourceUsage()
    bandwidth_out: ResourceUsage = ResourceUsage()
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bundles: tuple[str, ...] = ()
    last_stats: Mapping[str, BundleStats] = field(default_factory=dict)

    @cached_property
    def percents(self) -> NDArray[np.float32]:
        """Shape (resources,), percent in use of each of `BROKER_RESOURCES`, 0 for one without a limit.

        Single precision from end to end, as in Pulsar: whether a broker lies exactly on a threshold depends
        on it (`ResourceUsage.percentUsage`).
        """
        resources = [getattr(self, resource) for resource in BROKER_RESOURCES]
        limits = np.array([one.limit for one in resources])
        bounded = limits > 0
        with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
            usage = np.array([one.usage for one in resources]).astype(np.float32)
            percents = usage / np.where(bounded, limits, 1.0).astype(np.float32) * np.float32(100)
        found = np.where(bounded, percents, np.float32(0))
        found.flags.writeable = False
        return found

    def weighted_usage(self, weights: Sequence[float]) -> float:
        """Share of the most used resource, weighted (`getMaxResourceUsageWithWeight`).

        Parameters
        ----------
        weights
            What each percentage of `BROKER_RESOURCES` is multiplied by; double precision, as in Pulsar.
        """
        return (
            max(float(percent) * weight for percent, weight in zip(self.percents, weights, strict=True)) / 100
        )


@dataclass(frozen=True)
class ReportTick:
    """All brokers' reports of one instant.

    Attributes
    ----------
    at
        Seconds since 1970.
    brokers
        By name (`host:port`), in the order of the file: where two brokers are equal, the order decides.
    """

    at: float
    brokers: Mapping[str, BrokerReport]


@dataclass(frozen=True)
class TimeAverage(_TrafficTotals):
    """A running mean of a bundle's traffic (`TimeAverageMessageData`).

    Attributes
    ----------
    samples
        How many samples it stands for, at most its maximum.
    msg_throughput_in, msg_throughput_out
        Bytes per second.
    msg_rate_in, msg_rate_out
        Messages per second.
    """

    samples: int
    msg_throughput_in: float
    msg_throughput_out: float
    msg_rate_in: float
    msg_rate_out: float


@dataclass(frozen=True)
class BundleData:
    """The leader's memory of a bundle (`BundleData`).

    Attributes
    ----------
    short, long
        Means over up to `SHORT_SAMPLES` and `LONG_SAMPLES` samples.
    topics
        How many at the last sample.
    """

    short: TimeAverage
    long: TimeAverage
    topics: int = 0


_NO_SAMPLE = TimeAverage(
    0, DEFAULT_MESSAGE_THROUGHPUT, DEFAULT_MESSAGE_THROUGHPUT, DEFAULT_MESSAGE_RATE, DEFAULT_MESSAGE_RATE
)
UNKNOWN_BUNDLE: Final = BundleData(_NO_SAMPLE, _NO_SAMPLE)
"""The data of a bundle that nothing was heard of yet."""
