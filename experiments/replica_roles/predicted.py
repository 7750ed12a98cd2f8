"""What a smaller ε brings on the four draws, and what a last phase that lowers σ would: by prediction.

    python experiments/replica_roles/predicted.py

No broker runs: loads are the rates and sizes of `workload.json`, CPU is bytes in + .35 of bytes out for the
leader and .35 of bytes in for a follower. Only drops of σ and bytes are printed: the scale of a load does not
touch them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import numpy as np

from simulated_clusters.weeks import plain_snapshot
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas import trim
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.problem import ReplicasProblem, problem_data

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
DRAWS = ("kafka-2-1", "kafka-2-2", "kafka-2-3", "controller-1")
ASKED = (0.10, 0.07, 0.05, 0.03, 0.02)
LIMIT = 0.10
BROKERS = 6
MEAN_USAGE = np.array([0.56, 0.58, 0.40, 0.29])
MOVE = 0.05
"""Price of a move as such, in mean copies."""


def snapshot_of(draw: str) -> ReplicasSnapshot:
    """A draw of the default placement under the recorded load."""
    topics = json.loads((HERE / "workload.json").read_text())["topics"]
    placed = json.loads((HERE / "draws" / f"{draw}.json").read_text())["replicas"]
    rows = []
    for at, topic in enumerate(topics):
        for number, disk in enumerate(topic["preload_bytes"]):
            rates = topic["bytes_per_second"]
            into = rates[number] if number < len(rates) else 0.0
            out = into * topic["readers"]
            loads = (into + 0.35 * out, disk, into, out), (0.35 * into, disk, into, 0.0)
            rows.append((at, number, [b - 1 for b in placed[topic["name"]][number]], *loads))
    topic, number, replicas, leader_load, follower_load = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    capacity = (leader_load + follower_load).sum(axis=0) / BROKERS / MEAN_USAGE
    return plain_snapshot(
        draw,
        ids=np.arange(1, BROKERS + 1),
        capacity=np.tile(capacity, (BROKERS, 1)),
        topics=tuple(one["name"] for one in topics),
        topic=topic,
        number=number,
        replicas=replicas,
        leader_load=leader_load.astype(np.float64),
        follower_load=follower_load.astype(np.float64),
    )


def copied(problem: ReplicasProblem, placement: Placement) -> float:
    """Bytes."""
    return float((problem.arrived(placement.place).sum(axis=1) * problem.arrays.size).sum())


def sigma(problem: ReplicasProblem, placement: Placement) -> np.ndarray:
    """Shape (resources,): up to a constant factor."""
    return (problem.load(placement) * problem.arrays.inverse).std(axis=0)


def further(problem: ReplicasProblem, placement: Placement) -> Iterator[Placement]:
    """From a plan within ε on: the move or leadership that lowers the sum of squares most per byte.

    Whatever it does stays within `LIMIT` of the mean.
    """
    arrays = problem.arrays
    place, lead = placement.place.copy(), placement.lead.copy()
    usage = problem.load(placement) * arrays.inverse
    mean, rows, floor = usage.mean(axis=0), np.arange(len(place)), MOVE * arrays.size.mean()
    use = arrays.use * arrays.inverse[0] / mean
    away = usage / mean - 1
    home = (arrays.initial[:, :, None] == np.arange(BROKERS)).any(axis=1)
    while True:
        best, change = 0.0, None
        holds = (place[:, :, None] == np.arange(BROKERS)).any(axis=1)
        for slot in range(place.shape[1]):
            here, mine = place[:, slot], use[rows, (lead == slot).astype(int)]
            left, there = away[here] - mine, away[None] + mine[:, None]
            fall = ((away[here] ** 2 - left**2).sum(axis=1))[:, None] + (away[None] ** 2 - there**2).sum(
                axis=2
            )
            within = (np.abs(there) <= LIMIT).all(axis=2) & (np.abs(left) <= LIMIT).all(axis=1)[:, None]
            more = np.maximum(~home * 1 - (~home[rows, here] * 1)[:, None], 0)
            worth = np.where(within & ~holds, fall / (floor + more * arrays.size[:, None]), 0.0)
            p, b = np.unravel_index(worth.argmax(), worth.shape)
            if worth[p, b] > best:
                best, change = worth[p, b], (p, slot, b)
            old, role = place[rows, lead], use[:, 1] - use[:, 0]
            left, there = away[old] - role, away[here] + role
            fall = (away[old] ** 2 - left**2 + away[here] ** 2 - there**2).sum(axis=1)
            within = (
                (np.abs(there) <= LIMIT).all(axis=1) & (np.abs(left) <= LIMIT).all(axis=1) & (lead != slot)
            )
            worth = np.where(within, fall / floor, 0.0)
            if worth.max() > best:
                best, change = worth.max(), (int(worth.argmax()), slot, -1)
        if change is None:
            return
        p, slot, b = change
        if b < 0:
            lead[p] = slot
        else:
            place[p, slot] = b
        after = Placement(place.copy(), lead.copy())
        away = problem.load(after) * arrays.inverse / mean - 1
        yield after


def main() -> None:
    """Print one row for every ε, and one for what the last phase spends at ε = .10."""
    for draw in DRAWS:
        snapshot = snapshot_of(draw)
        held, first = float(snapshot.broker_load()[:, 1].sum()), None
        for asked in ASKED:
            settings = ReplicasSettings(goals=("theta", "epsilon"), epsilon=(asked,) * 4)
            problem = problem_data(snapshot, settings)
            found = trim.searched(problem)
            first = first or (problem, found)
            show(f"{draw} ε = {asked:.2f}", problem, found, held)
        problem, found = first
        steps = [found, *further(problem, found)]
        for more in (1.0, 1.1, 1.25, 1.5):
            spent = [one for one in steps if copied(problem, one) <= more * copied(problem, found)]
            show(f"{draw} ε = 0.10, then {more:.2f} of its bytes", problem, spent[-1], held)


def show(name: str, problem: ReplicasProblem, placement: Placement, held: float) -> None:
    """One row: drops of σ of CPU, disk, in, out, and the share of bytes copied."""
    share = 100 * copied(problem, placement) / held
    drop = 100 * (1 - sigma(problem, placement) / sigma(problem, problem.initial_placement))
    print(f"{name:42} {' '.join(f'{x:5.1f}' for x in drop)} %   {share:5.1f} %")


if __name__ == "__main__":
    main()
