"""A load on Pulsar: namespaces, topics, rates, readers; drawn from a seed, saved as JSON."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from trimtab.lab.sandbox.state import SandboxJsonFormat


@dataclass(frozen=True)
class PulsarTopicLoad:
    """The load of one topic, which has one producer.

    Parameters
    ----------
    name
        Within its namespace.
    messages_per_second
        Of its producer; 0 for a topic that is only there.
    message_bytes
        Size of each message's payload.
    consumers
        How many subscriptions read all of it.
    """

    name: str
    messages_per_second: float
    message_bytes: int = 1_000
    consumers: int = 1


@dataclass(frozen=True)
class NamespaceLoad:
    """A namespace (`tenant/namespace`), how many bundles it begins with, and its topics."""

    name: str
    bundles: int
    topics: tuple[PulsarTopicLoad, ...]


@dataclass(frozen=True)
class PulsarWorkload:
    """A load on a cluster; `seed` is that of the draws that made it and of the producer's phases."""

    system: ClassVar[str] = "pulsar"

    namespaces: tuple[NamespaceLoad, ...]
    seed: int = 0

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Full names of all its topics."""
        return tuple(name for name, _ in self.topics)

    @property
    def topics(self) -> Iterator[tuple[str, PulsarTopicLoad]]:
        """Each topic with its full name."""
        for namespace in self.namespaces:
            for topic in namespace.topics:
                yield f"persistent://{namespace.name}/{topic.name}", topic

    @property
    def messages_per_second(self) -> float:
        """Messages that producers send, all topics together."""
        return sum(topic.messages_per_second for _, topic in self.topics)

    @property
    def bytes_in_per_second(self) -> float:
        """Payload bytes that producers send, all topics together."""
        return sum(topic.messages_per_second * topic.message_bytes for _, topic in self.topics)

    @property
    def bytes_out_per_second(self) -> float:
        """Payload bytes that readers receive, all subscriptions together."""
        return sum(
            topic.messages_per_second * topic.message_bytes * topic.consumers for _, topic in self.topics
        )

    @property
    def consumers(self) -> int:
        """The number of subscriptions: `reader-1` reads every topic with a reader, and so on."""
        return max((topic.consumers for _, topic in self.topics), default=0)

    @property
    def rates_text(self) -> str:
        """Its rates, as a load announces them."""
        sent, read = self.bytes_in_per_second / 1e6, self.bytes_out_per_second / 1e6
        return (
            f"producing {self.messages_per_second:.0f} messages/s ({sent:.1f} MB/s), "
            f"{self.consumers} subscriptions consuming {read:.1f} MB/s"
        )

    def to_json(self) -> str:
        """The workload as a document."""
        return WORKLOADS.text(self)


WORKLOADS = SandboxJsonFormat(
    PulsarWorkload,
    "trimtab/pulsar-workload/1",
    "a workload of trimtab for Pulsar",
    "write one with PulsarWorkload.to_json",
)
workload_from_json, read_workload = WORKLOADS.parse, WORKLOADS.read


def skewed(
    seed: int = 5, messages_per_second: float = 900.0, topics: int = 40, bundles: int = 8
) -> PulsarWorkload:
    """A load whose bundles are uneven by messages and, in another way, by bytes.

    Half of the topics carry many small messages, half fewer large ones with two readers, in a namespace each.

    Parameters
    ----------
    seed
        Draws the rates (log-normal, σ 1.0).
    messages_per_second
        Of all producers together.
    topics
        In both namespaces together.
    bundles
        Of each namespace.
    """
    draw = random.Random(seed)
    weights = [draw.lognormvariate(0.0, 1.0) for _ in range(topics)]
    small = topics // 2
    scale = messages_per_second / sum(weights)
    # Names that differ in a digit alone have hashes that fall into half of the bundles.
    names = [f"{number:05x}" for number in draw.sample(range(16**5), topics)]
    events = tuple(
        PulsarTopicLoad(f"event-{names[index]}", weight * scale, 500, 1)
        for index, weight in enumerate(weights[:small])
    )
    records = tuple(
        PulsarTopicLoad(f"record-{names[small + index]}", weight * scale, 4_000, 2)
        for index, weight in enumerate(weights[small:])
    )
    return PulsarWorkload(
        (
            NamespaceLoad("trimtab/events", bundles, events),
            NamespaceLoad("trimtab/records", bundles, records),
        ),
        seed=seed,
    )
