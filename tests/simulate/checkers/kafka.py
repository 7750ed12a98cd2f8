"""Checkers of executions on a simulated Kafka: each step, what holds meanwhile, what is left at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from simulate.faults import OPERATOR
from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.port import CLAIM, unhealthy_partitions
from simulate.kafka.replication import usage
from simulate.kafka.state import (
    CORDONED,
    FOLLOWER_REPLICAS,
    Happening,
    PartitionName,
    ResourceType,
    lists_replica,
)
from trimtab.act.replicas.state import (
    ReplicasExecutionState,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
)


def owners(history: Iterable[Happening]) -> dict[PartitionName, str]:
    """Who began what is in flight after all this."""
    begun: dict[PartitionName, str] = {}
    for happening in history:
        keep_owners(begun, happening)
    return begun


def keep_owners(begun: dict[PartitionName, str], happening: Happening) -> None:
    """The change that one happening makes in who began what is in flight."""
    name = happening.subject
    if happening.verb == "delete_topic":
        for known in [known for known in begun if known.topic == name]:
            del begun[known]
    if not isinstance(name, PartitionName):
        return
    if happening.verb == "reassign" and happening.detail[3]:
        begun[name] = happening.actor
    elif happening.verb in ("reassign", "finish", "cancel"):
        begun.pop(name, None)  # a reassignment to the same brokers takes effect at once


def foreign_work_respected(cluster: SimulatedKafka, actors: Collection[str]) -> list[str]:
    """Trimtab neither replaces nor cancels what somebody else has in flight."""
    found = []
    begun: dict[PartitionName, str] = {}
    for happening in cluster.history:
        name = happening.subject
        if isinstance(name, PartitionName) and happening.actor in actors:
            other = begun.get(name)
            if happening.verb in ("reassign", "cancel") and other is not None and other not in actors:
                found.append(
                    f"at {happening.at:.1f}: {happening.verb} of {name}, which {other} had in flight"
                )
        keep_owners(begun, happening)
    return found


def no_copy_sent_to_the_dead(
    cluster: SimulatedKafka, actors: Collection[str], seconds: float = 10.0
) -> list[str]:
    """No replica is sent to a broker that has been known to be dead for so long."""
    found = []
    fenced_at: dict[int, float] = {}
    for happening in cluster.history:
        if happening.verb == "fence" and isinstance(happening.subject, int):
            fenced_at[happening.subject] = happening.at
        if happening.verb == "reassign" and happening.actor in actors:
            dead = happening.detail[2]
            assert isinstance(dead, tuple)
            found += [
                f"at {happening.at:.1f}: {happening.subject} sent to broker {broker}, "
                f"dead since {fenced_at[broker]:.1f}"
                for broker in dead
                if happening.at - fenced_at[broker] >= seconds
            ]
    return found


def never_both_at_once(cluster: SimulatedKafka, actors: Iterable[str]) -> list[str]:
    """Of several trimtabs one acts from its first deed to its last before another begins."""
    spans = {}
    for actor in actors:
        times = [
            n for n, h in enumerate(cluster.history) if h.actor == actor and h.verb in ("reassign", "elect")
        ]
        if times:
            spans[actor] = (times[0], times[-1])
    ordered = sorted(spans.items(), key=lambda item: item[1])
    return [
        f"{earlier[0]} and {later[0]} acted by turns"
        for earlier, later in pairwise(ordered)
        if later[1][0] < earlier[1][1]
    ]


@dataclass(frozen=True)
class Before:
    """The cluster before anybody acted."""

    throttles: Mapping[tuple[str, str], Mapping[str, str]]
    replicas: Mapping[tuple[PartitionName, str], tuple[int, ...]]
    """(partition, topic id) -> list."""
    cordons: Mapping[int, str | None]

    @classmethod
    def of(cls, cluster: SimulatedKafka) -> Before:
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


UNWELL_SECONDS = 10.0
"""For so long trimtab may not have noticed yet: it looks at the whole cluster every few seconds."""


@dataclass
class Watch:
    """Looks at the cluster as time passes; call `look` often.

    Attributes
    ----------
    actors
        Under which names trimtab acts.
    initial_copies_per_broker
        The most copies that a broker may take part in as source or destination.
    throttled
        Whether copies of trimtab's must be held back by a throttle.
    """

    actors: Collection[str]
    initial_copies_per_broker: int
    throttled: bool = True
    violations: list[str] = field(default_factory=list)
    _well: frozenset[PartitionName] | None = None
    _unwell_since: dict[PartitionName, float] = field(default_factory=dict)
    _looked_at: int = 0

    def look(self, cluster: SimulatedKafka) -> None:
        """Note what is wrong at this instant."""
        begun_by = owners(cluster.history)
        ours = [
            p for name, p in cluster.partitions.items() if p.reassigning and begun_by.get(name) in self.actors
        ]
        busy = Counter(broker for p in ours for broker in (*p.adding, *p.removing))
        for broker, copies in busy.items():
            if copies > self.initial_copies_per_broker:
                self._note(cluster, f"broker {broker} takes part in {copies} copies")
        for partition in ours if self.throttled else ():
            topic = cluster.configs.of(ResourceType.TOPIC, partition.name.topic)
            for broker in partition.adding:
                if not lists_replica(topic.get(FOLLOWER_REPLICAS), partition.name.number, broker):
                    self._note(cluster, f"{partition.name} is copied to {broker} without a throttle")
        for (broker, path), used in usage(cluster.partitions.values()).items():
            if used > cluster.brokers[broker].log_dirs[path].total_bytes:
                self._note(cluster, f"broker {broker}: {path} is over-full")
        for sentence in no_partition_offline(cluster):
            self._note(cluster, sentence)
        self._look_at_health(cluster)

    def _look_at_health(self, cluster: SimulatedKafka) -> None:
        """Nothing new is begun while a partition that was well has been unwell for a while."""
        unwell = unhealthy_partitions(cluster)
        if self._well is None:
            self._well = frozenset(cluster.partitions) - unwell
        since = self._unwell_since
        self._unwell_since = {name: since.get(name, cluster.now) for name in unwell & self._well}
        for happening in cluster.history[self._looked_at :]:
            if happening.verb == "reassign" and happening.actor in self.actors and happening.detail[3]:
                long = [n for n, at in self._unwell_since.items() if happening.at - at > UNWELL_SECONDS]
                if long:
                    self._note(cluster, f"{happening.subject} begun although {long[0]} is unwell")
        self._looked_at = len(cluster.history)

    def _note(self, cluster: SimulatedKafka, sentence: str) -> None:
        self.violations.append(f"at {cluster.now:.1f}: {sentence}")
