"""Loads and capacities as arrays, and their imbalance: the one home of equations 1 to 6.

Source: Gao Zi-yan, Wang Yong, "Load balancing strategy of distributed messaging system for cloud services",
section 3. With B(j) the utilisation of broker j among N brokers: B̄ = ΣB/N (1), D(j) = B(j)/ΣB (2), mean D =
1/N (3), γ(j) = |B(j) - B̄|/B̄ = |D(j) - 1/N|·N (4), σ = sqrt(Σ(D(j) - 1/N)²/N) (5), η = ε/N (6).

Where capacities differ, B̄ is the capacity-weighted mean utilisation ΣL/ΣC, the level that all brokers can
reach at once; with equal capacities both are the same number.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.model.documents import Amount

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def resource_name(resource: str) -> str:
    """A resource as people call it, by the name that load arrays and files have."""
    return "CPU" if resource == "cpu" else resource.replace("_", " ")


@dataclass(frozen=True, eq=False)
class Imbalance:
    """The measures of all resources at one instant.

    Attributes
    ----------
    usage
        B, shape (brokers, resources), fractions of capacity; 0 for brokers that do not count.
    share
        D, shape (brokers, resources), each column summing to 1 over the brokers that count (0 where there is
        no load).
    deviation
        γ, shape (brokers, resources), fractions of the mean; 0 for brokers that do not count.
    counted
        Shape (brokers, resources): whether this broker takes part in this resource's measures.
    mean, sigma, worst_deviation, peak_usage
        Shape (resources,): B̄, σ, max γ, max B over the brokers that count.
    resources
        Length (resources,), the balancer's names of them.
    """

    usage: FloatArray
    share: FloatArray
    deviation: FloatArray
    counted: BoolArray
    mean: FloatArray
    sigma: FloatArray
    worst_deviation: FloatArray
    peak_usage: FloatArray
    resources: tuple[str, ...]

    def measures(self) -> "ImbalanceSummary":
        """The three figures per resource that plans and reports carry."""
        return ImbalanceSummary(
            sigma=self._by_name(self.sigma),
            worst_deviation=self._by_name(self.worst_deviation),
            peak_usage=self._by_name(self.peak_usage),
        )

    def _by_name(self, values: FloatArray) -> dict[str, float]:
        return {
            name: float(value)
            for name, value in zip(self.resources, values, strict=True)
            if np.isfinite(value)
        }


@dataclass(frozen=True)
class ImbalanceSummary:
    """σ, worst γ and peak B, each keyed by resource name; resources that no broker limits are left out."""

    sigma: dict[str, Amount]
    worst_deviation: dict[str, Amount]
    peak_usage: dict[str, Amount]


def imbalance(
    load: FloatArray, capacity: FloatArray, in_service: BoolArray, resources: tuple[str, ...]
) -> Imbalance:
    """Equations 1 to 5 for every resource at once.

    Parameters
    ----------
    load, capacity
        Shape (brokers, resources), in the units of the balancer; infinite capacity means not limited and not
        balanced. Resources that no broker limits have NaN means, and are left out of `Imbalance.measures`.
    in_service
        Shape (brokers,): brokers that are there to carry load, that is, neither dead nor draining.
    """
    counted = np.isfinite(capacity) & in_service[:, None]
    usage = np.where(counted, load / capacity, 0.0)
    number = counted.sum(axis=0)
    total = usage.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = mean_of(load, capacity, counted)
        share = np.where(total > 0, usage / total, np.where(counted, 1.0 / number, 0.0))
        deviation = np.where(counted & (mean > 0), np.abs(usage - mean) / mean, 0.0)
        sigma = np.sqrt((np.where(counted, share - 1.0 / number, 0.0) ** 2).sum(axis=0) / number)
    absent = number == 0
    worst = np.where(absent, np.nan, deviation.max(axis=0, initial=0.0))
    peak = np.where(absent, np.nan, usage.max(axis=0, initial=0.0))
    return Imbalance(usage, share, deviation, counted, mean, sigma, worst, peak, resources)


def mean_of(load: FloatArray, capacity: FloatArray, counted: BoolArray) -> FloatArray:
    """B̄, shape (columns,): capacity-weighted over the counted brokers; NaN where none counts.

    All three are of shape (brokers, columns).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.where(counted, load, 0.0).sum(axis=0) / np.where(counted, capacity, 0.0).sum(axis=0)
        )


def sigma_threshold(epsilon: float, brokers: int) -> float:
    """η = ε/N (equation 6): the σ that holds whenever every γ is within ε."""
    return epsilon / brokers
