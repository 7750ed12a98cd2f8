"""Snapshots of the balancer `replicas`: written by hand in a few words, or drawn by Hypothesis."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    LogDirState,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)


def broker(
    id: int,
    rack: str | None = None,
    host: str | None = None,
    state: str = "alive",
    capacity: Any = (10.0, 100.0, 100.0, 100.0),
    dirs: Any = (),
) -> dict[str, Any]:
    """A broker; capacity None or an entry None is not limited; dirs are (path, state, capacity)."""
    return dict(id=id, rack=rack, host=host, state=state, capacity=capacity, dirs=dirs)


def partition(
    topic: str,
    number: int,
    replicas: Sequence[int],
    leader: Any = "first",
    in_sync: Any = None,
    load: Any = (1.0, 1.0, 1.0, 1.0),
    follower: Any = None,
    dirs: Any = None,
) -> dict[str, Any]:
    """A partition; `load` is the leader's, the follower's default is the paper's table of roles."""
    cpu, disk, into, _ = load
    return dict(
        topic=topic,
        number=number,
        replicas=replicas,
        leader=replicas[0] if leader == "first" else leader,
        in_sync=replicas if in_sync is None else in_sync,
        leader_load=load,
        follower_load=follower or (cpu / 4, disk, into, 0.0),
        dirs=dirs,
    )


def snapshot(brokers, partitions) -> ReplicasSnapshot:
    """A snapshot of what `broker` and `partition` made."""
    brokers = sorted(brokers, key=lambda b: b["id"])
    partitions = sorted(partitions, key=lambda p: (p["topic"], p["number"]))
    index = {b["id"]: i for i, b in enumerate(brokers)}
    host = [b["host"] or f"broker-{b['id']}" for b in brokers]
    dirs = [(i, *d) for i, b in enumerate(brokers) for d in b["dirs"]]
    dir_index = {(i, path): d for d, (i, path, _, _) in enumerate(dirs)}
    width = max((len(p["replicas"]) for p in partitions), default=1)
    shape = (len(partitions), width)
    replicas, in_sync = np.full(shape, NO_BROKER, np.int32), np.zeros(shape, np.bool_)
    log_dir = np.full(shape, NO_BROKER, np.int32)
    for row, p in enumerate(partitions):
        for slot, b in enumerate(p["replicas"]):
            replicas[row, slot] = index[b]
            in_sync[row, slot] = b in p["in_sync"]
            if p["dirs"]:
                log_dir[row, slot] = dir_index.get((index[b], p["dirs"][slot]), NO_BROKER)
    topics = tuple(sorted({p["topic"] for p in partitions}))
    unlimited = float("inf")
    return ReplicasSnapshot(
        reference=SnapshotReference("test", "2026-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=ReplicaBrokers(
            id=np.array([b["id"] for b in brokers], dtype=np.int64),
            host=tuple(host),
            rack=tuple(b["rack"] or h for b, h in zip(brokers, host, strict=True)),
            state=np.array([ReplicaBrokerState[b["state"].upper()] for b in brokers], dtype=np.int8),
            capacity=np.array(
                [[unlimited if c is None else c for c in b["capacity"] or (None,) * 4] for b in brokers],
                dtype=np.float64,
            ).reshape(len(brokers), len(RESOURCES)),
        ),
        log_dirs=LogDirs(
            broker=np.array([d[0] for d in dirs], dtype=np.int32),
            path=tuple(d[1] for d in dirs),
            state=np.array([LogDirState[d[2].upper()] for d in dirs], dtype=np.int8),
            capacity=np.array([unlimited if d[3] is None else d[3] for d in dirs], dtype=np.float64),
        ),
        partitions=Partitions(
            topics=topics,
            topic=np.array([topics.index(p["topic"]) for p in partitions], dtype=np.int32),
            number=np.array([p["number"] for p in partitions], dtype=np.int32),
            replicas=replicas,
            leader=np.array([index.get(p["leader"], NO_BROKER) for p in partitions], dtype=np.int32),
            in_sync=in_sync,
            log_dir=log_dir,
            leader_load=np.array([p["leader_load"] for p in partitions], dtype=np.float64).reshape(-1, 4),
            follower_load=np.array([p["follower_load"] for p in partitions], dtype=np.float64).reshape(-1, 4),
        ),
    )


STATES = ["alive"] * 12 + ["new", "dead", "draining", "no_leaders", "no_new_replicas"]


@st.composite
def snapshots(draw: st.DrawFn, most_brokers: int = 9, most_partitions: int = 24) -> ReplicasSnapshot:
    """Clusters of every awkward kind: few racks, dead brokers, lagging replicas, missing capacities, offline
    dirs.
    """
    number = draw(st.integers(1, most_brokers))
    racks, hosts = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    with_dirs, uneven = draw(st.booleans()), draw(st.booleans())
    brokers = []
    for id in range(1, number + 1):
        capacity: list[float | None] = [
            draw(st.sampled_from([10.0, 20.0])) if uneven else 10.0 for _ in RESOURCES
        ]
        if draw(st.integers(0, 14)) == 0:
            capacity[draw(st.integers(0, 3))] = None
        dirs = []
        if with_dirs:
            for d in range(draw(st.integers(1, 3))):
                state = draw(st.sampled_from(["online"] * 8 + ["offline", "cordoned"]))
                dirs.append((f"/data{d}", state, draw(st.sampled_from([None, 5.0]))))
        brokers.append(
            broker(
                id,
                rack=f"r{draw(st.integers(1, racks))}",
                host=f"h{draw(st.integers(1, hosts))}" if draw(st.booleans()) else None,
                state=draw(st.sampled_from(STATES)),
                capacity=capacity,
                dirs=dirs,
            )
        )
    partitions = []
    for p in range(draw(st.integers(0, most_partitions))):
        factor = draw(st.integers(1, min(4, number)))
        held = draw(st.permutations(range(1, number + 1)))[:factor]
        load = [draw(st.integers(0, 40)) / 20 for _ in RESOURCES]
        kind = draw(st.integers(0, 9))
        leader = None if kind == 0 else held[-1] if kind == 1 else held[0]
        in_sync = held if draw(st.integers(0, 5)) else [b for b in held if draw(st.booleans())]
        held_dirs = None
        if with_dirs and draw(st.booleans()):
            held_dirs = [draw(st.sampled_from([d[0] for d in brokers[b - 1]["dirs"]])) for b in held]
        partitions.append(partition(f"t{p % 4}", p, list(held), leader, in_sync, load, dirs=held_dirs))
    return snapshot(brokers, partitions)
