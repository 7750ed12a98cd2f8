"""A stream of keyed records: when each was sent, with which key, by which producer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trimtab.model.errors import InputError
from trimtab.online.keys.murmur2 import POSITIVE, murmur2


@dataclass(frozen=True, slots=True)
class KeyStream:
    """Records in the order in which they were sent.

    Attributes
    ----------
    at
        Shape (records,): seconds, ascending.
    which
        Shape (records,): index of each record's key.
    keys
        Shape (keys,): as they are sent.
    record_bytes
        Size of a record.
    producers
        How many there are; all records of a key come from one of them, by hash, so that the order in which
        they were sent is one order.

    Raises
    ------
    InputError
        If there is no record, if times descend, or if a key is not there.
    """

    at: Sequence[float]
    which: Sequence[int]
    keys: Sequence[bytes]
    record_bytes: int = 100
    producers: int = 3

    def __post_init__(self) -> None:
        if not self.at or len(self.at) != len(self.which):
            raise InputError(
                f"a key stream has {len(self.at)} times and {len(self.which)} keys, expected as many, "
                "1 or more"
            )
        if any(later < one for one, later in pairwise(self.at)):
            raise InputError("times of a key stream descend: sort its records by time")
        if not 0 <= min(self.which) <= max(self.which) < len(self.keys):
            raise InputError(f"a record of the key stream has a key that is not one of {len(self.keys)}")
        if self.producers < 1:
            raise InputError(f"a key stream has {self.producers} producers, expected 1 or more")

    def producer_of_key(self) -> list[int]:
        """Shape (keys,): the producer that sends the records of each key."""
        # Other bits than those that choose partitions: a producer must not have some partitions for itself.
        return [((murmur2(key) & POSITIVE) >> 16) % self.producers for key in self.keys]
