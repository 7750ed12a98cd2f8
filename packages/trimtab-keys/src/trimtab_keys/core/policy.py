"""The protocol of key policies: which partition a record goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from trimtab_keys.core.load import PartitionLoadView

Chance = Callable[[], float]
"""Numbers in [0, 1), as of `random.Random(seed).random`."""


class KeyPolicy(Protocol):
    """A rule that puts each record into a partition.

    What a policy changes is its own memory and `PartitionLoadView.load`, in which it counts each record that
    it places: a view that is seconds old would send everything to the same partition until the next look. The
    same keys, views and generator give the same partitions.

    Attributes
    ----------
    name
        As in settings.
    keeps_order
        Whether all records of a key go to one partition, as long as nobody changes the table.
    needs_load
        Whether somebody has to look at backlogs and capacities for it; the others can do with what they count
        themselves.
    """

    name: ClassVar[str]
    keeps_order: ClassVar[bool]
    needs_load: ClassVar[bool]

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The partition of a record.

        Parameters
        ----------
        key
            As it is sent, serialised; None goes to any partition of the policy's liking.
        view
            The partitions; the record is counted in its `load`.
        chance
            The generator; it breaks ties, too.
        """
        ...
