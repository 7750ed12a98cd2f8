"""Between which utilisations a broker should be: θ, ε and the band that a search aims at."""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.plan.replicas.problem import ProblemData

MARGIN = 0.9
"""The search aims at this share of ε: the room between keeps it out of dead ends, and the trimming gives it
back."""

TOLERANCE = 1e-7
"""Relative; a goal that a plan claims to hold must hold in somebody else's arithmetic too."""


class Limits(NamedTuple):
    """Bounds of B, each of shape (brokers, resources); infinite where nothing is asked.

    Attributes
    ----------
    high, low
        The band; `high` never exceeds θ.
    theta
        The capacity goal alone.
    centre
        The mean utilisation.
    weight
        1 / mean², so that resources compare; 0 where not counted.
    """

    high: FloatArray
    low: FloatArray
    theta: FloatArray
    centre: FloatArray
    weight: FloatArray


def mean_usage(problem: ProblemData, load: FloatArray) -> FloatArray:
    """B̄ per resource, shape (resources,): capacity-weighted over the counted brokers; NaN where none
    counts.
    """
    counted = problem.counted
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.where(counted, load, 0.0).sum(axis=0)
            / np.where(counted, problem.snapshot.brokers.capacity, 0.0).sum(axis=0)
        )


def limits(problem: ProblemData, load: FloatArray, share: float) -> Limits:
    """The bounds for a load, with `share` of ε (1: the goal itself, less the tolerance).

    Parameters
    ----------
    load
        Shape (brokers, resources); the mean is taken from it, so it should be that of the placement aimed at.
    share
        Fraction of ε that the band spans.
    """
    settings, counted = problem.settings, problem.counted
    mean = np.nan_to_num(mean_usage(problem, load))
    asked = counted & (mean > 0)
    theta = np.where(asked & ("theta" in settings.goals), np.array(settings.theta), np.inf) * (1 - 1e-8)
    epsilon = np.array(settings.epsilon) * share * (1 - 1e-8)
    levelled = asked & ("epsilon" in settings.goals)
    high = np.minimum(theta, np.where(levelled, mean * (1 + epsilon), np.inf))
    low = np.where(levelled, mean * (1 - epsilon), -np.inf)
    with np.errstate(divide="ignore"):
        weight = np.where(counted & (mean > 0), 1.0 / mean**2, 0.0)
    centre = np.broadcast_to(mean, counted.shape).copy()
    return Limits(np.ascontiguousarray(high), np.ascontiguousarray(low), theta, centre, weight)
