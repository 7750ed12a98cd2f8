"""The load as decisions see it: that of a snapshot, and the effect of an execution on it.

A load is never the same after an execution as before it. Both placements are therefore weighed with the load
that is measured afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trimtab.decide.events import BrokenLimit, BrokerObservation, Effect, Observed
from trimtab.model.goals import Goals, exceeds, goals_of
from trimtab.model.load import BoolArray, FloatArray, Imbalance

WORSE_BY: Final = 0.05
"""A deviation or a peak that is higher by more than this is worse."""
HELPED_BY: Final = 0.02
"""A deviation or a peak that is lower by at least this has helped."""


@dataclass(frozen=True, slots=True)
class PlacementLoad:
    """The load of a placement: the largest γ and the largest utilization of resources that are in use."""

    worst_deviation: float
    peak_usage: float

    @property
    def text(self) -> str:
        """Both figures as text for people."""
        return f"γ {self.worst_deviation:.2f} and peak {self.peak_usage:.0%}"


def placement_load(measured: Imbalance, is_used: BoolArray) -> PlacementLoad:
    """The figures of a measurement.

    Parameters
    ----------
    is_used
        Shape (resources,): whether evenness is asked of a resource.
    """
    deviation = np.where(is_used & np.isfinite(measured.mean), measured.worst_deviation, 0.0)
    peak = np.where(np.isfinite(measured.mean), measured.peak_usage, 0.0)
    return PlacementLoad(float(deviation.max()), float(peak.max()))


def effect_of(before: PlacementLoad, after: PlacementLoad, *, peak_only: bool = False) -> tuple[Effect, str]:
    """What an execution has done, with the figures as text.

    Parameters
    ----------
    before, after
        The load of now under the placement before the execution, and under the one after it.
    peak_only
        Whether the plan was made for a limit, so that its evenness is not judged.
    """
    text = f"the load of now without the moves: {before.text}; with them: {after.text}"
    pairs = [(before.peak_usage, after.peak_usage)]
    if not peak_only:
        pairs.append((before.worst_deviation, after.worst_deviation))
    if any(now > was + WORSE_BY for was, now in pairs):
        return Effect.WORSE, text
    if any(was - now >= HELPED_BY for was, now in pairs):
        return Effect.HELPED, text
    return Effect.NOTHING, text


def observed_of(snapshot: Any, settings: Any, taken_at: float) -> Observed:
    """The event of a snapshot that has measures of load, no racks and no forecast.

    Parameters
    ----------
    settings
        Of the balancer; its θ, and the utilization below which a resource is not balanced.
    taken_at
        Seconds since 1970.
    """
    measured, names = snapshot.imbalance(), snapshot.row_names
    goals = goals_of(settings, measured.resources, snapshot.quality.nominal_capacity)
    deviation = deviations(measured, goals)
    row, place = np.unravel_index(int(deviation.argmax()), deviation.shape)
    limits = tuple(zip(measured.resources, map(float, goals.theta), strict=True))
    rows = zip(names, measured.counted, strict=True)
    return Observed(
        taken_at=taken_at,
        coverage=float(getattr(snapshot.quality, "valid_share", 1.0)),
        brokers=tuple(BrokerObservation(str(name), str(name), bool(one.any()), 1) for name, one in rows),
        worst_deviation=float(deviation[row, place]),
        worst_resource=measured.resources[int(place)],
        worst_broker=str(names[int(row)]),
        limits=tuple(one for one in limits if np.isfinite(one[1])),
        broken_limits=broken_limits(measured.usage, names, limits),
    )


def deviations(measured: Imbalance, goals: Goals) -> FloatArray:
    """γ of every broker and resource, shape (brokers, resources); 0 where evenness is not asked."""
    is_used = np.isfinite(measured.mean) & ~(measured.mean < goals.idle)
    return np.where(is_used, measured.deviation, 0.0)


def broken_limits(
    usage: FloatArray, names: Sequence[int | str], limits: Sequence[tuple[str, float]]
) -> tuple[BrokenLimit, ...]:
    """The worst broker of each resource that is above its limit, disk first.

    Parameters
    ----------
    usage
        Shape (brokers, resources).
    names
        Of the brokers.
    limits
        Name and θ of each resource; infinite where θ is no goal.
    """
    found = []
    for place, (resource, limit) in enumerate(limits):
        row = int(usage[:, place].argmax())
        if exceeds(usage[row, place], limit):
            found.append(BrokenLimit(resource, str(names[row]), float(usage[row, place]), limit))
    return tuple(sorted(found, key=lambda one: one.resource != "disk"))
