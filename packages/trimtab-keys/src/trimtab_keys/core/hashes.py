"""Hashes of keys: murmur2 as Kafka's Java client computes it, key groups, and hashes of other clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from struct import Struct
from typing import Final
from zlib import crc32

from trimtab_keys.core.routing import group_count

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
