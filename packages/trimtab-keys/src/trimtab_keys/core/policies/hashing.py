"""The plain hash, as Kafka's clients have it."""

from __future__ import annotations

from typing import ClassVar

from trimtab_keys.core.load import PartitionLoadView
from trimtab_keys.core.murmur2 import Hashes
from trimtab_keys.core.policy import Chance


class HashPartitioning:
    """Murmur2 of the key over the base partitions; records without a key go anywhere, drawn evenly."""

    name: ClassVar[str] = "hash"
    keeps_order: ClassVar[bool] = True
    needs_load: ClassVar[bool] = False

    def __init__(self) -> None:
        self._hashes = Hashes()

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The partition that the Java client chooses, as long as the topic has the base partitions only."""
        place = int(chance() * len(view.load)) if key is None else self._hashes[key] % view.base
        view.load[place] += 1
        return place
