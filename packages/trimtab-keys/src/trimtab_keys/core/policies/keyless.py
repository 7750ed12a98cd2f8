"""Policies that spread records without a key; the first two spread those with a key as well."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import ClassVar

from trimtab_common.errors import SettingsError
from trimtab_keys.core.load import PartitionLoadView
from trimtab_keys.core.murmur2 import Hashes
from trimtab_keys.core.policy import Chance

BATCH_RECORDS = 16
"""Kafka's default batch of 16 KiB holds as many records of a kilobyte."""


class RandomPartition:
    """Every record to a partition drawn evenly, whatever its key."""

    name: ClassVar[str] = "random"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """Any partition."""
        place = int(chance() * len(view.load))
        view.load[place] += 1
        return place


class RoundRobinPartition:
    """Partitions in turn, whatever the key; the first is drawn, so that producers do not march in step."""

    name: ClassVar[str] = "round_robin"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def __init__(self) -> None:
        self._next = -1

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The partition after the last one."""
        count = len(view.load)
        place = int(chance() * count) if self._next < 0 else self._next % count
        self._next = place + 1
        view.load[place] += 1
        return place


class StickyPartition:
    """Records without a key stay on a drawn partition for a batch; those with a key are hashed.

    Parameters
    ----------
    batch_records
        Kafka counts bytes; a policy sees no sizes.

    References
    ----------
    KIP-480 and, for batches of fixed length, KIP-794.
    """

    name: ClassVar[str] = "sticky"
    keeps_order: ClassVar[bool] = True
    needs_load: ClassVar[bool] = False

    def __init__(self, batch_records: int = BATCH_RECORDS) -> None:
        if batch_records < 1:
            raise SettingsError(f"batch_records is {batch_records}, expected 1 or more records")
        self._batch, self._left, self._place = batch_records, 0, 0
        self._hashes = Hashes()

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The hash's partition, or the one of this batch."""
        if key is not None:
            place = self._hashes[key] % view.base
        else:
            if not self._left:
                self._left, self._place = self._batch, self.draw(view, chance)
            self._left -= 1
            place = self._place
        view.load[place] += 1
        return place

    def draw(self, view: PartitionLoadView, chance: Chance) -> int:
        """The partition of the next batch."""
        return int(chance() * len(view.load))


class AdaptivePartition(StickyPartition):
    """As `StickyPartition`, but batches go to a partition the more likely, the less lies there.

    A partition is drawn with a weight of the greatest load plus one less its own: loads 0, 3 and 1 give 4, 1
    and 3 of 8.

    References
    ----------
    KIP-794: Java's producer weighs by the lengths of its own queues to each partition.
    """

    name: ClassVar[str] = "adaptive"

    def draw(self, view: PartitionLoadView, chance: Chance) -> int:
        """The partition of the next batch, by the load now."""
        most = max(view.load) + 1
        sums = list(accumulate(most - one for one in view.load))
        return min(bisect_right(sums, chance() * sums[-1]), len(sums) - 1)
