"""The limits of a broker's utilisation: θ, ε and the band that a search aims at.

If rules force more than their share on some brokers, the band is around the most even loads that the rules
allow (`even_usage`).
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.goals import ROUNDING
from trimtab.model.load import BoolArray, FloatArray

BEND_ROUNDING = 1e-12
"""Relative to the whole load; smaller differences do not count as bends of the curve."""


def even_usage(capacity: FloatArray, least: FloatArray) -> FloatArray:
    """The most even utilisation of ordered brokers, if the first ones must carry at least a given load.

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
"""The search aims at this share of ε: the margin avoids dead ends, and the final step of the search removes
unnecessary moves.
"""

TOLERANCE = 1 + ROUNDING / 2
"""A search uses half of the tolerance. The sums of a board differ from those of the final evaluation by less.
"""

UNREACHABLE_SPREAD = 0.02
"""Where the most even load is above θ, no placement is within it: brokers at most this share above that load
are then even enough. Otherwise every search would go on to its end: 2,000 partitions took two minutes."""

THETA_WEIGHT = 100.0
"""Weight of a violation of θ relative to one of the band: an overload counts more than much unevenness."""


class UsageLimits(NamedTuple):
    """Bounds of B, each of shape (brokers, columns); infinite without a goal.

    Attributes
    ----------
    high, low
        The band; `high` never exceeds θ.
    theta
        The capacity goal alone.
    centre
        The mean utilisation, or the most even utilisation that the rules allow.
    weight
        1 / mean², so that columns are comparable. For an idle column, the limit of idleness replaces the
        mean. 0 where not counted.
    """

    high: FloatArray
    low: FloatArray
    theta: FloatArray
    centre: FloatArray
    weight: FloatArray


EpsilonScale = tuple[FloatArray, FloatArray]
"""The highest and lowest of the most even utilisations that rules allow, as shares of the mean.

Each of shape (brokers, columns).
"""


def required_epsilon_scale(stretch: EpsilonScale, epsilon: FloatArray) -> EpsilonScale:
    """The stretch where it exceeds ε; 1 where the rules allow the mean."""
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
        Shape (columns,): the goals, infinite if not requested. A θ that no placement can meet is raised to
        what one can.
    idle
        Mean utilisation below which a column is not balanced, of all columns or of shape (columns,).
    stretch
        If rules keep brokers further than ε from the mean, ε counts from the nearest permitted load.
    share
        Of ε: the width of the band.
    """
    mean = np.nan_to_num(mean)
    most, least = (np.ones(1), np.ones(1)) if stretch is None else required_epsilon_scale(stretch, epsilon)
    # A column without load has no band: every usage of it would deviate infinitely from a mean of 0.
    asked = counted & (mean > 0)
    balanced = asked & (mean >= idle) & np.isfinite(epsilon)
    least_peak = mean * np.maximum(most, 1.0)
    reachable = least_peak * (1 + np.minimum(epsilon, UNREACHABLE_SPREAD))
    top = np.where(asked, np.where(least_peak > theta, reachable, theta), np.inf) * TOLERANCE
    epsilon = epsilon * share * TOLERANCE
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.minimum(top, np.where(balanced, mean * most * (1 + epsilon), np.inf))
        low = np.where(balanced, mean * least * (1 - epsilon), -np.inf)
        # Deviations count relative to the mean, so that columns are comparable. For an idle column the limit
        # of idleness replaces its tiny mean, which would dominate all others.
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
