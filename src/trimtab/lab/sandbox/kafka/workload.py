"""A load on Kafka: topics, rates, readers; drawn from a seed, saved as one JSON document."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import ClassVar

from trimtab.lab.sandbox.state import SandboxJsonFormat
from trimtab.model.errors import SandboxError


@dataclass(frozen=True)
class KafkaTopicLoad:
    """The load of one topic.

    Parameters
    ----------
    name
        Of the topic.
    bytes_per_second
        Value bytes produced to each partition, before any compression; 0 for a topic that only lies there.
    replication_factor
        Copies of each partition.
    consumers
        How many consumer groups read all of it.
    preload_bytes
        Value bytes written to each partition before the load begins; empty for none.
    configs
        Kafka's own topic settings.
    """

    name: str
    bytes_per_second: tuple[float, ...]
    replication_factor: int = 2
    consumers: int = 0
    preload_bytes: tuple[int, ...] = ()
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """Number of partitions of the topic."""
        return len(self.bytes_per_second)


@dataclass(frozen=True)
class KafkaWorkload:
    """A load on a cluster.

    Parameters
    ----------
    topics
        Created and loaded together.
    record_bytes
        Size of each record's value.
    seed
        Of the draws that made it, and of the producer's phases and texts.
    """

    system: ClassVar[str] = "kafka"

    topics: tuple[KafkaTopicLoad, ...]
    record_bytes: int = 24_000
    seed: int = 0

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Names of all topics of the workload."""
        return tuple(topic.name for topic in self.topics)

    @property
    def bytes_in_per_second(self) -> float:
        """Value bytes that producers send, all partitions together."""
        return sum(sum(topic.bytes_per_second) for topic in self.topics)

    @property
    def bytes_out_per_second(self) -> float:
        """Value bytes that readers receive, all groups together."""
        return sum(sum(topic.bytes_per_second) * topic.consumers for topic in self.topics)

    @property
    def consumers(self) -> int:
        """The number of consumer groups: `reader-1` reads every topic with a reader, and so on."""
        return max((topic.consumers for topic in self.topics), default=0)

    @property
    def rates_text(self) -> str:
        """Its rates, as a load announces them."""
        return (
            f"producing {self.bytes_in_per_second / 1e6:.1f} MB/s, {self.consumers} groups "
            f"consuming {self.bytes_out_per_second / 1e6:.1f} MB/s"
        )

    def scaled(self, factor: float) -> KafkaWorkload:
        """The same load, all rates multiplied."""
        topics = (
            replace(topic, bytes_per_second=tuple(rate * factor for rate in topic.bytes_per_second))
            for topic in self.topics
        )
        return replace(self, topics=tuple(topics))

    def to_json(self) -> str:
        """The workload as a document."""
        return WORKLOADS.text(self)


WORKLOADS = SandboxJsonFormat(
    KafkaWorkload, "trimtab/workload/1", "a workload of trimtab", "write one with Workload.to_json"
)
workload_from_json, read_workload = WORKLOADS.parse, WORKLOADS.read

LIVE_PARTITIONS = (6, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1, 1)
LIVE_READERS = (0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2)
ARCHIVE_PARTITIONS = (2, 2, 3)
ARCHIVE_BYTES = (15_000_000, 60_000_000)


def skewed(seed: int = 5, bytes_in_per_second: float = 8_000_000.0, brokers: int = 6) -> KafkaWorkload:
    """A load that is uneven in all four resources with Kafka's own placement.

    Broker-side gzip makes a leader cost more CPU than a follower, readers of some topics only make bytes out
    differ from bytes in, and archives that nobody writes make disk differ from both. At the default rate
    brokers and clients together take about 0.95 of a core.

    Parameters
    ----------
    seed
        Draws rates (log-normal: σ 1.0 over topics, 0.5 over partitions), readers and archive sizes.
    bytes_in_per_second
        Value bytes of all producers together.
    brokers
        No partition gets more than 0.55 of a broker's mean share, or no placement could balance it.
    """
    draw = random.Random(seed)
    sizes = draw.sample(LIVE_PARTITIONS, len(LIVE_PARTITIONS))
    readers = draw.sample(LIVE_READERS, len(LIVE_READERS))
    weights = [
        [topic * draw.lognormvariate(0.0, 0.5) for _ in range(size)]
        for size, topic in ((size, draw.lognormvariate(0.0, 1.0)) for size in sizes)
    ]
    rates = _capped(weights, bytes_in_per_second, 0.55 * bytes_in_per_second / brokers)
    live = [
        KafkaTopicLoad(
            f"live-{index:02d}",
            tuple(rates[index]),
            consumers=readers[index],
            # Retention keeps a load that somebody forgets from filling the disk.
            configs={"compression.type": "gzip", "retention.bytes": "96000000"},
        )
        for index in range(len(sizes))
    ]
    archives = [
        KafkaTopicLoad(
            f"archive-{index}",
            (0.0,) * size,
            preload_bytes=tuple(draw.randint(*ARCHIVE_BYTES) for _ in range(size)),
        )
        for index, size in enumerate(ARCHIVE_PARTITIONS)
    ]
    return KafkaWorkload((*live, *archives), seed=seed)


def _capped(weights: list[list[float]], total: float, highest: float) -> list[list[float]]:
    """Scale weights to a total with no part above `highest`; the excess goes to the others in proportion."""
    flat = [weight for part in weights for weight in part]
    if highest * len(flat) < total:
        raise SandboxError(
            f"{len(flat)} partitions of at most {highest:.0f} B/s cannot carry {total:.0f} B/s: use "
            "fewer brokers"
        )
    fixed: set[int] = set()
    while True:
        free = sum(weight for index, weight in enumerate(flat) if index not in fixed)
        scale = (total - highest * len(fixed)) / free
        over = {i for i, weight in enumerate(flat) if i not in fixed and weight * scale > highest}
        if not over:
            break
        fixed |= over
    level = iter(highest if i in fixed else weight * scale for i, weight in enumerate(flat))
    rates = [[next(level) for _ in part] for part in weights]
    assert math.isclose(sum(map(sum, rates)), total)
    return rates
