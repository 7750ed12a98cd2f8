"""Loads and capacities as arrays, whatever the balancer and its resources."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def resource_name(resource: str) -> str:
    """A resource as people call it, by the name that load arrays and files have."""
    return "CPU" if resource == "cpu" else resource.replace("_", " ")
