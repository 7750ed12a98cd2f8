"""Verdicts and bounds of `trim` against the exact answer of a mixed-integer program, on small clusters."""

import random

import pytest

from support.exact_plans import EPSILON, THETA, cheapest
from support.replica_clusters import broker, partition, snapshot
from tiers import by_tier
from trimtab.model.plan import Verdict
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim

CAPACITY = (10.0, 1e6, 100.0, 100.0)
WISHES = ReplicasSettings(theta=(THETA,) * 4, epsilon=(EPSILON,) * 4)


def cluster(seed: int) -> tuple[list[dict], list[dict]]:
    """Three to six brokers in up to three racks, one perhaps draining; five to twelve partitions."""
    chance = random.Random(seed)
    number = chance.randint(3, 6)
    racks = chance.randint(1, 3)
    emptied = chance.choice([0, 0, 1])
    brokers = [
        broker(
            b,
            rack=f"r{chance.randrange(racks)}",
            state="draining" if b == emptied else "alive",
            capacity=CAPACITY,
        )
        for b in range(1, number + 1)
    ]
    full = chance.choice([0.4, 0.6, 0.78, 0.85])
    rows = []
    for p in range(chance.randint(5, 12)):
        held = chance.sample(range(1, number + 1), chance.randint(1, min(3, number)))
        rows.append((p, held, [chance.uniform(0.5, 1.5) for _ in range(4)]))
    serving = number - bool(emptied)
    scale = []
    # What a follower takes of what its leader does, cpu to network out.
    for r, weight in enumerate((0.25, 1.0, 1.0, 0.0)):
        capacity = brokers[0]["capacity"][r]
        total = sum(load[r] * (1 + weight * (len(held) - 1)) for _, held, load in rows)
        scale.append(full * serving * capacity / total)
    return brokers, [
        partition("t", p, held, load=tuple(x * s for x, s in zip(load, scale, strict=True)))
        for p, held, load in rows
    ]


@pytest.mark.parametrize("seed", range(by_tier(6, 15, 30)))
def test_infeasible_is_true_and_the_bound_is_below_the_optimum(seed: int) -> None:
    """What is called infeasible is so, what holds can hold, and nothing costs less than the bound."""
    brokers, partitions = cluster(seed)
    plan = trim.plan(snapshot(brokers, partitions), WISHES)
    if plan.verdict is Verdict.INFEASIBLE:
        assert cheapest(brokers, partitions, is_balanced=False) is None
    best = cheapest(brokers, partitions, is_balanced=True)
    if best is not None:
        assert plan.bound.bytes <= best * (1 + 1e-6) + len(partitions)
    if plan.verdict in (Verdict.BALANCED,):
        assert best is not None
        assert best <= plan.cost.bytes * (1 + 1e-6) + len(partitions)
    for problem in plan.problems:
        if problem.kind == "add_brokers" and problem.resource is not None:
            fewer = [
                broker(100 + n, rack=brokers[-1]["rack"], capacity=CAPACITY)
                for n in range((problem.count or 0) - 1)
            ]
            assert cheapest([*brokers, *fewer], partitions, is_balanced=False) is None
