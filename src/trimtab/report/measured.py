"""Figures of a time range of samples, for every report that compares before and after.

The samples are rows of a lake's table `imbalance`: the newest ticks of one cluster between two instants, at
which every live broker was sampled.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.goals import Goals as Limits
from trimtab.model.goals import GoalViolation, violations
from trimtab.model.load import FloatArray, ImbalanceSummary, imbalance
from trimtab.observe.lake.status import rightly_stamped
from trimtab.report.formats import broker_name
from trimtab.report.tables import HeatmapPanel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trimtab.observe.lake.lake import Lake


Rows = dict[datetime.datetime, dict[str, Any]]
"""Rows of the table `imbalance`, by tick and resource."""


@dataclass(frozen=True, eq=False)
class MeasuredLoad:
    """One placement under load, over the instants at which every live broker was sampled.

    Attributes
    ----------
    brokers
        Length (brokers,), ascending: Kafka's node ids, or Pulsar's broker ids (`host:port`).
    hosts
        Length (brokers,); empty where a broker's name says it.
    usage
        B, shape (instants, brokers, resources), fractions of capacity; NaN where a resource has no capacity.
    mean
        B̄, shape (instants, resources).
    deviation
        γ, shape (instants, brokers, resources), fractions of the mean.
    sigma
        σ, shape (instants, resources): one figure per instant, never taken from time-averaged loads.
    resources
        Length (resources,), the balancer's.
    ticks
        The instants, where they are known.
    load, capacity
        Shape (instants, brokers, resources), in the balancer's units, where they are told; NaN where a
        resource is not known, or has no capacity.
    """

    brokers: tuple[int | str, ...]
    hosts: tuple[str, ...]
    usage: FloatArray
    mean: FloatArray
    deviation: FloatArray
    sigma: FloatArray
    resources: tuple[str, ...]
    ticks: tuple[datetime.datetime, ...] = ()
    load: FloatArray | None = None
    capacity: FloatArray | None = None

    @property
    def instants(self) -> int:
        """The number of simultaneous samples."""
        return len(self.sigma)

    def names(self, separator: str) -> list[str]:
        """Each broker's name, and its host where it has one."""
        return [
            f"{broker_name(broker)}{separator}{host}" if host else broker_name(broker)
            for broker, host in zip(self.brokers, self.hosts, strict=True)
        ]

    def at(self, instants: Iterable[int]) -> MeasuredLoad:
        """The same figures at some of the instants."""
        chosen = list(instants)
        return replace(
            self,
            usage=self.usage[chosen],
            mean=self.mean[chosen],
            deviation=self.deviation[chosen],
            sigma=self.sigma[chosen],
            ticks=tuple(self.ticks[place] for place in chosen) if self.ticks else (),
            load=None if self.load is None else self.load[chosen],
            capacity=None if self.capacity is None else self.capacity[chosen],
        )

    def without(self, brokers: Collection[int | str]) -> MeasuredLoad:
        """The same figures without some brokers; unchanged if loads and capacities are not known."""
        counted = np.array([one not in brokers for one in self.brokers])
        if self.load is None or self.capacity is None or counted.all() or not counted.any():
            return self
        each = [
            imbalance(load, np.where(np.isfinite(capacity), capacity, 1.0), counted, self.resources)
            for load, capacity in zip(self.load, self.capacity, strict=True)
        ]
        usage = np.array([one.usage for one in each])
        return replace(
            self,
            brokers=tuple(one for one, left in zip(self.brokers, counted, strict=True) if left),
            hosts=tuple(one for one, left in zip(self.hosts, counted, strict=True) if left),
            usage=np.where(np.isfinite(self.capacity), usage, np.nan)[:, counted],
            mean=np.array([one.mean for one in each]),
            deviation=np.array([one.deviation for one in each])[:, counted],
            sigma=np.array([one.sigma for one in each]),
            load=self.load[:, counted],
            capacity=self.capacity[:, counted],
        )

    def as_planned(self, snapshot: Any) -> MeasuredLoad:
        """The same load as plans see it: relative to the capacities of a snapshot, without idle CPU.

        No move takes away what a broker's CPU does without load, so plans count neither it nor the capacity
        that it takes. As it is where loads are not told, or the snapshot has no such brokers.
        """
        if self.load is None or not hasattr(snapshot, "partitions"):
            return self
        place = {name: row for row, name in enumerate(snapshot.row_names)}
        if not all(broker in place for broker in self.brokers):
            return self
        rows = [place[broker] for broker in self.brokers]
        base = np.zeros(self.load.shape[1:])
        quality, extra = dict(snapshot.quality.extra), dict(snapshot.extra)
        if quality.get("x_cpu_base") == "apart":
            for name, idle in extra.get("x_base_load", {}).items():
                column = self.resources.index(name)
                base[:, column] = [float(idle.get(str(broker), 0.0)) for broker in self.brokers]
        load = np.maximum(self.load - base, 0.0)
        known = np.isfinite(load).all(axis=(0, 1))
        capacity = np.where(known, snapshot.brokers.capacity[rows], np.inf)
        limited = np.broadcast_to(capacity, load.shape)
        everyone = np.ones(len(rows), dtype=np.bool_)
        each = [imbalance(np.where(known, one, 0.0), capacity, everyone, self.resources) for one in load]
        counted = each[0].counted
        return replace(
            self,
            usage=np.where(counted, np.array([one.usage for one in each]), np.nan),
            mean=np.array([one.mean for one in each]),
            deviation=np.where(counted, np.array([one.deviation for one in each]), np.nan),
            sigma=np.array([one.sigma for one in each]),
            load=load,
            capacity=np.where(counted, limited, np.nan),
        )

    def violations(self, goals: Limits) -> tuple[GoalViolation, ...]:
        """The goals that the mean load misses, each with its worst broker."""
        usage, signed = self.usage.mean(axis=0), self.signed_deviation()
        held = np.nan_to_num(usage), np.nan_to_num(np.abs(signed)), self.mean.mean(axis=0)
        above, apart = violations(*held, goals)
        found = []
        for column, name in enumerate(self.resources):
            for goal, out, values, limits in (
                ("theta", above[:, column], usage[:, column], goals.theta),
                ("epsilon", apart[:, column], signed[:, column], goals.epsilon),
            ):
                if out.any():
                    row = int(np.where(out, np.abs(values), -1.0).argmax())
                    figures = float(values[row]), float(limits[column]), int(out.sum())
                    found.append(GoalViolation(goal, name, self.brokers[row], "", *figures))
        return tuple(found)

    def measures(self) -> ImbalanceSummary:
        """σ averaged over the instants, the worst γ of their mean, the highest B at any instant.

        σ is computed per instant and then averaged. γ is what a planner is asked to meet, and it decides from
        means: within a window of a few seconds, one batch makes γ jump. The peak is the strictest reading.
        """
        return ImbalanceSummary(
            sigma=self._by_name(self.sigma.mean(axis=0)),
            worst_deviation=self._by_name(np.abs(self.signed_deviation()).max(axis=0)),
            peak_usage=self._by_name(self.usage.max(axis=(0, 1))),
        )

    def means(self) -> ImbalanceSummary:
        """The same, but with the highest B of the mean over the instants, as planners and maps take it."""
        return replace(self.measures(), peak_usage=self._by_name(self.usage.mean(axis=0).max(axis=0)))

    def signed_deviation(self) -> FloatArray:
        """(B - B̄)/B̄ of the mean over the instants, shape (brokers, resources); 0 where there is no load.

        Where a resource has no capacity, loads themselves are held against their mean.
        """
        usage, mean = self.usage, self.mean.mean(axis=0)
        if self.load is not None:
            usage = np.where(np.isnan(usage).all(axis=(0, 1)), self.load, usage)
        usage = usage.mean(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(mean > 0, (usage - mean) / mean, 0.0 * usage))

    def noise(self) -> dict[str, float]:
        """The uncertainty of the difference of two such measurements, as a fraction of the mean.

        Two standard errors of the difference of two means over as many instants, of the broker that varies
        most. Sizes do not vary by chance: logs grow until retention cuts them, so of disks it is the range
        over the instants, of the broker with the widest.
        """
        if self.instants < 2:
            return {}
        values = self.usage
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.mean.mean(axis=0)
            error = (values.std(axis=0, ddof=1) / np.sqrt(self.instants) / mean).max(axis=0)
            span = (np.ptp(values, axis=0) / mean).max(axis=0)
        sizes = np.array([name == "disk" for name in self.resources])
        return self._by_name(np.where(sizes, span, 2 * np.sqrt(2) * error))

    def cells(self, heading: str = "") -> HeatmapPanel:
        """A panel of a heat map: mean usage, coloured by its deviation."""
        return HeatmapPanel(self.usage.mean(axis=0), self.signed_deviation(), heading)

    def _by_name(self, values: FloatArray) -> dict[str, float]:
        return {
            name: float(value)
            for name, value in zip(self.resources, values, strict=True)
            if np.isfinite(value)
        }


def rows_of(table: Iterable[Mapping[str, Any]], cluster: str | None = None) -> Rows:
    """Rows of the table `imbalance` by tick and resource; of one cluster, where it is named."""
    rows: Rows = {}
    for row in table:
        if cluster is None or row["cluster"] == cluster:
            rows.setdefault(row["tick"], {})[row["resource"]] = row
    return rows


def complete_ticks(rows: Rows, resources: Iterable[str]) -> tuple[list[datetime.datetime], list[str]]:
    """The ticks at which every live broker was sampled, ascending, and the resources that are measured."""
    known = [
        name for name in resources if any(found[name]["complete"] for found in rows.values() if name in found)
    ]
    ticks = sorted(
        tick
        for tick, found in rows.items()
        if known and all(name in found and found[name]["complete"] for name in known)
    )
    # A mean of counters and of estimates would be neither.
    measured = [tick for tick in ticks if all(rows[tick][name].get("measured", True) for name in known)]
    return measured or ticks, known


def measured_at(
    rows: Rows,
    ticks: Collection[datetime.datetime],
    known: Collection[str],
    resources: tuple[str, ...],
    hosts: Mapping[Any, str] | None = None,
) -> MeasuredLoad:
    """The figures of some ticks.

    Parameters
    ----------
    ticks, known
        As `complete_ticks` gives them, or some of them; at least one tick.
    resources
        Those of the balancer.
    hosts
        Host of each broker; empty where a broker's name tells it.
    """
    brokers = sorted({one["broker"] for tick in ticks for one in rows[tick][next(iter(known))]["by_broker"]})
    shape = (len(ticks), len(brokers), len(resources))
    usage, deviation, load, capacity = (np.full(shape, np.nan) for _ in range(4))
    mean, sigma = np.full(shape[::2], np.nan), np.full(shape[::2], np.nan)
    for instant, tick in enumerate(ticks):
        for resource, name in enumerate(resources):
            if name not in known:
                continue
            row = rows[tick][name]
            mean[instant, resource], sigma[instant, resource] = row["mean"], row["sigma"]
            for one in row["by_broker"]:
                place = brokers.index(one["broker"])
                usage[instant, place, resource] = _known(one["usage"])
                deviation[instant, place, resource] = one["deviation"]
                load[instant, place, resource] = _known(one.get("load"))
                if one["usage"] is not None:
                    capacity[instant, place, resource] = _known(one.get("capacity"))
    return MeasuredLoad(
        brokers=tuple(brokers),
        hosts=tuple((hosts or {}).get(broker, "") for broker in brokers),
        usage=usage,
        mean=mean,
        deviation=deviation,
        sigma=sigma,
        ticks=tuple(ticks),
        resources=resources,
        load=load,
        capacity=capacity,
    )


def _known(value: float | None) -> float:
    return np.nan if value is None else value


MIN_SAMPLES = 3
"""Figures of fewer samples are those of a moment."""

FURTHEST = datetime.timedelta(days=1)
"""Samples from longer before say little of the load that was moved."""
SETTLING = 2
"""Ticks after an execution that do not count: the first interval began before its end, in the second
followers catch up and caches fill."""
SPARE = 3
"""So many times the ticks that are wanted are read, because some may lack a broker."""
MICROSECOND = datetime.timedelta(microseconds=1)


def measured_between(
    lake: Lake,
    cluster: str,
    ticks: int,
    after: datetime.datetime | None,
    until: datetime.datetime | None,
    settling: int = 1,
) -> MeasuredLoad | None:
    """The figures of the newest ticks at which every live broker was sampled; None where there is none.

    Parameters
    ----------
    lake
        Seen from the balancer that is meant.
    ticks
        How many at most.
    after
        Ticks up to this instant do not count; None: any.
    until
        The last instant that counts; none counts that is `FURTHEST` before it. None: the newest count.
    settling
        So many ticks right after `after` do not count either: the interval of the first began before it.
    """
    bounds = [one for one in (after, until and until - FURTHEST) if one is not None]
    begin = max(bounds) + MICROSECOND if bounds else None
    if until is None and (newest := rightly_stamped(lake, cluster)) is not None:
        until = newest
    end = None if until is None else until + MICROSECOND
    named = lake.table("imbalance", ["cluster", "tick"], since=begin, until=end)
    if not named.num_rows:
        return None
    times = sorted({row["tick"] for row in named.to_pylist() if row["cluster"] == cluster})
    right_after = after is not None and after == max(bounds)
    times = times[settling if right_after else 0 :][-SPARE * ticks :]
    if not times:
        return None
    rows = rows_of(lake.table("imbalance", since=times[0], until=end).to_pylist(), cluster)
    found, known = complete_ticks(rows, lake.balancer.resources)
    if not found:
        return None

    def brokers(tick: datetime.datetime) -> set[object]:
        return {one["broker"] for one in rows[tick][known[0]]["by_broker"]}

    # A figure of brokers that came or went meanwhile would be one of no cluster.
    same = [tick for tick in found if brokers(tick) == brokers(found[-1])]
    return measured_at(rows, same[-ticks:], known, lake.balancer.resources)
