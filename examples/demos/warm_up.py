"""Compile planners before they are needed: `python examples/demos/warm_up.py [replicas] [bundles]`.

Compiled code is cached, so that this takes a minute or two on a new machine and seconds from then on. `spark`
is the archive from which Spark starts; `requests` compiles what only other settings of `replicas` need, for
the tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trimtab.lab.sandbox.processes import SandboxProcess, spawn
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.bundles.snapshot import NO_TOPICS, BundleBrokers, Bundles, BundlesSnapshot
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.settings import DEFAULT_GOALS, ReplicasSettings
from trimtab.model.replicas.snapshot import LogDirs, Partitions, ReplicaBrokers, ReplicasSnapshot


def begin_warm_up(balancer: str) -> SandboxProcess:
    """Warm a balancer's planner up in a process of its own, which ends with us."""
    command = [sys.executable, __file__, balancer]
    return spawn(command, Path.cwd(), Path(os.devnull), outlive=False)


def warm_up_replicas(
    settings: Sequence[ReplicasSettings] = (ReplicasSettings(),), hosts: tuple[str, ...] = ("a", "b", "c")
) -> None:
    """Plan something tiny, so that the first real plan does not wait for the compiler."""
    from trimtab.plan.replicas.trim import plan

    def indices(*values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array(values, dtype=np.int32)

    load = np.ones((2, 4))
    snapshot = ReplicasSnapshot(
        reference=SnapshotReference("warm-up", "1970-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=ReplicaBrokers(
            id=np.array([1, 2, 3]),
            host=hosts,
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
    for asked in settings:
        plan(snapshot, asked)


def warm_up_requests() -> None:
    """The same for topics, replication factors, brokers that are emptied, and hosts of several brokers."""
    warm_up_replicas(
        (
            ReplicasSettings(goals=(*DEFAULT_GOALS, "topic_replicas", "topic_leaders")),
            ReplicasSettings(replication_factor={"t": 3}),
            ReplicasSettings(drain=(1,)),
            ReplicasSettings(demote=(1, 2, 3)),
        )
    )
    warm_up_replicas((ReplicasSettings(goals=(*DEFAULT_GOALS, "host_load")),), hosts=("a", "b", "b"))


def warm_up_bundles() -> None:
    """The same for the balancer `bundles`: one broker owns everything."""
    from trimtab.plan.bundles.trim import plan_bundles

    brokers, bundles, resources = 3, 12, 4
    width = 2**32 // bundles
    keys = [f"t/n/0x{width * n:08x}_0x{min(width * (n + 1), 2**32 - 1):08x}" for n in range(bundles)]
    snapshot = BundlesSnapshot(
        reference=SnapshotReference("warm-up", "1970-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        taken_at=0.0,
        views=("window 0",),
        brokers=BundleBrokers(
            name=tuple(f"broker-{number}:8080" for number in range(brokers)),
            in_service=np.ones(brokers, dtype=np.bool_),
            capacity=np.full((brokers, resources), 20.0),
            base=np.zeros((brokers, resources)),
        ),
        bundles=Bundles(
            key=tuple(keys),
            owner=np.zeros(bundles, dtype=np.int32),
            load=np.tile(np.linspace(0.5, 1.5, bundles)[None, :, None], (1, 1, resources)),
            sessions=np.full(bundles, 2),
            topics=np.ones(bundles, dtype=np.int64),
            movable=np.ones(bundles, dtype=np.bool_),
        ),
        topics=NO_TOPICS,
        boundaries={"t/n": (*(width * number for number in range(bundles)), 2**32 - 1)},
    )
    plan_bundles(snapshot, BundlesSettings())


def warm_up_spark() -> None:
    """An archive of Spark's classes, for all that start it from now on."""
    from trimtab.observe.spark.session import make_archive

    make_archive()


WARM_UPS = {
    "replicas": warm_up_replicas,
    "requests": warm_up_requests,
    "bundles": warm_up_bundles,
    "spark": warm_up_spark,
}

if __name__ == "__main__":
    for asked in sys.argv[1:] or WARM_UPS:
        WARM_UPS[asked]()
