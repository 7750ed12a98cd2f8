"""Consistent hashing with bounded loads."""

from __future__ import annotations

from bisect import bisect_left
from math import ceil
from typing import ClassVar

from trimtab_common.errors import SettingsError
from trimtab_keys.core.load import PartitionLoadView
from trimtab_keys.core.murmur2 import MASK, Hashes, mixed, murmur2
from trimtab_keys.core.policy import Chance

POINTS = 100
"""Of each partition on the ring."""


class BoundedLoads:
    """The first partition clockwise from the key's place on a ring that holds less than its bound.

    The bound is (1 + ε) times the mean, rounded up, the new record counted in.

    Parameters
    ----------
    epsilon
        ε: the smaller, the more even, and the farther keys stray.

    References
    ----------
    Mirrokni, Thorup, Zadimoghaddam (2018), "Consistent hashing with bounded loads". Their bins have one
    point each on the ring; we give them a hundred, as rings do in practice.
    """

    name: ClassVar[str] = "bounded_loads"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def __init__(self, epsilon: float = 0.1) -> None:
        if not epsilon > 0:
            raise SettingsError(f"keys.epsilon is {epsilon}, expected above 0: the mean itself has no room")
        self._epsilon, self._hashes = epsilon, Hashes()
        self._ring: list[int] = []
        self._owner: list[int] = []
        self._count = 0

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The first with room; without a key from a place on the ring that is drawn."""
        load = view.load
        if self._count != view.base:
            self._draw_ring(view.base)
        at = int(chance() * MASK) if key is None else mixed(self._hashes[key])
        bound = ceil((1 + self._epsilon) * (sum(load) + 1) / view.base)
        first = bisect_left(self._ring, at)
        for step in range(len(self._ring)):
            place = self._owner[(first + step) % len(self._ring)]
            # One at least has room: all of them together hold less than the bounds add up to.
            if load[place] < bound:
                break
        load[place] += 1
        return place

    def _draw_ring(self, count: int) -> None:
        points = sorted(
            (murmur2(b"%d:%d" % (place, point)), place) for place in range(count) for point in range(POINTS)
        )
        self._ring, self._owner = [at for at, _ in points], [place for _, place in points]
        self._count = count
