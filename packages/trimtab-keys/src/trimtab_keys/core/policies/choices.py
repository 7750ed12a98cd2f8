"""Few choices for each key: two for all (PKG), more for the head of the distribution (D- and W-Choices)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from trimtab_common.errors import SettingsError
from trimtab_keys.core.heavy_hitters import SpaceSaving
from trimtab_keys.core.load import PartitionLoadView, least_loaded
from trimtab_keys.core.murmur2 import Hashes, mixed, places
from trimtab_keys.core.policy import Chance

EPSILON = 1e-4
"""Imbalance that d is solved for, as in the paper."""
EVERY = 1000
"""Records between two solutions for d."""


class PartialKeyGrouping:
    """The one with less load of two partitions that the key is hashed to.

    References
    ----------
    Nasir, De Francisci Morales, García-Soriano, Kourtellis, Serafini (2015), "The power of both choices".
    Their two hashes may agree; here the second is drawn by hash among the other partitions.
    """

    name: ClassVar[str] = "pkg"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def __init__(self) -> None:
        self._hashes = Hashes()

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """One of two."""
        load, count = view.load, view.base
        if key is None:
            place = int(chance() * len(load))
        else:
            place = self.tail(self._hashes[key], count, load, chance)
        load[place] += 1
        return place

    @staticmethod
    def tail(h: int, count: int, load: Sequence[float], chance: Chance) -> int:
        """The better of the two places of a hash."""
        place = h % count
        if count > 1:
            other = (place + 1 + mixed(h) % (count - 1)) % count
            if load[other] < load[place] or (load[other] == load[place] and chance() < 0.5):
                return other
        return place


class WChoices(PartialKeyGrouping):
    """Two choices for most keys, every partition for those in the head of the distribution.

    Parameters
    ----------
    head
        Share of all records from which a key belongs to the head; None for 1 / (5 n) with n base partitions,
        the lower end of the paper's range and its default; the upper end is 2 / n.
    counters
        Of the sketch; None for ten times the keys that could have that share.

    References
    ----------
    Nasir, De Francisci Morales, Kourtellis, Serafini (2016), "When two choices are not enough: balancing at
    scale in distributed stream processing".
    """

    name: ClassVar[str] = "w_choices"

    def __init__(self, head: float | None = None, counters: int | None = None) -> None:
        super().__init__()
        if head is not None and not 0 < head < 1:
            raise SettingsError(f"head is {head}, expected a share of the records above 0 and below 1")
        self._head, self._counters = head, counters
        self.sketch: SpaceSaving | None = None

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """One of two, of d, or of all."""
        if key is None:
            return super().choose(key, view, chance)
        share = self._head or 0.2 / view.base
        sketch = self.sketch
        if sketch is None:
            sketch = self.sketch = SpaceSaving(self._counters or int(10 / share))
        h = self._hashes[key]
        if sketch.add(key) >= share * sketch.total:
            place = self.head_place(h, share, view, chance)
        else:
            place = self.tail(h, view.base, view.load, chance)
        view.load[place] += 1
        return place

    def head_place(self, h: int, share: float, view: PartitionLoadView, chance: Chance) -> int:
        """The partition with the least load of all that are in use."""
        return least_loaded(view.load, range(len(view.load)), chance())


class DChoices(WChoices):
    """Two choices for most keys, d for those in the head, d as small as keeps loads even.

    Where d would reach the number of partitions, the head may go to all of them, as under `WChoices`.
    """

    name: ClassVar[str] = "d_choices"

    def __init__(self, head: float | None = None, counters: int | None = None) -> None:
        super().__init__(head, counters)
        self._d, self._solve_at = 2, 0

    @property
    def d(self) -> int:
        """Choices that keys in the head have now."""
        return self._d

    def head_place(self, h: int, share: float, view: PartitionLoadView, chance: Chance) -> int:
        """The partition with the least load of the key's d."""
        sketch = self.sketch
        assert sketch is not None
        if sketch.total >= self._solve_at:
            self._d = choices([one for _, one in sketch.head(share)], view.base)
            self._solve_at = sketch.total + EVERY
        if self._d >= view.base:
            return super().head_place(h, share, view, chance)
        return least_loaded(view.load, places(h, self._d, view.base), chance())


def choices(head: Sequence[float], count: int, epsilon: float = EPSILON) -> int:
    """The least d >= 2 with which the head's keys can be spread evenly; `count` where none below does.

    With b_h = n - n((n-1)/n)^(hd) partitions that the h greatest keys are expected to reach, all that comes
    there must find room, for each h: the h keys themselves, and the others as far as all of their choices
    lie within: sum_{i<=h} p_i + (b_h/n)^d sum_{h<i<=H} p_i + (b_h/n)^2 (1 - sum_{i<=H} p_i) <= b_h (1/n + ε).

    Parameters
    ----------
    head
        Shares p_i of the keys in the head, the greatest first.
    count
        n partitions.
    """
    all_of_head = sum(head)
    for d in range(2, count):
        before = 0.0
        for h, share in enumerate(head, start=1):
            before += share
            reached = count - count * ((count - 1) / count) ** (h * d)
            within = reached / count
            there = before + within**d * (all_of_head - before) + within**2 * (1 - all_of_head)
            if there > reached * (1 / count + epsilon):
                break
        else:
            return d
    return count
