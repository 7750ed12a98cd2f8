"""Rows of the kinds `broker`, `log_dir` and `partition`, joined from several brokers' answers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from trimtab.observe.collect.settings import CapacitySettings
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder, whole_number
from trimtab.systems.kafka.broker_sample import KafkaBrokerSample
from trimtab.systems.kafka.exposition import BROKER_COLUMNS
from trimtab.systems.kafka.placement import OFFLINE, KafkaPlacement
from trimtab.systems.kafka.prometheus import CounterScrape

_FRACTIONS = ("processors", "handler_idle_fraction")
_DECLARED = {
    "cpu_capacity_cores": "cpu_cores",
    "network_in_capacity_bytes_per_second": "network_in_bytes_per_second",
    "network_out_capacity_bytes_per_second": "network_out_bytes_per_second",
}
"""Columns that declare capacity, and fields of `BrokerCapacity`."""


def broker_batch(
    placement: KafkaPlacement,
    answers: Mapping[int, KafkaBrokerSample],
    scrapes: Mapping[int, CounterScrape],
    capacity: CapacitySettings,
    hosts: Mapping[str, str],
    placed_at: datetime.datetime,
) -> RowBatch:
    """One row per broker, also for those that are fenced, do not answer, or only hold replicas by name.

    Counters are empty without a metrics endpoint. `hosts` names the machines of brokers whose advertised
    address does not, by id.
    """
    writer = RowBatchBuilder(
        "broker", "broker", "host", "rack", "broker_state", "sampled_at", *_DECLARED, *BROKER_COLUMNS
    )
    for broker in placement.brokers:
        answer, found = answers.get(broker.id), scrapes.get(broker.id)
        state = "fenced" if answer is None else "alive" if answer.reachable else "unreachable"
        read_at = found.sampled_at if found else answer.sampled_at if answer else placed_at
        values = found.counters.broker if found else {}
        writer.add(
            broker.id,
            hosts.get(str(broker.id), broker.host),
            broker.rack,
            state,
            read_at,
            *_declared(capacity, broker.id),
            *(
                values.get(name) if name in _FRACTIONS else whole_number(values.get(name))
                for name in BROKER_COLUMNS
            ),
        )
    for broker_id in placement.unregistered():
        writer.add(
            broker_id,
            hosts.get(str(broker_id)),
            None,
            "unreachable",
            placed_at,
            *_declared(capacity, broker_id),
            *(None for _ in BROKER_COLUMNS),
        )
    return writer.batch()


def _declared(capacity: CapacitySettings, broker: int) -> list[float | None]:
    found = capacity.of(broker)
    return [getattr(found, field) for field in _DECLARED.values()]


def log_dir_batch(answers: Mapping[int, KafkaBrokerSample], capacity: CapacitySettings) -> RowBatch:
    """One row per log dir; a declared disk goes before what the broker's file systems say.

    Log dirs that share a file system each report all of it, so their sum is wrong: declare the disk there.
    """
    writer = RowBatchBuilder(
        "log_dir", "broker", "log_dir", "dir_state", "disk_total_bytes", "disk_usable_bytes", "sampled_at"
    )
    for answer in answers.values():
        declared = capacity.of(answer.broker).disk_bytes
        for found in answer.log_dirs:
            total, usable = found.total_bytes, found.usable_bytes
            if declared is not None:
                total = int(declared / len(answer.log_dirs))
                usable = max(0, total - found.used_bytes)
            writer.add(answer.broker, found.path, found.state, total, usable, answer.sampled_at)
    return writer.batch()


def partition_batch(
    placement: KafkaPlacement, answers: Mapping[int, KafkaBrokerSample], placed_at: datetime.datetime
) -> RowBatch:
    """One row per partition; offsets are empty where its leader did not give them."""
    writer = RowBatchBuilder(
        "partition",
        *("topic", "partition", "leader", "replicas", "in_sync", "adding", "removing"),
        *("start_offset", "end_offset", "sampled_at"),
    )
    for partition in placement.partitions:
        key = (partition.topic, partition.number)
        adding, removing = placement.moving.get(key, (None, None))
        answer = answers.get(partition.leader)
        writer.add(
            partition.topic,
            partition.number,
            None if partition.leader == OFFLINE else partition.leader,
            partition.replicas,
            partition.in_sync,
            adding,
            removing,
            answer.start_offsets.get(key) if answer else None,
            answer.end_offsets.get(key) if answer else None,
            answer.sampled_at if answer else placed_at,
        )
    return writer.batch()
