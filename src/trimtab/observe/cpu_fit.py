"""How many cores a byte costs: a non-negative regression of brokers' CPU over what they carry."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from trimtab.model.load import FloatArray

CAUSES: Final = ("leader_in", "leader_out", "follower_in")
"""Bytes per second produced to leaders, fetched from them by consumers, and replicated to followers."""

FIXED_SHARES: Final = (0.7, 0.15, 0.15)
"""How a broker's CPU divides over `CAUSES` where nothing better is known; the shares Cruise Control
assumes."""

MEASURED, SHARES = "measured", "shares"

_ROWS_PER_CAUSE = 3
"""A fit with fewer rows than this for each unknown would describe noise."""


@dataclass(frozen=True)
class CpuFit:
    """Cores per byte per second of each cause, and what an idle broker takes.

    Attributes
    ----------
    method
        `measured` (fitted) or `shares` (`FIXED_SHARES` of the whole CPU, no idle part).
    cost
        Shape (causes,), cores per byte per second, not negative.
    idle_cores
        The intercept: what every broker takes without any load.
    r2
        Share of the variance that the fit explains; NaN for `shares`.
    rows
        How many (broker, window) rows were used.
    """

    method: str
    cost: FloatArray
    idle_cores: float
    r2: float
    rows: int


def fit_cpu(cores: FloatArray, carried: FloatArray) -> CpuFit:
    """Fit CPU to load; fall back to fixed shares where the rows cannot tell.

    Every subset of causes is solved by least squares and the best one without a negative coefficient is
    taken: with three causes that is exact non-negative least squares in eight small solutions.

    Parameters
    ----------
    cores
        Shape (rows,), CPU of one broker in one window.
    carried
        Shape (rows, causes), bytes per second.

    Returns
    -------
    CpuFit
        Rows with a value missing are left out.
    """
    whole = np.isfinite(cores) & np.isfinite(carried).all(axis=1)
    y, x = cores[whole], carried[whole]
    scale = x.max(axis=0, initial=0.0)
    if len(y) < _ROWS_PER_CAUSE * (len(CAUSES) + 1) or not (scale > 0).any():
        return by_shares(y, x)
    scaled = x / np.where(scale > 0, scale, 1.0)
    varied = [cause for cause in range(len(CAUSES)) if np.ptp(scaled[:, cause]) > 1e-3]
    best, best_error = None, np.inf
    for size in range(len(varied), -1, -1):
        for chosen in combinations(varied, size):
            design = np.column_stack([np.ones(len(y)), scaled[:, list(chosen)]])
            solution = np.linalg.lstsq(design, y, rcond=None)[0]
            if (solution < 0).any():
                continue
            error = float(((y - design @ solution) ** 2).sum())
            if error < best_error:
                best, best_error = (chosen, solution), error
    if best is None or not best[0]:
        return by_shares(y, x)
    chosen, solution = best
    cost = np.zeros(len(CAUSES))
    cost[list(chosen)] = solution[1:] / scale[list(chosen)]
    spread = float(((y - y.mean()) ** 2).sum())
    r2 = 1.0 - best_error / spread if spread > 0 else 0.0
    if not (cost > 0).any():
        return by_shares(y, x)
    return CpuFit(MEASURED, cost, float(solution[0]), r2, len(y))


def by_shares(cores: FloatArray, carried: FloatArray) -> CpuFit:
    """The whole CPU divided over the causes by `FIXED_SHARES`; the share of a cause that is absent goes to
    the others.

    Parameters
    ----------
    cores, carried
        As in `fit_cpu`, without gaps.
    """
    total = carried.sum(axis=0)
    share = np.where(total > 0, np.array(FIXED_SHARES), 0.0)
    whole = share.sum()
    if whole == 0:
        return CpuFit(SHARES, np.zeros(len(CAUSES)), 0.0, float("nan"), len(cores))
    cost = share / whole * cores.sum() / np.where(total > 0, total, 1.0)
    return CpuFit(SHARES, cost, 0.0, float("nan"), len(cores))


def base_cores(fit: CpuFit, cores: FloatArray, carried: FloatArray) -> float:
    """What one broker takes beyond what its load explains: idle cost and what is its own (a controller's
    work).

    Parameters
    ----------
    fit
        The cluster's fit.
    cores, carried
        One broker's rows, as in `fit_cpu`.

    Returns
    -------
    float
        Cores, not negative; the broker's mean CPU is this plus the cost of its mean load.
    """
    if fit.method != MEASURED:
        return 0.0
    whole = np.isfinite(cores) & np.isfinite(carried).all(axis=1)
    if not whole.any():
        return fit.idle_cores
    return max(0.0, float((cores[whole] - carried[whole] @ fit.cost).mean()))
