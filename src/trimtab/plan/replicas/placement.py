"""Who holds and who leads every partition, in the slots of a search."""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, IntArray


class Placement(NamedTuple):
    """Who holds and who leads every partition.

    Attributes
    ----------
    place
        Shape (partitions, width): broker index of each slot, -1 in padding.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    """

    place: IntArray
    lead: IntArray

    @property
    def leader(self) -> IntArray:
        """Shape (partitions,): broker index, -1 for none."""
        rows = np.arange(len(self.place))
        return np.where(self.lead >= 0, self.place[rows, np.maximum(self.lead, 0)], -1).astype(np.int32)

    def in_slots_of(self, home: IntArray) -> "Placement":
        """The same replicas and leaders, those that stay in the slots that they have in `home`.

        Random changes let siblings trade slots, and the lead with them; in its own slot a leader that nothing
        needs elsewhere is found at home.
        """
        place, lead = self.place.copy(), self.lead.copy()
        for slot in range(place.shape[1]):
            stays = (place == home[:, slot : slot + 1]) & (home[:, slot : slot + 1] >= 0)
            rows = np.flatnonzero(stays.any(axis=1) & ~stays[:, slot])
            other = stays[rows].argmax(axis=1)
            place[rows, slot], place[rows, other] = place[rows, other], place[rows, slot]
            was = lead[rows]
            lead[rows] = np.where(was == slot, other, np.where(was == other, slot, was))
        return Placement(place, lead)


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
