"""Routing tables: where the records of key groups and of hot keys go, and where older ones may still lie.

Hashes of keys: murmur2 as Kafka's Java client computes it, key groups, and hashes of other clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final
from zlib import crc32

from trimtab_common.errors import InputError

GROUPS: Final = 1024
"""Key groups that a table has at least."""


def group_count(base: int) -> int:
    """Key groups over that many partitions: the least multiple of them that is `GROUPS` or more.

    A group then lies in one partition under the plain hash, so that a group that nobody has moved goes where
    clients without a table send it. With 1,024 groups whatever the partitions this would hold for powers of
    two alone: a group would be strewn over partitions, and moving it would move from all of them.
    """
    return base * -(-GROUPS // base)


@dataclass(frozen=True, slots=True)
class Route:
    """Where records of a key group or of a hot key go.

    Attributes
    ----------
    partitions
        One: all go there. Several: the key is split over them.
    earlier
        Partitions in which records of an earlier table may still wait: a run of a producer that begins with
        this table waits for them. Whoever publishes tables takes one out when every producer follows and the
        consumers have passed what was written there.
    """

    partitions: tuple[int, ...]
    earlier: tuple[int, ...] = ()

    def moved(self, partitions: tuple[int, ...]) -> Route:
        """The route to other partitions, which names those of this one as earlier."""
        return Route(partitions, tuple(sorted({*self.earlier, *self.partitions})))


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """The routes of one topic.

    Attributes
    ----------
    version
        A producer follows the highest that it has seen; 0 is the plain hash, without a table.
    base
        Partitions that the hash divides by, for good: adding partitions moves no key.
    partitions
        Partitions that routes may name, those added since included.
    groups
        Routes of key groups that are not where the hash puts them, or were elsewhere; one partition each.
    keys
        Routes of hot keys.
    passed
        Offsets, by partition, below which everything had taken effect when this was published: fences that
        are no higher are dropped. Empty where nobody looked, shorter where partitions came since.

    Raises
    ------
    InputError
        If a route names a partition or a group that is not there, none, or one twice.
    """

    version: int
    base: int
    partitions: int
    groups: Mapping[int, Route] = field(default_factory=dict)
    keys: Mapping[bytes, Route] = field(default_factory=dict)
    passed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("version", 0), ("base", 1), ("partitions", self.base)):
            if getattr(self, name) < least:
                raise self._refused(f"{name} is {getattr(self, name)}, expected {least} or more")
        if len(self.passed) > self.partitions or any(one < 0 for one in self.passed):
            raise self._refused(
                f"passed is {self.passed}, expected an offset of 0 or more for each of {self.partitions} "
                "partitions at most"
            )
        for group, route in self.groups.items():
            if not 0 <= group < group_count(self.base):
                raise self._refused(f"group {group} is not one of 0 to {group_count(self.base) - 1}")
            if len(route.partitions) != 1:
                raise self._refused(
                    f"group {group} goes to {len(route.partitions)} partitions, expected 1: split keys"
                )
            self._check(f"group {group}", route)
        # Keys may be secret: errors count them.
        for number, route in enumerate(self.keys.values(), start=1):
            self._check(f"hot key {number}", route)

    def _check(self, what: str, route: Route) -> None:
        for places in (route.partitions, route.earlier):
            if len(set(places)) < len(places):
                raise self._refused(f"{what} names a partition twice: {places}")
            if any(not 0 <= one < self.partitions for one in places):
                raise self._refused(f"{what} names {places}, expected partitions 0 to {self.partitions - 1}")
        if not route.partitions:
            raise self._refused(f"{what} goes to no partition, expected 1 or more")

    def _refused(self, text: str) -> InputError:
        return InputError(f"routing table {self.version}: {text}; publish a corrected table")

    def route(self, group: int, key: bytes) -> Route:
        """The route of a key and its group."""
        return self.keys.get(key) or self.group_route(group)

    def group_route(self, group: int) -> Route:
        """The route of a key group: home, where no other is named."""
        return self.groups.get(group) or Route((group % self.base,))


MASK: Final = 0xFFFFFFFF
POSITIVE: Final = 0x7FFFFFFF
"""Java's `Utils.toPositive`: the sign is cut off, not the value negated."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_UINT32: Final = tuple(Struct(f"<{count}I").unpack_from for count in range(65))

MAX_CACHED_KEY_BYTES: Final = 64
MAX_CACHED_KEYS: Final = 65_536


def murmur2(data: bytes) -> int:
    """The hash, 0 to 2**32 - 1: the bits of Java's signed int.

    References
    ----------
    Appleby's MurmurHash2, 32 bits, with the seed of `org.apache.kafka.common.utils.Utils.murmur2`.
    """
    length = len(data)
    count = length >> 2
    h = _SEED ^ length & MASK
    words = _UINT32[count](data) if count < 65 else Struct(f"<{count}I").unpack_from(data)
    for k in words:
        k = k * _M & MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & MASK
    rest = length & 3
    if rest:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & MASK
    h = (h ^ h >> 13) * _M & MASK
    return h ^ h >> 15


def key_group(key: bytes, base: int) -> int:
    """The key group of a key, over that many base partitions."""
    return (murmur2(key) & POSITIVE) % group_count(base)


class Hashes(dict[bytes, int]):
    """Hashes of keys without their sign, by key: `hashes[key]` computes a key once while it is remembered.

    Keys longer than 64 bytes are computed each time, and all are forgotten at 65,536, so that neither long
    nor many keys fill the memory.
    """

    __slots__ = ()

    def __missing__(self, key: bytes) -> int:
        h = murmur2(key) & POSITIVE
        if len(key) <= MAX_CACHED_KEY_BYTES:
            if len(self) >= MAX_CACHED_KEYS:
                self.clear()
            self[key] = h
        return h


def mix_bits(number: int) -> int:
    """A number of 32 bits stirred so that each of its bits sways all of the result's: murmur3's finaliser."""
    number = (number ^ number >> 16) * 0x85EBCA6B & MASK
    number = (number ^ number >> 13) * 0xC2B2AE35 & MASK
    return number ^ number >> 16


def partition_choices(h: int, count: int, among: int) -> list[int]:
    """Distinct partitions for a hash, that of the plain hash first: d hash functions out of one.

    Parameters
    ----------
    h
        Of a key, without its sign.
    count
        How many, at most `among`.
    among
        The partitions.

    Notes
    -----
    The papers hash with d functions of which two may agree; distinct places are what they are after. With
    Kirsch and Mitzenmacher's two functions the third place would follow from the second.
    """
    found = [h % among]
    stirred = h
    while len(found) < count:
        stirred = mix_bits(stirred + 0x9E3779B9 & MASK)
        # Any of the places that are left, each as likely: those taken are stepped over in ascending order.
        place = stirred % (among - len(found))
        for taken in sorted(found):
            place += place >= taken
        found.append(place)
    return found


FITS: Final = 0.9
"""Share of the keys that a partitioner must put where they lie; others may have been moved."""


def fnv1a(key: bytes) -> int:
    """FNV-1a of 32 bits without its sign, as Sarama and librdkafka take it: negated where it is negative."""
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & MASK
    return h if h <= POSITIVE else 2**32 - h


HASHES: Final[Mapping[str, Callable[[bytes], int]]] = {
    "murmur2_random": lambda key: murmur2(key) & POSITIVE,
    "consistent_random": crc32,
    "fnv1a_random": fnv1a,
}
"""By the name of librdkafka's partitioner: the number whose remainder by the partitions is the partition."""

HASH_SOURCE: Final[Mapping[str, str]] = {
    "murmur2_random": "murmur2, the default of Java, kafka-python and aiokafka",
    "consistent_random": "CRC-32, the default of librdkafka: confluent-kafka, kcat, node-rdkafka, Go, .NET",
    "fnv1a_random": "FNV-1a, the default of Sarama",
}
"""The hash, and the clients that go by it unless told otherwise."""


def matching_partitioner(places: Collection[tuple[bytes, int]], partitions: int) -> str | None:
    """The partitioner that puts keys where they lie; None where no known one does.

    Parameters
    ----------
    places
        Keys, each with a partition in which records of it lie. Empty keys are left out: librdkafka's
        partitioners put them anywhere.
    partitions
        Of the topic.
    """
    known = [(key, place) for key, place in places if key]
    hits = {
        name: sum(hashed(key) % partitions == place for key, place in known)
        for name, hashed in HASHES.items()
    }
    best = max(hits, key=lambda name: hits[name])
    return best if known and hits[best] >= FITS * len(known) else None
