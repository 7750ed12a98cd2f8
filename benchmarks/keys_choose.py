"""Nanoseconds that each key policy takes for a record, on one thread of plain Python.

Keys are drawn by a Zipf law (s = 1) of 10,000 keys of 12 bytes, which a policy remembers the hashes of, and
anew for each record (a number of 12 digits), where each must be hashed. Beside them stands kafka-python's
own: its murmur2 for each record. Records are counted in the view and the view is looked at every thousand.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import time
from collections.abc import Callable
from operator import itemgetter

from kafka.partitioner import murmur2 as of_the_client
from results import write_result

from trimtab.model.keys.routing import Route, RoutingTable
from trimtab.online.keys.catalogue import POLICIES, Given, policy_named
from trimtab.online.keys.load import Content, LoadView

PARTITIONS = 24
KEYS = 10_000
HOTTEST = b"key-00000000"
LIMITS_NS = {"hash": "200 over the client's own", "key_groups": "1,000"}
CLIENT = "kafka-python's own"


def draws(count: int, fresh: bool) -> list[bytes]:
    """Keys of 12 bytes."""
    chance = random.Random(2)
    if fresh:
        return [b"%012d" % number for number in chance.sample(range(10**12), count)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, KEYS + 1)))
    return [b"key-%08d" % one for one in chance.choices(range(KEYS), cum_weights=weights, k=count)]


def chooser(name: str, keys: list[bytes]) -> Callable[[bytes], int]:
    """How a partition is chosen under a name: as a policy over a view, or as kafka-python does."""
    if name == CLIENT:
        partitions = list(range(PARTITIONS))
        return lambda key: partitions[(of_the_client(key) & 0x7FFFFFFF) % len(partitions)]
    chance = random.Random(1)
    moved = {group: Route((group % 23,)) for group in range(0, 1032, 10)}
    hottest = {HOTTEST: Route((0, 1, 2, 3))}
    table = RoutingTable(1, PARTITIONS, PARTITIONS, moved, hottest)
    policy, view = policy_named(name, Given(table=table)), LoadView(PARTITIONS, capacity=100.0)
    view.content[:] = [Content((1.0,), (1.0,))] * PARTITIONS
    choose, draw = policy.choose, chance.random
    return lambda key: choose(key, view, draw)


def measured(name: str, keys: list[bytes], runs: int) -> int:
    """The least of many short runs of 1,000 records, what a call of a lambda takes taken off."""
    choose = chooser(name, keys)
    for key in keys:
        choose(key)
    nothing: Callable[[bytes], int] = itemgetter(0)
    best, idle = float("inf"), float("inf")
    for turn in range(runs):
        slice_ = keys[turn * 1000 % len(keys) :][:1000]
        start = time.perf_counter()
        for key in slice_:
            choose(key)
        between = time.perf_counter()
        for key in slice_:
            nothing(key)
        idle, best = min(idle, time.perf_counter() - between), min(best, between - start)
    return round((best - idle) / 1000 * 1e9)


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=300)
    given = options.parse_args()
    gc.disable()
    rows = {}
    drawn, fresh = draws(20_000, fresh=False), draws(100_000, fresh=True)
    for name in (CLIENT, *POLICIES):
        rows[name] = {
            "drawn_ns": measured(name, drawn, given.runs),
            "fresh_ns": measured(name, fresh, min(given.runs, 60)),
        }
        print(f"{name:20} {rows[name]['drawn_ns']:>7} ns {rows[name]['fresh_ns']:>7} ns")
    write_result("keys_choose", {"policies": rows, "limits_ns": LIMITS_NS})


if __name__ == "__main__":
    main()
