"""Putting a recorded placement back, so that every strategy begins where the default began."""

from __future__ import annotations

import time

from trimtab.lab.sandbox.kafka.placement import SandboxPlacement
from trimtab.systems.kafka.client import admin_client
from trimtab.systems.kafka.settings import KafkaConnection

PATIENCE_SECONDS = 120.0


def put_back(connection: KafkaConnection, placement: SandboxPlacement) -> None:
    """Copy every replica back, unthrottled, and let every preferred leader lead.

    Raises
    ------
    TimeoutError
        If the cluster does not get there.
    """
    from kafka import TopicPartition

    wanted = {
        TopicPartition(topic, partition): list(brokers)
        for topic, lists in placement.replicas.items()
        for partition, brokers in enumerate(lists)
    }
    admin = admin_client(connection)
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        admin.alter_partition_reassignments(wanted)
        while admin.list_partition_reassignments():
            _in_time(deadline, "copies are still in flight")
            time.sleep(0.2)
        topics = {topic: list(range(len(lists))) for topic, lists in placement.replicas.items()}
        while True:
            admin.elect_leaders(0, topics, raise_errors=False)
            time.sleep(0.5)
            if all(
                part["replica_nodes"] == wanted[key]
                and part["leader_id"] == wanted[key][0]
                and set(part["isr_nodes"]) == set(wanted[key])
                for topic in admin.describe_topics(list(topics))
                for part in topic["partitions"]
                for key in [TopicPartition(topic["name"], part["partition_index"])]
            ):
                return
            _in_time(deadline, "some partition is not where it was recorded")
    finally:
        admin.close()


def _in_time(deadline: float, problem: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"placement not restored within {PATIENCE_SECONDS:g} s: {problem}")
