"""Partitioners of Kafka's clients that place a key by a hash, and which of them put keys where they lie."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final
from zlib import crc32

from trimtab_keys.core.murmur2 import MASK, POSITIVE, murmur2

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


def fitting(places: Collection[tuple[bytes, int]], partitions: int) -> str | None:
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
