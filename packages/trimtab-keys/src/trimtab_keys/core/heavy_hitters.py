"""Heavy hitters of a stream of keys, by the Space-Saving algorithm."""

from __future__ import annotations

from heapq import heapify, heapreplace

from trimtab_common.errors import SettingsError


class SpaceSaving:
    """As many counters as given: every key with more than `seen / counters` records is among them.

    A key without a counter takes over that with the least count, and that count with it, so that counts are
    never too low and at most `seen / counters` too high.

    Attributes
    ----------
    count
        By key.
    total
        Records counted.

    References
    ----------
    Metwally, Agrawal, El Abbadi (2005), "Efficient computation of frequent and top-k elements in data
    streams". A heap of counts put right when they come to the top stands in for their list of buckets.
    """

    __slots__ = ("_heap", "_limit", "count", "total")

    def __init__(self, counters: int) -> None:
        if counters < 1:
            raise SettingsError(f"heavy hitters with {counters} counters, expected 1 or more")
        self.count: dict[bytes, int] = {}
        self.total, self._limit = 0, counters
        self._heap: list[tuple[int, bytes]] = []

    def add(self, key: bytes) -> int:
        """Count a record; the key's count with it."""
        self.total += 1
        count = self.count
        if key in count:
            now = count[key] = count[key] + 1
            return now
        if len(count) < self._limit:
            count[key] = 1
            if len(count) == self._limit:
                self._heap = [(its, one) for one, its in count.items()]
                heapify(self._heap)
            return 1
        heap = self._heap
        while True:
            noted, loser = heap[0]
            now = count[loser]
            if noted == now:
                break
            heapreplace(heap, (now, loser))
        del count[loser]
        count[key] = now + 1
        heapreplace(heap, (now + 1, key))
        return now + 1

    def head(self, share: float) -> list[tuple[bytes, float]]:
        """Keys with at least that share of all records, the greatest first, each with its share."""
        seen = self.total or 1
        found = [(key, its / seen) for key, its in self.count.items() if its >= share * seen]
        return sorted(found, key=lambda one: (-one[1], one[0]))
