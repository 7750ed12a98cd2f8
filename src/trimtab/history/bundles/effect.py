"""The effect of a strategy on a cluster over a replay: imbalance tick by tick, and the cost to its clients.

Imbalance is σ of `trimtab.model.imbalance` (equation 5) over the brokers' weighted usage, at every tick as
the strategy saw it, so with all its earlier unloads in it and the one of that tick not yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.reports import BrokerReport, ReportTick
from trimtab.model.bundles.returns import Oscillation, UnloadEvent, oscillations
from trimtab.model.imbalance import imbalance
from trimtab.model.load import FloatArray
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import PulsarBrokerConfig

MEASURED_PAUSE_SECONDS = 0.21
"""The pause of an unloaded bundle's clients: the median on three real brokers (at most 0.6 s), 512-byte
messages at 25/s a topic, so that up to 0.04 s of it is their spacing."""


@dataclass(frozen=True)
class MetricSpec:
    """The measures of every strategy of a comparison, whatever its own options are.

    Attributes
    ----------
    weights
        Of `trimtab.model.bundles.reports.BROKER_RESOURCES`; a broker's usage is its most used resource,
        weighted.
    overload
        A broker with this usage or more is overloaded, as for `OverloadShedder`; a fraction.
    pause_seconds
        How long an unload interrupts the traffic of its bundle.
    """

    weights: tuple[float, ...]
    overload: float
    pause_seconds: float = MEASURED_PAUSE_SECONDS


def metric_spec(options: PulsarBrokerConfig, pause_seconds: float = MEASURED_PAUSE_SECONDS) -> MetricSpec:
    """The ruler of these options: the modular manager's weights, and the threshold of overload."""
    return MetricSpec(options.weights, options.broker_overloaded_threshold_percentage / 100.0, pause_seconds)


@dataclass(frozen=True, eq=False)
class ReplayEffect:
    """The whole of a replay, in figures.

    Attributes
    ----------
    at
        Length (ticks,), seconds since 1970.
    sigma
        Length (ticks,), σ of the brokers' shares of usage; NaN where a tick has no broker.
    peak_usage
        Length (ticks,), the usage of the fullest broker, a fraction.
    overloaded
        Length (ticks,), how many brokers were overloaded.
    unloads
        Length (ticks,), how many bundles were unloaded.
    bundles_unloaded
        How many different ones.
    clients_disturbed
        Producers and consumers of unloaded bundles; whoever was disturbed twice counts twice.
    interrupted_bytes_per_second
        Traffic of the unloaded bundles, in and out, summed.
    interrupted_bytes
        The same times the pause of each.
    unloads_without_stats
        Unloads of bundles whose broker told nothing of them: their clients and traffic are missing above.
    oscillations
        In order of time.
    splits
        Every bundle that Pulsar would split: when first (seconds since 1970), and the limit it is above.
    """

    at: FloatArray
    sigma: FloatArray
    peak_usage: FloatArray
    overloaded: NDArray[np.int64]
    unloads: NDArray[np.int64]
    bundles_unloaded: int
    clients_disturbed: int
    interrupted_bytes_per_second: float
    interrupted_bytes: float
    unloads_without_stats: int
    oscillations: tuple[Oscillation, ...]
    splits: Mapping[str, tuple[float, str]]

    @property
    def sigma_mean(self) -> float:
        """Mean of σ over the ticks; NaN where no tick has a broker."""
        return float(np.nanmean(self.sigma)) if np.isfinite(self.sigma).any() else float("nan")

    @property
    def sigma_worst(self) -> float:
        """The highest σ of any tick."""
        return float(np.fmax.reduce(self.sigma, initial=np.nan))

    @property
    def peak(self) -> float:
        """The highest usage of any broker at any tick, a fraction."""
        return float(np.fmax.reduce(self.peak_usage, initial=np.nan))

    @property
    def overload_seconds(self) -> float:
        """Time with some overloaded broker; every tick stands until the next, the last for no time."""
        return float(np.diff(self.at)[self.overloaded[:-1] > 0].sum())

    @property
    def overload_broker_seconds(self) -> float:
        """The same, every overloaded broker counted."""
        return float((np.diff(self.at) * self.overloaded[:-1]).sum())


class EffectMeter:
    """Adds up the effect of one strategy, tick after tick, by one ruler."""

    def __init__(self, measured_by: MetricSpec) -> None:
        self._metric_spec = measured_by
        self._ticks: list[tuple[float, float, float, int, int]] = []
        self._moves: list[UnloadEvent] = []
        self._clients = 0
        self._traffic = 0.0
        self._without_stats = 0
        self._splits: dict[str, tuple[float, str]] = {}

    def add(self, observation: ReportTick, decision: ShedDecision) -> None:
        """One tick as the strategy saw it, and what it decided then."""
        sigma, peak, overloaded = self._usage(observation.brokers)
        for source, bundles in decision.unloads.items():
            for bundle in bundles:
                self._unloaded(observation, bundle, source, decision.destinations.get(bundle))
        for bundle, size in decision.splits.items():
            self._splits.setdefault(bundle, (observation.at, size["reason"]))
        unloads = sum(map(len, decision.unloads.values()))
        self._ticks.append((observation.at, sigma, peak, overloaded, unloads))

    def effect(self) -> ReplayEffect:
        """The sums so far."""
        table = np.array(self._ticks, dtype=np.float64).reshape(-1, 5)
        return ReplayEffect(
            at=table[:, 0],
            sigma=table[:, 1],
            peak_usage=table[:, 2],
            overloaded=table[:, 3].astype(np.int64),
            unloads=table[:, 4].astype(np.int64),
            bundles_unloaded=len({move.bundle for move in self._moves}),
            clients_disturbed=self._clients,
            interrupted_bytes_per_second=self._traffic,
            interrupted_bytes=self._traffic * self._metric_spec.pause_seconds,
            unloads_without_stats=self._without_stats,
            # Without a destination the world does not answer, so that nothing comes back in it.
            oscillations=tuple(oscillations(move for move in self._moves if move.target is not None)),
            splits=self._splits,
        )

    def _usage(self, brokers: Mapping[str, BrokerReport]) -> tuple[float, float, int]:
        usage = np.array([one.weighted_usage(self._metric_spec.weights) for one in brokers.values()])
        if not len(usage):
            return float("nan"), float("nan"), 0
        uneven = imbalance(
            usage[:, None], np.ones((len(usage), 1)), np.ones(len(usage), dtype=bool), ("usage",)
        )
        return float(uneven.sigma[0]), float(usage.max()), int((usage >= self._metric_spec.overload).sum())

    def _unloaded(self, observation: ReportTick, bundle: str, source: str, target: str | None) -> None:
        stats = observation.brokers[source].last_stats.get(bundle)
        if stats is None:
            self._without_stats += 1
        else:
            self._clients += stats.producer_count + stats.consumer_count
            self._traffic += stats.msg_throughput_in + stats.msg_throughput_out
        self._moves.append(UnloadEvent(observation.at, bundle, source, target))
