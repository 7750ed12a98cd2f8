"""Made-up clusters with little room that can be balanced: they were balanced before they were scrambled."""

from dataclasses import dataclass

import numpy as np

from trimtab.lab.simulate.instances import CAPACITY
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab.model.snapshot import Quality, SnapshotReference

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
