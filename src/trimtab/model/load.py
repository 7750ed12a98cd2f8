"""Loads and capacities as arrays, whatever the level and its resources."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def utilisation(load: FloatArray, capacity: FloatArray) -> FloatArray:
    """Share of each broker's capacity in use.

    Parameters
    ----------
    load, capacity
        Shape (brokers, resources), in the level's units; capacity is positive, or infinite where there is
        no limit.

    Returns
    -------
    FloatArray
        Shape (brokers, resources), fractions; 0 where capacity is infinite; above 1 means overloaded.
    """
    return load / capacity
