"""Affinity: messages of one key stay on one queue, in order, while any of them is in flight."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policy import DispatchPolicy


class KeyAffinity:
    """Keys in flight, each with its queue; a key of which nothing is in flight goes where the policy says.

    Parameters
    ----------
    policy
        Chooses for messages without a key, and for a key's first.
    ledger
        The queues.
    """

    def __init__(self, policy: DispatchPolicy, ledger: QueueLedger) -> None:
        self._policy, self._ledger = policy, ledger
        self._queue: dict[Hashable, int] = {}
        self._in_flight: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """The number of keys in flight."""
        return len(self._queue)

    def __contains__(self, key: Hashable) -> bool:
        """Whether a message of the key is in flight."""
        return key in self._queue

    def choose(self, weight: float, key: Hashable | None = None) -> int | None:
        """The queue of a message; None is back-pressure, for one key where its queue is full.

        A paused queue receives messages of its keys: elsewhere they would overtake the others.
        """
        queue = None if key is None else self._queue.get(key)
        if queue is None:
            return self._policy.choose(weight)
        return queue if self._ledger.length[queue] < self._ledger.capacity[queue] else None

    def enqueued(self, queue: int, key: Hashable) -> None:
        """A message of the key was put into that queue."""
        self._queue[key] = queue
        self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def finished(self, key: Hashable) -> None:
        """A message of the key is done with."""
        left = self._in_flight[key] - 1
        if left:
            self._in_flight[key] = left
        else:
            del self._in_flight[key], self._queue[key]

    def moved(self, keys: Iterable[Hashable], target: int) -> None:
        """All messages in flight of these keys went to another queue."""
        for key in keys:
            self._queue[key] = target
