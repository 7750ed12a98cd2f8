"""Checks at every instant while trimtab acts."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from simulate.checkers.ending import no_partition_offline
from simulate.checkers.ownership import owners
from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.configs import FOLLOWER_REPLICAS, ResourceType, lists_replica
from simulate.kafka.disks import usage
from simulate.kafka.port import unhealthy_partitions
from simulate.kafka.state import PartitionName

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
