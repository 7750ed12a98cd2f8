"""Figures of a stretch of measuring, which every report of before and after is made of."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.errors import ObserveError
from trimtab.model.imbalance import Measures
from trimtab.model.load import FloatArray
from trimtab.model.replicas.resources import RESOURCES
from trimtab.report.formats import broker_name
from trimtab.report.terminal_heatmap import Cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trimtab.lab.demo.sampling import Period
    from trimtab.observe.lake import Lake

MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, eq=False)
class Measured:
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
        Length (resources,), the level's.
    ticks
        The instants, where they are known.
    """

    brokers: tuple[int | str, ...]
    hosts: tuple[str, ...]
    usage: FloatArray
    mean: FloatArray
    deviation: FloatArray
    sigma: FloatArray
    resources: tuple[str, ...]
    ticks: tuple[datetime.datetime, ...] = ()

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

    def at(self, instants: Iterable[int]) -> Measured:
        """The same at some of the instants only."""
        chosen = list(instants)
        return replace(
            self,
            usage=self.usage[chosen],
            mean=self.mean[chosen],
            deviation=self.deviation[chosen],
            sigma=self.sigma[chosen],
            ticks=tuple(self.ticks[place] for place in chosen) if self.ticks else (),
        )

    def measures(self) -> Measures:
        """σ averaged over the instants, the worst γ of their mean, the highest B at any instant.

        σ is computed per instant and then averaged. γ is what a planner is asked to meet, and it decides from
        means: within a window of a few seconds, one batch makes γ jump. The peak is the strictest reading.
        """
        return Measures(
            sigma=self._by_name(self.sigma.mean(axis=0)),
            worst_deviation=self._by_name(np.abs(self.signed_deviation()).max(axis=0)),
            peak_usage=self._by_name(self.usage.max(axis=(0, 1))),
        )

    def means(self) -> Measures:
        """The same, but with the highest B of the mean over the instants, as planners and maps take it."""
        return replace(self.measures(), peak_usage=self._by_name(self.usage.mean(axis=0).max(axis=0)))

    def signed_deviation(self) -> FloatArray:
        """(B - B̄)/B̄ of the mean over the instants, shape (brokers, resources); 0 where there is no load."""
        usage, mean = self.usage.mean(axis=0), self.mean.mean(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(mean > 0, (usage - mean) / mean, 0.0 * usage))

    def cells(self, heading: str = "") -> Cells:
        """A panel of a heat map: mean usage, coloured by its deviation."""
        return Cells(self.usage.mean(axis=0), self.signed_deviation(), heading)

    def _by_name(self, values: FloatArray) -> dict[str, float]:
        return {
            name: float(value)
            for name, value in zip(self.resources, values, strict=True)
            if np.isfinite(value)
        }


def measured(
    lake: Lake,
    period: Period,
    hosts: Mapping[int, str] | None = None,
    resources: tuple[str, ...] = RESOURCES,
) -> Measured:
    """The table's figures at the undisturbed ticks of a period at which every live broker was sampled.

    Parameters
    ----------
    lake
        Its table `imbalance` must reach to the period's end.
    period
        Which ticks.
    hosts
        Host of each broker; empty where a broker's name tells it.
    resources
        Those of the level.

    Raises
    ------
    ObserveError
        If no tick of the period is complete.
    """
    table = lake.table("imbalance", since=period.first, until=period.last + MICROSECOND)
    rows: dict[datetime.datetime, dict[str, Any]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["tick"], {})[row["resource"]] = row
    known = [
        name for name in resources if any(found[name]["complete"] for found in rows.values() if name in found)
    ]
    ticks = sorted(
        tick
        for tick, found in rows.items()
        if known and all(name in found and found[name]["complete"] for name in known)
    )
    # Where most were disturbed, figures of all are better than those of a few; the period says so.
    ticks = [tick for tick in ticks if tick not in period.left_out] or ticks
    if not ticks:
        raise ObserveError(
            f"none of the {period.ticks} ticks up to {period.last:%H:%M:%S} UTC has samples of all brokers: "
            "this machine may be too busy; try again, or with longer ticks"
        )
    brokers = sorted({one["broker"] for one in rows[ticks[0]][known[0]]["by_broker"]})
    shape = (len(ticks), len(brokers), len(resources))
    usage, deviation = np.full(shape, np.nan), np.full(shape, np.nan)
    mean, sigma = np.full(shape[::2], np.nan), np.full(shape[::2], np.nan)
    for instant, tick in enumerate(ticks):
        for resource, name in enumerate(resources):
            if name not in known:
                continue
            row = rows[tick][name]
            mean[instant, resource], sigma[instant, resource] = row["mean"], row["sigma"]
            for one in row["by_broker"]:
                place = brokers.index(one["broker"])
                usage[instant, place, resource] = np.nan if one["usage"] is None else one["usage"]
                deviation[instant, place, resource] = one["deviation"]
    return Measured(
        brokers=tuple(brokers),
        hosts=tuple((hosts or {}).get(broker, "") for broker in brokers),
        usage=usage,
        mean=mean,
        deviation=deviation,
        sigma=sigma,
        ticks=tuple(ticks),
        resources=resources,
    )
