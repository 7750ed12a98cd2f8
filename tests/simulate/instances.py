"""Generated snapshots for tests and for measuring planners, from a seed.

`lognormal_skew` is a Kafka cluster with a known kind of skew. `tight_cluster` has little room and can be
balanced: it was balanced before it was scrambled. `skewed_bundles` is a Pulsar cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulated_clusters.weeks import plain_snapshot
from trimtab.model.bundles.snapshot import (
    NO_TOPICS,
    RESOURCES,
    BundleBrokers,
    Bundles,
    BundlesSnapshot,
    bundles_between,
    initial_boundaries,
)
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)

MEAN_USAGE = (0.4, 0.4, 0.4, 0.5)
LARGEST = 0.1
CAPACITY = (16.0, 4e12, 1.25e9, 1.25e9)


def lognormal_skew(
    brokers: int,
    replicas: int,
    seed: int,
    sigma: float = 0.25,
    replication_factor: int = 3,
    racks: int = 3,
    mean_usage: tuple[float, float, float, float] = MEAN_USAGE,
) -> ReplicasSnapshot:
    """A cluster whose brokers hold more or less than their share, by lognormal weights.

    Parameters
    ----------
    brokers, replicas
        Size; replicas is rounded down to a multiple of the replication factor.
    seed
        Same seed, same cluster.
    sigma
        Of the logarithm of the brokers' weights.
    replication_factor, racks
        A partition has one replica a rack if both are equal.
    mean_usage
        Mean utilisation of each resource over all brokers.
    """
    random = np.random.default_rng(seed)
    partitions = replicas // replication_factor
    rack_of = np.arange(brokers) % racks
    weight = np.exp(random.normal(0.0, sigma, brokers))
    placed = _draw_placement(random, weight, rack_of, partitions, replication_factor, racks)
    topic = np.sort(random.integers(0, max(1, partitions // 12), partitions))
    names, topic = np.unique(topic, return_inverse=True)
    number = np.arange(partitions) - np.searchsorted(topic, topic)
    bytes_in = np.exp(random.normal(0.0, 1.0, partitions))
    fan_out = np.exp(random.normal(0.3, 0.6, partitions))
    kept = bytes_in * np.exp(random.normal(0.0, 0.8, partitions))
    leader_load = np.stack([bytes_in * (1 + 0.6 * fan_out), kept, bytes_in, bytes_in * fan_out], axis=1)
    follower_load = np.stack([0.35 * bytes_in, kept, bytes_in, np.zeros(partitions)], axis=1)
    # No replica bigger than a tenth of what a broker has on average: skew is to be balanced, not proven
    # indivisible.
    for role in (leader_load, follower_load):
        share = leader_load.sum(axis=0) + (replication_factor - 1) * follower_load.sum(axis=0)
        np.minimum(role, LARGEST * share / brokers, out=role)
    capacity = np.tile(np.array(CAPACITY), (brokers, 1))
    total = leader_load.sum(axis=0) + (replication_factor - 1) * follower_load.sum(axis=0)
    scale = np.array(mean_usage) * capacity.sum(axis=0) / total
    width = len(str(len(names)))
    return plain_snapshot(
        f"lognormal-{brokers}-{seed}",
        ids=np.arange(brokers, dtype=np.int64),
        rack=tuple(f"r{r}" for r in rack_of),
        capacity=capacity,
        topics=tuple(f"t{number:0{width}d}" for number in range(len(names))),
        topic=topic,
        number=number,
        replicas=placed,
        leader_load=leader_load * scale,
        follower_load=follower_load * scale,
    )


def _draw_placement(
    random: np.random.Generator,
    weight: np.ndarray,
    rack_of: np.ndarray,
    partitions: int,
    replication_factor: int,
    racks: int,
) -> np.ndarray:
    """Brokers by weight without repetition, at most ceil(factor / racks) a rack (Gumbel's way of drawing)."""
    per_rack = -(-replication_factor // racks)
    placed = np.empty((partitions, replication_factor), dtype=np.int32)
    for start in range(0, partitions, 20_000):
        rows = slice(start, min(partitions, start + 20_000))
        keys = np.log(weight) + random.gumbel(size=(rows.stop - rows.start, len(weight)))
        ranked = np.argsort(-keys, axis=1)
        in_rack = rack_of[ranked]
        seen = np.zeros(ranked.shape, dtype=np.int32)
        for rack in range(racks):
            mine = in_rack == rack
            seen[mine] = (np.cumsum(mine, axis=1))[mine]
        allowed = seen <= per_rack
        first = np.argsort(~allowed, axis=1, kind="stable")[:, :replication_factor]
        placed[rows] = np.take_along_axis(ranked, first, axis=1)
    return placed


FACTOR = 3
POLISH = 40
"""Exchanges tried per partition while the balancer placement is made."""


@dataclass(frozen=True)
class TightInstance:
    """A cluster to be planned, and the proof that it can be.

    Attributes
    ----------
    snapshot
        Scrambled.
    witness
        The same cluster in the balancer placement that it was scrambled from.
    """

    snapshot: ReplicasSnapshot
    witness: ReplicasSnapshot


def tight_cluster(
    brokers: int, partitions: int, seed: int, racks: int = 1, peak: float = 0.77, tail: float = 1.5
) -> TightInstance:
    """A cluster whose brokers were all at most `peak` full of everything before it was scrambled.

    Partitions get places and leaders greedily, biggest first, then by exchanges that lower the highest loads;
    they are scaled until the fullest broker is at `peak` in each resource. Then random moves of replicas and
    leaders, more of them towards some brokers than towards others, skew it, siblings and racks respected.

    Parameters
    ----------
    brokers, partitions
        Size; the replication factor is 3.
    seed
        Same seed, same cluster.
    racks
        1 for none.
    tail
        Exponent of the Pareto distribution of loads: the smaller, the fewer partitions bear most of them.
    """
    random = np.random.default_rng(seed)
    weight = np.minimum(
        1.0 + random.pareto(tail, (partitions, 3)), 0.2 * partitions / brokers * tail / (tail - 1)
    )
    into, fan_out, kept = weight[:, 0], 0.5 + weight[:, 1], weight[:, 0] * weight[:, 2] ** 0.5
    kept = np.minimum(kept, 0.08 * FACTOR * kept.sum() / brokers)
    out = np.minimum(into * fan_out, 0.08 * (into * fan_out).sum() / brokers * 2)
    leader = np.stack([into + 0.6 * out, kept, into, out], axis=1)
    follower = np.stack([0.35 * into, kept, into, np.zeros(partitions)], axis=1)
    mean = (leader.sum(axis=0) + 2 * follower.sum(axis=0)) / brokers
    use = np.stack([follower, leader], axis=1) / mean
    rack = np.arange(brokers) % racks
    level = _balanced(random, use, rack)
    top = _load(level, use, brokers).max(axis=0)
    use *= peak / top
    placed = _scrambled(random, level, use, rack)
    return TightInstance(*(_snapshot(p, use, rack, f"tight-{brokers}-{seed}") for p in (placed, level)))


def _load(place: np.ndarray, use: np.ndarray, brokers: int) -> np.ndarray:
    load = np.zeros((brokers, use.shape[2]))
    for slot in range(FACTOR):
        np.add.at(load, place[:, slot], use[:, int(slot == 0)])
    return load


def _lawful(row: np.ndarray, slot: int, rack: np.ndarray) -> np.ndarray:
    """Shape (brokers,): may hold the slot; the leader is in slot 0."""
    others = np.delete(row, slot)
    others = others[others >= 0]
    allowed = np.ones(len(rack), dtype=np.bool_)
    allowed[others] = False
    racks = int(rack.max()) + 1
    if racks > 1:
        allowed &= np.bincount(rack[others], minlength=racks)[rack] < -(-FACTOR // racks)
    return allowed


def _balanced(random: np.random.Generator, use: np.ndarray, rack: np.ndarray) -> np.ndarray:
    brokers, partitions = len(rack), len(use)
    load = np.zeros((brokers, use.shape[2]))
    place = np.full((partitions, FACTOR), -1, dtype=np.int32)
    for p in np.argsort(-use[:, 1].sum(axis=1), kind="stable"):
        for slot in range(FACTOR):
            mine = use[p, int(slot == 0)]
            cost = ((load + mine) ** 2 - load**2).sum(axis=1)
            b = int(np.argmin(np.where(_lawful(place[p], slot, rack), cost, np.inf)))
            place[p, slot] = b
            load[b] += mine
    for p, q in random.integers(0, partitions, (POLISH * partitions, 2)).tolist():
        s, t = random.integers(0, FACTOR, 2).tolist()
        a, b = int(place[p, s]), int(place[q, t])
        if a == b or p == q:
            continue
        change = use[q, int(t == 0)] - use[p, int(s == 0)]
        # Fourth powers: the fullest brokers count most.
        was = (load[a] ** 4 + load[b] ** 4).sum()
        if ((load[a] + change) ** 4 + (load[b] - change) ** 4).sum() >= was:
            continue
        if _lawful(place[p], s, rack)[b] and _lawful(place[q], t, rack)[a]:
            place[p, s], place[q, t] = b, a
            load[a] += change
            load[b] -= change
    return place


def _scrambled(
    random: np.random.Generator, balancer: np.ndarray, use: np.ndarray, rack: np.ndarray
) -> np.ndarray:
    place, brokers = balancer.copy(), len(rack)
    likely = np.exp(random.normal(0.0, 0.5, brokers))
    for p in random.permutation(len(use))[: len(use) * 2 // 3].tolist():
        slot = int(random.integers(0, FACTOR))
        allowed = _lawful(place[p], slot, rack) * likely
        place[p, slot] = random.choice(brokers, p=allowed / allowed.sum())
        if random.random() < 0.5:
            other = int(random.integers(1, FACTOR))
            place[p, 0], place[p, other] = place[p, other], place[p, 0]
    return place


def _snapshot(place: np.ndarray, use: np.ndarray, rack: np.ndarray, name: str) -> ReplicasSnapshot:
    brokers, partitions, capacity = len(rack), len(place), np.array(CAPACITY)
    return ReplicasSnapshot(
        reference=SnapshotReference(name, "2026-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=ReplicaBrokers(
            id=np.arange(brokers, dtype=np.int64),
            host=tuple(f"broker-{b}" for b in range(brokers)),
            rack=tuple(f"r{r}" for r in rack) if rack.any() else tuple(f"broker-{b}" for b in range(brokers)),
            state=np.full(brokers, ReplicaBrokerState.ALIVE, dtype=np.int8),
            capacity=np.tile(capacity, (brokers, 1)),
        ),
        log_dirs=LogDirs(np.zeros(0, np.int32), (), np.zeros(0, np.int8), np.zeros(0)),
        partitions=Partitions(
            topics=("t",),
            topic=np.zeros(partitions, dtype=np.int32),
            number=np.arange(partitions, dtype=np.int32),
            replicas=place.copy(),
            leader=place[:, 0].copy(),
            in_sync=np.ones(place.shape, dtype=np.bool_),
            log_dir=np.full(place.shape, NO_BROKER, dtype=np.int32),
            leader_load=use[:, 1] * capacity,
            follower_load=use[:, 0] * capacity,
        ),
    )


PER_NAMESPACE = 64


def skewed_bundles(
    brokers: int, bundles: int, seed: int, *, views: int = 3, skew: float = 0.5, usage: float = 0.5
) -> BundlesSnapshot:
    """A cluster whose bundles are of lognormal size and unevenly dealt out.

    Parameters
    ----------
    views
        How many: the newest window, further windows, and a forecast as the last.
    skew
        σ of the lognormal chance of each broker to own a bundle; 0 deals evenly.
    usage
        Mean utilisation in the newest view.
    """
    chance = np.random.default_rng(seed)
    cuts = initial_boundaries(PER_NAMESPACE)
    names = [f"tenant-{number % 50:02d}/space-{number:05d}" for number in range(-(-bundles // PER_NAMESPACE))]
    keys = sorted(one.key for name in names for one in bundles_between(name, cuts))[:bundles]
    size = chance.lognormal(0, 1, (bundles, 1)) * chance.uniform(0.7, 1.3, (bundles, len(RESOURCES)))
    size *= usage * brokers / size.sum(axis=0)
    capacity = np.array([8.0, 1e8, 2e8, 5e4])
    factors = [np.ones(size.shape), *(chance.uniform(0.85, 1.15, size.shape) for _ in range(views - 1))]
    likely = chance.lognormal(0, skew, brokers)
    forecast = ("forecast +900",) if views > 1 else ()
    return BundlesSnapshot(
        reference=SnapshotReference(f"skewed-{seed}", "2026-11-21T05:00:00Z", "0" * 64),
        quality=Quality(),
        taken_at=1_795_237_200.0,
        views=("window 0", *(f"window -{number}" for number in range(1, views - 1)), *forecast),
        brokers=BundleBrokers(
            tuple(f"broker-{number:04d}:8080" for number in range(brokers)),
            np.ones(brokers, dtype=np.bool_),
            np.tile(capacity, (brokers, 1)),
            np.zeros((brokers, len(RESOURCES))),
        ),
        bundles=Bundles(
            tuple(keys),
            chance.choice(brokers, bundles, p=likely / likely.sum()).astype(np.int32),
            np.stack([size * factor for factor in factors]) * capacity,
            chance.integers(0, 60, bundles).astype(np.int64),
            np.full(bundles, 10, dtype=np.int64),
            np.ones(bundles, dtype=np.bool_),
        ),
        topics=NO_TOPICS,
        boundaries=dict.fromkeys(names, cuts),
    )
