"""Where a broker's idle CPU should go in a snapshot: what plans made from each choice really achieve.

Random six-broker clusters whose CPU is known: a fixed idle part and costs per byte. A plan is made from the
snapshot that each choice would give, carried out on paper, and judged by the true CPU.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from results import write_result

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import imbalance
from trimtab.model.replicas.settings import CPU, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import LogDirs, Partitions, ReplicaBrokers, ReplicasSnapshot
from trimtab.plan.replicas import trim

BROKERS, PARTITIONS, IDLE_SHARE = 6, 41, 0.35
CHOICES = ("apart", "replicas", "in proportion")


@dataclass(frozen=True, eq=False)
class TrueCluster:
    """Placement, role loads without any idle part, and the idle cores of every broker."""

    replicas: np.ndarray
    leader_load: np.ndarray
    follower_load: np.ndarray
    idle: np.ndarray

    def sigma(self, replicas: np.ndarray, leader: np.ndarray) -> float:
        """True σ of CPU under a placement."""
        load = snapshot(self, "apart").broker_load(replicas, leader)
        load[:, CPU] += self.idle
        return float(imbalance(load, np.ones_like(load), np.ones(BROKERS, dtype=bool), RESOURCES).sigma[CPU])

    def partitions(self, leader_load: np.ndarray, follower_load: np.ndarray) -> Partitions:
        """The placement with some loads."""
        return Partitions(
            tuple(f"t{number:03d}" for number in range(PARTITIONS)),
            np.arange(PARTITIONS, dtype=np.int32),
            np.zeros(PARTITIONS, dtype=np.int32),
            self.replicas,
            self.replicas[:, 0].copy(),
            np.ones(self.replicas.shape, dtype=bool),
            np.full(self.replicas.shape, -1, dtype=np.int32),
            leader_load,
            follower_load,
        )


def draw(seed: int) -> TrueCluster:
    """Log-normal rates, two replicas, no to two readers, some partitions with old data."""
    rng = np.random.default_rng(seed)
    replicas = np.array([rng.permutation(BROKERS)[:2] for _ in range(PARTITIONS)], dtype=np.int32)
    rate = rng.lognormal(0, 1, PARTITIONS)
    rate = np.minimum(rate * 8e6 / rate.sum(), 0.55 * 8e6 / BROKERS)
    out = rate * rng.integers(0, 3, PARTITIONS)
    disk = rate * 60 + rng.uniform(15e6, 60e6, PARTITIONS) * (rng.random(PARTITIONS) < 0.3)
    cores = np.stack([rate * 4.7e-8, rate * 0.3e-8])
    idle = IDLE_SHARE / (1 - IDLE_SHARE) * cores.sum() / BROKERS
    leader_load = np.stack([cores[0], disk, rate, out], axis=1)
    follower_load = np.stack([cores[1], disk, rate, np.zeros(PARTITIONS)], axis=1)
    return TrueCluster(replicas, leader_load, follower_load, np.full(BROKERS, idle))


def snapshot(cluster: TrueCluster, choice: str) -> ReplicasSnapshot:
    """The snapshot that a choice would give."""
    leader_load, follower_load = cluster.leader_load.copy(), cluster.follower_load.copy()
    capacity = np.tile([1.0, 1e11, 1e8, 1e8], (BROKERS, 1))
    first, second = cluster.replicas.T
    if choice == "apart":
        capacity[:, CPU] -= cluster.idle
    elif choice == "replicas":
        share = cluster.idle / np.bincount(cluster.replicas.ravel(), minlength=BROKERS)
        leader_load[:, CPU] += share[first]
        follower_load[:, CPU] += share[second]
    else:
        carried = np.bincount(first, leader_load[:, CPU], BROKERS) + np.bincount(
            second, follower_load[:, CPU], BROKERS
        )
        factor = 1 + cluster.idle / carried
        leader_load[:, CPU] *= factor[first]
        follower_load[:, CPU] *= factor[second]
    brokers = ReplicaBrokers(
        np.arange(1, BROKERS + 1),
        tuple(f"h{one // 2}" for one in range(BROKERS)),
        tuple(f"r{one % 3}" for one in range(BROKERS)),
        np.zeros(BROKERS, dtype=np.int8),
        capacity,
    )
    no_dirs = LogDirs(np.zeros(0, dtype=np.int32), (), np.zeros(0, dtype=np.int8), np.zeros(0))
    reference = SnapshotReference("made-up", "2026-11-21T05:00:00Z", "")
    return ReplicasSnapshot(
        reference, Quality(), brokers, no_dirs, cluster.partitions(leader_load, follower_load)
    )


def outcome(cluster: TrueCluster, choice: str) -> dict[str, float]:
    """Predicted and true σ of CPU before and after the plan."""
    given = snapshot(cluster, choice)
    plan = trim.plan(given, ReplicasSettings())
    replicas, leader = given.partitions.replicas.copy(), given.partitions.leader.copy()
    for one in plan.assignments:
        row = given.partitions.topics.index(one.topic)
        replicas[row] = np.array(one.after) - 1
        leader[row] = (one.leader_after or one.after[0]) - 1
    before = cluster.sigma(given.partitions.replicas, given.partitions.leader)
    after = cluster.sigma(replicas, leader)
    return {
        "predicted_before": plan.predicted.before.sigma["cpu"],
        "true_before": before,
        "predicted_after": plan.predicted.after.sigma["cpu"],
        "true_after": after,
        "drop": 1 - after / before,
    }


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=24)
    clusters = [draw(seed) for seed in range(parser.parse_args().clusters)]
    rows: dict[str, dict[str, float]] = {}
    for choice in CHOICES:
        found = [outcome(cluster, choice) for cluster in clusters]
        rows[choice] = {name: round(float(np.median([one[name] for one in found])), 4) for name in found[0]}
        rows[choice]["worst_drop"] = round(min(one["drop"] for one in found), 4)
        print(choice, rows[choice])
    write_result("pipeline_cpu_base", {"clusters": len(clusters), "idle_share": IDLE_SHARE, "choices": rows})


if __name__ == "__main__":
    main()
