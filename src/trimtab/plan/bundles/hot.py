"""Bundles and topics that are too big for every broker that they may be on.

The argument holds for every plan: whoever owns the bundle carries all of it, and nothing else but the
broker's own base load is counted against it.
"""

from dataclasses import dataclass

import numpy as np

from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.bundles.problem import BundlesProblem

ROUNDING = 1e-9


@dataclass(frozen=True)
class UnplaceableLoad:
    """Something that fits nowhere.

    Attributes
    ----------
    row
        Of the bundle.
    broker, column
        The broker that would bear it best, and where it is furthest beyond its limit there.
    usage, limit
        What that broker's utilisation would be with nothing else on it, and what it may be.
    times
        How many times what the roomiest broker has room for, in the worst column.
    """

    row: int
    broker: int
    column: int
    usage: float
    limit: float
    times: float


def free_capacity(problem: BundlesProblem, top: FloatArray) -> FloatArray:
    """The room of each broker if it carries nothing else, shape (brokers, columns), in `UNITS`.

    Parameters
    ----------
    top
        Shape (brokers, columns): highest utilisation allowed; infinite where nothing is asked.
    """
    base = np.tile(problem.snapshot.brokers.base, (1, len(problem.snapshot.views)))
    capacity = problem.capacity
    with np.errstate(invalid="ignore"):
        room = np.where(problem.counted & np.isfinite(top), top * capacity - base, np.inf)
    return np.asarray(np.maximum(room, 0.0))


def too_big(problem: BundlesProblem, top: FloatArray) -> list[UnplaceableLoad]:
    """The bundles that fit on no broker that they may be on, the biggest first."""
    arrays = problem.arrays
    room = free_capacity(problem, top)
    owned = (arrays.initial >= 0) | arrays.must
    suspect = owned & (arrays.use > room.min(axis=0, initial=np.inf) * (1 + ROUNDING)).any(axis=1)
    found = []
    for row in np.flatnonzero(suspect).tolist():
        excess = excess_of(problem, top, room, row, arrays.use[row])
        if excess is not None:
            found.append(excess)
    return sorted(found, key=lambda one: (-one.times, one.row))


def excess_of(
    problem: BundlesProblem, top: FloatArray, room: FloatArray, row: int, use: FloatArray
) -> UnplaceableLoad | None:
    """The excess of a load over every broker that bundle `row` may be on; None if it fits on one."""
    brokers = _brokers_for(problem, row)
    if not len(brokers):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(use > 0, use / room[brokers], 0.0)
    worst = times.max(axis=1)
    best = int(worst.argmin())
    if not worst[best] > 1 + ROUNDING:
        return None
    broker, column = int(brokers[best]), int(times[best].argmax())
    inverse = problem.arrays.inverse[broker, column]
    base = problem.snapshot.brokers.base[broker, column % problem.snapshot.brokers.base.shape[1]]
    return UnplaceableLoad(
        row,
        broker,
        column,
        float((use[column] + base) * inverse),
        float(top[broker, column]),
        float(worst[best]),
    )


def _brokers_for(problem: BundlesProblem, row: int) -> IntArray:
    """The brokers in service that the bundle may be on; its own too, whatever the policies say by now."""
    arrays = problem.arrays
    allowed = arrays.allowed[arrays.kind[row]].copy()
    home = arrays.initial[row]
    if home >= 0 and problem.snapshot.brokers.in_service[home]:
        allowed[home] = True
    return np.flatnonzero(allowed).astype(np.int32)
