"""The most even loads that rules allow where they make some brokers carry more than their share."""

import numpy as np

from trimtab.model.load import FloatArray

ROUNDING = 1e-12
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
            ROUNDING * abs(least[-1])
        )
        end = at + 1 + int(np.flatnonzero(near)[-1])
        usage[at:end] = (least[end] - least[at]) / (width[end] - width[at])
        at = end
    return usage
