"""Between which utilisations a broker should be in every view: θ, ε and the band that a search aims at."""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray
from trimtab.plan.bundles.trim.problem import ProblemData

MARGIN = 0.9
"""The search aims at this share of ε: the room between keeps it out of dead ends, and the trimming gives it
back."""

WITHIN = 1 - 1e-8
"""A goal that a plan claims to hold must hold in somebody else's arithmetic too."""


class Limits(NamedTuple):
    """Bounds of B, each of shape (brokers, columns); infinite where nothing is asked.

    Attributes
    ----------
    high, low
        The band; `high` never exceeds θ.
    theta
        The capacity goal alone.
    centre
        The mean utilisation.
    weight
        1 / mean² (of an idle resource, of the share where it ceases to be idle), so that columns compare; 0
        where not counted.
    """

    high: FloatArray
    low: FloatArray
    theta: FloatArray
    centre: FloatArray
    weight: FloatArray


def mean_usage(problem: ProblemData, load: FloatArray) -> FloatArray:
    """B̄, shape (columns,): capacity-weighted over the counted brokers; NaN where none counts."""
    counted = problem.counted
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.where(counted, load, 0.0).sum(axis=0) / np.where(counted, problem.capacity, 0.0).sum(axis=0)
        )


def limits(problem: ProblemData, load: FloatArray, share: float) -> Limits:
    """The bounds for a load, with `share` of ε (1: the goal itself).

    Parameters
    ----------
    load
        Shape (brokers, columns); the mean is taken from it, so it should be that of the placement aimed at.
    share
        Fraction of ε that the band spans.
    """
    settings, counted = problem.settings, problem.counted
    views = len(problem.snapshot.views)
    mean = np.nan_to_num(mean_usage(problem, load))
    asked = counted & (mean > 0)
    levelled = asked & (mean >= settings.idle_usage)
    epsilon = np.tile(settings.epsilon, views) * share * WITHIN
    theta = np.where(asked, np.tile(settings.theta, views), np.inf) * WITHIN
    high = np.minimum(theta, np.where(levelled, mean * (1 + epsilon), np.inf))
    low = np.where(levelled, mean * (1 - epsilon), -np.inf)
    with np.errstate(divide="ignore"):
        weight = np.where(asked, 1.0 / np.maximum(mean, settings.idle_usage) ** 2, 0.0)
    centre = np.broadcast_to(mean, counted.shape).copy()
    return Limits(np.ascontiguousarray(high), np.ascontiguousarray(low), theta, centre, weight)


def fixed_mean(problem: ProblemData, placed: bool) -> BoolArray:
    """Shape (columns,): whether the mean is the same for all plans.

    It is where every broker in service counts, and every bundle that has to get a broker gets one.
    """
    same = (problem.counted == problem.snapshot.brokers.in_service[:, None]).all(axis=0)
    return np.asarray(same & placed)
