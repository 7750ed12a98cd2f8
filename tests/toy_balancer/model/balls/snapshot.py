"""The snapshot of the balancer `balls`: the box that each ball lies in, and its weight."""

from dataclasses import dataclass

import numpy as np

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import FloatArray, Imbalance, IntArray, imbalance

RESOURCES = ("weight",)


@dataclass(frozen=True, eq=False)
class BallsSnapshot:
    """Boxes by name with what they can carry, shape (boxes,); balls by name with box and weight."""

    reference: SnapshotReference
    quality: Quality
    boxes: tuple[str, ...]
    capacity: FloatArray
    balls: tuple[str, ...]
    box: IntArray
    weight: FloatArray

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`."""
        return self.boxes

    def imbalance(self, box: IntArray | None = None) -> Imbalance:
        """The measures of this placement, or of another one."""
        where = self.box if box is None else box
        load = np.bincount(where, self.weight, len(self.boxes))[:, None]
        return imbalance(load, self.capacity[:, None], np.ones(len(self.boxes), dtype=np.bool_), RESOURCES)
