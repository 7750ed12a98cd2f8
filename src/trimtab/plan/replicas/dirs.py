"""The log dir of its new broker that a replica goes to: the one that is left emptiest."""

import numpy as np

from trimtab.model.replicas.snapshot import NOBODY, LogDirState, ReplicasSnapshot
from trimtab.plan.replicas.moves import REPLICA_STEP, Steps
from trimtab.plan.replicas.problem import ProblemData

DirPair = tuple[str | None, str | None]


def dirs_of(problem: ProblemData, steps: Steps) -> list[DirPair]:
    """Log dir that each step takes a replica from, and that it goes to.

    None where it is not known or there is no choice: leader steps, and brokers that declare fewer than two
    dirs.
    """
    snapshot = problem.snapshot
    if not len(snapshot.log_dirs):
        return [(None, None)] * len(steps.kind)
    paths, broker = snapshot.log_dirs.path, snapshot.log_dirs.broker
    declared = np.bincount(broker, minlength=len(snapshot.brokers))
    choice = [
        [d for d in np.flatnonzero(broker == b).tolist() if snapshot.log_dirs.state[d] == LogDirState.ONLINE]
        if declared[b] > 1
        else []
        for b in range(len(snapshot.brokers))
    ]
    held = dir_bytes(problem)
    capacity: list[float] = snapshot.log_dirs.capacity.tolist()
    size: list[float] = problem.arrays.size.tolist()
    where = _where(snapshot)
    found: list[DirPair] = []
    for kind, p, source, target in zip(*(column.tolist() for column in steps[:4]), strict=True):
        if kind != REPLICA_STEP:
            found.append((None, None))
            continue
        before = where.pop((p, source), NOBODY)
        after = NOBODY
        if choice[target]:
            after = min(choice[target], key=lambda d: (*_filling(held[d] + size[p], capacity[d]), d))
            held[after] += size[p]
            where[p, target] = after
        if before != NOBODY:
            held[before] -= size[p]
        found.append((paths[before] if before != NOBODY else None, paths[after] if after != NOBODY else None))
    return found


def dir_bytes(problem: ProblemData) -> list[float]:
    """Bytes that each log dir holds, as far as the snapshot says where replicas are."""
    where = problem.snapshot.partitions.log_dir
    known = where != NOBODY
    size = np.broadcast_to(problem.arrays.size[:, None], where.shape)
    held: list[float] = np.bincount(
        where[known], weights=size[known], minlength=len(problem.snapshot.log_dirs)
    ).tolist()
    return held


def _filling(held: float, capacity: float) -> tuple[bool, float]:
    """First whether it would overflow, then how full: as a share where a capacity is known, else in bytes."""
    return (held > capacity, held / capacity if np.isfinite(capacity) else held / 1e15)


def _where(snapshot: ReplicasSnapshot) -> dict[tuple[int, int], int]:
    parts = snapshot.partitions
    rows, columns = np.nonzero(parts.log_dir != NOBODY)
    keys = zip(rows.tolist(), parts.replicas[rows, columns].tolist(), strict=True)
    return dict(zip(keys, parts.log_dir[rows, columns].tolist(), strict=True))
