"""Streams of records with keys: recorded ones, and drawn ones whose keys follow a Zipf distribution."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from trimtab_common.errors import InputError
from trimtab_keys.core.hashes import POSITIVE, murmur2


@dataclass(frozen=True, slots=True)
class KeyStream:
    """Records in the order of sending.

    Attributes
    ----------
    at
        Shape (records,): seconds, ascending.
    which
        Shape (records,): index of each record's key.
    keys
        Shape (keys,): as they are sent.
    record_bytes
        Size of a record.
    producers
        How many there are; all records of a key come from one of them, by hash, so that the order in which
        they were sent is one order.

    Raises
    ------
    InputError
        If there is no record, if times descend, or if a key is not there.
    """

    at: Sequence[float]
    which: Sequence[int]
    keys: Sequence[bytes]
    record_bytes: int = 100
    producers: int = 3

    def __post_init__(self) -> None:
        if not self.at or len(self.at) != len(self.which):
            raise InputError(
                f"a key stream has {len(self.at)} times and {len(self.which)} keys, expected as many, "
                "1 or more"
            )
        if any(later < one for one, later in pairwise(self.at)):
            raise InputError("times of a key stream descend: sort its records by time")
        if not 0 <= min(self.which) <= max(self.which) < len(self.keys):
            raise InputError(f"a record of the key stream has a key that is not one of {len(self.keys)}")
        if self.producers < 1:
            raise InputError(f"a key stream has {self.producers} producers, expected 1 or more")

    def producer_of_key(self) -> list[int]:
        """Shape (keys,): the producer that sends the records of each key."""
        # Other bits than those that choose partitions: a producer must not have some partitions for itself.
        return [((murmur2(key) & POSITIVE) >> 16) % self.producers for key in self.keys]


KEYS = 1000


@dataclass(frozen=True)
class Zipf:
    """Key n of `keys`, from 1, has a share of the records in proportion to n ** -exponent.

    Raises
    ------
    InputError
        If there is no key, or the exponent is below 0.
    """

    exponent: float
    keys: int = KEYS

    def __post_init__(self) -> None:
        if not 0 <= self.exponent <= 10 or not 1 <= self.keys <= 1_000_000:
            raise InputError(
                f"the law of keys is {self.text}: give an exponent of 0 to 10 and 1 to 1,000,000 keys"
            )

    @property
    def text(self) -> str:
        """The distribution in the notation that `parsed` reads."""
        return f"zipf:{self.exponent:g}:{self.keys}"

    def shares(self) -> list[float]:
        """Shape (keys,): of the records, the most frequent key first."""
        weights = [(rank + 1) ** -self.exponent for rank in range(self.keys)]
        total = sum(weights)
        return [one / total for one in weights]

    def drawn(self, chance: random.Random, names: int = 0) -> Callable[[], bytes]:
        """A function that draws a key; `names` other than 0 gives keys other names, and so other places."""
        edges = list(accumulate(self.shares()))
        keys = [key_name(rank, names) for rank in range(self.keys)]
        last = self.keys - 1
        return lambda: keys[min(bisect(edges, chance.random()), last)]


def key_name(rank: int, names: int = 0) -> bytes:
    """The key of a rank, from 0."""
    return b"user %d.%d" % (names, rank + 1) if names else b"user %d" % (rank + 1)


def parse_zipf(text: str) -> Zipf:
    """`zipf:EXPONENT`, or `zipf:EXPONENT:KEYS`.

    Raises
    ------
    InputError
        If it is not written so.
    """
    name, _, rest = text.partition(":")
    exponent, _, keys = rest.partition(":")
    try:
        if name == "zipf":
            return Zipf(float(exponent), int(keys) if keys else KEYS)
    except ValueError:
        pass
    raise InputError(f"the law of keys is {text!r}: write zipf:EXPONENT or zipf:EXPONENT:KEYS, like zipf:1.2")


def drawn_stream(law: Zipf, per_second: float, seconds: float, producers: int, seed: int) -> KeyStream:
    """A random stream: Poisson arrivals, with keys by a Zipf distribution."""
    chance = random.Random(f"keys {seed}")
    edges = list(accumulate(law.shares()))
    at: list[float] = []
    which: list[int] = []
    now = chance.expovariate(per_second)
    while now < seconds or not at:
        at.append(now)
        which.append(min(bisect(edges, chance.random()), law.keys - 1))
        now += chance.expovariate(per_second)
    return KeyStream(at, which, [key_name(rank, seed) for rank in range(law.keys)], producers=producers)
