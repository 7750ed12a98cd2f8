"""Policies that choose the partition of a record, and their names.

They range from the plain hash over choices between several partitions to IPOOA, which moves a key away from a
partition that is about to be overloaded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import accumulate
from math import ceil
from typing import ClassVar, Final, Protocol

from trimtab_common.errors import SettingsError
from trimtab_keys.core.load import (
    PartitionLoadView,
    by_content,
    by_load,
    least_loaded,
    literal_consumption,
    repaired_consumption,
)
from trimtab_keys.core.routing import (
    MASK,
    Hashes,
    RoutingTable,
    group_count,
    mix_bits,
    murmur2,
    partition_choices,
)

Chance = Callable[[], float]
"""Numbers in [0, 1), as of `random.Random(seed).random`."""


class KeyPolicy(Protocol):
    """A rule that puts each record into a partition.

    What a policy changes is its own memory and `PartitionLoadView.load`, in which it counts each record that
    it places: a view that is seconds old would send everything to the same partition until the next look. The
    same keys, views and generator give the same partitions.

    Attributes
    ----------
    name
        As in settings.
    keeps_order
        Whether all records of a key go to one partition, as long as nobody changes the table.
    needs_load
        Whether somebody has to look at backlogs and capacities for it; the others can do with what they count
        themselves.
    """

    name: ClassVar[str]
    keeps_order: ClassVar[bool]
    needs_load: ClassVar[bool]

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The partition of a record.

        Parameters
        ----------
        key
            As it is sent, serialised; None goes to any partition of the policy's liking.
        view
            The partitions; the record is counted in its `load`.
        chance
            The generator; it breaks ties, too.
        """
        ...


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


class KeyGroups:
    """The partition that the table names for the key's group; for a split key the least loaded of its own.

    With a table that names nothing it is the plain hash. Its keys keep their order where none is split; the
    order guard keeps it where some are, and while groups move.

    Parameters
    ----------
    table
        Where everything goes.
    """

    name: ClassVar[str] = "key_groups"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def __init__(self, table: RoutingTable) -> None:
        self.table = table
        self._hashes = Hashes()
        self._groups = [group % table.base for group in range(group_count(table.base))]
        for group, route in table.groups.items():
            self._groups[group] = route.partitions[0]
        self._split = {key: route.partitions for key, route in table.keys.items()}

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """The group's partition, or one of a split key's."""
        if key is None:
            place = int(chance() * len(view.load))
        elif key in self._split:
            place = least_loaded(view.load, self._split[key], chance())
        else:
            groups = self._groups
            place = groups[self._hashes[key] % len(groups)]
        view.load[place] += 1
        return place

    def group(self, key: bytes) -> int:
        """The group of a key."""
        return self._hashes[key] % len(self._groups)


BATCH_RECORDS = 16
"""Kafka's default batch of 16 KiB holds as many records of a kilobyte."""


class RandomPartition:
    """Every record to a partition drawn evenly, whatever its key."""

    name: ClassVar[str] = "random"
    keeps_order: ClassVar[bool] = False
    needs_load: ClassVar[bool] = False

    def choose(self, key: bytes | None, view: PartitionLoadView, chance: Chance, /) -> int:
        """Choose a partition at random."""
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
        at = int(chance() * MASK) if key is None else mix_bits(self._hashes[key])
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
        """Choose the less loaded of two partitions of the key."""
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
            other = (place + 1 + mix_bits(h) % (count - 1)) % count
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
        return least_loaded(view.load, partition_choices(h, self._d, view.base), chance())


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


CHOICES: Final = {"isc": ("repaired", "literal"), "candidate": ("content", "load", "least")}
"""The words that a setting may have, the default first."""
FEATURES: Final = {"content": 2, "load": 3, "least": 0}
"""How many features partitions are compared by."""
ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class IpooaSettings:
    """Settings of IPOOA.

    Attributes
    ----------
    isc
        `repaired`: by arrival rate and backlog against the consumer's capacity; `literal`: by what formula
        (2) adds up, subscriptions and connections of the keys that lie in a partition.
    candidate
        What is tried next: the partition most similar by `content` (the paper's), the one most similar by
        `load`, or the one with the `least` load, which the paper should have taken.
    weight
        λ1, 0.35 to 0.65; λ2 is the rest.
    power
        p of the Minkowski distance, 1 or 2.
    feature_weights
        θ, each 0.1 to 0.9, together 1: of key groups and record sizes by `content`, of rate, backlog and
        record size by `load`; empty for equal ones.
    threshold
        Θ on the ISC, 0.5 to 0.65.
    tries
        Candidates tried before a partition is added; None for half of the partitions, rounded down.

    Raises
    ------
    SettingsError
        If one is out of the paper's range.
    """

    isc: str = "repaired"
    candidate: str = "content"
    weight: float = 0.5
    power: int = 2
    feature_weights: tuple[float, ...] = ()
    threshold: float = 0.6
    tries: int | None = None

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise _refused(name, getattr(self, name), f"one of {', '.join(words)}")
        for name, low, high in (("weight", 0.35, 0.65), ("threshold", 0.5, 0.65)):
            if not low <= getattr(self, name) <= high:
                raise _refused(name, getattr(self, name), f"{low} to {high}, the paper's range")
        if self.power not in (1, 2):
            raise _refused("power", self.power, "1 or 2")
        if self.tries is not None and self.tries < 0:
            raise _refused("tries", self.tries, "0 or more candidates")
        weights, count = self.feature_weights, FEATURES[self.candidate]
        if weights and (
            len(weights) != count
            or not all(0.1 <= one <= 0.9 for one in weights)
            or abs(sum(weights) - 1) > ROUNDING
        ):
            raise _refused("feature_weights", weights, f"{count} of 0.1 to 0.9 that add up to 1")

    @property
    def uses_content(self) -> bool:
        """Whether it matters what lies in the partitions, beside how much."""
        return self.candidate == "content" or self.isc == "literal"

    @property
    def thetas(self) -> tuple[float, ...]:
        """The feature weights, equal ones where none are given."""
        count = FEATURES[self.candidate]
        return self.feature_weights or (1 / count,) * count if count else ()


def _refused(name: str, value: object, expected: str) -> SettingsError:
    return SettingsError(f"Ipooa.{name} is {value!r}, expected {expected}")


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
        return repaired_consumption(
            view.rate[place], view.load[place], view.capacity[place], self.settings.weight
        )

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
        self._literal = (
            literal_consumption(view, self.settings.weight) if self.settings.isc == "literal" else []
        )

    @staticmethod
    def _by(values: list[float], home: int, chance: Chance) -> list[int]:
        others = [(value, chance(), place) for place, value in enumerate(values) if place != home]
        return [place for _, _, place in sorted(others)]


@dataclass(frozen=True, slots=True)
class KeyPolicyInputs:
    """What policies may ask for; each takes what it needs.

    Attributes
    ----------
    table
        Routes of key groups and hot keys.
    batch_records
        Records without a key that stay together.
    head
        Share of the records from which a key has more than two choices; None for the paper's.
    epsilon
        Of bounded loads.
    ipooa
        Its settings.
    """

    table: RoutingTable | None = None
    batch_records: int = BATCH_RECORDS
    head: float | None = None
    epsilon: float = 0.1
    ipooa: IpooaSettings = field(default_factory=IpooaSettings)


def _key_groups(values: KeyPolicyInputs) -> KeyPolicy:
    if values.table is None:
        raise SettingsError("policy 'key_groups' needs a routing table: pass one")
    return KeyGroups(values.table)


POLICIES: Final[dict[str, Callable[[KeyPolicyInputs], KeyPolicy]]] = {
    HashPartitioning.name: lambda _: HashPartitioning(),
    RandomPartition.name: lambda _: RandomPartition(),
    RoundRobinPartition.name: lambda _: RoundRobinPartition(),
    StickyPartition.name: lambda inputs: StickyPartition(inputs.batch_records),
    AdaptivePartition.name: lambda inputs: AdaptivePartition(inputs.batch_records),
    PartialKeyGrouping.name: lambda _: PartialKeyGrouping(),
    DChoices.name: lambda inputs: DChoices(inputs.head),
    WChoices.name: lambda inputs: WChoices(inputs.head),
    BoundedLoads.name: lambda inputs: BoundedLoads(inputs.epsilon),
    KeyGroups.name: _key_groups,
    OverloadOptimisation.name: lambda inputs: OverloadOptimisation(inputs.ipooa),
}
"""Name of a policy to how it is made."""


def policy_named(name: str, values: KeyPolicyInputs | None = None) -> KeyPolicy:
    """A policy.

    Raises
    ------
    SettingsError
        If there is none of that name, or it was not inputs what it needs.
    """
    if name not in POLICIES:
        raise SettingsError(f"policy is {name!r}, expected one of {', '.join(POLICIES)}")
    return POLICIES[name](KeyPolicyInputs() if values is None else values)
