"""Checks for the end of an execution, some of them against the cluster as it was before."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from simulate.checkers.ownership import owners
from simulate.faults import OPERATOR
from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.configs import CORDONED, ResourceType
from simulate.kafka.port import CLAIM
from simulate.kafka.state import PartitionName
from trimtab.act.replicas.state import (
    ReplicasExecutionState,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
)


@dataclass(frozen=True)
class Before:
    """The cluster before anybody acted."""

    throttles: Mapping[tuple[str, str], Mapping[str, str]]
    replicas: Mapping[tuple[PartitionName, str], tuple[int, ...]]
    """(partition, topic id) -> list."""
    cordons: Mapping[int, str | None]

    @classmethod
    def of(cls, cluster: SimulatedKafka) -> "Before":
        """Remember a cluster."""
        return cls(
            {resource: dict(values) for resource, values in cluster.configs.throttles().items()},
            {(name, str(p.topic_id)): tuple(p.replicas) for name, p in cluster.partitions.items()},
            cordons_of(cluster),
        )


def cordons_of(cluster: SimulatedKafka) -> dict[int, str | None]:
    """`cordoned.log.dirs` of every broker."""
    configs = cluster.configs
    return {broker: configs.of(ResourceType.BROKER, str(broker)).get(CORDONED) for broker in cluster.brokers}


def cordons_as_they_should_be(
    cluster: SimulatedKafka, before: Before, state: ReplicasExecutionState
) -> list[str]:
    """Drained brokers are cordoned after a drain that ended; otherwise cordons are as they were.

    A broker that was dead at the end keeps its cordon, and a note says so. A drained broker that was dead all
    the time has none.
    """
    wrong = []
    drained = set(state.drained) if state.status in ("finished", "incomplete") else set()
    for broker, value in cordons_of(cluster).items():
        if broker in drained and any(f"broker {broker} stays cordoned" in note for note in state.notes):
            expected: str | None = "*"
        elif any(f"broker {broker} may still be cordoned" in note for note in state.notes):
            continue
        else:
            expected = before.cordons[broker]
        if value != expected:
            wrong.append(f"cordoned.log.dirs of broker {broker} is {value}, not {expected}")
    return wrong


def no_throttle_left(cluster: SimulatedKafka, before: Before) -> list[str]:
    """Throttles are as they were; those of deleted topics are gone with them."""
    there = {name.topic for name in cluster.partitions}
    expected = {
        (kind, name): dict(values)
        for (kind, name), values in before.throttles.items()
        if kind != "topic" or name in there
    }
    found = cluster.configs.throttles()
    return [] if found == expected else [f"throttles left: {found}, there were {expected}"]


def no_lease_left(cluster: SimulatedKafka) -> list[str]:
    """Nobody is said to act here any more."""
    settings = cluster.configs.of(ResourceType.BROKER, "")
    return [f"lease left: {name}" for name in settings if name.startswith(CLAIM)]


def no_reassignment_left(cluster: SimulatedKafka, actors: Collection[str]) -> list[str]:
    """Nothing that trimtab began is in flight."""
    begun_by = owners(cluster.history)
    return [
        f"{name}: still in flight towards {partition.settled_replicas}"
        for name, partition in cluster.partitions.items()
        if partition.reassigning and begun_by.get(name) in actors
    ]


def replication_factor_kept(
    cluster: SimulatedKafka, before: Before, resized: Mapping[tuple[str, int], int] = MappingProxyType({})
) -> list[str]:
    """Every partition that nobody else touched has as many distinct replicas as before.

    Parameters
    ----------
    resized
        Those that a plan gives another number, and that number: it may have come to that, or not.
    """
    touched = {h.subject for h in cluster.history if h.actor == OPERATOR and h.verb in ("reassign", "cancel")}
    found = []
    for name, partition in cluster.partitions.items():
        was = before.replicas.get((name, str(partition.topic_id)))
        if was is None or name in touched or partition.reassigning:
            continue
        factors = {len(was), resized.get((name.topic, name.number), len(was))}
        if len(set(partition.replicas)) != len(partition.replicas) or len(partition.replicas) not in factors:
            found.append(f"{name}: {list(was)} became {partition.replicas}")
    return found


def no_partition_offline(cluster: SimulatedKafka) -> list[str]:
    """Every partition that has an in-sync replica on a broker that is up has a leader."""
    return [
        f"{name}: offline although {alive} is in sync and alive"
        for name, partition in cluster.partitions.items()
        if partition.leader is None
        and (alive := [b for b in partition.in_sync if cluster.brokers[b].active])
        and cluster.controller.available
    ]


def every_step_accounted(cluster: SimulatedKafka, state: ReplicasExecutionState) -> list[str]:
    """Every partition stands where its last done step left it, in that order, unless others touched it.

    So a step that was rolled back, failed or was skipped has left no trace.
    """
    touched = {
        h.subject if isinstance(h.subject, PartitionName) else PartitionName(str(h.subject), -1)
        for h in cluster.history
        if h.actor == OPERATOR and h.verb in ("reassign", "cancel", "delete_topic")
    }
    found = [f"{record.step} is {record.state} at the end" for record in state.records if record.active]
    expected: dict[PartitionName, tuple[int, ...]] = {}
    for record in state.records:
        name = PartitionName(*record.step.partition)
        expected.setdefault(name, record.step.before)
        if record.state is ReplicaStepState.DONE and record.step.kind is not ReplicaStepKind.LOG_DIR:
            expected[name] = record.step.after
    found += [
        f"{record.step} is {record.state}, but the replica on broker {broker} is in {there.log_dir}"
        for record in state.records
        for broker, path in _log_dirs_left(record)
        if (owner := cluster.partitions.get(PartitionName(*record.step.partition))) is not None
        and (there := owner.held.get(broker)) is not None
        and owner.name not in touched
        and PartitionName(owner.name.topic, -1) not in touched
        and there.log_dir != path
    ]
    for name, replicas in expected.items():
        if name in touched or PartitionName(name.topic, -1) in touched:
            continue
        held = tuple(cluster.partitions[name].replicas)
        if held != replicas:
            found.append(f"{name}: the journal leads to {list(replicas)}, found {list(held)}")
    return found


def _log_dirs_left(record: ReplicaStepRecord) -> tuple[tuple[int, str], ...]:
    """(broker, log dir) that a step says it has left a replica in."""
    if record.step.kind is not ReplicaStepKind.LOG_DIR:
        return ()
    if record.state is ReplicaStepState.DONE:
        return record.step.directories
    return record.step.old_directories if record.state is ReplicaStepState.ROLLED_BACK else ()
