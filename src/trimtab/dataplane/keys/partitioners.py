"""A key policy as the partitioner of a client: which partition, nothing of order beyond the policy's own."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection
from functools import partial

from trimtab.online.keys.catalogue import Given, policy_named
from trimtab.online.keys.load import LoadView
from trimtab.online.keys.policy import KeyPolicy


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

    Raises
    ------
    SettingsError
        If there is no such policy, or it was not given what it needs.
    """

    def __init__(self, policy: str = "hash", given: Given | None = None, seed: int | None = None) -> None:
        self._made = partial(policy_named, policy, given)
        # One for each number of partitions: a producer may send to topics of several, by turns, and a policy
        # keeps what it found of a view.
        self._by_count: dict[int, tuple[KeyPolicy, LoadView, range]] = {}
        self._chance, self._lock = random.Random(seed).random, threading.Lock()
        self._made()

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
            count = len(all_partitions)
            known = self._by_count.get(count)
            if known is None:
                known = self._by_count[count] = self._made(), LoadView(count), range(count)
            policy, view, whole = known
            place = policy.choose(key, view, self._chance)
        # A range is told from another at once; a set or a list is gone through.
        if all_partitions == whole or max(all_partitions) < count:
            return place
        return sorted(all_partitions)[place]
