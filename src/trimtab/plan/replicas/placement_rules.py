"""Checks of a placement against rack and host spread, over all partitions at once."""

import numpy as np

from trimtab.model.load import BoolArray, IntArray


def crowding(place: IntArray, group: IntArray, cap: IntArray) -> BoolArray:
    """Shape (partitions,): whether some group holds more of the partition's replicas than the cap.

    Parameters
    ----------
    place
        Shape (partitions, width): broker indices, -1 in padding.
    group
        Shape (brokers,): rack or host number.
    cap
        Shape (partitions,).
    """
    of = np.where(place >= 0, group[place], -1)
    over = np.zeros(len(place), dtype=np.bool_)
    for column in range(of.shape[1]):
        same = (of == of[:, column : column + 1]).sum(axis=1)
        over |= (of[:, column] >= 0) & (same > cap)
    return over
