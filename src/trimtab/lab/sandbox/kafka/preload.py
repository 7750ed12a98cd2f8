"""Topics that begin at the size they will keep, so that disks stay flat while a cluster is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from trimtab.lab.sandbox.kafka.topics import create_topics
from trimtab.systems.kafka.client import open_admin

if TYPE_CHECKING:
    from trimtab.lab.sandbox.kafka.placement import SandboxPlacement
    from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
    from trimtab.systems.kafka.settings import KafkaConnection

SEGMENT_BYTES = 1 << 20
"""The least that Kafka takes: retention works in whole segments."""
COMPRESSION = "compression.type"
PROMPT_RETENTION = {"log.retention.check.interval.ms": "2000"}
"""Broker properties under which a log is never much larger than it may be."""


def with_flat_disk(workload: KafkaWorkload, bytes_per_partition: int) -> KafkaWorkload:
    """The same load, each partition that is written to kept at one size from the start."""
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
