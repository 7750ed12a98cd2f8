"""Lists and gaps in columns of whole numbers, whatever the form of the file they come from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LongArray = NDArray[np.int64]

LEFT_OUT = -1
"""Stands in `Lists.count` for a list that the file leaves out, and in values for null."""


@dataclass(frozen=True, eq=False)
class Lists:
    """One list a row, end to end.

    Attributes
    ----------
    count
        Shape (rows,): length of each list, `LEFT_OUT` where the file has none.
    values
        All elements, in file order.
    """

    count: LongArray
    values: LongArray

    @property
    def row(self) -> LongArray:
        """The row of each value."""
        return np.asarray(np.repeat(np.arange(len(self.count)), np.maximum(self.count, 0)))

    @property
    def column(self) -> LongArray:
        """The position of each value in its list."""
        count = np.maximum(self.count, 0)
        return np.asarray(np.arange(len(self.values)) - np.repeat(np.cumsum(count) - count, count))
