"""A key policy as the partitioner of a client: which partition, nothing of order beyond the policy's own."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection

from trimtab.online.keys.catalogue import Given, policy_named
from trimtab.online.keys.load import LoadView


class PolicyPartitioner:
    """A policy as aiokafka's and kafka-python 2's callable, and for confluent-kafka's `partition=`.

    Order is kept as far as the policy keeps it: moving and splitting keys without breaking it needs headers,
    which no partitioner can write; the producers of this package do.

    Parameters
    ----------
    policy
        Name of a key policy.
    given
        What it needs.
    seed
        Of ties, and of records without a key.
    """

    def __init__(self, policy: str = "hash", given: Given | None = None, seed: int | None = None) -> None:
        self._policy = policy_named(policy, given)
        self._view, self._chance = LoadView(1), random.Random(seed).random
        self._lock = threading.Lock()

    def __call__(
        self, key: bytes | None, all_partitions: Collection[int], available: Collection[int] | None = None
    ) -> int:
        """The partition of a record.

        Parameters
        ----------
        key
            As it is sent.
        all_partitions
            In any order: aiokafka does not sort them.
        available
            Those with a leader; a key must not change its partition with them, so that none asks for them.
        """
        with self._lock:
            if len(all_partitions) != len(self._view):
                self._view = LoadView(len(all_partitions))
            place = self._policy.choose(key, self._view, self._chance)
        return sorted(all_partitions)[place] if max(all_partitions) >= len(all_partitions) else place
