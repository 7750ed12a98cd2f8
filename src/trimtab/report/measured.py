"""What a stretch of measuring showed: the figures that every report of before and after is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.imbalance import Measures
from trimtab.model.load import RESOURCES, FloatArray
from trimtab.report.names import broker_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from trimtab.model.imbalance import Imbalance


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
    ticks
        The instants, where they are known.
    resources
        Length (resources,), the level's.
    """

    brokers: tuple[int | str, ...]
    hosts: tuple[str, ...]
    usage: FloatArray
    mean: FloatArray
    deviation: FloatArray
    sigma: FloatArray
    ticks: tuple[datetime, ...] = ()
    resources: tuple[str, ...] = RESOURCES

    @property
    def instants(self) -> int:
        """How many simultaneous samples there are."""
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

    def signed_deviation(self) -> FloatArray:
        """(B - B̄)/B̄ of the mean over the instants, shape (brokers, resources); 0 where there is no load."""
        usage, mean = self.usage.mean(axis=0), self.mean.mean(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(mean > 0, (usage - mean) / mean, 0.0 * usage))

    def _by_name(self, values: FloatArray) -> dict[str, float]:
        return {
            name: float(value)
            for name, value in zip(self.resources, values, strict=True)
            if np.isfinite(value)
        }


def from_imbalances(brokers: tuple[int, ...], hosts: tuple[str, ...], series: list[Imbalance]) -> Measured:
    """The same figures from the measures of single instants.

    Parameters
    ----------
    series
        One `trimtab.model.imbalance.Imbalance` per instant, over the same brokers.
    """
    usage = np.array([one.usage for one in series])
    return Measured(
        brokers=brokers,
        hosts=hosts,
        usage=usage,
        mean=np.array([one.mean for one in series]),
        deviation=np.array([one.deviation for one in series]),
        sigma=np.array([one.sigma for one in series]),
    )
