"""IPOOA: the hashed partition unless it is overloaded, then others, then one more."""

from __future__ import annotations

from typing import ClassVar

from trimtab_keys.core.consumption import literal, repaired
from trimtab_keys.core.load import PartitionLoadView, least_loaded
from trimtab_keys.core.murmur2 import Hashes
from trimtab_keys.core.policy import Chance
from trimtab_keys.core.settings import IpooaSettings
from trimtab_keys.core.similarity import by_content, by_load


class OverloadOptimisation:
    """The improved partition overload optimisation algorithm.

    A record is hashed to a partition; if that one's ISC is above Θ, candidates are tried in turn until one
    is not above it; after as many tries as settings say, a partition is added and takes the record.

    Parameters
    ----------
    settings
        Readings and weights.

    References
    ----------
    "An improved partition overload optimisation algorithm in Kafka", Computer Technology and Development
    30(12):88-91, 2020, steps 1 to 4. Where no partition can be added (there is no spare one left) the record
    goes to the tried one with the least ISC; the paper does not say. The hash keeps its base, for with the
    new number nearly all keys would move at each addition.
    """

    name: ClassVar[str] = "ipooa"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = True

    def __init__(self, settings: IpooaSettings | None = None) -> None:
        self.settings = IpooaSettings() if settings is None else settings
        self._hashes = Hashes()
        self._samples = -1
        self._literal: list[float] = []
        self._similar: dict[int, list[int]] = {}

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The hashed partition, a candidate, or a new one."""
        if self._samples != view.observations:
            self._observe(view)
        home = int(chance() * len(view.load)) if key is None else self._hashes[key] % view.base
        place = home if self.isc(view, home) <= self.settings.threshold else self._divert(view, home, chance)
        view.load[place] += 1
        return place

    def isc(self, view: PartitionLoadView, place: int) -> float:
        """Instant service consumption of a partition, what was sent since the last look counted in."""
        if self._literal:
            return self._literal[place]
        return repaired(view.rate[place], view.load[place], view.capacity[place], self.settings.weight)

    def candidates(self, view: PartitionLoadView, home: int, chance: Chance) -> list[int]:
        """The other partitions, in the order in which they are tried; equals in an order that is drawn."""
        if self.settings.candidate == "least":
            return self._by(view.load, home, chance)
        if home not in self._similar:
            weights, power = self.settings.thetas, self.settings.power
            apart = by_content if self.settings.candidate == "content" else by_load
            distances = [apart(view, home, one, weights, power) for one in range(len(view.load))]
            self._similar[home] = self._by(distances, home, chance)
        return self._similar[home]

    def _divert(self, view: PartitionLoadView, home: int, chance: Chance) -> int:
        threshold, tries = self.settings.threshold, self.settings.tries
        tried = self.candidates(view, home, chance)[: len(view.load) // 2 if tries is None else tries]
        for place in tried:
            if self.isc(view, place) <= threshold:
                return place
        added = view.add()
        if added is not None:
            return added
        among = [home, *tried]
        # Where all are overloaded by far each ISC is 1: the first of them would be home for ever.
        return among[least_loaded([self.isc(view, one) for one in among], range(len(among)), chance())]

    def _observe(self, view: PartitionLoadView) -> None:
        self._samples = view.observations
        self._similar.clear()
        self._literal = literal(view, self.settings.weight) if self.settings.isc == "literal" else []

    @staticmethod
    def _by(values: list[float], home: int, chance: Chance) -> list[int]:
        others = [(value, chance(), place) for place, value in enumerate(values) if place != home]
        return [place for _, _, place in sorted(others)]
