"""Nanoseconds that each key policy takes for a record, on one thread of plain Python.

Keys are drawn by a Zipf law (s = 1) of 10,000 keys of 12 bytes, which a policy remembers the hashes of, and
anew for each record (a number of 12 digits), where each must be hashed. Beside them stands kafka-python's
own: its murmur2 for each record. Records are counted in the view, and the view is looked at every thousand.

A policy that goes by load (`ipooa`) diverts here: at each look half of the partitions are overloaded, the
others idle, so that about half of the records need another partition. Its time is that of diversions and of
what a look makes it do anew; the share that was diverted stands beside it, and none is an error.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import time
from collections.abc import Callable
from operator import itemgetter
from statistics import median

from kafka.partitioner import murmur2 as of_the_client
from results import write_result

from trimtab_keys.core.load import PartitionContent, PartitionLoadView
from trimtab_keys.core.policies import CHOICES, POLICIES, IpooaSettings, KeyPolicyInputs, policy_named
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, group_count, murmur2

PARTITIONS = 24
KEYS = 10_000
HOTTEST = b"key-00000000"
LIMITS_NS = {"hash": "200 over the client's own", "key_groups": "1,000"}
CLIENT = "kafka-python's own"
CAPACITY, LOOK_RECORDS = 10_000.0, 1000
"""Records a second of a consumer, so that what is sent until the next look overloads no idle partition."""
SHARE_RUNS = 20
"""Runs of which it is counted how many records went elsewhere than home."""
ROWS: dict[str, tuple[str, IpooaSettings]] = {
    **{name: (name, IpooaSettings()) for name in POLICIES if name != "ipooa"},
    **{f"ipooa, candidate by {one}" if one != "least" else "ipooa, least-loaded candidate":
       ("ipooa", IpooaSettings(candidate=one)) for one in CHOICES["candidate"]},
}  # fmt: skip
"""Policies by the names of their rows."""


def draws(count: int, fresh: bool) -> list[bytes]:
    """Keys of 12 bytes."""
    chance = random.Random(2)
    if fresh:
        return [b"%012d" % number for number in chance.sample(range(10**12), count)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, KEYS + 1)))
    return [b"key-%08d" % one for one in chance.choices(range(KEYS), cum_weights=weights, k=count)]


def chooser(name: str) -> tuple[Callable[[bytes], int], Callable[[], None]]:
    """How a partition is chosen under a name, as a policy over a view or as kafka-python does; and a look."""
    if name == CLIENT:
        partitions = list(range(PARTITIONS))
        return (
            lambda key: partitions[(of_the_client(key) & 0x7FFFFFFF) % len(partitions)],
            lambda: None,
        )
    chance = random.Random(1)
    moved = {group: Route((group % 23,)) for group in range(0, 1032, 10)}
    hottest = {HOTTEST: Route((0, 1, 2, 3))}
    table = RoutingTable(1, PARTITIONS, PARTITIONS, moved, hottest)
    policy_name, settings = ROWS[name]
    policy = policy_named(policy_name, KeyPolicyInputs(table=table, ipooa=settings))
    view = PartitionLoadView(PARTITIONS, capacity=CAPACITY)
    groups, contents = group_count(PARTITIONS), random.Random(3)
    for place in range(PARTITIONS):
        shares = [contents.random() for _ in range(groups)]
        view.content[place] = PartitionContent([one / sum(shares) for one in shares], (1.0,))
    half = [CAPACITY if place % 2 else 0.0 for place in range(PARTITIONS)]
    choose, draw = policy.choose, chance.random
    return lambda key: choose(key, view, draw), lambda: view.reset_counts(half, half)


def measured(name: str, keys: list[bytes], runs: int) -> dict[str, float]:
    """The least of many short runs of 1,000 records with a look each, less what a call of a lambda takes.

    Beside it the share of the records that went elsewhere than the plain hash sends them.
    """
    choose, look = chooser(name)
    for key in keys:
        choose(key)
    nothing: Callable[[bytes], int] = itemgetter(0)
    best, idle = float("inf"), float("inf")
    elsewhere = sent = 0
    for turn in range(runs):
        slice_ = keys[turn * LOOK_RECORDS % len(keys) :][:LOOK_RECORDS]
        start = time.perf_counter()
        look()
        places = [choose(key) for key in slice_]
        between = time.perf_counter()
        for key in slice_:
            nothing(key)
        idle, best = min(idle, time.perf_counter() - between), min(best, between - start)
        if turn < SHARE_RUNS:
            homes = [(murmur2(key) & POSITIVE) % PARTITIONS for key in slice_]
            elsewhere += sum(one != home for one, home in zip(places, homes, strict=True))
            sent += len(slice_)
    return {"ns": round((best - idle) / LOOK_RECORDS * 1e9), "elsewhere": round(elsewhere / sent, 3)}


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=300)
    options.add_argument("--rounds", type=int, default=3, help="of all rows; a figure is their median")
    given = options.parse_args()
    gc.disable()
    rows = {}
    drawn, fresh = draws(20_000, fresh=False), draws(100_000, fresh=True)
    for name in (CLIENT, *ROWS):
        of_drawn = [measured(name, drawn, given.runs) for _ in range(given.rounds)]
        of_fresh = [measured(name, fresh, min(given.runs, 60)) for _ in range(given.rounds)]
        one = rows[name] = {
            "drawn_ns": round(median(found["ns"] for found in of_drawn)),
            "fresh_ns": round(median(found["ns"] for found in of_fresh)),
            "elsewhere": of_drawn[0]["elsewhere"],
        }
        print(f"{name:30} {one['drawn_ns']:>7} ns {one['fresh_ns']:>7} ns {one['elsewhere']:>6.1%} elsewhere")
        if name.startswith("ipooa") and not one["elsewhere"]:
            raise SystemExit(f"{name} diverted no record, so that its time says nothing: look at the view")
    write_result("keys_choose", {"policies": rows, "limits_ns": LIMITS_NS})


if __name__ == "__main__":
    main()
