"""Which keys records have: a law of their frequencies, as it is written on a command line."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from trimtab.history.keys.stream import KeyStream
from trimtab.model.errors import InputError

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
        """As `parsed` reads it."""
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


def parsed(text: str) -> Zipf:
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


def stream_of(law: Zipf, per_second: float, seconds: float, producers: int, seed: int) -> KeyStream:
    """Arrivals as of many independent senders, drawn: so many a second, with keys by the law."""
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
