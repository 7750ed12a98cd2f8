"""The utilisations between which a broker should be: θ, ε and the band that a search aims at.

Where rules make some brokers carry more than their share, the band lies around the most even loads that the
rules allow (`even_usage`).
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.goals import ROUNDING
from trimtab.model.load import BoolArray, FloatArray

BEND_ROUNDING = 1e-12
"""Relative to the whole load; differences below it are no bends."""


def even_usage(capacity: FloatArray, least: FloatArray) -> FloatArray:
    """The most even utilisation of brokers in a row, of which the first ones must carry at least so much.

    It is the slope of the least concave curve of load over capacity that is nowhere below `least`: no other
    distribution has a lower peak, and none that has this peak has a higher minimum.

    Parameters
    ----------
    capacity
        Shape (brokers,), finite and positive.
    least
        Shape (brokers + 1,): the least load of the first 0, 1, 2, ... brokers; the last is the whole load.
    """
    width = np.concatenate([[0.0], np.cumsum(capacity)])
    usage = np.empty(len(capacity))
    at = 0
    while at < len(capacity):
        slopes = (least[at + 1 :] - least[at]) / (width[at + 1 :] - width[at])
        steepest = float(slopes.max())
        near = slopes * (width[at + 1 :] - width[at]) >= steepest * (width[at + 1 :] - width[at]) - (
            BEND_ROUNDING * abs(least[-1])
        )
        end = at + 1 + int(np.flatnonzero(near)[-1])
        usage[at:end] = (least[end] - least[at]) / (width[end] - width[at])
        at = end
    return usage


MARGIN = 0.9
"""The search aims at this share of ε: the room between keeps it out of dead ends, and the trimming gives it
back."""

TOLERANCE = 1 + ROUNDING / 2
"""A search keeps within half of the tolerance: the sums of a board differ from those of a judge by less."""

THETA_WEIGHT = 100.0
"""Weight of a breach of θ beside one of the band: an overload counts more than much unevenness."""


class UsageLimits(NamedTuple):
    """Bounds of B, each of shape (brokers, columns); infinite where nothing is asked.

    Attributes
    ----------
    high, low
        The band; `high` never exceeds θ.
    theta
        The capacity goal alone.
    centre
        The mean utilisation, or what is even where rules keep the broker from it.
    weight
        1 / mean² (of an idle column, of the share where it ceases to be idle), so that columns compare; 0
        where not counted.
    """

    high: FloatArray
    low: FloatArray
    theta: FloatArray
    centre: FloatArray
    weight: FloatArray


EpsilonScale = tuple[FloatArray, FloatArray]
"""The highest and lowest even utilisations that rules allow, as shares of the mean.

Each of shape (brokers, columns).
"""


def required_epsilon_scale(stretch: EpsilonScale, epsilon: FloatArray) -> EpsilonScale:
    """The stretch where it is more than ε; 1 where ε can be asked around the mean itself."""
    most, least = stretch
    return np.where(most > 1 + epsilon, most, 1.0), np.where(least < 1 - epsilon, least, 1.0)


def limits_around(
    mean: FloatArray,
    counted: BoolArray,
    theta: FloatArray,
    epsilon: FloatArray,
    idle: FloatArray | float,
    stretch: EpsilonScale | None = None,
    share: float = 1.0,
) -> UsageLimits:
    """The bounds around a mean.

    Parameters
    ----------
    mean
        Shape (columns,); NaN where no broker counts.
    theta, epsilon
        Shape (columns,): the goals, infinite where not asked for.
    idle
        Mean utilisation below which a column is not balanced, of all columns or of shape (columns,).
    stretch
        Where rules keep brokers further from the mean than ε, ε reaches from what is lawful, and θ as far as
        it must.
    share
        Of ε: the width of the band.
    """
    mean = np.nan_to_num(mean)
    most, least = (np.ones(1), np.ones(1)) if stretch is None else required_epsilon_scale(stretch, epsilon)
    asked = counted & (mean > 0)
    balanced = asked & (mean >= idle) & np.isfinite(epsilon)
    top = np.where(asked, np.maximum(theta, np.where(most > 1, mean * most, 0.0)), np.inf) * TOLERANCE
    epsilon = epsilon * share * TOLERANCE
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.minimum(top, np.where(balanced, mean * most * (1 + epsilon), np.inf))
        low = np.where(balanced, mean * least * (1 - epsilon), -np.inf)
        weight = np.where(asked, 1.0 / np.maximum(mean, idle) ** 2, 0.0)
    centre = np.broadcast_to(mean * np.where(most > 1, np.where(least < 1, 1.0, most), least), counted.shape)
    return UsageLimits(np.ascontiguousarray(high), np.ascontiguousarray(low), top, centre.copy(), weight)


def potential(limits: UsageLimits, usage: FloatArray, rows: list[int] | slice | int = slice(None)) -> float:
    """Sum over some brokers and all columns of weight · (distance from the band)², θ a hundredfold.

    Parameters
    ----------
    usage
        Shape (rows, columns), or (columns,) for a single broker.
    rows
        The brokers that `usage` is of.
    """
    off = np.maximum(np.maximum(usage - limits.high[rows], limits.low[rows] - usage), 0.0)
    over = np.maximum(usage - limits.theta[rows], 0.0)
    return float((limits.weight[rows] * (off**2 + THETA_WEIGHT * over**2)).sum())
