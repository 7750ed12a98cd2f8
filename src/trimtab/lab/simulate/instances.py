"""Made-up clusters with a known kind of skew, from a seed: for tests and for measuring planners."""

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab.model.snapshot import Quality, SnapshotReference

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


def plain_snapshot(
    name: str,
    *,
    ids: NDArray[np.int64],
    rack: tuple[str, ...] | None = None,
    capacity: FloatArray,
    topics: tuple[str, ...],
    topic: IntArray | NDArray[np.int64],
    number: IntArray,
    replicas: IntArray,
    leader_load: FloatArray,
    follower_load: FloatArray,
) -> ReplicasSnapshot:
    """A snapshot in which all is well: brokers alive, each its own host, replicas in sync, the first leads.

    Parameters
    ----------
    name
        Of the snapshot.
    ids, rack
        Kafka's ids, and the rack of each; None: each is one of its own.
    capacity, topics, topic, number, replicas, leader_load, follower_load
        As in `ReplicaBrokers` and `Partitions`.
    """
    hosts = tuple(f"broker-{b}" for b in ids)
    return ReplicasSnapshot(
        reference=SnapshotReference(name, "2026-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=ReplicaBrokers(
            id=ids,
            host=hosts,
            rack=rack or hosts,
            state=np.full(len(ids), ReplicaBrokerState.ALIVE, dtype=np.int8),
            capacity=capacity,
        ),
        log_dirs=LogDirs(np.zeros(0, np.int32), (), np.zeros(0, np.int8), np.zeros(0)),
        partitions=Partitions(
            topics=topics,
            topic=topic.astype(np.int32),
            number=number.astype(np.int32),
            replicas=replicas.astype(np.int32),
            leader=replicas[:, 0].astype(np.int32),
            in_sync=np.ones(replicas.shape, dtype=np.bool_),
            log_dir=np.full(replicas.shape, NO_BROKER, dtype=np.int32),
            leader_load=leader_load,
            follower_load=follower_load,
        ),
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
