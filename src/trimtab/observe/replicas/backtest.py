"""The last day held out: what profiles expected of it, with and without the trend, against what came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.model.replicas.resources import DISK, RESOURCES
from trimtab.observe.snapshots import fields_of

if TYPE_CHECKING:
    import pyarrow as pa

    from trimtab.model.load import BoolArray, FloatArray

METHODS: Final = ("error", "error_with_trend", "error_of_yesterday")


@dataclass(frozen=True, eq=False)
class Backtest:
    """How far off the expectations of an already known stretch of time were.

    Attributes
    ----------
    off
        Shape (`METHODS`, resources): sum of |expected − actual|.
    actual
        Shape (resources,): sum of what came.
    """

    off: FloatArray
    actual: FloatArray

    @property
    def share(self) -> FloatArray:
        """Shape (`METHODS`, resources): the mean absolute percentage error, each load weighing what it is, as
        a fraction (Σ|error| / Σ actual); NaN where nothing came.
        """
        known = self.actual > 0
        return np.where(known, self.off / np.where(known, self.actual, 1.0), np.nan)

    @property
    def trend(self) -> BoolArray:
        """Shape (resources,): where the trend was nearer than the profile alone, and so is used."""
        return np.asarray(self.off[1] < self.off[0])

    def document(self) -> dict[str, object]:
        """As a snapshot's quality has it; resources of which nothing came are left out."""
        told: dict[str, object] = {
            way: {name: float(one) for name, one in zip(RESOURCES, row, strict=True) if np.isfinite(one)}
            for way, row in zip(METHODS, self.share, strict=True)
        }
        return {**told, "trend": [name for name, used in zip(RESOURCES, self.trend, strict=True) if used]}


def backtest_of(rows: pa.Table) -> Backtest:
    """The sums over rows of `profile_errors`, the same in any order of the rows; 0 without any."""
    if not rows.num_rows:
        return Backtest(np.zeros((len(METHODS), len(RESOURCES))), np.zeros(len(RESOURCES)))
    actual = np.abs(fields_of(rows, "actual", RESOURCES))
    errors = np.abs(np.stack([fields_of(rows, way, RESOURCES) for way in METHODS]))
    # A load counts where all ways tell of it, so that they are compared on the same.
    counts = np.isfinite(actual) & np.isfinite(errors).all(axis=0)
    return Backtest(
        np.sort(np.where(counts, errors, 0.0), axis=1).sum(axis=1),
        np.sort(np.where(counts, actual, 0.0), axis=0).sum(axis=0),
    )


def expected_loads(profile: FloatArray, trend: FloatArray, recent: FloatArray, uses: BoolArray) -> FloatArray:
    """The loads expected of hours to come.

    Parameters
    ----------
    profile, trend
        Shape (partitions, hours, resources); NaN where nothing is known.
    recent
        Shape (partitions, resources): the load of now, where nothing else is known.
    uses
        Shape (resources,): where the trend counts.

    Returns
    -------
    FloatArray
        Shape of `profile`. Disks stay as they are.
    """
    raised = uses & np.isfinite(trend)
    found = np.where(raised, trend, np.where(np.isfinite(profile), profile, recent[:, None]))
    found[..., DISK] = recent[:, None, DISK]
    return found
