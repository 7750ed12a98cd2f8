"""Key streams of the experiment, and the consumers that they meet; everything is drawn from seeds."""

from __future__ import annotations

import csv
import gzip
import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from trimtab.history.keys.simulation import ConsumerCapacity, KeyStream, Stall

PARTITIONS, KEYS, PER_SECOND, SECONDS = 24, 10_000, 5000.0, 30.0
CONSUMER_PER_SECOND = 260.0
STALL_SECONDS, STALL_EVERY_SECONDS = 0.3, 10.0
"""Ours: of the stalls in the figures to reproduce it is known only that there were some."""


def zipf(exponent: float, keys: int = KEYS) -> list[float]:
    """Shares of keys, the most frequent first."""
    weights = [1 / (rank + 1) ** exponent for rank in range(keys)]
    total = sum(weights)
    return [one / total for one in weights]


def recorded(path: Path, workload: str, keys: int = KEYS) -> list[float]:
    """Shares of the most frequent keys of a recorded curve: buckets of keys with their requests."""
    shares: list[float] = []
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            if row["workload"] == workload:
                count = int(row["bucket_keys"])
                shares += [float(row["weight"]) / count] * min(count, keys)
    shares = sorted(shares, reverse=True)[:keys]
    total = sum(shares)
    return [one / total for one in shares]


def drawn(
    shares: Sequence[float], seed: int, per_second: float = PER_SECOND, seconds: float = SECONDS
) -> KeyStream:
    """Arrivals as of many independent producers; each draw has other names of keys."""
    chance = random.Random(f"keys {seed}")
    edges = list(accumulate(shares))
    at, which, now = [], [], 0.0
    while (now := now + chance.expovariate(per_second)) < seconds:
        at.append(now)
        which.append(min(bisect(edges, chance.random() * edges[-1]), len(shares) - 1))
    return KeyStream(at, which, [b"user %d.%d" % (seed, one) for one in range(len(shares))])


def consumers(seed: int, per_second: float = CONSUMER_PER_SECOND, until: float = 600.0) -> ConsumerCapacity:
    """Consumers that stand still for 0.3 s, about every 10 s, each at times of its own."""
    chance = random.Random(f"stalls {seed}")
    stalls: list[list[Stall]] = []
    for _ in range(PARTITIONS):
        row: list[Stall] = []
        now = 0.0
        while (now := now + chance.expovariate(1 / STALL_EVERY_SECONDS)) < until:
            row.append((now, now + STALL_SECONDS))
            now += STALL_SECONDS
        stalls.append(row)
    return ConsumerCapacity(per_second, stalls)
