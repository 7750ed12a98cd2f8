"""The effect of an execution: the load of now, under the placement of before and under that of after.

A load is never the same after an execution as before it. Both placements are therefore weighed with the load
that is measured afterwards.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.decide.events import Effect
from trimtab.model.load import BoolArray, Imbalance

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
