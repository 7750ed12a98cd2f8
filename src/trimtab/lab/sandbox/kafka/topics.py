"""Create the topics of a load on Kafka, fill them to their final size, and delete them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

from trimtab.jars import ProgressCallback, ignore_progress
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.client import open_admin, producer
from trimtab.systems.kafka.settings import KafkaConnection

PRELOAD_RECORD_BYTES = 100_000
PRELOAD_RECORDS_IN_FLIGHT = 300


def create_topics(
    connection: KafkaConnection,
    workload: KafkaWorkload,
    placement: SandboxPlacement | None = None,
    print_progress: ProgressCallback = ignore_progress,
) -> None:
    """Create a workload's topics and write their initial data.

    Parameters
    ----------
    connection
        Of the cluster.
    workload
        Whose topics.
    placement
        Where replicas go; None leaves it to Kafka's controller.
    print_progress
        Takes lines of progress.

    Raises
    ------
    SandboxError
        If a topic exists already, or the placement does not fit the topics.
    """
    from kafka.errors import KafkaError, TopicAlreadyExistsError

    with open_admin(connection) as admin:
        try:
            admin.create_topics(
                {topic.name: _request(topic, placement) for topic in workload.topics}, wait_for_metadata=True
            )
        except TopicAlreadyExistsError as error:
            raise SandboxError(
                "topics of this workload exist already: the load can run on them, or remove them first"
            ) from error
        except KafkaError as error:
            raise SandboxError(f"Kafka does not create the workload's topics: {error}") from error
    preload(connection, workload, print_progress)


def delete_topics(connection: KafkaConnection, names: Iterable[str]) -> None:
    """Delete topics; topics that do not exist are skipped."""
    with open_admin(connection) as admin:
        admin.delete_topics(list(names), raise_errors=False)


def preload(
    connection: KafkaConnection, workload: KafkaWorkload, print_progress: ProgressCallback = ignore_progress
) -> None:
    """Write each topic's initial data, as fast as the brokers take it."""
    total = sum(sum(topic.preload_bytes) for topic in workload.topics)
    if not total:
        return
    print_progress(f"writing {total / 1e6:.0f} MB")
    texts = digit_texts(PRELOAD_RECORD_BYTES, workload.seed)
    client = producer(connection, acks="all", enable_idempotence=True, batch_size=400_000, linger_ms=20)
    try:
        # The client queues without limit: wait for the oldest, so that archives never lie in memory whole.
        flying: deque[Any] = deque()
        for topic in workload.topics:
            for partition, size in enumerate(topic.preload_bytes):
                for at in range(0, size, PRELOAD_RECORD_BYTES):
                    value = next(texts)[: min(PRELOAD_RECORD_BYTES, size - at)]
                    flying.append(client.send(topic.name, value, partition=partition))
                    if len(flying) > PRELOAD_RECORDS_IN_FLIGHT:
                        flying.popleft().get(60)
        for future in flying:
            future.get(60)
    finally:
        client.close()


def digit_texts(size: int, seed: int, count: int = 64) -> Iterator[bytes]:
    """An endless iterator of different texts of one size.

    gzip shrinks random decimal digits to about 0.47, and needs twice as long for them as for random
    hexadecimal digits (56 and 27 ns a byte): a broker's CPU then follows its load more than its idle work.
    """
    draw = random.Random(seed)
    return cycle([bytes(draw.choices(b"0123456789", k=size)) for _ in range(count)])


def _request(topic: KafkaTopicLoad, placement: SandboxPlacement | None) -> dict[str, object]:
    if placement is None:
        where: dict[str, object] = {
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
        }
    else:
        replicas = placement.replicas.get(topic.name, ())
        if len(replicas) != topic.partitions:
            raise SandboxError(
                f"the placement has {len(replicas)} partitions of {topic.name}, the workload "
                f"{topic.partitions}: draw it for this workload"
            )
        where = {"assignments": {partition: list(brokers) for partition, brokers in enumerate(replicas)}}
    return where | {"configs": dict(topic.configs)}


SEGMENT_BYTES = 1 << 20
"""The least that Kafka takes: retention works in whole segments."""
COMPRESSION = "compression.type"
PROMPT_RETENTION = {"log.retention.check.interval.ms": "2000"}
"""Broker properties under which a log is never much larger than it may be."""


def with_flat_disk(workload: KafkaWorkload, bytes_per_partition: int) -> KafkaWorkload:
    """The same load with partitions of constant size: they begin full, and retention keeps the size."""
    return replace(
        workload,
        topics=tuple(
            replace(
                topic,
                preload_bytes=(bytes_per_partition,) * topic.partitions,
                configs=topic.configs
                | {"segment.bytes": str(SEGMENT_BYTES), "retention.bytes": str(bytes_per_partition)},
            )
            if any(topic.bytes_per_second)
            else topic
            for topic in workload.topics
        ),
    )


def preload_topics(
    connection: KafkaConnection,
    workload: KafkaWorkload,
    placement: SandboxPlacement | None,
    print_progress: Callable[[str], None],
) -> None:
    """Create and preload the topics, and only then ask brokers to compress.

    Compressing what is preloaded would take longer than everything else, and warm the brokers up unevenly.

    Parameters
    ----------
    placement
        Where replicas go; None leaves it to Kafka's controller.
    """
    from kafka.admin import ConfigResource, ConfigResourceType

    plain = replace(
        workload,
        topics=tuple(
            replace(topic, configs={key: value for key, value in topic.configs.items() if key != COMPRESSION})
            for topic in workload.topics
        ),
    )
    create_topics(connection, plain, placement, print_progress)
    compressed = [
        ConfigResource(ConfigResourceType.TOPIC, topic.name, {COMPRESSION: topic.configs[COMPRESSION]})
        for topic in workload.topics
        if COMPRESSION in topic.configs
    ]
    if compressed:
        with open_admin(connection) as admin:
            admin.alter_configs(compressed, incremental=True)
