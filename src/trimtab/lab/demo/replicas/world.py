"""A loaded Kafka sandbox that is sampled tick after tick into a lake of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.lab.demo.sampling import SampledSandbox, sampled
from trimtab.observe.collect.run import lake_sink
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake import Lake
from trimtab.systems.kafka.collector import COLLECTING

if TYPE_CHECKING:
    from trimtab.lab.sandbox.kafka import KafkaSandbox
    from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
    from trimtab.lab.sandbox.load import SandboxLoad

CLUSTER = "sandbox"


def watched(
    sandbox: KafkaSandbox,
    load: SandboxLoad,
    lake: Lake,
    interval_seconds: float,
    capacity: CapacitySettings,
    truth: Path,
) -> AbstractContextManager[SampledSandbox[KafkaSandbox]]:
    """Sample a loaded cluster in a thread until the block is left.

    Parameters
    ----------
    capacity
        What brokers can carry, declared.
    truth
        Folder where the load's clients write what they did.
    """
    settings = CollectSettings(
        interval_seconds=interval_seconds,
        cluster=CLUSTER,
        prometheus={str(broker): url for broker, url in sandbox.prometheus_endpoints.items()},
        hosts={str(broker): host for broker, host in sandbox.hosts.items()},
        client_samples=(truth / "*.truth.jsonl",),
    )
    return sampled(
        sandbox,
        load,
        lake,
        interval_seconds,
        lambda: COLLECTING.open(sandbox.connection, settings, capacity),
        lambda: lake_sink(lake.raw, COLLECTING.columns),
    )


def balanced_capacity(workload: KafkaWorkload, brokers: int, cpu_cores: float) -> CapacitySettings:
    """Capacities under which this load fills a balancer cluster to about half.

    All brokers share one machine, so that what each can carry is declared, not found: bytes in with their
    replicas, bytes out, and the disk that the load's data need, each twice the mean broker's share.

    Parameters
    ----------
    workload
        Its rates and preloaded bytes.
    brokers
        Over how many it is spread.
    cpu_cores
        Of each broker.
    """
    inward = sum(sum(topic.bytes_per_second) * topic.replication_factor for topic in workload.topics)
    held = sum(sum(topic.preload_bytes) * topic.replication_factor for topic in workload.topics)
    return CapacitySettings(
        cpu_cores=cpu_cores,
        network_in_bytes_per_second=2 * inward / brokers,
        network_out_bytes_per_second=2 * workload.bytes_out_per_second / brokers,
        disk_bytes=2 * held / brokers,
    )
