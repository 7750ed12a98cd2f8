"""The resources of the level `replicas`, in the order that every load array uses."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

RESOURCES: Final = ("cpu", "disk", "network_in", "network_out")
CPU, DISK, NETWORK_IN, NETWORK_OUT = range(4)

UNITS: Final = {
    "cpu": "cores",
    "disk": "bytes",
    "network_in": "bytes per second",
    "network_out": "bytes per second",
}

LEADERSHIP_FIRST: Final = (CPU, NETWORK_OUT)
"""Resources where a leader costs more than a follower, so moving the role alone helps (Gao and
Wang, section 2)."""


def utilisation(load: FloatArray, capacity: FloatArray) -> FloatArray:
    """Share of each broker's capacity in use.

    Parameters
    ----------
    load, capacity
        Shape (brokers, resources), in `UNITS`; capacity is positive, or infinite where it is not limited.

    Returns
    -------
    FloatArray
        Shape (brokers, resources), fractions; 0 where capacity is infinite; above 1 means overloaded.
    """
    return load / capacity
