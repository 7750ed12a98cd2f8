"""One look at a cluster without a lake: who holds how much, from a single tick."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.status import BrokerStatus, signed_deviation
from trimtab.systems.kafka.collector import open_collector
from trimtab.systems.kafka.settings import KafkaConnection

FIGURES = ("disk bytes", "replicas", "leaders")


@dataclass(frozen=True, eq=False)
class KafkaStatus:
    """Placement of one cluster.

    Attributes
    ----------
    brokers
        By id.
    values
        `FIGURES`, shape (brokers, 3); NaN for what a broker did not tell.
    deviation
        Signed, of the mean over the brokers that told, shape (brokers, 3).
    partitions, leaderless, under_replicated
        How many there are, have no leader, have a replica that is not in sync.
    uneven_topics
        Topics whose partitions have different numbers of replicas, ascending.
    problems
        As `TickSample.problems`.
    """

    cluster: str
    brokers: tuple[BrokerStatus, ...]
    values: FloatArray
    deviation: FloatArray
    partitions: int
    leaderless: int
    under_replicated: int
    uneven_topics: tuple[str, ...]
    problems: tuple[str, ...]


def read_status(connection: KafkaConnection, settings: CollectSettings) -> KafkaStatus:
    """Placement now, straight from the brokers: neither groups nor metrics nor clients are asked.

    Raises
    ------
    ConnectError
        If the cluster cannot be reached now.
    ObserveError
        If no broker tells what the cluster is.
    """
    placed = replace(settings, groups=False, prometheus=None, client_samples=())
    with open_collector(connection, placed, CapacitySettings()) as collector:
        return kafka_status(collector.sample())


def kafka_status(sample: TickSample) -> KafkaStatus:
    """Placement by one tick's samples."""
    brokers = tuple(
        BrokerStatus(row["broker"], row.get("host"), row.get("rack"), row["broker_state"])
        for row in sorted(sample.rows_of("broker"), key=lambda row: row["broker"])
    )
    place = {broker.id: row for row, broker in enumerate(brokers)}
    values = np.zeros((len(brokers), len(FIGURES)))
    told = {row["broker"] for row in sample.rows_of("log_dir")}
    values[[row for row, broker in enumerate(brokers) if broker.id not in told], 0] = np.nan
    for row in sample.rows_of("replica"):
        values[place[row["broker"]], 0] += row["size_bytes"]
    partitions = leaderless = under_replicated = 0
    factors: dict[str, set[int]] = {}
    for row in sample.rows_of("partition"):
        partitions += 1
        leaderless += "leader" not in row
        factors.setdefault(row["topic"], set()).add(len(row["replicas"]))
        under_replicated += len(row["in_sync"]) < len(row["replicas"])
        for broker in row["replicas"]:
            values[place[broker], 1] += 1
        if "leader" in row:
            values[place[row["leader"]], 2] += 1
    return KafkaStatus(
        sample.cluster,
        brokers,
        values,
        signed_deviation(values),
        partitions,
        leaderless,
        under_replicated,
        tuple(sorted(topic for topic, found in factors.items() if len(found) > 1)),
        sample.problems,
    )
