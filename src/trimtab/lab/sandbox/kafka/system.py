"""Commands of a Kafka sandbox: start, describe, skew and load."""

from __future__ import annotations

from pathlib import Path

from trimtab.jars import ProgressCallback
from trimtab.lab.sandbox.kafka.cluster import KafkaSandbox, serving_brokers
from trimtab.lab.sandbox.kafka.placement import choose_placement, record_placement
from trimtab.lab.sandbox.kafka.runtime import LOAD_DRIVEN_CPU
from trimtab.lab.sandbox.kafka.state import KafkaSandboxState
from trimtab.lab.sandbox.kafka.topics import PROMPT_RETENTION, delete_topics, preload_topics, with_flat_disk
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload, read_workload, skewed
from trimtab.lab.sandbox.systems import BrokerSystem
from trimtab.systems.kafka.client import open_admin
from trimtab_common.errors import ConnectError

LIVE_BYTES = 4_000_000
"""Kept by each partition that is written to: topics that grow make a plan's disks old within minutes."""
PROPERTIES = {**LOAD_DRIVEN_CPU, **PROMPT_RETENTION}


def describe(state: KafkaSandboxState) -> str:
    """The address of the sandbox and the state of each broker, as lines of text."""
    try:
        with open_admin(state.connection) as admin:
            serving = serving_brokers(admin)
    except ConnectError:
        serving = set()
    lines = [f"bootstrap  {state.bootstrap}"]
    if state.security is not None:
        lines.append(f"security   SASL_SSL, SCRAM-SHA-512, user {state.security.user}")
        lines.append(f"password   {state.security.password}")
        lines.append(f"trust      {state.connection.tls_ca}")
    lines += [f"folder     {state.folder}", "", "broker  host  rack  port   metrics  pid      state"]
    for node in state.brokers:
        process = state.alive.get(node.id)
        condition = "serving" if node.id in serving else "starting or fenced" if process else "not running"
        metrics = str(node.prometheus_port or "-")
        pid = str(process.pid) if process else "-"
        lines.append(
            f"{node.id:<6}  {node.host:4}  {node.rack:4}  {node.port:<5}  {metrics:7}  {pid:7}  {condition}"
        )
    return "\n".join(lines)


def skew(
    state: KafkaSandboxState,
    workload: KafkaWorkload,
    *,
    seed: int,
    placement: str,
    record: Path | None,
    remove: bool,
    print_progress: ProgressCallback,
) -> str:
    """Create and fill the topics of a load, or remove them; the result in one line.

    Parameters
    ----------
    seed, placement
        As `choose_placement` takes them.
    record
        The file that gets the placement; None for no file.
    """
    topics = workload.topic_names
    if remove:
        delete_topics(state.connection, topics)
        return f"{len(topics)} topics removed"
    racks = {node.id: node.rack for node in state.brokers if node.id in state.alive}
    preload_topics(
        state.connection, workload, choose_placement(placement, workload, racks, seed), print_progress
    )
    if record is not None:
        with open_admin(state.connection) as admin:
            record.write_text(record_placement(admin, topics).to_json(), encoding="utf-8")
    partitions = sum(topic.partitions for topic in workload.topics)
    return f"{len(topics)} topics with {partitions} partitions created"


def present_topics(state: KafkaSandboxState, workload: KafkaWorkload) -> set[str]:
    """All topics of the cluster."""
    with open_admin(state.connection) as admin:
        return set(admin.list_topics())


KAFKA = BrokerSystem(
    state=KafkaSandboxState,
    start=lambda **options: KafkaSandbox.start(properties=PROPERTIES, detached=True, **options).state,
    describe=describe,
    steps=(("skew", "create topics whose load is uneven"), ("load", "produce and consume, until Ctrl-C")),
    skewed=lambda state, seed, rate: with_flat_disk(skewed(seed, rate * 1e6, len(state.brokers)), LIVE_BYTES),
    read_workload=read_workload,
    skew=skew,
    present_topics=present_topics,
    records="records",
)
