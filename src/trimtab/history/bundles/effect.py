"""The effect of a strategy on a recording in figures, and several strategies side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray  # noqa: TC002  # msgspec reads the annotations

from trimtab.files.bundles.decisions import decision_file, decision_line
from trimtab.history.bundles.replay import ShedderScenario, first_state, replay, step
from trimtab.model.bundles.reports import BrokerReport, Oscillation, ReportTick, UnloadEvent, oscillations
from trimtab.model.errors import PlanError
from trimtab.model.load import FloatArray, imbalance
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import PulsarBrokerConfig

MEASURED_PAUSE_SECONDS = 0.21
"""The pause of an unloaded bundle's clients: the median on three real brokers (at most 0.6 s), 512-byte
messages at 25/s a topic, so that up to 0.04 s of it is their spacing."""


@dataclass(frozen=True)
class MetricSpec:
    """The definition of the metrics that all strategies of a comparison share.

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
    """The metric definition from these options: the modular manager's weights, and the overload threshold."""
    return MetricSpec(options.weights, options.broker_overloaded_threshold_percentage / 100.0, pause_seconds)


@dataclass(frozen=True, eq=False)
class ReplayEffect:
    """The metrics of a replay.

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
        """Time with an overloaded broker; a tick lasts until the next, the last tick has no duration."""
        return float(np.diff(self.at)[self.overloaded[:-1] > 0].sum())

    @property
    def overload_broker_seconds(self) -> float:
        """Overload time summed over the brokers."""
        return float((np.diff(self.at) * self.overloaded[:-1]).sum())


class EffectMeter:
    """Accumulates the metrics of one strategy, tick by tick."""

    def __init__(self, measured_by: MetricSpec) -> None:
        self._metric_spec = measured_by
        self._ticks: list[tuple[float, float, float, int, int]] = []
        self._moves: list[UnloadEvent] = []
        self._clients = 0
        self._traffic = 0.0
        self._without_stats = 0
        self._splits: dict[str, tuple[float, str]] = {}

    def add(self, observation: ReportTick, decision: ShedDecision) -> None:
        """Add one tick as the strategy saw it, and its decision."""
        sigma, peak, overloaded = self._usage(observation.brokers)
        for source, bundles in decision.unloads.items():
            for bundle in bundles:
                self._unloaded(observation, bundle, source, decision.destinations.get(bundle))
        for bundle, size in decision.splits.items():
            self._splits.setdefault(bundle, (observation.at, size["reason"]))
        unloads = sum(map(len, decision.unloads.values()))
        self._ticks.append((observation.at, sigma, peak, overloaded, unloads))

    def effect(self) -> ReplayEffect:
        """Totals and series of all ticks so far."""
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


ProgressCallback = Callable[[str, ReportTick, ShedDecision], None]
PROGRESS_SECONDS = 1.0

Passed = Callable[[int, float], None]
"""Called with the number of ticks so far, and the time of the last (seconds since 1970)."""


@dataclass(frozen=True, eq=False)
class StrategyComparison:
    """The effects of several strategies on one recording.

    Attributes
    ----------
    measured_by
        The metric definition of all of them.
    unmoved
        The recording as it is, without unloads.
    effects
        By the scenario's name, in the order asked for.
    """

    measured_by: MetricSpec
    unmoved: ReplayEffect
    effects: Mapping[str, ReplayEffect]


def side_by_side(
    ticks: Iterable[ReportTick], scenarios: Mapping[str, ShedderScenario]
) -> Iterator[tuple[ReportTick, dict[str, tuple[ReportTick, ShedDecision]]]]:
    """Run every scenario over the ticks in one pass over the recording.

    Parameters
    ----------
    ticks
        In order of time.
    scenarios
        By name. None knows of the others: each decides as it would alone.

    Yields
    ------
    tuple
        The tick as it was recorded, and by name the tick as that scenario saw it, with its decision.

    Raises
    ------
    PlanError
        If one of them cannot go on; its name comes first.
    """
    states = {name: first_state(scenario) for name, scenario in scenarios.items()}
    for tick in ticks:
        decided = {}
        for name, scenario in scenarios.items():
            try:
                seen, decision, states[name] = step(tick, scenario, states[name])
            except PlanError as error:
                raise PlanError(f"{name}: {error}") from None
            decided[name] = (seen, decision)
        yield tick, decided


def compare(
    ticks: Iterable[ReportTick],
    scenarios: Mapping[str, ShedderScenario],
    measured_by: MetricSpec,
    text: ProgressCallback | None = None,
) -> StrategyComparison:
    """The effect of each scenario on the recording.

    Parameters
    ----------
    ticks, scenarios
        As for `side_by_side`; scenarios in which the world does not answer differ by their costs alone.
    measured_by
        One metric definition for all, so that their figures can be compared.
    text
        Called with every decision, the scenario's name and the tick as it saw it.
    """
    unmoved = EffectMeter(measured_by)
    meters = {name: EffectMeter(measured_by) for name in scenarios}
    for tick, decided in side_by_side(ticks, scenarios):
        unmoved.add(tick, ShedDecision())
        for name, (seen, decision) in decided.items():
            meters[name].add(seen, decision)
            if text is not None:
                text(name, seen, decision)
    return StrategyComparison(
        measured_by, unmoved.effect(), {name: meter.effect() for name, meter in meters.items()}
    )


def run_scenario(
    ticks: Iterable[ReportTick],
    scenario: ShedderScenario | None,
    measured_by: MetricSpec,
    out: Path | None = None,
    passed: Passed | None = None,
) -> ReplayEffect:
    """The effect of a scenario on a recording; one tick is in memory at a time.

    Parameters
    ----------
    ticks
        In order of time.
    scenario
        What decides; None moves nothing.
    measured_by
        The metric definition.
    out
        File for the decisions, a line a tick, the same that `trimtab replay bundles` writes of one strategy;
        it appears as a whole or not at all.
    passed
        Called once a second with the progress.

    Raises
    ------
    PlanError
        If the scenario cannot go on.
    InputError
        If `out` cannot be written, or the recording is not sound.
    """
    meter = EffectMeter(measured_by)
    told = ticks if passed is None else progress_text(ticks, passed)
    if scenario is None:
        for tick in told:
            meter.add(tick, ShedDecision())
        return meter.effect()
    with nullcontext() if out is None else decision_file(out) as write:
        for seen, decision, _ in replay(told, scenario):
            meter.add(seen, decision)
            if write is not None:
                write(decision_line(seen.at, decision.unloads, decision.destinations, decision.facts))
    return meter.effect()


def progress_text(ticks: Iterable[ReportTick], passed: Passed) -> Iterator[ReportTick]:
    """The same ticks; `passed` is called once a second and at the end."""
    count, last, due = 0, None, time.monotonic() + PROGRESS_SECONDS
    for tick in ticks:
        yield tick
        count, last = count + 1, tick.at
        if time.monotonic() >= due:
            passed(count, last)
            due = time.monotonic() + PROGRESS_SECONDS
    if last is not None:
        passed(count, last)
