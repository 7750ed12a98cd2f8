"""Load reports of Pulsar's brokers as recorded, and figures of bundles that return to a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray  # noqa: TC002

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


@dataclass(frozen=True)
class UnloadEvent:
    """A bundle was unloaded.

    Attributes
    ----------
    at
        Seconds since 1970.
    bundle, source
        What was unloaded, and the broker that had it.
    target
        Where it went; None where nobody knows.
    """

    at: float
    bundle: str
    source: str
    target: str | None = None


@dataclass(frozen=True)
class Oscillation:
    """A bundle that went back to a broker which it had been unloaded from.

    Attributes
    ----------
    bundle
        What moved.
    source, target
        The broker that it was on last, None where nobody knows, and the one that it came back to.
    at
        Seconds since 1970: when it came back, or was first known to be back.
    away_seconds
        Since it was last unloaded from `target`.
    through
        The brokers that it was on in between, as far as they are known, in order of time; the last of them
        is `source`.
    """

    bundle: str
    source: str | None
    target: str
    at: float
    away_seconds: float
    through: tuple[str, ...] = ()

    @property
    def left_at(self) -> float:
        """The time at which it was unloaded from `target`, seconds since 1970."""
        return self.at - self.away_seconds


@dataclass
class _BundleHistory:
    """The history of one bundle: when it left where, and where it has been; None is a place unknown."""

    left: dict[str, float] = field(default_factory=dict)
    places: list[str | None] = field(default_factory=list)


def oscillations(moves: Iterable[UnloadEvent]) -> Iterator[Oscillation]:
    """Every return of a bundle, in order of time.

    A bundle that is unloaded from a broker where no recorded move has brought it was brought there by
    somebody else, or by a lookup; if it had left that broker, it has come back by then, and that is a return
    like any other.

    Parameters
    ----------
    moves
        In order of time.

    Yields
    ------
    Oscillation
        Once for every return. Where a bundle had been before its first move is not known, so that its first
        arrival anywhere is no return.
    """
    journeys: dict[str, _BundleHistory] = {}
    for move in moves:
        journey = journeys.setdefault(move.bundle, _BundleHistory())
        if not journey.places or journey.places[-1] != move.source:
            yield from _arrived(move, journey, move.source)
        journey.left[move.source] = move.at
        if move.target is None:
            journey.places.append(None)
        else:
            yield from _arrived(move, journey, move.target)


def _arrived(move: UnloadEvent, journey: _BundleHistory, broker: str) -> Iterator[Oscillation]:
    """A bundle is at a broker, by this move at the latest."""
    if broker in journey.left:
        last = len(journey.places) - 1 - journey.places[::-1].index(broker)
        through = tuple(place for place in journey.places[last + 1 :] if place is not None)
        source = through[-1] if through else None
        away = move.at - journey.left[broker]
        yield Oscillation(move.bundle, source, broker, move.at, away, through)
    journey.places.append(broker)
