"""Has the planner compiled before it is needed: `python -m trimtab.demo.warm_up`.

Compiled code is cached, so that this takes a minute on a new machine and two seconds from then on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from trimtab.model.replicas import Brokers, LogDirs, Partitions, ReplicasSnapshot
from trimtab.model.settings import ReplicasSettings
from trimtab.model.snapshot import Quality, SnapshotReference
from trimtab.sandbox.processes import Process, spawn


def begin_warm_up() -> Process:
    """Warm up in a process of its own, which gives way to everything else and ends with us."""
    command = [sys.executable, "-m", "trimtab.demo.warm_up"]
    return spawn(command, Path.cwd(), Path(os.devnull), outlive=False)


def warm_up_planner() -> None:
    """Plan something tiny, so that the first real plan does not wait for the compiler."""
    from trimtab.plan.planner import plan_replicas

    def indices(*values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array(values, dtype=np.int32)

    load = np.ones((2, 4))
    snapshot = ReplicasSnapshot(
        reference=SnapshotReference("warm-up", "1970-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=Brokers(
            id=np.array([1, 2, 3]),
            host=("a", "b", "c"),
            rack=("a", "b", "c"),
            state=np.zeros(3, dtype=np.int8),
            capacity=np.full((3, 4), 4.0),
        ),
        log_dirs=LogDirs(indices(0, 1, 2), ("/",) * 3, np.zeros(3, dtype=np.int8), np.full(3, 4.0)),
        partitions=Partitions(
            topics=("t",),
            topic=indices(0, 0),
            number=indices(0, 1),
            replicas=indices([0, 1], [0, 1]),
            leader=indices(0, 0),
            in_sync=np.ones((2, 2), dtype=np.bool_),
            log_dir=indices([0, 1], [0, 1]),
            leader_load=load,
            follower_load=load,
        ),
    )
    plan_replicas(snapshot, ReplicasSettings())


if __name__ == "__main__":
    warm_up_planner()
