"""The live status of a Kafka cluster, and the findings of `trimtab check`; neither needs a lake.

Findings tell of addresses, rights, metrics and capacities. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import sleep
from typing import Final

import numpy as np

from trimtab.model.errors import Finding, broken, fine, missing
from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import RequestError, TickSample
from trimtab.observe.collect.settings import (
    CapacitySettings,
    CollectSettings,
    KnownCapacity,
    capacity_findings,
)
from trimtab.observe.lake.status import BrokerStatus, signed_deviation
from trimtab.systems.kafka.client import open_admin, reach
from trimtab.systems.kafka.collector import (
    TOLERANCE,
    CounterCheckResult,
    CounterComparison,
    KafkaCollector,
    compare_readings,
    open_collector,
)
from trimtab.systems.kafka.metrics import RULES
from trimtab.systems.kafka.samples import AdminRequestSender, RequestSender, check_response
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import ConnectError, SettingsError

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
    """Placement now, read directly from the brokers: neither groups nor metrics nor clients are asked.

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


DESCRIBE: Final = 8
OPERATIONS: Final = {7: "Alter", DESCRIBE: "Describe", 10: "DescribeConfigs", 11: "AlterConfigs"}
"""Codes of `org.apache.kafka.common.acl.AclOperation`, by their names in `kafka-acls.sh`."""
TO_APPLY: Final = {"cluster": (7, 10, 11), "topics": (10, 11)}
LONGEST_LIST: Final = 3


def rights_findings(sender: RequestSender, timeout_seconds: float, part: str) -> Iterator[Finding]:
    """Findings on the rights to the cluster and to topics.

    Raises
    ------
    Unanswered
        If no broker answers.
    """
    yield from _finding(part, "cluster", [("the cluster", _on_cluster(sender, timeout_seconds))])
    yield from _finding(part, "topics", _on_topics(sender, timeout_seconds))


def _on_cluster(sender: RequestSender, timeout_seconds: float) -> Collection[int] | None:
    from kafka.protocol.admin import DescribeClusterRequest

    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        described = sender.request(request, None, timeout_seconds)
        check_response(described.error_code)
    except RequestError:
        # Kafka before 2.8 does not know the request, and its metadata tell the same.
        return _metadata(sender, timeout_seconds).authorized_operations  # type: ignore[no-any-return]
    return described.authorized_operations  # type: ignore[no-any-return]


def _on_topics(sender: RequestSender, timeout_seconds: float) -> list[tuple[str, Collection[int] | None]]:
    listed = _metadata(sender, timeout_seconds).topics
    return sorted((one.name, one.authorized_operations) for one in listed if one.error_code == 0)


def _metadata(sender: RequestSender, timeout_seconds: float):  # type: ignore[no-untyped-def]
    from kafka.protocol.metadata import MetadataRequest

    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
        max_version=10,  # the last that also tells the rights to the cluster
    )
    return sender.request(request, None, timeout_seconds)


def _finding(part: str, kind: str, text: list[tuple[str, Collection[int] | None]]) -> Iterator[Finding]:
    subject = f"rights on {'the cluster' if kind == 'cluster' else kind}"
    if not text:
        yield missing(
            part,
            subject,
            "no topic is seen: there is none, or none that this user may see",
            "grant Describe on topics",
        )
        return
    if any(operations is None for _, operations in text):
        yield missing(
            part,
            subject,
            "the brokers do not tell (before Kafka 2.3)",
            "see docs/how-to/apply.md for what is needed",
        )
        return
    blind = [name for name, operations in text if DESCRIBE not in (operations or ())]
    if blind:
        yield broken(
            part,
            subject,
            f"no Describe on {_named(blind)}: sizes are not told, and no plan can be made",
            "grant it",
        )
    lacking: dict[int, list[str]] = {}
    for name, operations in text:
        for one in TO_APPLY[kind]:
            if one not in (operations or ()):
                lacking.setdefault(one, []).append(name)
    for one, names in lacking.items():
        yield missing(
            part,
            subject,
            f"no {OPERATIONS[one]} on {_named(names)}: plans can be made, not applied",
            "grant it" + (", or apply with --throttle none" if one == 11 else ""),
        )
    if not blind and not lacking:
        count = "" if kind == "cluster" else f" on all {len(text)} that are seen"
        granted = ", ".join(OPERATIONS[one] for one in sorted((DESCRIBE, *TO_APPLY[kind])))
        yield fine(part, subject, f"{granted}{count}")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - LONGEST_LIST} more" if len(names) > LONGEST_LIST else ""
    return ", ".join(names[:LONGEST_LIST]) + more


PART: Final = "Kafka"
THREADS: Final = 32
METRICS: Final = "metrics"
READING_SECONDS: Final = 5.0
"""Between two readings of the counters."""
READINGS: Final = 2
"""How often counters are read again at most, until they agree with the logs."""
ESTIMATED: Final = "bytes of all brokers are estimated"
WITHOUT_METRICS: Final = "CPU is not balanced, and bytes are estimated by the growth of logs and by offsets"


def cluster_findings(
    connection: KafkaConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a cluster; where no broker answers, those on its addresses alone."""
    found = list(_addresses(connection))
    yield from found
    if not any(one.grade == "fine" for one in found):
        return
    try:
        with _request_sender(connection) as asker:
            yield from rights_findings(asker, settings.request_timeout_seconds, PART)
            settings = replace(settings, client_samples=())
            try:
                collector = KafkaCollector(asker, settings, capacity)
            except SettingsError as error:
                yield broken(PART, METRICS, str(error))
                settings = replace(settings, prometheus=None)
                collector = KafkaCollector(asker, settings, capacity)
            else:
                if settings.prometheus is None:
                    yield missing(
                        PART, METRICS, f"no endpoint is set: {WITHOUT_METRICS}", "set collect.prometheus"
                    )
            try:
                sample = collector.sample()
                others = [one for one in sample.problems if one not in collector.metrics_problems()]
                if settings.prometheus is not None:
                    yield from _metrics(collector, sample.endpoints)
                yield from _sampled(replace(sample, problems=tuple(others)), capacity)
            finally:
                collector.close()
    except (ConnectError, RequestError) as error:
        yield broken(PART, "cluster", str(error))


def _addresses(connection: KafkaConnection) -> Iterator[Finding]:
    """Each address by itself; one that answers is enough to begin with."""
    how = connection.security_protocol
    if connection.uses_sasl:
        how += f", {connection.sasl_mechanism} as {connection.user!r}"
    with ThreadPoolExecutor(THREADS) as pool:
        faults = list(
            pool.map(lambda one: _fault(replace(connection, bootstrap=(one,))), connection.bootstrap)
        )
    grade = broken if all(faults) else missing
    for address, fault in zip(connection.bootstrap, faults, strict=True):
        yield fine(PART, address, f"answers over {how}") if fault is None else grade(PART, address, fault)


def _fault(connection: KafkaConnection) -> str | None:
    try:
        reach(connection)
    except (ConnectError, SettingsError) as error:
        return str(error)
    return None


@contextmanager
def _request_sender(connection: KafkaConnection) -> Iterator[RequestSender]:
    with open_admin(connection) as admin:
        yield AdminRequestSender(admin)


def _metrics(collector: KafkaCollector, endpoints: int) -> Iterator[Finding]:
    """The metrics of each broker as the collector reads them: what lacks, and whether the counters count.

    Only counters that two readings and the growth of logs confirm are fine.
    """
    faults = {
        broker: text if broker in collector.readings else f"{text}. Until then {WITHOUT_METRICS}"
        for broker, text in collector.unmetered.items()
    }
    first = {broker: one for broker, one in collector.readings.items() if broker not in faults}
    outcomes: dict[int, CounterComparison] = {}
    for _ in range(READINGS) if first else ():
        sleep(READING_SECONDS)
        collector.sample()
        outcomes |= {
            broker: compare_readings(before, collector.readings[broker])
            for broker, before in first.items()
            if broker in collector.readings
        }
        # A burst between two readings of one instant weighs less in a longer interval.
        if all(
            one.outcome in (CounterCheckResult.AGREES, CounterCheckResult.IDLE) for one in outcomes.values()
        ):
            break
    faults |= {
        broker: f"{text}. Until then {WITHOUT_METRICS}"
        for broker, text in collector.unmetered.items()
        if broker not in faults and broker not in collector.readings
    }
    unconfirmed = {
        broker: text for broker in first if broker not in faults and (text := _unconfirmed(outcomes[broker]))
    }
    sound = [broker for broker in first if broker not in faults and broker not in unconfirmed]
    if sound:
        spans = [outcomes[broker].seconds for broker in sound]
        yield fine(
            PART,
            METRICS,
            f"{len(sound)} of {endpoints} endpoints: CPU time rises, and bytes in agree with the growth "
            f"of logs over {max(spans):.0f} s within {TOLERANCE:.0%}; bytes out and replication are read",
        )
    idle = [broker for broker in unconfirmed if outcomes[broker].outcome is CounterCheckResult.IDLE]
    if idle:
        named = ", ".join(str(broker) for broker in idle)
        yield missing(
            PART,
            METRICS,
            f"not verified: no traffic on broker{'s' * (len(idle) > 1)} {named}; check again under load",
        )
    for broker in sorted(faults.keys() | unconfirmed.keys()):
        if broker not in idle:
            yield missing(PART, f"metrics of broker {broker}", faults.get(broker) or unconfirmed[broker])


def _unconfirmed(found: CounterComparison) -> str:
    """What two readings leave in doubt; empty if nothing."""
    if found.cpu_seconds is None or found.cpu_seconds <= 0:
        return f"not verified: CPU time did not rise in {found.seconds:.0f} s"
    if found.outcome is CounterCheckResult.IDLE:
        return "no traffic"
    if found.outcome is CounterCheckResult.UNKNOWN or found.counted_bytes is None:
        return "not verified: counters began anew, sizes are not told, or leaders moved; check again"
    if found.outcome is CounterCheckResult.AGREES:
        return ""
    figures = (
        f"in {found.seconds:.0f} s bytes_in_total changed by {found.counted_bytes:,.0f}, and the logs of the "
        f"partitions that the broker leads grew by {found.logged_bytes:,.0f} bytes"
    )
    if found.outcome is CounterCheckResult.NO_COUNTER:
        return f"has no counter under a counter's name: {figures}: {ESTIMATED}; {RULES}"
    return f"not verified: {figures}"


def _sampled(sample: TickSample, capacity: CapacitySettings) -> Iterator[Finding]:
    """One tick as the collector takes it: who answers, and what each can carry."""
    if sample.problems:
        for problem in sample.problems:
            yield missing(PART, "samples", problem)
    else:
        yield fine(PART, "samples", f"{sample.answered} of {sample.brokers} brokers tell placement and sizes")
    alive = [row["broker"] for row in sample.rows_of("broker") if row["broker_state"] == "alive"]
    disks: dict[int, list[object]] = {}
    for row in sample.rows_of("log_dir"):
        disks.setdefault(row["broker"], []).append(row.get("disk_total_bytes"))
    theta = "brokers are compared with one another, and nobody can say whether one is full (theta)"

    def origin(broker: int, setting: str) -> str | None:
        if getattr(capacity.of(broker), setting) is not None:
            return "declared"
        told = setting == "disk_bytes" and broker in disks and all(size is not None for size in disks[broker])
        return "told by its log dirs" if told else None

    for resource, setting in (
        ("cpu", "cpu_cores"),
        ("disk", "disk_bytes"),
        ("network_in", "network_in_bytes_per_second"),
        ("network_out", "network_out_bytes_per_second"),
    ):
        known = KnownCapacity(resource, setting, {broker: origin(broker, setting) for broker in alive})
        yield from capacity_findings(PART, known, theta)
